"""The real answers judged once under a prior belief about each item.

One step of Dawid & Skene (1979, doi:10.2307/2346806) in which a distribution per item stands where
theirs has one for all items:
    S_ic    → beliefs[i, c]       the prior; here the completed slice
    π_w[ck] → confusions[w, c, k] ∝ Σ_i S_ic · [worker w answered k on i]        (eq. 2.3)
    T_ic    → posteriors[i, c]    ∝ S_ic · Π_w π_w[c, x_wi]                      (eq. 2.5)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from misc_cli.data.logdomain import clamp, normalise_scores
from misc_cli.data.solver import Step, iterate
from misc_cli.data.types import Aggregation, Floats, Labels, OnIteration
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
    gathered,
)


def vote_fractions(labels: Labels) -> Floats:
    """Each item's share of votes per class, (n_items, n_classes); gold rows are certain."""
    engine = LocalEngine.of(labels)
    engine.sweep(VoteFractions())
    return engine.whole(POSTERIORS)


def expected_counts(labels: Labels, posteriors: Floats) -> Floats:
    """n_w[ck] = Σ_i T_ic · [worker w answered k on i], (n_workers, n_classes, n_classes)."""
    engine = LocalEngine(labels.votes, {POSTERIORS: posteriors})
    return engine.sweep(ExpectedCounts()).by_worker


def crowd_rows(counts: Floats) -> Floats:
    """The crowd's mean confusions, (n_classes, n_classes): what a worker is shrunk towards."""
    return normalise_rows(counts.sum(axis=0))


def shrunk_rows(counts: Floats, shrinkage: float) -> Floats:
    """Confusions from counts (n_workers, K, K), each row with so many answers of the crowd's."""
    return normalise_rows(counts + shrinkage * crowd_rows(counts))


def confusions_of(labels: Labels, posteriors: Floats, shrinkage: float) -> Floats:
    """Each worker's confusions by its own answers if these posteriors hold, (n_workers, K, K)."""
    return shrunk_rows(expected_counts(labels, posteriors), shrinkage)


def normalise_rows(counts: Floats) -> Floats:
    """Rows that sum to 1; the epsilon makes a row without counts uniform."""
    smoothed = counts + TINY
    rows: Floats = smoothed / smoothed.sum(axis=-1, keepdims=True)
    return rows


TINY = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Model:
    """An M-step's outcome: E[log π] for the next E-step and π itself, (n_workers, K, K) each.

    Where no answer is a label that was said, both have it as one more column, the last.

    `penalty` is what the log-likelihood must lose to be the objective that the steps raise; None
    where no such objective is known.
    """

    log_confusions: Floats
    confusions: Floats
    penalty: float | None = 0.0


@dataclass
class Sums(Counted):
    """What a sweep adds up over the blocks.

    class_sizes  (n_classes,): Σ_i T_ic
    """

    class_sizes: Floats
    log_likelihood: float = 0.0
    change: float = field(default=0.0, metadata=LARGEST)

    @property
    def with_silence(self) -> Floats:
        """`by_worker` with one more column: Σ_i T_ic over the items i that w gave no answer to."""
        answered = self.by_worker
        silent = np.maximum(self.class_sizes - answered.sum(axis=2), 0.0)
        return np.concatenate([answered, silent[:, :, None]], axis=2)


@dataclass(frozen=True)
class VoteFractions:
    """Each item's share of votes per class becomes its posterior; gold rows are certain."""

    needs: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[tuple[str, ...]] = (POSTERIORS,)

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, Sums]:
        totals = block.class_totals()
        n_classes = totals.shape[1]
        answered = totals @ np.ones(n_classes)
        unanswered = answered == 0.0
        totals[unanswered], answered[unanswered] = 1.0, n_classes  # every class alike
        fractions = np.empty_like(totals)
        for column, total in zip(fractions.T, totals.T, strict=True):
            np.divide(total, answered, out=column)
        if GOLD in rows:
            clamp(fractions, rows[GOLD])
        return {POSTERIORS: fractions}, sums_of(block, fractions)


@dataclass(frozen=True)
class ExpectedCounts:
    """n_w[ck] = Σ_i T_ic · [worker w answered k on i], given the posteriors as they are."""

    writes: ClassVar[tuple[str, ...]] = ()

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, Sums]:
        return {}, sums_of(block, rows[POSTERIORS])


@dataclass(frozen=True)
class Expectation:
    """The E-step, with the next M-step's sums.

    table      (n_workers * n_classes, n_classes): column (w, k) of the votes meets E[log π_w[c, k]]
               for every true class c
    log_prior  (n_classes,)

    The posteriors that were there only say by how much they change; without any, all is new.
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
            # Π_w over all workers: as if all were silent, and per answer what it changes. So the
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
    """What the next M-step reads if these are the block's posteriors."""
    return Sums(block.matrix.T @ posteriors, np.ones(len(posteriors)) @ posteriors)


# A class the belief rules out keeps this much, against the order of one for a likely class.
FLOOR = 0.01
# A worker's confusions are shrunk to the crowd's by this many answers per class.
PSEUDO_ANSWERS = 0.5


def judge_answers(labels: Labels, beliefs: Floats, on_iteration: OnIteration) -> Aggregation:
    """Posteriors of the real answers given `beliefs` (n_items, n_classes), any scale and sign."""
    known = {} if labels.gold is None else {GOLD: labels.gold}
    engine = LocalEngine(labels.votes, {SLICE: beliefs, **known})
    return gathered(engine, judge(engine, on_iteration))


def judge(engine: Engine, on_iteration: OnIteration) -> Fitted:
    """The same on an engine; the beliefs are its rows of the slice.

    A single step on purpose: repeated, the answers would forget the beliefs.
    """

    def step(believed: Sums) -> Step[Sums]:
        confusions = shrunk_rows(believed.by_worker, PSEUDO_ANSWERS)
        model = Model(np.log(confusions), confusions)
        flat = np.ones(engine.n_classes)  # each item has a prior of its own
        judged = engine.sweep(Judgement(Expectation.of(model, flat).table))
        posteriors = engine.whole(POSTERIORS)
        return Step(judged, judged.change, judged.log_likelihood, posteriors=posteriors)

    believed = engine.sweep(BeliefCounts())
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


@dataclass(frozen=True)
class BeliefCounts:
    """What the M-step reads if the beliefs hold."""

    writes: ClassVar[tuple[str, ...]] = ()

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, Sums]:
        return {}, sums_of(block, _prior(rows))


@dataclass(frozen=True)
class Judgement:
    """The E-step with a prior per item; `table` as in `Expectation`."""

    table: Floats

    needs: ClassVar[tuple[str, ...]] = (SLICE,)
    writes: ClassVar[tuple[str, ...]] = (POSTERIORS,)

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, Sums]:
        prior = _prior(rows)
        with np.errstate(divide="ignore"):  # gold rules classes out for good
            scores = block.matrix @ self.table + np.log(prior)
        log_normalisers = normalise_scores(scores, rows.get(GOLD))
        sums = sums_of(block, scores)
        sums.log_likelihood = float(log_normalisers.sum())
        sums.change = float(np.abs(scores - prior).max(initial=0.0))
        return {POSTERIORS: scores}, sums


def _prior(rows: RowArrays) -> Floats:
    """The beliefs as distributions, (n_block_items, n_classes)."""
    prior: Floats = np.maximum(rows[SLICE], FLOOR)
    prior /= prior.sum(axis=1, keepdims=True)
    if GOLD in rows:
        clamp(prior, rows[GOLD])
    return prior
