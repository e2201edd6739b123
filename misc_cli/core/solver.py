"""The one convergence loop, and the log-domain arithmetic every E-step shares."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from misc_cli.errors import ConvergenceWarning
from misc_cli.types import Codes, Floats, Iteration, OnIteration

State = TypeVar("State")


@dataclass(frozen=True)
class Step(Generic[State]):
    """The outcome of one iteration: the new state, how far it moved, how good it is."""

    state: State
    change: float
    objective: float | None = None
    posteriors: Floats | None = None
    extra: Mapping[str, float | int | str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Solution(Generic[State]):
    """Where a loop ended."""

    state: State
    iterations: int
    converged: bool
    objective: float | None


def iterate(
    step: Callable[[State], Step[State]],
    state: State,
    *,
    stage: str,
    tol: float,
    max_iter: int,
    on_iteration: OnIteration,
    warn: bool = True,
    limits: str = "--max-iter or --tol",
) -> Solution[State]:
    """Repeat `step` until it moves less than `tol` or `max_iter` is reached.

    `tol` 0 runs all iterations. `warn` is off where stopping at the limit is the plan (sweeps);
    `limits` names the flags that a warning should point to.
    """
    objective: float | None = None
    for iteration in range(1, max_iter + 1):
        started = time.perf_counter()
        outcome = step(state)
        state, objective = outcome.state, outcome.objective
        on_iteration(
            Iteration(
                stage=stage,
                iteration=iteration,
                change=outcome.change,
                objective=objective,
                seconds=time.perf_counter() - started,
                extra=outcome.extra,
                posteriors=outcome.posteriors,
            )
        )
        if outcome.change < tol:
            return Solution(state, iteration, True, objective)
    if warn and tol > 0:
        warn_unconverged(stage, max_iter, limits)
    return Solution(state, max_iter, tol == 0, objective)


def warn_unconverged(stage: str, max_iter: int, limits: str = "--max-iter or --tol") -> None:
    """Say so when the loop that counts stopped at its limit."""
    warnings.warn(
        f"{stage} did not converge in {max_iter} iterations; raise {limits}",
        ConvergenceWarning,
        stacklevel=4,
    )


def normalise_scores(
    scores: Floats, gold: Codes | None = None, log_prior: Floats | None = None
) -> Floats:
    """Turn log scores (n, n_classes) into posteriors in place; return each row's log normaliser.

    The work happens class by class: numpy is slow along the short axis of a tall array.
    `gold` (n,) holds known classes, -1 elsewhere; their rows become certain, and their normaliser
    is the known class's score: no other class is part of the likelihood.
    `log_prior` (n_classes,) is added to every row.
    """
    offsets = 0.0 if log_prior is None else log_prior[:, None]
    by_class = np.add(scores.T, offsets, order="C")
    if gold is None:
        return _normalise_classes(by_class, scores)
    known = np.flatnonzero(gold >= 0)
    of_known = by_class[gold[known], known]
    log_normalisers = _normalise_classes(by_class, scores)
    log_normalisers[known] = of_known
    clamp(scores, gold)
    return log_normalisers


def _normalise_classes(by_class: Floats, posteriors: Floats) -> Floats:
    """Posteriors (n, n_classes) of the log scores `by_class` (n_classes, n), which are used up."""
    top = by_class.max(axis=0)
    by_class -= top
    np.exp(by_class, out=by_class)
    total: Floats = by_class.sum(axis=0)
    for column, weights in zip(posteriors.T, by_class, strict=True):
        np.divide(weights, total, out=column)
    np.log(total, out=total)
    total += top
    return total


def clamp(posteriors: Floats, gold: Codes) -> None:
    """Make the rows of items with a known class certain, in place."""
    known = np.flatnonzero(gold >= 0)
    posteriors[known] = 0.0
    posteriors[known, gold[known]] = 1.0
