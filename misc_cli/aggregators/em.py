"""The EM loop of all confusion-matrix models, which differ only in their M-step; and SQUAREM.

Notation and kernels: confusion_kernels.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from misc_cli.aggregators.dawid_skene import DawidSkene, MeanField, OneCoin

# An extrapolation may cost this much log-likelihood: with shrinkage a plain step may, too.
LOSS = 1.0

Estimate = Callable[[Floats], Model]
EstimatePrior = Callable[[Floats], Floats]


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


@dataclass(frozen=True)
class EmState:
    """Sums for the next M-step, and the last model; the posteriors are rows of the engine."""

    sums: Sums
    model: Model | None
    class_prior: Floats
    squarem: Squarem | None = None


def estimated_prior(class_sizes: Floats) -> Floats:
    # eq. 2.4: p_c = Σ_i T_ic / n_items; the epsilon keeps an empty class's logarithm finite
    prior: Floats = (class_sizes + TINY) / (class_sizes + TINY).sum()
    return prior


def prior_rule(name: str) -> EstimatePrior:
    """Return the rule for `--class-prior`: "uniform" or "estimated"."""
    if name == "estimated":
        return estimated_prior
    return lambda class_sizes: np.full(len(class_sizes), 1.0 / len(class_sizes))


def fit_confusions(
    method: OneCoin | DawidSkene | MeanField,
    stage: str,
    estimate: Estimate,
    engine: Engine,
    on_iteration: OnIteration,
    start: Start | None,
    missing: str = "ignored",
) -> Fitted:
    """Fit a confusion-matrix model by EM; `estimate` is its M-step.

    EM starts from vote fractions, or from an E-step with the confusions of `start`. With
    `missing` "informative" no answer is one more label that a worker may give, never a class.
    """
    prior_of = prior_rule(method.class_prior)
    pseudo = None if start is None else start.pseudo_counts
    informative = missing == "informative"
    if informative and start is not None:
        raise ConfigError("--missing informative knows no earlier run: it cannot go on from one")

    def maximise(sums: Sums) -> Model:
        if informative:
            return estimate(sums.with_silence)
        return estimate(sums.by_worker if pseudo is None else sums.by_worker + pseudo)

    def step(state: EmState) -> Step[EmState]:
        known, squarem = state.sums, state.squarem
        if squarem is not None:
            known, squarem = squarem.next(known)
        model = maximise(known)
        prior = prior_of(known.class_sizes)
        sums = engine.sweep(Expectation.of(model, prior))
        return Step(
            EmState(sums, model, prior, squarem),
            sums.change,
            None if model.penalty is None else sums.log_likelihood - model.penalty,
            posteriors=engine.whole(POSTERIORS),
            extra={} if model.penalty is not None else {"log_likelihood": sums.log_likelihood},
        )

    sums = engine.sweep(first_posteriors(start, prior_of))
    warm = start is not None and start.confusions is not None
    first = EmState(sums, None, prior_of(sums.class_sizes), Squarem() if warm else None)
    solution = iterate(
        step,
        first,
        stage=stage,
        tol=method.tol,
        max_iter=method.max_iter,
        on_iteration=on_iteration,
    )
    end = solution.state
    model = end.model if end.model is not None else maximise(end.sums)
    confusions = model.confusions
    if informative:  # given that the worker answers
        confusions = normalise_rows(confusions[:, :, :-1])
    return Fitted(
        confusions=confusions,
        class_prior=end.class_prior,
        iterations=solution.iterations,
        stopped={stage: solution.stopped},
        objective=solution.objective,
    )


def first_posteriors(start: Start | None, prior_of: EstimatePrior) -> VoteFractions | Expectation:
    """Return the kernel of the first posteriors: vote fractions, or an earlier fit's E-step."""
    if start is None or start.confusions is None or start.class_prior is None:
        return VoteFractions()
    model = Model(np.log(start.confusions + TINY), start.confusions)
    return Expectation.of(model, prior_of(start.class_prior))
