"""ebcc as a record of its parameters. The restarts are in fit.py, the algebra in kernels.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from misc_cli.aggregators import OnEngines, shared
from misc_cli.data.parameters import FEW, POSITIVE, Checked, parameter
from misc_cli.data.solver import OnIteration, ignore_iteration
from misc_cli.errors import ConfigError

if TYPE_CHECKING:
    from misc_cli.data.types import Start
    from misc_cli.engines.protocol import Engine, Fitted

RESTARTS_IN_FOLDS = 2


@dataclass(frozen=True)
class EnhancedBcc(Checked, OnEngines):
    """ebcc: of `restarts` random starts from `seed` the best evidence lower bound (ELBO) counts.

    Pseudo-counts of each worker and subtype: `diagonal` on the right answer, `off_diagonal`
    elsewhere, `shrinkage` spread as the crowd answers (against vote fractions), so that a worker
    with few answers counts as an average worker. `subtype_prior` is shared out over the
    `subtypes` of a class; it is small, so that unused subtypes die out. The class prior is
    Dirichlet with the sums of the vote fractions.
    """

    subtypes: int = parameter(10, "ebcc: subtypes of each class.", FEW)
    subtype_prior: float = parameter(0.1, "ebcc: shared out over the subtypes.", POSITIVE)
    restarts: int = parameter(40, "ebcc, tenals: starts, of which the best counts.", FEW)
    diagonal: float = shared("diagonal", 2.0)
    off_diagonal: float = shared("off_diagonal", 0.5)
    shrinkage: float = shared("shrinkage", 4.0)
    tol: float = shared("tol", 1e-3)
    max_iter: int = shared("max_iter", 500)
    seed: int = 0

    slow: ClassVar[bool] = True  # calibrated on one fold
    takes_prior: ClassVar[bool] = True  # --workers-prior
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {"diagonal": 4.0, "off_diagonal": 1.0, "shrinkage": 0.0}
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.diagonal, self.off_diagonal) <= 0:
            raise ConfigError("ebcc's --diagonal and --off-diagonal must be above 0")

    def solve(
        self, engine: Engine, on_iteration: OnIteration, start: Start | None = None
    ) -> Fitted:
        from misc_cli.aggregators.ebcc.fit import best_restart

        return best_restart(self, engine, on_iteration, start)

    @property
    def cv_variant(self) -> EnhancedBcc:
        """The variant that cross-validation fits: with fewer restarts.

        With eight or two the share of the best lead differs by at most 0.01 on twelve sets.
        """
        return replace(self, restarts=min(self.restarts, RESTARTS_IN_FOLDS))

    def cv_variant_of(self, whole: Fitted) -> EnhancedBcc:
        """Return the variant for folds if all answers are fitted: its live subtypes and one more.

        Each subtype keeps its prior. If the whole fit collapsed to one subtype per class, the folds
        have one, too, and need one restart.
        """
        classes = whole.own_shared["classes"].tolist()
        live = max(classes.count(one) for one in set(classes))
        return self.with_subtypes(1 if live == 1 else min(live + 1, self.subtypes))

    def with_subtypes(self, subtypes: int) -> EnhancedBcc:
        """Return the variant with so many subtypes per class; with one, a restart finds nothing."""
        return replace(
            self,
            subtypes=subtypes,
            subtype_prior=self.subtype_prior / self.subtypes * subtypes,
            restarts=1 if subtypes == 1 else self.restarts,
        )

    @property
    def of_independent_workers(self) -> EnhancedBcc:
        """The variant for workers who err independently: one subtype per class."""
        return self.with_subtypes(1)

    def refit_subset(self, engine: Engine, whole: Fitted, start: Start | None = None) -> Fitted:
        """Fit a part of the answers, starting from the workers and subtypes of the whole fit.

        Never from its posteriors; `start` only gives a prior.
        """
        from misc_cli.aggregators.ebcc.fit import best_restart

        return best_restart(self, engine, ignore_iteration, start, whole)
