"""What a run says about each worker: how much, how well, and how it confuses the classes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import scipy.sparse as sp

from misc_cli.aggregators.confusion_kernels import PSEUDO_ANSWERS, ExpectedCounts, shrunk_rows
from misc_cli.data.decide import decide
from misc_cli.data.logdomain import normalise_scores
from misc_cli.data.types import Codes, Floats, Labels, WorkerTable
from misc_cli.data.votes import Rows, totals_by_class
from misc_cli.engines.protocol import GOLD, POSTERIORS, Block, Engine, RowArrays, Summed
from misc_cli.errors import InputError
from misc_cli.quality.evaluation import wilson

MOST_CELLS = 20_000_000  # of workers × classes × classes
EVIDENCE_CELLS_AT_ONCE = 1 << 21
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
    targets = np.arange(0, block.nnz, max(1, EVIDENCE_CELLS_AT_ONCE // n_classes))
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


CELLS_AT_ONCE = 1 << 22  # of workers × classes × classes, beside the confusions themselves


@dataclass(frozen=True)
class WorkerReport:
    """Per worker, (n_workers,) each.

    answers      how many answers it gave
    accuracy     Σ_c p_c · π[c, c]: the chance that it is right on an item drawn from the classes
    low, high    between which that lies in 95 cases of 100 (see `accuracy_interval`)
    agreement    share of its answers that equal the items' final labels
    information  mutual information of the true class and its answer, in bits: 0 for a spammer,
                 however often it happens to be right; high for one who is reliably wrong
    confusions   (n_workers, n_classes, n_classes): [worker, true, observed]
    """

    answers: Floats
    accuracy: Floats
    low: Floats
    high: Floats
    agreement: Floats
    information: Floats
    confusions: Floats


def report_workers(engine: Engine, confusions: Floats, class_prior: Floats) -> WorkerReport:
    """Of the posteriors that are on the engine; its labels are those that they decide."""
    counted = engine.sweep(_Count(engine.n_classes))
    answers, agreed = counted[:, 0], counted[:, 1]
    accuracy = np.einsum("c,wcc->w", class_prior, confusions)
    low, high = accuracy_interval(counted[:, 2:], confusions, class_prior, accuracy)
    return WorkerReport(
        answers=answers,
        accuracy=accuracy,
        low=low,
        high=high,
        agreement=agreed / np.maximum(answers, 1.0),
        information=_information(class_prior, confusions),
        confusions=confusions,
    )


@dataclass(frozen=True)
class _Count:
    """Per worker its answers, how many of them are the items' labels, and how many it gave to items
    of each class, those of unsure items for less (`accuracy_interval`): (n_workers, 2 + n_classes).
    """

    n_classes: int

    writes: ClassVar[tuple[str, ...]] = ()

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, Floats]:
        matrix, posteriors = block.matrix, np.asarray(rows[POSTERIORS])
        n_workers = matrix.shape[1] // self.n_classes
        worker, answer = np.divmod(matrix.indices, self.n_classes)
        final = np.repeat(decide(posteriors).label, np.diff(matrix.indptr))
        agreed = matrix.data * (answer == final)
        who = sp.csr_array(
            (np.ones(matrix.nnz), worker, matrix.indptr), shape=(matrix.shape[0], n_workers)
        )
        sharpness = (posteriors**2).sum(axis=1, keepdims=True)
        seen = who.T @ (posteriors * sharpness)
        counts = [_sums(worker, values, n_workers) for values in (matrix.data, agreed)]
        return {}, np.column_stack([*counts, seen])


def accuracy_interval(
    seen: Floats, confusions: Floats, class_prior: Floats, accuracy: Floats
) -> tuple[Floats, Floats]:
    """Wilson's interval around the accuracy, (n_workers,) each, of as many answers as it rests on.

    accuracy = Σ_c p_c a_c, and of a_c = π[c, c] there are n_c = Σ_i T_ic answers, so its variance
    is Σ_c p_c² a_c (1 − a_c) / (n_c + 1): a class that it hardly saw widens the interval. Labels
    are not known but inferred: answers whose item is surely of one class tell more than those whose
    item may be of two, and Σ_c T_ic² is the share of an answer that counts; `seen` (n_workers,
    n_classes) are n_c with these shares. An interval of so many answers,
    n = accuracy (1 − accuracy) / variance, is Wilson's, which does not leave 0 to 1. That
    the labels may be wrong together is in no interval.
    """
    right = np.diagonal(confusions, axis1=1, axis2=2)  # (n_workers, n_classes)
    smoothed = (right * seen + 0.5) / (seen + 1.0)
    variance = (class_prior**2 * smoothed * (1.0 - smoothed) / (seen + 1.0)).sum(axis=1)
    middle = np.clip(accuracy, 0.0, 1.0)
    # at 0 and at 1 a share has no variance of its own: one more answer of either kind gives it some
    total = seen.sum(axis=1)
    inside = (middle * total + 1.0) / (total + 2.0)
    n_answers = np.maximum(inside * (1.0 - inside) / np.maximum(variance, 1e-12), 1e-9)
    n_answers = np.minimum(n_answers, np.maximum(total, 1e-9))
    low, high = wilson(middle, n_answers)
    return np.clip(low, 0.0, middle), np.clip(high, middle, 1.0)


def _sums(groups: Codes, values: Floats, n_groups: int) -> Floats:
    return np.bincount(groups, values, minlength=n_groups).astype(np.float64)


def _information(prior: Floats, confusions: Floats) -> Floats:
    """I(true; observed) = Σ_ck p_c π[c, k] log₂(π[c, k] / Σ_c p_c π[c, k]), (n_workers,)."""
    bits = np.empty(len(confusions))
    step = max(1, CELLS_AT_ONCE // confusions[0].size)
    for start in range(0, len(confusions), step):
        some = confusions[start : start + step]
        joint = prior[:, None] * some
        marginal = joint.sum(axis=1, keepdims=True)
        ratio = np.where(joint > 0, some, 1.0) / np.where(joint > 0, marginal, 1.0)
        bits[start : start + step] = (joint * np.log2(ratio)).sum(axis=(1, 2))
    return np.maximum(bits, 0.0)


def pseudo_counts(labels: Labels, table: WorkerTable, weight: float) -> Floats:
    """What a table knows of these workers, as answers [worker, true, observed] beside theirs.

    A row of a worker's confusions counts for `weight` answers, but for no more than the worker gave
    then. Workers and classes that the table does not have get nothing.
    """
    names = labels.classes.to_pylist()
    counts = np.zeros((labels.n_workers, labels.n_classes, labels.n_classes))
    rows = pc.fill_null(pc.index_in(labels.workers, table.workers), -1)
    rows = rows.to_numpy(zero_copy_only=False)
    here = np.flatnonzero(rows >= 0)
    at = rows[here]
    for true, true_name in enumerate(names):
        for said, said_name in enumerate(names):
            column = table.columns.get(f"true_{true_name}_said_{said_name}")
            if column is not None:
                counts[here, true, said] = np.nan_to_num(column[at])
    if not counts.any():
        raise InputError(
            f"{table.name}: says nothing of these workers and classes; is it of the same workers?"
        )
    counts[here] *= np.minimum(weight, table.answers[at])[:, None, None]
    return counts
