"""From scores to a choice: arithmetic on log scores of the same hidden answers, nothing else.

The null forecaster knows how often a worker says each label and nothing of the item. What a method
scores above it, its lead, is all that it knows of items. Everything is measured in shares of the
best lead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from misc_cli.core.holdout import Triplets, answers_of, log_score
from misc_cli.core.types import Codes, Floats, Labels
from misc_cli.core.votes import SparseVotes

# How many standard errors make a difference. Two would let one candidate in twenty through by
# luck, and there are dozens of them.
SIGNIFICANT = 3.0
# A method counts fully from this share of the best lead, and not at all below that one: one winner
# would be a lottery ticket, and between neighbours a sharp limit would be one too.
FULL_SHARE = 0.97
NO_SHARE = 0.93
# Pseudo-answers, spread as the crowd answers, that a worker's label shares start from.
NULL_SHRINKAGE = 2.0


def standard_error(values: Floats, workers: Codes) -> float:
    """Of the mean of (n,) values, those of a worker taken as one observation (a cluster).

    A worker's answers resemble each other: as if independent, they would prove too much.
    """
    sizes = np.bincount(workers)
    n_workers = int((sizes > 0).sum())
    if n_workers < 2:
        return float("inf")
    sums = np.bincount(workers, values - values.mean())
    return float(np.sqrt((sums**2).sum() * n_workers / (n_workers - 1)) / len(values))


def lead(ahead: Floats, behind: Floats, workers: Codes) -> float:
    """By how many standard errors of the paired difference the first is ahead."""
    difference = ahead - behind
    error = standard_error(difference, workers)
    if error == 0.0:
        return float(np.sign(difference.mean()) * np.inf) if difference.any() else 0.0
    return float(difference.mean() / error)


def null_score(kept: Labels, hidden: Triplets) -> Floats:
    """Log score of each hidden answer by its worker's own label shares, (n_hidden,)."""
    assert isinstance(kept.votes, SparseVotes)
    answers = answers_of(kept.votes)
    cells = answers.workers.astype(np.int64) * kept.n_classes + answers.classes
    counts = np.bincount(cells, minlength=kept.n_workers * kept.n_classes)
    return null_score_of(counts.reshape(kept.n_workers, kept.n_classes), hidden)


def null_score_of(counts: npt.NDArray[Any], hidden: Triplets) -> Floats:
    """The same, given how often each worker said each class, (n_workers, n_classes)."""
    said = counts[hidden.workers].astype(np.float64)
    said += NULL_SHRINKAGE * (counts.sum(axis=0) / counts.sum())
    return log_score(said / said.sum(axis=1, keepdims=True), hidden)


def weights(leads: Sequence[float]) -> list[float]:
    """Of the methods' mean leads over the null, the best of which is above 0; they sum to 1."""
    shares = np.asarray(leads) / max(leads)
    counted = np.clip((shares - NO_SHARE) / (FULL_SHARE - NO_SHARE), 0.0, 1.0)
    return [float(weight) for weight in counted / counted.sum()]
