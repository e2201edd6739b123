"""What the others say of each worker's answers: the labels as they would be without the worker.

A worker's own vote helped to make the labels that it is judged by, so each answer is compared with
what the rest of the crowd makes of its item:
    T⁻_ic ∝ p_c Π_{v ≠ w} π_v[c, x_vi]
with confusions π from the run's own posteriors. Where a matrix per worker is too large (many
classes), T⁻ is the other answers' shares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from misc_cli.aggregators.confusion.em import confusions_of
from misc_cli.core.logdomain import normalise_scores
from misc_cli.core.parallel import map_in_order
from misc_cli.core.types import Floats, Labels
from misc_cli.core.votes import Rows

SHRINKAGE = 0.5  # as in ds-em
MOST_CELLS = 20_000_000  # of workers × classes × classes
CELLS_AT_ONCE = 1 << 21
PSEUDO_VOTES = 0.1  # of every class, where the other answers' shares stand for a label

Indices = npt.NDArray[np.int64]
# a block and the row of each of its votes → T⁻, (n_block_votes, n_classes)
OthersSay = Callable[[sp.csr_array, Indices], Floats]


@dataclass(frozen=True)
class Evidence:
    """Per worker; items of `gold` count with their known label.

    answers    (n_workers,)
    right      (n_workers,) Σ_i T⁻ of the class that it said
    squares    (n_workers,) Σ_i (T⁻)² of that class
    chance     (n_workers,) Σ_i e_i with e_i = Σ_k m_k T⁻_ik: what `right` would be for one who says
               what it says, in its shares m of labels, without looking at the items
    noise      (n_workers,) Σ_i (Σ_k m_k (T⁻_ik)² − e_i²): the variance of `right` of that one
    at_best    (n_workers,) Σ_i Σ_c (T⁻_ic)²: what `right` would be if it always told the truth
    said       (n_workers, n_classes) what it answered
    surprise   (n_workers, n_classes) −Σ_i log Σ_c T⁻_ic C[c, k] over its answers k: how odd each of
               them would be for a typical worker, whose confusions are C
    """

    answers: Floats
    right: Floats
    squares: Floats
    at_best: Floats
    chance: Floats
    noise: Floats
    said: Floats
    surprise: Floats


def gather(labels: Labels, posteriors: Floats) -> Evidence:
    """One walk over the votes, block by block."""
    votes = labels.votes
    n_workers, n_classes = votes.n_workers, votes.n_classes
    rest = _by_confusions(labels, posteriors) if _fits(labels) else _by_shares(labels)
    typical = _typical(labels, posteriors)
    said = _said(labels)
    shares = said / np.maximum(said.sum(axis=1, keepdims=True), 1.0)

    def kernel(rows: Rows) -> tuple[Floats, Floats]:
        sums, surprise = np.zeros((n_workers, 6)), np.zeros((n_workers, n_classes))
        for part, block in _parts(rows, votes.block(rows), n_classes):
            some, odds = count(part, block)
            sums += some
            surprise += odds
        return sums, surprise

    def count(rows: Rows, block: sp.csr_array) -> tuple[Floats, Floats]:
        worker, answer = np.divmod(block.indices, n_classes)
        item = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))
        others = rest(block, item)
        if labels.gold is not None:
            known = labels.gold[rows][item]
            others[known >= 0] = np.eye(n_classes)[known[known >= 0]]
        own = others[np.arange(len(answer)), answer]
        odd = -np.log(np.einsum("vc,vc->v", others, typical.T[answer]))
        at = sp.csr_array(
            (np.ones(len(worker)), (worker, np.arange(len(worker)))), (n_workers, len(worker))
        )
        by_chance = np.einsum("vc,vc->v", shares[worker], others)
        squares = others**2
        noise = np.einsum("vc,vc->v", shares[worker], squares) - by_chance**2
        parts = [np.ones(len(own)), own, own**2, squares.sum(axis=1), by_chance, noise]
        odds = np.bincount(block.indices, odd, n_workers * n_classes).astype(np.float64)
        return at @ np.column_stack(parts), odds.reshape(n_workers, n_classes)

    sums, surprise = np.zeros((n_workers, 6)), np.zeros((n_workers, n_classes))
    for partial, odds in map_in_order(kernel, votes.blocks):
        sums += partial
        surprise += odds
    answers, right, squares, at_best, chance, noise = sums.T
    return Evidence(answers, right, squares, at_best, chance, noise, said, surprise)


def _parts(rows: Rows, block: sp.csr_array, n_classes: int) -> Iterator[tuple[Rows, sp.csr_array]]:
    """A block in parts whose votes × classes stay bounded, however many classes there are."""
    targets = np.arange(0, block.nnz, max(1, CELLS_AT_ONCE // n_classes))
    cuts = np.unique(np.searchsorted(block.indptr[:-1], targets, side="left"))
    for first, last in pairwise([*cuts.tolist(), block.shape[0]]):
        if first < last:
            yield slice(rows.start + first, rows.start + last), block[first:last]


def _said(labels: Labels) -> Floats:
    """How often each worker gave each answer, (n_workers, n_classes)."""
    votes = labels.votes
    counts = np.zeros(votes.n_workers * votes.n_classes)
    for rows in votes.blocks:
        counts += np.bincount(votes.block(rows).indices, minlength=len(counts))
    return counts.reshape(votes.n_workers, votes.n_classes)


def _fits(labels: Labels) -> bool:
    return labels.n_workers * labels.n_classes**2 <= MOST_CELLS


def _by_confusions(labels: Labels, posteriors: Floats) -> OthersSay:
    """T⁻ of a block's votes: its items' scores, less what the vote itself added to them."""
    n_classes = labels.n_classes
    confusions = confusions_of(labels, posteriors, SHRINKAGE)
    # column (w, k) of the votes meets log π_w[c, k] for every true class c
    table = np.log(np.maximum(confusions, 1e-12)).transpose(0, 2, 1).reshape(-1, n_classes)
    prior = np.log((posteriors.sum(axis=0) + 1.0) / (len(posteriors) + n_classes))

    def rest(block: sp.csr_array, item: Indices) -> Floats:
        scores = (block @ table)[item] - table[block.indices]
        normalise_scores(scores, None, prior)
        return scores

    return rest


def _by_shares(labels: Labels) -> OthersSay:
    """T⁻ of a block's votes as the shares of the other answers to their items."""
    n_classes = labels.n_classes

    def rest(block: sp.csr_array, item: Indices) -> Floats:
        by_class = (block.data, block.indices % n_classes, block.indptr)
        totals = sp.csr_array(by_class, shape=(block.shape[0], n_classes)).toarray()
        counts = totals[item] + PSEUDO_VOTES
        counts[np.arange(len(item)), block.indices % n_classes] -= 1.0
        shares: Floats = counts / counts.sum(axis=1, keepdims=True)
        return shares

    return rest


def _typical(labels: Labels, posteriors: Floats) -> Floats:
    """C[c, k], (n_classes, n_classes): what an answer is, given the label, over the whole crowd."""
    votes, n_classes = labels.votes, labels.n_classes
    counts = np.full((n_classes, n_classes), 0.5 / n_classes)
    for rows in votes.blocks:
        counts += posteriors[rows].T @ votes.class_totals(rows)
    typical: Floats = counts / counts.sum(axis=1, keepdims=True)
    return typical
