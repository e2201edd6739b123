"""Confidences that mean something: one temperature, fitted on answers that were hidden.

    p^(1/T) / Σ p^(1/T)     T > 1 softens, T < 1 sharpens, the order of the classes stays

T maximises the held-out log-likelihood of answers (Guo et al. 2017 fit it on truth; we have none).
"""

from __future__ import annotations

import numpy as np

from misc_cli.types import Floats

# Completed runs rest on invented answers and may need very high temperatures.
TEMPERATURES: Floats = np.geomspace(0.5, 200.0, 25)
# Few hidden answers say little: a normal prior on log T with this standard deviation.
PRIOR_WIDTH = 1.0


def temper(posteriors: Floats, temperature: float) -> Floats:
    """posteriors^(1/T), (n, n_classes), rows normalised, in logs."""
    scores = np.log(np.maximum(posteriors, 1e-300)) / temperature
    scores -= scores.max(axis=1, keepdims=True)
    softened = np.exp(scores)
    softened[posteriors == 0.0] = 0.0  # what is known (gold) stays known
    tempered: Floats = softened / softened.sum(axis=1, keepdims=True)
    return tempered


def best_temperature(curve: Floats) -> float:
    """The maximum of summed log scores at TEMPERATURES, refined by a parabola through three."""
    logs = np.log(TEMPERATURES)
    posterior = curve - 0.5 * (logs / PRIOR_WIDTH) ** 2
    top = int(posterior.argmax())
    if 0 < top < len(logs) - 1:
        left, middle, right = posterior[top - 1 : top + 2]
        bend = left - 2.0 * middle + right
        shift = 0.5 * (left - right) / bend if bend < 0 else 0.0
        return float(np.exp(logs[top] + shift * (logs[1] - logs[0])))
    return float(TEMPERATURES[top])
