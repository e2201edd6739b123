"""Kernels and EM of the models with one confusion matrix per worker: ds-em, ds-mf, one-coin, mv.

Dawid & Skene 1979 (doi:10.2307/2346806):
    n_w[ck] → by_worker[w, c, k]   expected answers, Σ_i T_ic · [worker w answered k on i]
    π_w[ck] → confusions[w, c, k]  ∝ n_w[ck]                                     (eq. 2.3)
    p_c     → class_prior[c]       ∝ Σ_i T_ic = class_sizes[c]                   (eq. 2.4)
    T_ic    → posteriors[i, c]     ∝ p_c · Π_w π_w[c, x_wi]                      (eq. 2.5)

The M-steps stand with their methods. The last part of this file is one step with a prior per item,
S_ic instead of p_c: the final step of the completion loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from misc_cli.data.posteriors import clamp, normalise_scores
from misc_cli.data.solver import Iteration, Step, iterate
from misc_cli.data.types import Floats, Labels, OnIteration, Start
from misc_cli.engines.local import LocalEngine
from misc_cli.engines.protocol import (
    GOLD,
    LARGEST,
    POSTERIORS,
    SLICE,
    Block,
    Engine,
    Fitted,
    RowArrays,
    Summed,
    SumOver,
)

if TYPE_CHECKING:
    from misc_cli.aggregators.methods import DawidSkene, MeanField, OneCoin

# Keeps the logarithm of an empty cell finite.
TINY = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Model:
    """The outcome of an M-step: E[log π] for the next E-step, and π, both (n_workers, K, K).

    The objective that the steps raise is the log-likelihood less `penalty`; None: no objective.
    """

    log_confusions: Floats
    confusions: Floats
    penalty: float | None = 0.0


@dataclass
class Sums(Summed):
    """Sums over all blocks for the next M-step.

    counts       expected, (n_workers * n_classes observed, n_classes true)
    class_sizes  Σ_i T_ic, (n_classes,)
    """

    counts: Floats
    class_sizes: Floats
    log_likelihood: float = 0.0
    change: float = field(default=0.0, metadata=LARGEST)

    @property
    def by_worker(self) -> Floats:
        """Return n_w[ck], (n_workers, n_classes true, n_classes observed)."""
        n_classes = self.counts.shape[1]
        return self.counts.reshape(-1, n_classes, n_classes).transpose(0, 2, 1)


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
class Expectation:
    """The E-step (eq. 2.5), which also adds up the sums for the next M-step.

    table      (n_workers * n_classes, n_classes): row (w, k) is E[log π_w[c, k]] for every c
    log_prior  (n_classes,); None: every item has a prior of its own, its slice

    The old posteriors (or the slice) are read to measure the change; without any, the change is 1.
    """

    table: Floats
    log_prior: Floats | None

    writes: ClassVar[tuple[str, ...]] = (POSTERIORS,)

    @property
    def needs(self) -> tuple[str, ...]:
        return (SLICE,) if self.log_prior is None else ()

    @classmethod
    def of(cls, model: Model, class_prior: Floats | None) -> Expectation:
        log_prior = None if class_prior is None else np.log(class_prior)
        by_answer = np.ascontiguousarray(model.log_confusions.transpose(0, 2, 1))
        return cls(by_answer.reshape(-1, by_answer.shape[2]), log_prior)

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, Sums]:
        matrix = block.matrix
        # eq. 2.5 in logs: T_ic ∝ p_c · Π_w π_w[c, x_wi]
        scores = matrix @ self.table
        before = rows.get(POSTERIORS)
        if self.log_prior is None:
            before = _item_prior(rows)
            with np.errstate(divide="ignore"):  # the prior of a gold item has zeros
                scores += np.log(before)
        log_normalisers = normalise_scores(scores, rows.get(GOLD), self.log_prior)
        moved = np.ones((1, 1)) if before is None else before - scores
        sums = Sums(
            counts=matrix.T @ scores,
            class_sizes=np.ones(len(scores)) @ scores,  # several times faster than sum(axis=0)
            log_likelihood=float(log_normalisers.sum()),
            change=float(max(moved.max(initial=0.0), -moved.min(initial=0.0))),
        )
        return {POSTERIORS: scores}, sums


def expected_sums(block: Block, rows: RowArrays) -> Sums:
    """Return the sums of a block with its current posteriors: n_w[ck] for a `SumOver`."""
    return sums_of(block, rows[POSTERIORS])


def sums_of(block: Block, posteriors: Floats) -> Sums:
    """Return the sums of a block with these posteriors."""
    return Sums(block.matrix.T @ posteriors, np.ones(len(posteriors)) @ posteriors)


def expected_counts(labels: Labels, posteriors: Floats) -> Floats:
    """Return n_w[ck] = Σ_i T_ic · [worker w answered k on i], (n_workers, K, K)."""
    engine = LocalEngine(labels.votes, {POSTERIORS: posteriors})
    return engine.sweep(SumOver(expected_sums)).by_worker


def crowd_rows(counts: Floats) -> Floats:
    """Return the mean confusions of the crowd, (K, K), towards which workers are shrunk."""
    return normalise_rows(counts.sum(axis=0))


def shrunk_rows(counts: Floats, shrinkage: float) -> Floats:
    """Return confusions of counts (n_workers, K, K), each row with `shrinkage` crowd answers."""
    return normalise_rows(counts + shrinkage * normalise_rows(counts.sum(axis=0)))


def confusions_of(labels: Labels, posteriors: Floats, shrinkage: float) -> Floats:
    """Return the confusions of workers given these posteriors, (n_workers, K, K)."""
    return shrunk_rows(expected_counts(labels, posteriors), shrinkage)


def normalise_rows(counts: Floats) -> Floats:
    """Return rows that sum to 1; the epsilon makes a row without counts uniform."""
    smoothed = counts + TINY
    rows: Floats = smoothed / smoothed.sum(axis=-1, keepdims=True)
    return rows


# An extrapolation may cost this much log-likelihood: with shrinkage a plain step may, too.
LOSS = 1.0


@dataclass(frozen=True)
class Squarem:
    """SQUAREM, scheme S3 (Varadhan & Roland 2008, doi:10.1111/j.1467-9469.2007.00585.x).

    It accelerates warm starts. The points x are expected counts; `steps` holds the last of them,
    `before` the one to return to if an extrapolation did not pay.
    """

    steps: tuple[Sums, ...] = ()
    before: Sums | None = None

    def next(self, sums: Sums) -> tuple[Sums, Squarem]:
        """Return the sums for the next M-step, after a sweep gave `sums`, and the new state."""
        if self.before is not None and sums.log_likelihood < self.before.log_likelihood - LOSS:
            return self.before, Squarem()
        steps = (*self.steps, sums)
        if len(steps) < 3:
            return sums, Squarem(steps)
        counts = extrapolate(*(step.counts for step in steps))
        class_sizes = extrapolate(*(step.class_sizes for step in steps))
        return Sums(counts, class_sizes), Squarem(before=sums)


def extrapolate(first: Floats, second: Floats, third: Floats) -> Floats:
    """Return x0 − 2a·r + a²·v, never below zero: r = x1 − x0, v = x2 − 2·x1 + x0, a = −|r|/|v|."""
    r = second - first
    v = (third - second) - r
    length = float(np.linalg.norm(v))
    a = -max(float(np.linalg.norm(r)) / length, 1.0) if length > 0.0 else -1.0
    far: Floats = np.maximum(first - 2.0 * a * r + a**2 * v, 0.0)
    return far


# Sums for the next M-step, the last model and class prior; the posteriors are rows of the engine.
EmState = tuple[Sums, Model | None, Floats, Squarem | None]


def prior_of(rule: str, class_sizes: Floats) -> Floats:
    """Return the class prior by the rule of `--class-prior`, "uniform" or "estimated"."""
    if rule == "uniform":
        return np.full(len(class_sizes), 1.0 / len(class_sizes))
    # eq. 2.4: p_c = Σ_i T_ic / n_items; the epsilon keeps an empty class's logarithm finite
    prior: Floats = (class_sizes + TINY) / (class_sizes + TINY).sum()
    return prior


def fit_confusions(
    method: OneCoin | DawidSkene | MeanField,
    engine: Engine,
    on_iteration: OnIteration,
    start: Start | None,
) -> Fitted:
    """Fit a confusion-matrix model by EM.

    EM starts from vote fractions, or from an E-step with the confusions of `start`.
    """

    def step(state: EmState) -> Step[EmState]:
        known, _, _, squarem = state
        if squarem is not None:
            known, squarem = squarem.next(known)
        model = method.estimate(known.by_worker)
        prior = prior_of(method.class_prior, known.class_sizes)
        sums = engine.sweep(Expectation.of(model, prior))
        return Step(
            (sums, model, prior, squarem),
            sums.change,
            None if model.penalty is None else sums.log_likelihood - model.penalty,
            posteriors=engine.whole(POSTERIORS),
            extra={} if model.penalty is not None else {"log_likelihood": sums.log_likelihood},
        )

    sums = engine.sweep(first_posteriors(start, method.class_prior))
    warm = start is not None and start.confusions is not None
    prior = prior_of(method.class_prior, sums.class_sizes)
    first: EmState = (sums, None, prior, Squarem() if warm else None)
    solution = iterate(
        step,
        first,
        stage=method.name,
        tol=method.tol,
        max_iter=method.max_iter,
        on_iteration=on_iteration,
    )
    sums, model, prior, _ = solution.state
    return Fitted(
        confusions=(model or method.estimate(sums.by_worker)).confusions,
        class_prior=prior,
        iterations=solution.iterations,
        stopped={method.name: solution.stopped},
        objective=solution.objective,
    )


def first_posteriors(start: Start | None, rule: str) -> VoteFractions | Expectation:
    """Return the kernel of the first posteriors: vote fractions, or an earlier fit's E-step."""
    if start is None or start.confusions is None or start.class_prior is None:
        return VoteFractions()
    model = Model(np.log(start.confusions + TINY), start.confusions)
    return Expectation.of(model, prior_of(rule, start.class_prior))


