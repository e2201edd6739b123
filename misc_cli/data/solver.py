"""The one convergence loop, on which every iterative method runs, and its diagnostics.

No numeric imports: the light records of methods use this module.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from misc_cli.errors import ConvergenceWarning

if TYPE_CHECKING:
    from misc_cli.data.votes import Floats

State = TypeVar("State")


@dataclass(frozen=True)
class Iteration:
    """One line of diagnostics. `posteriors`, `limit` and `target` are for observers, never written.

    A loop ends when `change` is below `target`, or after `limit` iterations.
    """

    stage: str
    iteration: int
    change: float | None = None
    objective: float | None = None
    seconds: float = 0.0
    pass_number: int | None = None
    extra: Mapping[str, float | int | str | None] = field(default_factory=dict)
    posteriors: Floats | None = None
    limit: int | None = None
    target: float | None = None


OnIteration = Callable[[Iteration], None]
Lighten = Callable[[Iteration], Iteration]


def ignore_iteration(_: Iteration) -> None:
    """Do nothing: the default observer."""


def without_posteriors(iteration: Iteration) -> Iteration:
    """Return the line without its array, light enough to keep or to send to a process."""
    return replace(iteration, posteriors=None)


@dataclass(frozen=True)
class Step(Generic[State]):
    """The outcome of one iteration: new state, size of the change, objective."""

    state: State
    change: float
    objective: float | None = None
    posteriors: Floats | None = None
    extra: Mapping[str, float | int | str | None] = field(default_factory=dict)


# Reasons why a loop ended: it changed less than its tolerance, it reached its limit first, or it
# was to make a fixed number of iterations (tolerance 0). Only the first is convergence.
TOLERANCE, LIMIT, FIXED = "tolerance", "limit", "fixed"
_FROM_BEST = (TOLERANCE, FIXED, LIMIT)


def joined_stops(*several: Mapping[str, str]) -> dict[str, str]:
    """Return why the loops of each stage ended; of several loops of a stage the worst counts."""
    joined: dict[str, str] = {}
    for stops in several:
        for stage, reason in stops.items():
            joined[stage] = max(joined.get(stage, TOLERANCE), reason, key=_FROM_BEST.index)
    return joined


@dataclass(frozen=True)
class Solution(Generic[State]):
    """The last state of a loop; `stopped` is TOLERANCE, LIMIT or FIXED."""

    state: State
    iterations: int
    stopped: str
    objective: float | None

    @property
    def converged(self) -> bool:
        return self.stopped == TOLERANCE


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
    """Repeat `step` until it changes less than `tol` or `max_iter` is reached.

    `tol` 0 runs all iterations. `warn` is off where stopping at the limit is the plan (sweeps);
    `limits` names the flags that a warning should point to.
    """
    end = Solution(state, 0, FIXED if tol == 0 else LIMIT, None)
    if max_iter < 1:
        return end
    walk = iterations(
        step, state, stage=stage, tol=tol, max_iter=max_iter, on_iteration=on_iteration
    )
    del state, end  # free the start: it may be as large as the data
    for end in walk:  # noqa: B007 (the last one is the result)
        pass
    if warn and end.stopped == LIMIT:
        warn_unconverged(stage, max_iter, limits)
    return end


def iterations(
    step: Callable[[State], Step[State]],
    state: State,
    *,
    stage: str,
    tol: float,
    max_iter: int,
    on_iteration: OnIteration,
) -> Iterator[Solution[State]]:
    """Yield the solution so far after each iteration of the loop of `iterate`."""
    for iteration in range(1, max_iter + 1):
        started = time.perf_counter()
        outcome = step(state)
        state = outcome.state
        on_iteration(
            Iteration(
                stage=stage,
                iteration=iteration,
                change=outcome.change,
                objective=outcome.objective,
                seconds=time.perf_counter() - started,
                extra=outcome.extra,
                posteriors=outcome.posteriors,
                limit=max_iter,
                target=tol or None,
            )
        )
        converged = outcome.change < tol
        stopped = TOLERANCE if converged else FIXED if tol == 0 else LIMIT
        yield Solution(state, iteration, stopped, outcome.objective)
        if converged:
            return


def warn_unconverged(stage: str, max_iter: int, limits: str = "--max-iter or --tol") -> None:
    """Warn that a loop stopped at its limit."""
    warnings.warn(
        f"{stage} did not converge in {max_iter} iterations; raise {limits}",
        ConvergenceWarning,
        stacklevel=4,
    )
