"""Base of methods that run on engines. No numeric imports, because method records use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from misc_cli.data.iteration import OnIteration, ignore_iteration

if TYPE_CHECKING:
    from misc_cli.data.types import Aggregation, Labels
    from misc_cli.engines.protocol import EngineMethod


class OnEngines:
    """A method for engines that can be called on labels in memory, as every aggregator."""

    def __call__(
        self: EngineMethod, labels: Labels, on_iteration: OnIteration = ignore_iteration
    ) -> Aggregation:
        from misc_cli.engines.local import LocalEngine
        from misc_cli.engines.protocol import gathered

        engine = LocalEngine.of(labels)
        return gathered(engine, self.solve(engine, on_iteration, labels.start))
