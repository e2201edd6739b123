"""Section 5.4 of the paper: what sparse and noisy answers do to pure and mixed strategies.

Answers are removed at random until the label matrix has the nonzero rate asked for, then right
answers are replaced by wrong ones until the annotation error rate (the mean over workers of each
worker's own error rate) is the one asked for. The paper does not say which answers it replaced, and
everything hangs on it, so there are three ways:

    spread    right answers at random, whoever gave them
    workers   one worker after the other, in random order, until every answer of theirs is wrong
    casual    the same, those with the fewest answers first: many bad workers, fewer bad answers
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from misc_cli.data.holdout import Triplets, answers_of
from misc_cli.data.types import Codes, Labels
from misc_cli.data.votes import SparseVotes
from misc_cli.errors import ConfigError

PAPER_NONZERO_RATE = 0.037
PAPER_ERROR_RATES = (0.304, 0.416, 0.514, 0.609)
NOISES = ("spread", "workers", "casual")


def degrade(
    labels: Labels,
    truth: Codes,
    *,
    nonzero_rate: float,
    error_rate: float,
    noise: str,
    random: np.random.Generator,
) -> Labels:
    """The same workers, items and classes with fewer and worse answers.

    With the same state of `random`, a higher `error_rate` spoils a superset of the answers.
    """
    if noise not in NOISES:
        raise ConfigError(f"--noise {noise}: choose from {', '.join(NOISES)}")
    votes = labels.votes
    assert isinstance(votes, SparseVotes)
    answers = thin(answers_of(votes), labels, nonzero_rate, random)
    answers = spoil(answers, truth, labels.n_classes, error_rate, noise, random)
    return with_answers(labels, answers)


def with_answers(labels: Labels, answers: Triplets) -> Labels:
    """These answers under the same vocabularies."""
    columns = answers.workers * labels.n_classes + answers.classes
    shape = (labels.n_items, labels.n_workers * labels.n_classes)
    matrix = sp.csr_array((np.ones(len(answers)), (answers.items, columns)), shape=shape)
    matrix.sort_indices()
    return replace(labels, votes=SparseVotes(matrix, labels.n_workers, labels.n_classes))


def thin(
    answers: Triplets, labels: Labels, nonzero_rate: float, random: np.random.Generator
) -> Triplets:
    """Random answers, as many as the rate says, but never an item's or a worker's last one."""
    n_kept = round(nonzero_rate * labels.n_items * labels.n_workers)
    if n_kept > len(answers):
        raise ConfigError(
            f"a nonzero rate of {nonzero_rate:.1%} needs {n_kept} answers; there are {len(answers)}"
        )
    order = random.permutation(len(answers))
    needed = np.zeros(len(answers), dtype=bool)
    for codes in (answers.items, answers.workers):
        _, first = np.unique(codes[order], return_index=True)
        needed[order[first]] = True
    order = np.concatenate([order[needed[order]], order[~needed[order]]])
    if needed.sum() > n_kept:
        raise ConfigError(
            f"a nonzero rate of {nonzero_rate:.1%} leaves items or workers without an answer"
        )
    return answers.take(np.sort(order[:n_kept]))


def spoil(
    answers: Triplets,
    truth: Codes,
    n_classes: int,
    error_rate: float,
    noise: str,
    random: np.random.Generator,
) -> Triplets:
    """Replace right answers by wrong ones until the mean worker error is as near as can be."""
    judged = truth[answers.items] >= 0
    right = judged & (answers.classes == truth[answers.items])
    answered = np.bincount(answers.workers[judged], minlength=int(answers.workers.max()) + 1)
    n_judged_workers = int((answered > 0).sum())
    order = random.permutation(np.flatnonzero(right))
    if noise != "spread":
        turn = random.permutation(len(answered))
        if noise == "casual":  # ties between equally busy workers fall at random
            turn = np.argsort(np.lexsort((turn, answered)))
        order = order[np.argsort(turn[answers.workers[order]], kind="stable")]
    before = float((judged & ~right)[judged] @ (1.0 / answered[answers.workers[judged]]))
    # each answer spoilt adds its share of its worker's answers to the mean over workers
    added = 1.0 / answered[answers.workers[order]]
    reached = np.cumsum(np.append(before, added)) / n_judged_workers
    n_spoilt = int(np.abs(reached - error_rate).argmin())
    if n_spoilt == 0 and reached[0] > error_rate + 0.005:
        raise ConfigError(
            f"workers already err in {reached[0]:.1%} of their answers; {error_rate:.1%} is below"
        )
    spoilt = order[:n_spoilt]
    shift = random.integers(1, n_classes, size=len(order), dtype=np.int32)[:n_spoilt]
    label = answers.classes.copy()
    label[spoilt] = (label[spoilt] + shift) % n_classes
    return Triplets(answers.workers, answers.items, label)
