"""ds-em: Dawid & Skene 1979 by expectation maximisation (doi:10.2307/2346806).

    π → confusions (eq. 2.3)    p → class_prior (eq. 2.4)    T → posteriors (eq. 2.5)

The M-step is below, the EM loop in em.py, the E-step in confusion_kernels.py (`Expectation`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from misc_cli.aggregators.parameters import class_prior, max_iter, missing, shrinkage, tol
from misc_cli.data.iteration import OnIteration
from misc_cli.data.parameters import Checked
from misc_cli.engines.on_engines import OnEngines

if TYPE_CHECKING:
    from misc_cli.aggregators.confusion_kernels import Model
    from misc_cli.data.types import Floats, Start
    from misc_cli.engines.protocol import Engine, Fitted


@dataclass(frozen=True)
class DawidSkene(Checked, OnEngines):
    """ds-em: a confusion matrix per worker.

    `shrinkage` pseudo-answers per true class pull the row of a worker towards the mean row of the
    crowd: a worker with few answers counts as an average worker.
    """

    class_prior: str = class_prior()
    shrinkage: float = shrinkage()
    missing: str = missing()
    tol: float = tol()
    max_iter: int = max_iter()

    takes_prior: ClassVar[bool] = True  # --workers-prior
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {"class_prior": "uniform", "shrinkage": 0.0}
    }

    @property
    def calibratable(self) -> bool:
        """False if a hidden answer would look like one that was withheld on purpose."""
        return self.missing == "ignored"

    def solve(
        self, engine: Engine, on_iteration: OnIteration, start: Start | None = None
    ) -> Fitted:
        import numpy as np

        from misc_cli.aggregators.confusion_kernels import Model, shrunk_rows
        from misc_cli.aggregators.em import fit_confusions

        def estimate(counts: Floats) -> Model:
            # eq. 2.3 with pseudo-counts: π_w[ck] ∝ n_w[ck] + shrinkage · crowd[ck]
            confusions = shrunk_rows(counts, self.shrinkage)
            return Model(np.log(confusions), confusions)

        return fit_confusions(
            engine,
            estimate,
            class_prior=self.class_prior,
            missing=self.missing,
            stage="ds-em",
            tol=self.tol,
            max_iter=self.max_iter,
            on_iteration=on_iteration,
            start=start,
        )
