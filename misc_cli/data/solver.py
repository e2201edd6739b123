"""The one convergence loop."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from misc_cli.data.types import Floats, Iteration, OnIteration
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


# What ended a loop: it moved less than its tolerance, it met its limit first, or it was to make a
# set number of iterations (a tolerance of 0). Only the first is convergence.
TOLERANCE, LIMIT, FIXED = "tolerance", "limit", "fixed"
_FROM_BEST = (TOLERANCE, FIXED, LIMIT)


def joined_stops(*several: Mapping[str, str]) -> dict[str, str]:
    """What ended the loops of each stage; of several loops of one stage the worst counts."""
    joined: dict[str, str] = {}
    for stops in several:
        for stage, reason in stops.items():
            joined[stage] = max(joined.get(stage, TOLERANCE), reason, key=_FROM_BEST.index)
    return joined


@dataclass(frozen=True)
class Solution(Generic[State]):
    """Where a loop ended and why: `stopped` is TOLERANCE, LIMIT or FIXED."""

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
    """Repeat `step` until it moves less than `tol` or `max_iter` is reached.

    `tol` 0 runs all iterations. `warn` is off where stopping at the limit is the plan (sweeps);
    `limits` names the flags that a warning should point to.
    """
    end = Solution(state, 0, FIXED if tol == 0 else LIMIT, None)
    if max_iter < 1:
        return end
    walk = iterations(
        step, state, stage=stage, tol=tol, max_iter=max_iter, on_iteration=on_iteration
    )
    del state, end  # nobody needs the start any more: it may be as large as the data
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
    """The same one iteration at a time, for who wants to look at each: where it stands then."""
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
            )
        )
        settled = outcome.change < tol
        stopped = TOLERANCE if settled else FIXED if tol == 0 else LIMIT
        yield Solution(state, iteration, stopped, outcome.objective)
        if settled:
            return


def warn_unconverged(stage: str, max_iter: int, limits: str = "--max-iter or --tol") -> None:
    """Say so when the loop that counts stopped at its limit."""
    warnings.warn(
        f"{stage} did not converge in {max_iter} iterations; raise {limits}",
        ConvergenceWarning,
        stacklevel=4,
    )
