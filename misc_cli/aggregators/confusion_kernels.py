"""Kernels of the models with one confusion matrix per worker: ds-em, ds-mf, one-coin, mv.

Dawid & Skene 1979 (doi:10.2307/2346806):
    n_w[ck] → by_worker[w, c, k]   expected answers, Σ_i T_ic · [worker w answered k on i]
    π_w[ck] → confusions[w, c, k]  ∝ n_w[ck]                                     (eq. 2.3)
    p_c     → class_prior[c]       ∝ Σ_i T_ic = class_sizes[c]                   (eq. 2.4)
    T_ic    → posteriors[i, c]     ∝ p_c · Π_w π_w[c, x_wi]                      (eq. 2.5)

`em.py` has the loop; the M-steps stand with their methods. The last part of this file is one step
with a prior per item, S_ic instead of p_c: the final step of the completion loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from misc_cli.data.posteriors import clamp, normalise_scores
from misc_cli.data.solver import Step, iterate
from misc_cli.data.types import Floats, Labels, OnIteration
from misc_cli.engines.local import LocalEngine
from misc_cli.engines.protocol import (
    GOLD,
    LARGEST,
    POSTERIORS,
    SLICE,
    Block,
    Counted,
    Engine,
    Fitted,
    RowArrays,
    SumOver,
)

# Keeps the logarithm of an empty cell finite.
TINY = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Model:
    """The outcome of an M-step: E[log π] for the next E-step, and π, both (n_workers, K, K).

    With `missing` "informative" both have one more column, the last: no answer.
    The objective that the steps raise is the log-likelihood less `penalty`; None: no objective.
    """

    log_confusions: Floats
    confusions: Floats
    penalty: float | None = 0.0


@dataclass
class Sums(Counted):
    """Sums over all blocks for the next M-step; `class_sizes` (n_classes,) is Σ_i T_ic."""

    class_sizes: Floats
    log_likelihood: float = 0.0
    change: float = field(default=0.0, metadata=LARGEST)

    @property
    def with_silence(self) -> Floats:
        """`by_worker` with one more column: Σ_i T_ic over the items without an answer of w."""
        answered = self.by_worker
        silent = np.maximum(self.class_sizes - answered.sum(axis=2), 0.0)
        return np.concatenate([answered, silent[:, :, None]], axis=2)


@dataclass(frozen=True)
class VoteFractions:
    """Write the share of votes per class as posteriors; gold rows are certain."""

    needs: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[tuple[str, ...]] = (POSTERIORS,)

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, Sums]:
        totals = block.class_totals()
        n_classes = totals.shape[1]
        answered = totals @ np.ones(n_classes)
        unanswered = answered == 0.0
        totals[unanswered], answered[unanswered] = 1.0, n_classes  # uniform
        fractions = np.empty_like(totals)
        for column, total in zip(fractions.T, totals.T, strict=True):
            np.divide(total, answered, out=column)
        if GOLD in rows:
            clamp(fractions, rows[GOLD])
        return {POSTERIORS: fractions}, sums_of(block, fractions)


@dataclass(frozen=True)
class ExpectedCounts:
    """Sum n_w[ck] over the current posteriors, which stay as they are."""

    writes: ClassVar[tuple[str, ...]] = ()

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, Sums]:
        return {}, sums_of(block, rows[POSTERIORS])


@dataclass(frozen=True)
class Expectation:
    """The E-step (eq. 2.5), which also adds up the sums for the next M-step.

    table      (n_workers * n_classes, n_classes): row (w, k) is E[log π_w[c, k]] for every c
    log_prior  (n_classes,)

    The old posteriors are only read to measure the change; without any, the change is 1.
    """

    table: Floats
    log_prior: Floats

    needs: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[tuple[str, ...]] = (POSTERIORS,)

    @classmethod
    def of(cls, model: Model, class_prior: Floats) -> Expectation:
        n_classes = len(class_prior)
        logs, log_prior = model.log_confusions, np.log(class_prior)
        if logs.shape[2] > n_classes:
            # Count every worker as silent on every item, and add per answer the difference: the
            # silent cells, most of workers × items, are never visited.
            silent = logs[:, :, n_classes]
            logs = logs[:, :, :n_classes] - silent[:, :, None]
            log_prior = log_prior + silent.sum(axis=0)
        by_answer = np.ascontiguousarray(logs.transpose(0, 2, 1))
        return cls(by_answer.reshape(-1, n_classes), log_prior)

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, Sums]:
        matrix = block.matrix
        # eq. 2.5 in logs: T_ic ∝ p_c · Π_w π_w[c, x_wi]
        scores = matrix @ self.table
        log_normalisers = normalise_scores(scores, rows.get(GOLD), self.log_prior)
        moved = rows[POSTERIORS] - scores if POSTERIORS in rows else np.ones((1, 1))
        sums = Sums(
            counts=matrix.T @ scores,
            class_sizes=np.ones(len(scores)) @ scores,  # several times faster than sum(axis=0)
            log_likelihood=float(log_normalisers.sum()),
            change=float(max(moved.max(initial=0.0), -moved.min(initial=0.0))),
        )
        return {POSTERIORS: scores}, sums


def sums_of(block: Block, posteriors: Floats) -> Sums:
    """Return the sums of a block with these posteriors."""
    return Sums(block.matrix.T @ posteriors, np.ones(len(posteriors)) @ posteriors)


def expected_counts(labels: Labels, posteriors: Floats) -> Floats:
    """Return n_w[ck] = Σ_i T_ic · [worker w answered k on i], (n_workers, K, K)."""
    engine = LocalEngine(labels.votes, {POSTERIORS: posteriors})
    return engine.sweep(ExpectedCounts()).by_worker


def crowd_rows(counts: Floats) -> Floats:
    """Return the mean confusions of the crowd, (K, K), towards which workers are shrunk."""
    return normalise_rows(counts.sum(axis=0))


def shrunk_rows(counts: Floats, shrinkage: float) -> Floats:
    """Return confusions of counts (n_workers, K, K), each row with `shrinkage` crowd answers."""
    return normalise_rows(counts + shrinkage * crowd_rows(counts))


def confusions_of(labels: Labels, posteriors: Floats, shrinkage: float) -> Floats:
    """Return the confusions of workers given these posteriors, (n_workers, K, K)."""
    return shrunk_rows(expected_counts(labels, posteriors), shrinkage)


def normalise_rows(counts: Floats) -> Floats:
    """Return rows that sum to 1; the epsilon makes a row without counts uniform."""
    smoothed = counts + TINY
    rows: Floats = smoothed / smoothed.sum(axis=-1, keepdims=True)
    return rows


# Least prior of a class before normalising; a likely class is of order one.
FLOOR = 0.01
# Pseudo-answers per class that shrink confusions towards the crowd.
PSEUDO_ANSWERS = 0.5


def judge(engine: Engine, on_iteration: OnIteration) -> Fitted:
    """Fit one Dawid–Skene step on an engine whose slice is the prior of each item.

    The slice may have any scale and sign. A single step on purpose: repeated, the answers would
    outweigh the prior.
    """

    def step(believed: Sums) -> Step[Sums]:
        confusions = shrunk_rows(believed.by_worker, PSEUDO_ANSWERS)
        model = Model(np.log(confusions), confusions)
        flat = np.ones(engine.n_classes)  # each item has a prior of its own
        judged = engine.sweep(SliceExpectation(Expectation.of(model, flat).table))
        posteriors = engine.whole(POSTERIORS)
        return Step(judged, judged.change, judged.log_likelihood, posteriors=posteriors)

    believed = engine.sweep(SumOver(_slice_sums))
    solution = iterate(
        step, believed, stage="answers", tol=0.0, max_iter=1, on_iteration=on_iteration, warn=False
    )
    judged = solution.state
    return Fitted(
        confusions=shrunk_rows(judged.by_worker, PSEUDO_ANSWERS),
        class_prior=judged.class_sizes / engine.n_items,
        iterations=solution.iterations,
        objective=solution.objective,
    )


def _slice_sums(block: Block, rows: RowArrays) -> Sums:
    """Return n_w[ck] with the item priors as posteriors (eq. 2.3)."""
    return sums_of(block, _item_prior(rows))


@dataclass(frozen=True)
class SliceExpectation:
    """The E-step with a prior per item: T_ic ∝ S_ic · Π_w π_w[c, x_wi]; `table` as above."""

    table: Floats

    needs: ClassVar[tuple[str, ...]] = (SLICE,)
    writes: ClassVar[tuple[str, ...]] = (POSTERIORS,)

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, Sums]:
        prior = _item_prior(rows)
        with np.errstate(divide="ignore"):  # the prior of a gold item has zeros
            scores = block.matrix @ self.table + np.log(prior)
        log_normalisers = normalise_scores(scores, rows.get(GOLD))
        sums = sums_of(block, scores)
        sums.log_likelihood = float(log_normalisers.sum())
        sums.change = float(np.abs(scores - prior).max(initial=0.0))
        return {POSTERIORS: scores}, sums


def _item_prior(rows: RowArrays) -> Floats:
    """Return the slice as distributions, (n_block_items, n_classes)."""
    prior: Floats = np.maximum(rows[SLICE], FLOOR)
    prior /= prior.sum(axis=1, keepdims=True)
    if GOLD in rows:
        clamp(prior, rows[GOLD])
    return prior
