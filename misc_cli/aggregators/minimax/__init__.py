"""mmce-c and mmce-o as records of their parameters. The algebra is in fit.py and steps.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from misc_cli.aggregators import OnEngines, shared
from misc_cli.data.parameters import AUTO, POSITIVE, Checked, parameter
from misc_cli.data.solver import OnIteration

if TYPE_CHECKING:
    from misc_cli.data.types import Start
    from misc_cli.engines.protocol import Engine, Fitted

TOL_IN_FOLDS = 0.05


@dataclass(frozen=True)
class MinimaxEntropy(Checked, OnEngines):
    """mmce-c: free parameters of every worker and item.

    `worker_regularization` is λ_w / K², `item_regularization` is λ_i / λ_w in units of (mean
    answers per worker) / (mean answers per item). `regularization` multiplies both; "auto" takes
    the multiple that forecasts held-out answers best. `center` is the point towards which workers
    are shrunk: the parameters that all share (crowd), or answers at random (zero).
    """

    class_prior: str = shared("class_prior", "estimated")
    regularization: float | str = parameter(
        1.0,
        "mmce: multiple of both weights; auto picks by cross-validated likelihood.",
        POSITIVE,
        words=(AUTO,),
        metavar="X|auto",
    )
    worker_regularization: float = parameter(0.0625, "mmce: weight of workers.", POSITIVE)
    item_regularization: float = parameter(
        4.0, "mmce: weight of items, relative to the workers'.", POSITIVE
    )
    center: str = parameter(
        "crowd", "mmce: what a worker is shrunk towards.", choices=("crowd", "zero")
    )
    tol: float = shared("tol", 5e-3)
    max_iter: int = shared("max_iter", 100)

    slow: ClassVar[bool] = True  # calibrated on one fold
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {
            "class_prior": "uniform",
            "worker_regularization": 0.25,
            "item_regularization": 1.0,
            "center": "zero",
            "max_iter": 50,
        }
    }
    name: ClassVar[str] = "mmce-c"
    needs_order: ClassVar[bool] = False

    @property
    def cv_variant(self) -> MinimaxEntropy:
        """The variant that cross-validation fits: with a wider tolerance.

        The share of the best lead differs by at most 0.01 on twelve sets.
        """
        return replace(self, tol=max(self.tol, TOL_IN_FOLDS) if self.tol > 0.0 else 0.0)

    def solve(
        self, engine: Engine, on_iteration: OnIteration, start: Start | None = None
    ) -> Fitted:
        from misc_cli.aggregators.minimax.fit import solve

        return solve(self, engine, on_iteration, start)


@dataclass(frozen=True)
class OrdinalMinimaxEntropy(MinimaxEntropy):
    """mmce-o: parameters that follow the order of the classes, one per threshold and side."""

    name: ClassVar[str] = "mmce-o"
    needs_order: ClassVar[bool] = True
