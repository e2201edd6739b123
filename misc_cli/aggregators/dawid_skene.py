"""Dawid & Skene 1979 by expectation maximisation (doi:10.2307/2346806).

π → confusions (eq. 2.3), p → class_prior (eq. 2.4), T → posteriors (eq. 2.5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from misc_cli.aggregators.confusion.em import Model, fit, shrunk_rows
from misc_cli.core.engines.local import OnEngines
from misc_cli.core.engines.protocol import Engine, Fitted
from misc_cli.core.start import Start
from misc_cli.core.types import Floats, OnIteration


@dataclass(frozen=True)
class DawidSkene(OnEngines):
    """A confusion matrix per worker.

    `shrinkage` is how many pseudo-answers per true class pull a worker's row towards the crowd's
    mean row: with few answers a worker is taken to be like the others, with many like itself.
    """

    class_prior: str = "estimated"
    shrinkage: float = 2.0
    tol: float = 1e-3
    max_iter: int = 100

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {"class_prior": "uniform", "shrinkage": 0.0}
    }

    def solve(
        self, engine: Engine, on_iteration: OnIteration, start: Start | None = None
    ) -> Fitted:
        def estimate(counts: Floats) -> Model:
            # eq. 2.3 with pseudo-counts: π_w[ck] ∝ n_w[ck] + shrinkage · crowd[ck]
            confusions = shrunk_rows(counts, self.shrinkage)
            return Model(np.log(confusions), confusions)

        return fit(
            engine,
            estimate,
            class_prior=self.class_prior,
            stage="ds-em",
            tol=self.tol,
            max_iter=self.max_iter,
            on_iteration=on_iteration,
            start=start,
        )
