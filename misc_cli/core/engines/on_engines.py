"""The base of methods that are written for engines. No numeric imports: their records use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from misc_cli.core.iteration import OnIteration, ignore_iteration

if TYPE_CHECKING:
    from misc_cli.core.engines.protocol import EngineMethod
    from misc_cli.core.types import Aggregation, Labels


class OnEngines:
    """A method written for engines, called as every aggregator is: on labels in memory."""

    def __call__(
        self: EngineMethod, labels: Labels, on_iteration: OnIteration = ignore_iteration
    ) -> Aggregation:
        from misc_cli.core.engines.local import LocalEngine
        from misc_cli.core.engines.protocol import gathered

        engine = LocalEngine.of(labels)
        return gathered(engine, self.solve(engine, on_iteration, labels.start))