# Least prior of a class before normalising; a likely class is of order one.
FLOOR = 0.01
# Pseudo-answers per class that shrink confusions towards the crowd.
PSEUDO_ANSWERS = 0.5


def judge(engine: Engine, on_iteration: OnIteration) -> Fitted:
    """Fit one Dawid–Skene step on an engine whose slice is the prior of each item.

    The slice may have any scale and sign. A single step on purpose: repeated, the answers would
    outweigh the prior.
    """

    believed = engine.sweep(SumOver(_slice_sums))
    confusions = shrunk_rows(believed.by_worker, PSEUDO_ANSWERS)
    judged = engine.sweep(Expectation.of(Model(np.log(confusions), confusions), None))
    objective, posteriors = judged.log_likelihood, engine.whole(POSTERIORS)
    on_iteration(Iteration("answers", 1, judged.change, objective, posteriors=posteriors))
    return Fitted(
        confusions=shrunk_rows(judged.by_worker, PSEUDO_ANSWERS),
        class_prior=judged.class_sizes / engine.n_items,
        iterations=1,
        objective=objective,
    )


def _slice_sums(block: Block, rows: RowArrays) -> Sums:
    """Return n_w[ck] with the item priors as posteriors (eq. 2.3)."""
    return sums_of(block, _item_prior(rows))


def _item_prior(rows: RowArrays) -> Floats:
    """Return the slice as distributions, (n_block_items, n_classes)."""
    prior: Floats = np.maximum(rows[SLICE], FLOOR)
    prior /= prior.sum(axis=1, keepdims=True)
    if GOLD in rows:
        clamp(prior, rows[GOLD])
    return prior
