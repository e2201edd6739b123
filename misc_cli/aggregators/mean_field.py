"""ds-mf: Dawid–Skene with Dirichlet priors by mean field (Liu, Peng & Ihler 2012, NIPS, sec. 3.3).

    q(π_w[c]) = Dirichlet(α_w[c]),  α_w[c] = prior[c] + n_w[c]   → pseudo
    E[log π]  = ψ(α) − ψ(Σ α)                                    → logs, for the E-step
    objective   Σ_i log Z_i − Σ_w KL(q(π_w) ‖ prior), the evidence lower bound

The objective rises if the prior is fixed, as in the paper's preset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from misc_cli.aggregators.parameters import (
    class_prior,
    diagonal,
    max_iter,
    missing,
    off_diagonal,
    shrinkage,
    tol,
)
from misc_cli.data.iteration import OnIteration
from misc_cli.data.parameters import Checked
from misc_cli.engines.on_engines import OnEngines

if TYPE_CHECKING:
    from misc_cli.aggregators.confusion_kernels import Model
    from misc_cli.data.types import Floats, Start
    from misc_cli.engines.protocol import Engine, Fitted


@dataclass(frozen=True)
class MeanField(Checked, OnEngines):
    """ds-mf: pseudo-counts are `diagonal` on the right answer, `off_diagonal` elsewhere.

    `shrinkage` adds pseudo-answers spread as the mean row of the crowd to every row: the robust
    preset estimates the typical row, the paper assumes one.
    """

    class_prior: str = class_prior()
    shrinkage: float = shrinkage()
    diagonal: float = diagonal(0.1)
    off_diagonal: float = off_diagonal(0.01)
    missing: str = missing()
    tol: float = tol()
    max_iter: int = max_iter()

    takes_prior: ClassVar[bool] = True  # --workers-prior
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {
            "class_prior": "uniform",
            "shrinkage": 0.0,
            "diagonal": 2.0,
            "off_diagonal": 1.0,
        }
    }

    @property
    def calibratable(self) -> bool:
        """False if a hidden answer would look like one that was withheld on purpose."""
        return self.missing == "ignored"

    def solve(
        self, engine: Engine, on_iteration: OnIteration, start: Start | None = None
    ) -> Fitted:
        import numpy as np
        from scipy.special import digamma, gammaln

        from misc_cli.aggregators.confusion_kernels import Model, crowd_rows
        from misc_cli.aggregators.em import fit_confusions

        n_classes = engine.n_classes
        said = n_classes + (self.missing == "informative")  # no answer is one more label
        prior = np.full((n_classes, said), self.off_diagonal)
        np.fill_diagonal(prior, self.diagonal)

        def estimate(counts: Floats) -> Model:
            pseudo = counts + prior + self.shrinkage * crowd_rows(counts)
            totals = pseudo.sum(axis=-1, keepdims=True)
            logs = digamma(pseudo) - digamma(totals)
            return Model(logs, pseudo / totals, divergence(pseudo, totals, logs))

        def divergence(pseudo: Floats, totals: Floats, logs: Floats) -> float | None:
            """Return Σ_w KL(q(π_w) ‖ prior); None if the prior is not fixed: nothing need rise."""
            if self.shrinkage > 0 or (start is not None and start.pseudo_counts is not None):
                return None
            own = gammaln(totals).sum() - gammaln(pseudo).sum()
            of_prior = gammaln(prior.sum(axis=-1)).sum() - gammaln(prior).sum()
            moved = ((pseudo - prior) * logs).sum()
            return float(own + moved - len(pseudo) * of_prior)

        return fit_confusions(
            engine,
            estimate,
            class_prior=self.class_prior,
            missing=self.missing,
            stage="ds-mf",
            tol=self.tol,
            max_iter=self.max_iter,
            on_iteration=on_iteration,
            start=start,
        )
