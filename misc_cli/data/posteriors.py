"""Posteriors: log scores → posteriors (every E-step), posteriors → decisions."""

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


def normalise_scores(
    scores: Floats, gold: Codes | None = None, log_prior: Floats | None = None
) -> Floats:
    """Turn log scores (n, n_classes) into posteriors in place; return each row's log normaliser.

    The work goes class by class: numpy is slow along the short axis of a tall array. `gold` (n,)
    holds known classes, -1 elsewhere; their rows become certain, and their normaliser is the
    score of the known class: no other class is part of the likelihood. `log_prior` (n_classes,)
    is added to every row.
    """
    by_class = np.add(scores.T, 0.0 if log_prior is None else log_prior[:, None], order="C")
    known = np.flatnonzero(gold >= 0) if gold is not None else np.zeros(0, dtype=np.intp)
    of_known = by_class[gold[known], known] if gold is not None else 0.0
    top = by_class.max(axis=0)
    by_class -= top
    np.exp(by_class, out=by_class)
    log_normalisers: Floats = by_class.sum(axis=0)
    for column, weights in zip(scores.T, by_class, strict=True):
        np.divide(weights, log_normalisers, out=column)
    np.log(log_normalisers, out=log_normalisers)
    log_normalisers += top
    if gold is not None:
        log_normalisers[known] = of_known
        clamp(scores, gold)
    return log_normalisers


def clamp(posteriors: Floats, gold: Codes) -> None:
    """Make the rows of items with a known class certain, in place."""
    known = np.flatnonzero(gold >= 0)
    posteriors[known] = 0.0
    posteriors[known, gold[known]] = 1.0


def harden(scores: Floats, gold: Codes | None = None) -> Floats:
    """Return one class per item as zeros and ones, (n_items, n_classes); the first if tied."""
    hard = np.zeros_like(scores)
    hard[np.arange(len(scores)), scores.argmax(axis=1)] = 1.0
    if gold is not None:
        clamp(hard, gold)
    return hard
