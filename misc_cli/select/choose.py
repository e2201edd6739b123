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

from misc_cli.core.holdout import Triplets, log_score
from misc_cli.core.types import Codes, Floats, Labels
from misc_cli.core.votes import SparseVotes

# How many standard errors make a difference. Two would let one candidate in twenty through by
# luck, and there are dozens of them.
SIGNIFICANT = 3.0
# A method counts fully from this share of the best lead, and not at all below that one: one winner
# would be a lottery ticket, and between neighbours a sharp limit would be one too.
FULL_SHARE = 0.97
NO_SHARE = 0.93
# Where more of the answers than this are by workers who only ever say one label, hidden answers say
# nothing of items; half as many will do where no lead is above luck either. Of 19 public crowds at
# most 12 % are; of labelling functions all, or most.
ONE_LABEL_SHARE = 0.5
# −log of the chance, a thousandth, that who answers as the crowd does says one label only.
ODD = 7.0
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
    return null_score_of(said_by_workers(kept), hidden)


def said_by_workers(labels: Labels) -> npt.NDArray[np.int64]:
    """How often each worker said each class, (n_workers, n_classes)."""
    assert isinstance(labels.votes, SparseVotes)
    counts = np.bincount(labels.votes.matrix.indices, minlength=labels.n_workers * labels.n_classes)
    return counts.reshape(labels.n_workers, labels.n_classes)


def one_label_share(counts: npt.NDArray[Any]) -> float:
    """Of the answers, the share of workers who only ever say one label, beyond chance.

    counts (n_workers, n_classes) is how often each worker said each class.
    """
    answers, crowd = counts.sum(axis=1), counts.sum(axis=0)
    most = counts.argmax(axis=1)
    surprise = answers * np.log(crowd.sum() / np.maximum(crowd[most], 1))
    alone = (counts.max(axis=1) == answers) & (surprise >= ODD)
    return float(answers[alone].sum() / max(crowd.sum(), 1))


def crowd_score_of(counts: npt.NDArray[Any], hidden: Triplets) -> Floats:
    """Log score of each hidden answer by the label shares of all workers together, (n_hidden,)."""
    shares: Floats = counts.sum(axis=0) / counts.sum()
    return log_score(np.broadcast_to(shares, (len(hidden), len(shares))), hidden)


def null_score_of(counts: npt.NDArray[Any], hidden: Triplets) -> Floats:
    """The same, given how often each worker said each class, (n_workers, n_classes)."""
    said = counts[hidden.workers].astype(np.float64)
    said += NULL_SHRINKAGE * (counts.sum(axis=0) / counts.sum())
    return log_score(said / said.sum(axis=1, keepdims=True), hidden)


def unheard(mean_lead: float, errors: float, one_label: float) -> bool:
    """Whether hidden answers say nothing of items, so that the votes decide.

    Given the best mean lead over what forecasts best without the item (a worker's label shares, or
    the crowd's), that over the null in standard errors, and the share of answers by workers who
    only ever say one label. A lead that may be luck is not enough: where few workers
    give most of the answers it never is above that, and methods still serve better than votes.
    """
    lucky = errors < SIGNIFICANT and one_label > ONE_LABEL_SHARE / 2.0
    return mean_lead <= 0.0 or one_label > ONE_LABEL_SHARE or lucky


def weights(leads: Sequence[float]) -> list[float]:
    """Of the methods' mean leads over the null, the best of which is above 0; they sum to 1."""
    shares = np.asarray(leads) / max(leads)
    counted = np.clip((shares - NO_SHARE) / (FULL_SHARE - NO_SHARE), 0.0, 1.0)
    return [float(weight) for weight in counted / counted.sum()]
