"""Methods that turn votes into posteriors, and the parameters that several of them share.

No numeric imports: records of methods are read for the help.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from misc_cli.data.parameters import COUNT, WEIGHT, parameter
from misc_cli.data.solver import OnIteration, ignore_iteration

if TYPE_CHECKING:
    from misc_cli.data.types import Aggregation, Labels
    from misc_cli.engines.protocol import EngineMethod


class OnEngines:
    """A method for engines that can be called on labels in memory, as every aggregator."""

    def __call__(
        self: EngineMethod, labels: Labels, on_iteration: OnIteration = ignore_iteration
    ) -> Aggregation:
        from misc_cli.engines.local import MemoryEngine
        from misc_cli.engines.protocol import gathered

        engine = MemoryEngine(labels)
        return gathered(engine, self.solve(engine, on_iteration, labels.start))


def class_prior(default: str = "estimated") -> Any:
    text = "How common the classes are taken to be."
    return parameter(default, text, choices=("estimated", "uniform"))


def shrinkage(default: float = 2.0) -> Any:
    return parameter(default, "Pseudo-answers that pull a worker towards the crowd.", WEIGHT)


def diagonal(default: float) -> Any:
    return parameter(default, "Pseudo-answers on the true class.", WEIGHT)


def off_diagonal(default: float) -> Any:
    return parameter(default, "Pseudo-answers on every other class.", WEIGHT)


def missing() -> Any:
    text = "No answer says nothing, or is a label that was said (workers who abstain on purpose)."
    return parameter("ignored", text, choices=("ignored", "informative"))


def tol(default: float = 1e-3) -> Any:
    text = "Stop when posteriors move less than this; 0 runs all iterations."
    return parameter(default, text, WEIGHT)


def max_iter(default: int = 100) -> Any:
    return parameter(default, "Iterations at most.", COUNT)
