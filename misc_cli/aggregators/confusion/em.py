"""The EM loop that every confusion-matrix model shares; the models differ only in their M-step.

Notation (Dawid & Skene 1979, doi:10.2307/2346806):
    T_ic    → posteriors[i, c]            probability that item i is of class c
    π_w[ck] → confusions[w, c, k]         probability that worker w answers k when the truth is c
    p_c     → class_prior[c]
    n_w[ck] → counts[w, c, k]             expected number of times worker w answered k to a true c
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from misc_cli.core.engines.local import LocalEngine
from misc_cli.core.engines.protocol import (
    GOLD,
    POSTERIORS,
    Block,
    Engine,
    Fitted,
    RowArrays,
)
from misc_cli.core.engines.sums import LARGEST, Summed
from misc_cli.core.logdomain import clamp, normalise_scores
from misc_cli.core.solver import Step, iterate
from misc_cli.core.start import Start
from misc_cli.core.types import Floats, Labels, OnIteration
from misc_cli.errors import ConfigError

TINY = float(np.finfo(np.float64).eps)
# A leap may cost this much log-likelihood: with shrinkage a plain step may, too.
LOSS = 1.0


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


Estimate = Callable[[Floats], Model]
EstimatePrior = Callable[[Floats], Floats]


@dataclass
class Sums(Summed):
    """What a sweep adds up over the blocks.

    counts       (n_workers * n_classes observed, n_classes true)
    class_sizes  (n_classes,): Σ_i T_ic
    """

    counts: Floats
    class_sizes: Floats
    log_likelihood: float = 0.0
    change: float = field(default=0.0, metadata=LARGEST)

    @property
    def by_worker(self) -> Floats:
        """n_w[ck], (n_workers, n_classes true, n_classes observed)."""
        n_classes = self.counts.shape[1]
        return self.counts.reshape(-1, n_classes, n_classes).transpose(0, 2, 1)

    @property
    def with_silence(self) -> Floats:
        """The same with one more column: Σ_i T_ic over the items i that w gave no answer to."""
        answered = self.by_worker
        silent = np.maximum(self.class_sizes - answered.sum(axis=2), 0.0)
        return np.concatenate([answered, silent[:, :, None]], axis=2)


@dataclass(frozen=True)
class Trail:
    """The last steps of a warm run, for a leap; `before` is where to go back to after a bad one."""

    steps: tuple[Sums, ...] = ()
    before: Sums | None = None

    def next(self, sums: Sums) -> tuple[Sums, Trail]:
        """What the M-step should read after a sweep gave `sums`, and the trail from there.

        Varadhan & Roland (2008), S3, on the expected counts: of three points in a row r is the
        first step and v the change of step; the leap is x0 − 2a·r + a²·v with a = −|r| / |v|.
        """
        if self.before is not None and sums.log_likelihood < self.before.log_likelihood - LOSS:
            return self.before, Trail()  # it did not pay
        steps = (*self.steps, sums)
        if len(steps) < 3:
            return sums, Trail(steps)
        leapt = Sums(
            leap(*(step.counts for step in steps)), leap(*(step.class_sizes for step in steps))
        )
        return leapt, Trail(before=sums)


def leap(first: Floats, second: Floats, third: Floats) -> Floats:
    """Where three steps lead, never below zero."""
    step = second - first
    turn = (third - second) - step
    size = float(np.linalg.norm(turn))
    rate = -max(float(np.linalg.norm(step)) / size, 1.0) if size > 0.0 else -1.0
    far: Floats = np.maximum(first - 2.0 * rate * step + rate**2 * turn, 0.0)
    return far


@dataclass(frozen=True)
class State:
    """What the next M-step reads, and the last one's outcome; the posteriors are the engine's."""

    sums: Sums
    model: Model | None
    class_prior: Floats
    trail: Trail | None = None


def uniform_prior(class_sizes: Floats) -> Floats:
    return np.full(len(class_sizes), 1.0 / len(class_sizes))


def estimated_prior(class_sizes: Floats) -> Floats:
    # eq. 2.4: p_c = Σ_i T_ic / n_items; the epsilon keeps an empty class's logarithm finite
    prior: Floats = (class_sizes + TINY) / (class_sizes + TINY).sum()
    return prior


CLASS_PRIORS: dict[str, EstimatePrior] = {"uniform": uniform_prior, "estimated": estimated_prior}


def prior_rule(name: str) -> EstimatePrior:
    """The rule of this name."""
    if name not in CLASS_PRIORS:
        raise ConfigError(f"--class-prior {name}: choose from {', '.join(CLASS_PRIORS)}")
    return CLASS_PRIORS[name]


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


def fit_confusions(
    engine: Engine,
    estimate: Estimate,
    *,
    class_prior: str,
    missing: str = "ignored",
    stage: str,
    tol: float,
    max_iter: int,
    on_iteration: OnIteration,
    start: Start | None = None,
) -> Fitted:
    """EM: `estimate` is the M-step, the E-step is the same for all.

    It begins at vote fractions, or with an E-step of the confusions that `start` has. With
    `missing` "informative" no answer is one more label that a worker may say, never a class.
    """
    prior_of = prior_rule(class_prior)
    pseudo = None if start is None else start.pseudo_counts
    informative = missing == "informative"
    if informative and start is not None:
        raise ConfigError("--missing informative knows no earlier run: it cannot go on from one")

    def maximise(sums: Sums) -> Model:
        if informative:
            return estimate(sums.with_silence)
        return estimate(sums.by_worker if pseudo is None else sums.by_worker + pseudo)

    def step(state: State) -> Step[State]:
        known, trail = state.sums, state.trail
        if trail is not None:
            known, trail = trail.next(known)
        model = maximise(known)
        prior = prior_of(known.class_sizes)
        sums = engine.sweep(Expectation.of(model, prior))
        return Step(
            State(sums, model, prior, trail),
            sums.change,
            None if model.penalty is None else sums.log_likelihood - model.penalty,
            posteriors=engine.whole(POSTERIORS),
            extra={} if model.penalty is not None else {"log_likelihood": sums.log_likelihood},
        )

    sums = engine.sweep(first_step(start, prior_of))
    warm = start is not None and start.confusions is not None
    first = State(sums, None, prior_of(sums.class_sizes), Trail() if warm else None)
    solution = iterate(
        step, first, stage=stage, tol=tol, max_iter=max_iter, on_iteration=on_iteration
    )
    end = solution.state
    model = end.model if end.model is not None else maximise(end.sums)
    confusions = model.confusions
    if informative:  # what a worker says if it says anything
        confusions = normalise_rows(confusions[:, :, :-1])
    return Fitted(
        confusions=confusions,
        class_prior=end.class_prior,
        iterations=solution.iterations,
        stopped={stage: solution.stopped},
        objective=solution.objective,
    )


def first_step(start: Start | None, prior_of: EstimatePrior) -> VoteFractions | Expectation:
    """The kernel that makes the first posteriors: of the votes, or of an earlier fit's model."""
    if start is None or start.confusions is None or start.class_prior is None:
        return VoteFractions()
    model = Model(np.log(start.confusions + TINY), start.confusions)
    return Expectation.of(model, prior_of(start.class_prior))


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
