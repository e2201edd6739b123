"""What the others say of each worker's answers: the labels as they would be without the worker.

A worker's own vote helped to make the labels that it is judged by, so each answer is compared with
what the rest of the crowd makes of its item:
    T⁻_ic ∝ p_c Π_{v ≠ w} π_v[c, x_vi]
with confusions π from the run's own posteriors. Where a matrix per worker is too large (many
classes), T⁻ is the other answers' shares.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from misc_cli.aggregators.confusion.counts import shrunk_rows
from misc_cli.aggregators.confusion.kernels import ExpectedCounts
from misc_cli.aggregators.confusion.with_prior import PSEUDO_ANSWERS
from misc_cli.core.engines.protocol import GOLD, POSTERIORS, Block, Engine, RowArrays
from misc_cli.core.engines.sums import Summed
from misc_cli.core.logdomain import normalise_scores
from misc_cli.core.types import Codes, Floats
from misc_cli.core.votes import Rows, totals_by_class

MOST_CELLS = 20_000_000  # of workers × classes × classes
CELLS_AT_ONCE = 1 << 21
PSEUDO_VOTES = 0.1  # of every class, where the other answers' shares stand for a label

Indices = npt.NDArray[np.int64]


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


def gather(engine: Engine) -> Evidence:
    """Of the posteriors that are on the engine: three walks over the votes, block by block."""
    n_workers, n_classes = engine.n_workers, engine.n_classes
    crowd = engine.sweep(_CountCrowd(n_classes))
    said = crowd.said.reshape(n_workers, n_classes)
    shares = said / np.maximum(said.sum(axis=1, keepdims=True), 1.0)
    counts = crowd.answers + 0.5 / n_classes
    typical = counts / counts.sum(axis=1, keepdims=True)
    rest = _by_confusions(engine) if n_workers * n_classes**2 <= MOST_CELLS else ByShares(n_classes)
    found = engine.sweep(_Compare(rest, typical, shares))
    answers, right, squares, at_best, chance, noise = found.sums.T
    return Evidence(answers, right, squares, at_best, chance, noise, said, found.surprise)


@dataclass
class _Crowd(Summed):
    """said (n_workers * n_classes,) how often each worker gave each answer; answers (n_classes,
    n_classes): of the whole crowd, given the label, [true, observed]."""

    said: Floats
    answers: Floats


@dataclass(frozen=True)
class _CountCrowd:
    n_classes: int

    writes: ClassVar[tuple[str, ...]] = ()

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, _Crowd]:
        matrix = block.matrix
        said = np.bincount(matrix.indices, minlength=matrix.shape[1]).astype(np.float64)
        return {}, _Crowd(said, np.asarray(rows[POSTERIORS]).T @ block.class_totals())


@dataclass
class _Compared(Summed):
    """sums (n_workers, 6): answers, right, squares, at_best, chance, noise, as in `Evidence`."""

    sums: Floats
    surprise: Floats


@dataclass(frozen=True)
class _Compare:
    """Each answer with what the others say.

    typical  C[c, k], (n_classes, n_classes): what an answer is, given the label, over the crowd
    shares   m, (n_workers, n_classes)
    """

    rest: ByConfusions | ByShares
    typical: Floats
    shares: Floats

    writes: ClassVar[tuple[str, ...]] = ()

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, _Compared]:
        found = _Compared(np.zeros((len(self.shares), 6)), np.zeros_like(self.shares))
        gold = rows.get(GOLD)
        for part, votes in _parts(block.matrix, self.shares.shape[1]):
            found += self._count(votes, None if gold is None else gold[part])
        return {}, found

    def _count(self, block: sp.csr_array, gold: Codes | None) -> _Compared:
        n_workers, n_classes = self.shares.shape
        worker, answer = np.divmod(block.indices, n_classes)
        item = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))
        others = self.rest(block, item)
        if gold is not None:
            known = gold[item]
            others[known >= 0] = np.eye(n_classes)[known[known >= 0]]
        own = others[np.arange(len(answer)), answer]
        odd = -np.log(np.einsum("vc,vc->v", others, self.typical.T[answer]))
        at = sp.csr_array(
            (np.ones(len(worker)), (worker, np.arange(len(worker)))), (n_workers, len(worker))
        )
        shares = self.shares[worker]
        by_chance = np.einsum("vc,vc->v", shares, others)
        squares = others**2
        noise = np.einsum("vc,vc->v", shares, squares) - by_chance**2
        parts = [np.ones(len(own)), own, own**2, squares.sum(axis=1), by_chance, noise]
        odds = np.bincount(block.indices, odd, n_workers * n_classes).astype(np.float64)
        return _Compared(at @ np.column_stack(parts), odds.reshape(n_workers, n_classes))


def _parts(block: sp.csr_array, n_classes: int) -> Iterator[tuple[Rows, sp.csr_array]]:
    """A block in parts whose votes × classes stay bounded, however many classes there are."""
    targets = np.arange(0, block.nnz, max(1, CELLS_AT_ONCE // n_classes))
    cuts = np.unique(np.searchsorted(block.indptr[:-1], targets, side="left"))
    for first, last in pairwise([*cuts.tolist(), block.shape[0]]):
        if first < last:
            yield slice(first, last), block[first:last]


@dataclass(frozen=True)
class ByConfusions:
    """T⁻ of a block's votes: its items' scores, less what the vote itself added to them.

    table      (n_workers * n_classes, n_classes): column (w, k) of the votes meets log π_w[c, k]
               for every true class c
    log_prior  (n_classes,)
    """

    table: Floats
    log_prior: Floats

    def __call__(self, block: sp.csr_array, item: Indices) -> Floats:
        scores = (block @ self.table)[item] - self.table[block.indices]
        normalise_scores(scores, None, self.log_prior)
        return scores


def _by_confusions(engine: Engine) -> ByConfusions:
    n_classes = engine.n_classes
    counted = engine.sweep(ExpectedCounts())
    confusions = shrunk_rows(counted.by_worker, PSEUDO_ANSWERS)
    table = np.log(np.maximum(confusions, 1e-12)).transpose(0, 2, 1).reshape(-1, n_classes)
    prior = np.log((counted.class_sizes + 1.0) / (engine.n_items + n_classes))
    return ByConfusions(table, prior)


@dataclass(frozen=True)
class ByShares:
    """T⁻ of a block's votes as the shares of the other answers to their items."""

    n_classes: int

    def __call__(self, block: sp.csr_array, item: Indices) -> Floats:
        counts = totals_by_class(block, self.n_classes)[item] + PSEUDO_VOTES
        counts[np.arange(len(item)), block.indices % self.n_classes] -= 1.0
        shares: Floats = counts / counts.sum(axis=1, keepdims=True)
        return shares
