"""Which workers answered the same items, and how often they said the same there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from misc_cli.core.votes import Votes

MIN_SHARED = 10  # fewer shared items say nothing about a pair
# Pairs of answers that are looked at; beyond, the workers with the fewest answers stay out.
MOST_PAIRS_OF_ANSWERS = 1_000_000
PAIRS_AT_ONCE = 200_000

Keys = npt.NDArray[np.int64]
Chosen = npt.NDArray[np.bool_]


def active_in(votes: Votes) -> Chosen:
    """Workers whose pairs are looked at, (n_workers,)."""
    blocks = [votes.block(rows) for rows in votes.blocks]
    activity = np.zeros(votes.n_workers, dtype=np.int64)
    for block in blocks:
        activity += activity_in(block, votes.n_classes)

    def pairs_among(kept: Chosen) -> float:
        return sum(pairs_in(block, kept, votes.n_classes) for block in blocks)

    return active_enough(activity, pairs_among)


def activity_in(block: sp.csr_array, n_classes: int) -> Keys:
    """How many answers each worker gave in a block, (n_workers,)."""
    n_workers = block.shape[1] // n_classes
    return np.bincount(block.indices // n_classes, minlength=n_workers).astype(np.int64)


def active_enough(activity: Keys, pairs_among: Callable[[Chosen], float]) -> Chosen:
    """Workers whose pairs are looked at, (n_workers,): the most active, if all are too many.

    Pairs that share enough items to be judged are found among the active.
    """
    kept: Chosen = activity >= MIN_SHARED
    while (excess := pairs_among(kept) / MOST_PAIRS_OF_ANSWERS) > 1.0:
        # half as many answers are about a quarter as many pairs; who is as active leaves with him
        order = np.sort(activity[kept])
        share = np.cumsum(order) / order.sum()
        least = order[np.searchsorted(share, 1.0 - 0.95 / np.sqrt(excess))]
        kept = activity > least
    return kept


def pairs_in(block: sp.csr_array, kept: Chosen, n_classes: int) -> float:
    """How many pairs of answers to one item these workers gave in a block."""
    before = np.append(0, np.cumsum(kept[block.indices // n_classes]))
    sizes = np.diff(before[block.indptr]).astype(np.float64)
    return float((sizes * (sizes - 1.0)).sum()) / 2.0


def keys_of(block: sp.csr_array, kept: Chosen, n_classes: int) -> tuple[Keys, Keys]:
    """Every two answers of these workers to one item, as one number each (`_pairs_of_answers`);
    how often they said each class, (n_workers, n_classes).
    """
    worker, answer = np.divmod(block.indices.astype(np.int64), n_classes)
    item = np.repeat(np.arange(block.shape[0], dtype=np.int64), np.diff(block.indptr))
    chosen = kept[worker]
    worker, item, answer = worker[chosen], item[chosen], answer[chosen]
    said = np.bincount(worker * n_classes + answer, minlength=len(kept) * n_classes)
    keys = _pairs_of_answers(worker, item, answer, len(kept))
    return keys, said.reshape(len(kept), n_classes).astype(np.int64)


def _pairs_of_answers(worker: Keys, item: Keys, answer: Keys, n_workers: int) -> Keys:
    """Every two answers to one item as one number: (first · n_workers + second) · 2 + same.

    Answers are sorted by item and worker. Items with equally many answers are done together.
    """
    starts = np.flatnonzero(np.diff(item, prepend=-1))
    sizes = np.diff(starts, append=len(item))
    keys = np.empty(int((sizes * (sizes - 1) // 2).sum()), dtype=np.int64)
    done = 0
    for size in np.unique(sizes[sizes > 1]):
        left, right = np.triu_indices(int(size), 1)
        heads = starts[sizes == size]
        step = max(1, PAIRS_AT_ONCE // len(left))
        for begin in range(0, len(heads), step):
            at = heads[begin : begin + step, None]
            one, other = (at + left).ravel(), (at + right).ravel()
            part = keys[done : done + len(one)]
            np.multiply(worker[one], n_workers, out=part)
            part += worker[other]
            part *= 2
            part += answer[one] == answer[other]
            done += len(one)
    return keys
