"""Log-domain arithmetic that every E-step shares."""

from __future__ import annotations

import numpy as np

from misc_cli.data.types import Codes, Floats


def normalise_scores(
    scores: Floats, gold: Codes | None = None, log_prior: Floats | None = None
) -> Floats:
    """Turn log scores (n, n_classes) into posteriors in place; return each row's log normaliser.

    The work goes class by class: numpy is slow along the short axis of a tall array. `gold` (n,)
    holds known classes, -1 elsewhere; their rows become certain, and their normaliser is the
    score of the known class: no other class is part of the likelihood. `log_prior` (n_classes,)
    is added to every row.
    """
    offsets = 0.0 if log_prior is None else log_prior[:, None]
    by_class = np.add(scores.T, offsets, order="C")
    if gold is None:
        return _normalise_classes(by_class, scores)
    known = np.flatnonzero(gold >= 0)
    of_known = by_class[gold[known], known]
    log_normalisers = _normalise_classes(by_class, scores)
    log_normalisers[known] = of_known
    clamp(scores, gold)
    return log_normalisers


def _normalise_classes(by_class: Floats, posteriors: Floats) -> Floats:
    """Write softmax(by_class).T to `posteriors`, return log normalisers; overwrites `by_class`."""
    top = by_class.max(axis=0)
    by_class -= top
    np.exp(by_class, out=by_class)
    total: Floats = by_class.sum(axis=0)
    for column, weights in zip(posteriors.T, by_class, strict=True):
        np.divide(weights, total, out=column)
    np.log(total, out=total)
    total += top
    return total


def clamp(posteriors: Floats, gold: Codes) -> None:
    """Make the rows of items with a known class certain, in place."""
    known = np.flatnonzero(gold >= 0)
    posteriors[known] = 0.0
    posteriors[known, gold[known]] = 1.0
