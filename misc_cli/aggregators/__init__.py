"""Methods that turn votes into posteriors, and the parameters that several of them share.

No numeric imports: records of methods are read for the help.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from misc_cli.data.parameters import COUNT, WEIGHT, Parameter
from misc_cli.data.solver import Iteration, OnIteration, ignore_iteration
from misc_cli.errors import ConfigError

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


# Parameters that several methods have.
SHARED = {
    "class_prior": Parameter(
        "How common the classes are taken to be.", choices=("estimated", "uniform")
    ),
    "shrinkage": Parameter("Pseudo-answers that pull a worker towards the crowd.", WEIGHT),
    "diagonal": Parameter("Pseudo-answers on the true class.", WEIGHT),
    "off_diagonal": Parameter("Pseudo-answers on every other class.", WEIGHT),
    "missing": Parameter(
        "No answer says nothing, or is a label that was said (workers who abstain on purpose).",
        choices=("ignored", "informative"),
    ),
    "tol": Parameter("Stop when posteriors move less than this; 0 runs all iterations.", WEIGHT),
    "max_iter": Parameter("Iterations at most.", COUNT),
}


def shared(name: str, default: Any) -> Any:
    """Return the declaration of a shared parameter with a method's own default."""
    return field(default=default, metadata={"parameter": SHARED[name]})


# Pseudo-answers per class that pull the confusions of a worker towards the crowd's.
VOTE_SHRINKAGE = 0.5


@dataclass(frozen=True)
class CustomAggregator:
    """An own method: `function(labels)` returns posteriors, or an Aggregation with more than that.

    Posteriors are (n_items, n_classes), not negative; rows are scaled to sum to 1, and a row of
    zeros says nothing of its item. Confusions and class shares are estimated from them.
    """

    function: Callable[[Labels], Any]

    @property
    def name(self) -> str:
        """Return the function's name, or that of its class."""
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def __call__(self, labels: Labels, on_iteration: OnIteration = ignore_iteration) -> Aggregation:
        import numpy as np

        from misc_cli.aggregators.confusion_kernels import confusions_of
        from misc_cli.data.posteriors import clamp
        from misc_cli.data.types import Aggregation

        found = self.function(labels)
        if isinstance(found, Aggregation):
            return found
        posteriors = np.array(found, dtype=np.float64)
        expected = (labels.n_items, labels.n_classes)
        sound = posteriors.shape == expected and np.isfinite(posteriors).all()
        if not sound or (posteriors < 0).any():
            raise ConfigError(
                f"aggregator {self.name} returned an array of shape {posteriors.shape}; posteriors "
                f"are items × classes, {expected}, finite and not negative"
            )
        sums = posteriors.sum(axis=1, keepdims=True)
        posteriors = np.where(sums > 0, posteriors, 1.0)
        posteriors /= posteriors.sum(axis=1, keepdims=True)
        if labels.gold is not None:
            clamp(posteriors, labels.gold)
        on_iteration(Iteration(self.name, 1, change=0.0, posteriors=posteriors))
        return Aggregation(
            posteriors=posteriors,
            confusions=confusions_of(labels, posteriors, VOTE_SHRINKAGE),
            class_prior=posteriors.mean(axis=0),
            iterations=1,
        )
