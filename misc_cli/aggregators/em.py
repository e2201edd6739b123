"""The EM loop that every confusion-matrix model shares; the models differ only in their M-step.

Notation and kernels: kernels.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from misc_cli.aggregators.confusion_kernels import (
    TINY,
    Expectation,
    Model,
    Sums,
    VoteFractions,
    normalise_rows,
)
from misc_cli.data.solver import Step, iterate
from misc_cli.data.types import Floats, OnIteration, Start
from misc_cli.engines.protocol import POSTERIORS, Engine, Fitted
from misc_cli.errors import ConfigError

# A leap may cost this much log-likelihood: with shrinkage a plain step may, too.
LOSS = 1.0


@dataclass(frozen=True)
class SquaremState:
    """The last steps of a warm run, for a leap; `before` is where to go back to after a bad one."""

    steps: tuple[Sums, ...] = ()
    before: Sums | None = None

    def next(self, sums: Sums) -> tuple[Sums, SquaremState]:
        """What the M-step should read after a sweep gave `sums`, and the trail from there.

        Varadhan & Roland (2008), S3, on the expected counts: of three points in a row r is the
        first step and v the change of step; the leap is x0 − 2a·r + a²·v with a = −|r| / |v|.
        """
        if self.before is not None and sums.log_likelihood < self.before.log_likelihood - LOSS:
            return self.before, SquaremState()  # it did not pay
        steps = (*self.steps, sums)
        if len(steps) < 3:
            return sums, SquaremState(steps)
        leapt = Sums(
            leap(*(step.counts for step in steps)), leap(*(step.class_sizes for step in steps))
        )
        return leapt, SquaremState(before=sums)


def leap(first: Floats, second: Floats, third: Floats) -> Floats:
    """Where three steps lead, never below zero."""
    step = second - first
    turn = (third - second) - step
    size = float(np.linalg.norm(turn))
    rate = -max(float(np.linalg.norm(step)) / size, 1.0) if size > 0.0 else -1.0
    far: Floats = np.maximum(first - 2.0 * rate * step + rate**2 * turn, 0.0)
    return far


Estimate = Callable[[Floats], Model]
EstimatePrior = Callable[[Floats], Floats]


@dataclass(frozen=True)
class State:
    """What the next M-step reads, and the last one's outcome; the posteriors are the engine's."""

    sums: Sums
    model: Model | None
    class_prior: Floats
    trail: SquaremState | None = None


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
    first = State(sums, None, prior_of(sums.class_sizes), SquaremState() if warm else None)
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
