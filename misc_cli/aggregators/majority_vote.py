"""mv: majority vote. The posterior of a class is its share of the votes on the item."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from misc_cli.data.iteration import Iteration, OnIteration
from misc_cli.engines.on_engines import OnEngines

if TYPE_CHECKING:
    from misc_cli.data.types import Start
    from misc_cli.engines.protocol import Engine, Fitted

# Pseudo-answers per class that pull the confusions of a worker towards the crowd's.
SHRINKAGE = 0.5


@dataclass(frozen=True)
class MajorityVote(OnEngines):
    """mv, without parameters. Confusions compare answers with vote fractions.

    Its confidence is the share of the votes, as people expect: it is not calibrated.
    """

    calibratable: ClassVar[bool] = False

    def solve(
        self, engine: Engine, on_iteration: OnIteration, start: Start | None = None
    ) -> Fitted:
        from misc_cli.aggregators.confusion_kernels import VoteFractions, shrunk_rows
        from misc_cli.engines.protocol import POSTERIORS, Fitted

        sums = engine.sweep(VoteFractions())
        on_iteration(Iteration("mv", 1, change=0.0, posteriors=engine.whole(POSTERIORS)))
        return Fitted(
            confusions=shrunk_rows(sums.by_worker, SHRINKAGE),
            class_prior=sums.class_sizes / engine.n_items,
            iterations=1,
        )
