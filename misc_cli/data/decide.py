"""Decisions: posteriors → one label per item, its confidence, ties and the runner-up."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from misc_cli.data.types import Codes, Floats
from misc_cli.errors import ConfigError


@dataclass(frozen=True)
class Decision:
    """The decision on every item; all arrays are (n_items,).

    label       class code; among tied classes the first in class order
    confidence  posterior of that class
    tied        True where several classes share the top place
    runner_up   class code of the next best class, in a tie the second tied one; -1 if none
    """

    label: Codes
    confidence: Floats
    tied: npt.NDArray[np.bool_]
    runner_up: Codes


def decide(posteriors: Floats) -> Decision:
    """Return the top class of each row of `posteriors`, (n_items, n_classes)."""
    if not np.isfinite(posteriors).all():
        raise ConfigError(
            "the method came to probabilities that are not finite numbers; "
            "bring its parameters closer to their defaults"
        )
    tied = tied_classes(posteriors)
    # argmax of the mask, not of the posteriors: rounding noise must not choose among equals
    label = tied.argmax(axis=1).astype(np.int32)
    rows = np.arange(len(posteriors))
    confidence: Floats = posteriors[rows, label]
    if posteriors.shape[1] == 1:
        runner_up = np.full(len(posteriors), -1, dtype=np.int32)
    else:
        rest = posteriors.copy()
        rest[rows, label] = -1.0
        runner_up = tied_classes(rest).argmax(axis=1).astype(np.int32)
    return Decision(label, confidence, tied.sum(axis=1) > 1, runner_up)


def tied_classes(posteriors: Floats) -> npt.NDArray[np.bool_]:
    """Return True where a class shares the top place, (n_items, n_classes), up to rounding."""
    top: Floats = reduce(np.maximum, posteriors.T)  # columns: numpy is slow along a short axis
    tied: npt.NDArray[np.bool_] = posteriors >= (top - 1e-9)[:, None]
    return tied


def entropy(posteriors: Floats) -> Floats:
    """Return the entropy of each row in bits, (n_items,)."""
    logs = np.log2(np.where(posteriors > 0, posteriors, 1.0))
    bits: Floats = -(posteriors * logs).sum(axis=1)
    return np.maximum(bits, 0.0)
