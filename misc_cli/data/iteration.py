"""`Iteration`, one line of diagnostics, and the types of its observers.

No numeric imports: the light records of methods use this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from misc_cli.data.votes import Floats


@dataclass(frozen=True)
class Iteration:
    """One line of diagnostics. `posteriors` is for observers and is never written."""

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
    """Do nothing: the default observer."""


def without_posteriors(iteration: Iteration) -> Iteration:
    """Return the line without its array, light enough to keep or to send to a process."""
    return replace(iteration, posteriors=None)
