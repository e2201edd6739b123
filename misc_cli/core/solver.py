"""The one convergence loop."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from misc_cli.core.types import Floats, Iteration, OnIteration
from misc_cli.errors import ConvergenceWarning

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
