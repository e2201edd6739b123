"""One line of diagnostics and who observes it. No numeric imports: the methods' records use it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from misc_cli.data.votes import Floats


# The stage that tells what an automatic choice will cost, before it starts, and after each trial
# how much of that is done: for who watches, never part of a run's record.
COST = "cost"


@dataclass(frozen=True)
class Iteration:
    """One line of diagnostics; `posteriors` is a reference for observers and is never written."""

    stage: str
    iteration: int
    change: float | None = None
    objective: float | None = None
    seconds: float = 0.0
    pass_number: int | None = None
    extra: Mapping[str, float | int | str | None] = field(default_factory=dict)
    posteriors: Floats | None = None


OnIteration = Callable[[Iteration], None]
Lighten = Callable[[Iteration], Iteration]


def ignore_iteration(_: Iteration) -> None:
    """The observer of a run that nobody watches."""


def without_posteriors(iteration: Iteration) -> Iteration:
    """A line that is light enough to keep, or to send to another process."""
    return replace(iteration, posteriors=None)
