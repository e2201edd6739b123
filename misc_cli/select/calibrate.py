"""Confidences that mean something: two numbers, fitted on answers that were hidden.

    (1 − d) · p^(1/T) / Σ p^(1/T) + d / K

T, the temperature, softens (or sharpens) all posteriors alike (Guo et al. 2017 fit it on truth; we
have none). d, the doubt, is the share of items on which the answers say nothing of use: without it
the few that are certain and wrong would ask for a temperature that robs all others. Both maximise
the held-out log-likelihood of answers. The order of the classes stays, and but
for near ties so does the label.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from misc_cli.core.logdomain import clamp
from misc_cli.core.types import Codes, Floats

# Completed runs rest on invented answers and may need very high temperatures.
TEMPERATURES: Floats = np.geomspace(0.5, 200.0, 25)
DOUBTS: Floats = np.array([0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3])
# Few hidden answers say little: a normal prior on log T with this standard deviation.
PRIOR_WIDTH = 1.0


@dataclass(frozen=True)
class Calibration:
    """What posteriors are softened by; the defaults leave them as they are."""

    temperature: float = 1.0
    doubt: float = 0.0

    def __call__(self, posteriors: Floats, gold: Codes | None = None) -> Floats:
        """Calibrated posteriors, (n, n_classes); `gold` (n,) rows stay certain."""
        n_classes = posteriors.shape[1]
        softened = (1.0 - self.doubt) * temper(posteriors, self.temperature)
        softened += self.doubt / n_classes
        if gold is not None:
            clamp(softened, gold)
        return softened


def temper(posteriors: Floats, temperature: float) -> Floats:
    """posteriors^(1/T), (n, n_classes), rows normalised, in logs."""
    scores = np.log(np.maximum(posteriors, 1e-300)) / temperature
    scores -= scores.max(axis=1, keepdims=True)
    softened = np.exp(scores)
    tempered: Floats = softened / softened.sum(axis=1, keepdims=True)
    return tempered


def best_calibration(surface: Floats) -> Calibration:
    """The best of summed log scores at every (TEMPERATURES, DOUBTS), (25, 7).

    Along the temperatures the maximum is refined by a parabola through three points.
    """
    logs = np.log(TEMPERATURES)
    posterior = surface - 0.5 * (logs / PRIOR_WIDTH)[:, None] ** 2
    top, column = np.unravel_index(int(posterior.argmax()), posterior.shape)
    doubt = float(DOUBTS[column])
    if 0 < top < len(logs) - 1:
        left, middle, right = posterior[top - 1 : top + 2, column]
        bend = left - 2.0 * middle + right
        shift = 0.5 * (left - right) / bend if bend < 0 else 0.0
        return Calibration(float(np.exp(logs[top] + shift * (logs[1] - logs[0]))), doubt)
    return Calibration(float(TEMPERATURES[top]), doubt)
