"""mv, ds-em, one-coin and ds-mf: votes, and the models with one confusion matrix per worker.

Dawid & Skene 1979 (doi:10.2307/2346806) by expectation maximisation:
    π → confusions (eq. 2.3)    p → class_prior (eq. 2.4)    T → posteriors (eq. 2.5)

The M-steps are below; the E-step (`Expectation`) and the EM loop are in confusion_kernels.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

from misc_cli.aggregators import VOTE_SHRINKAGE, OnEngines, shared
from misc_cli.data.parameters import Checked
from misc_cli.data.solver import Iteration, OnIteration, ignore_iteration

if TYPE_CHECKING:
    from misc_cli.aggregators.confusion_kernels import Model
    from misc_cli.data.types import Floats, Start
    from misc_cli.engines.protocol import Engine, Fitted

# With fewer, what was fitted with the hidden answers would still know them.
WARM_ANSWERS = 500_000


@dataclass(frozen=True)
class MajorityVote(OnEngines):
    """mv, without parameters: the posterior of a class is its share of the votes on the item.

    Its confidence is that share, as people expect: it is not calibrated.
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
            confusions=shrunk_rows(sums.by_worker, VOTE_SHRINKAGE),
            class_prior=sums.class_sizes / engine.n_items,
            iterations=1,
        )


class ConfusionModel(OnEngines):
    """A model of confusions: its M-step, `estimate`, is all that tells it from the others.

    Its folds start from its fit on all answers, where these are many.
    """

    name: ClassVar[str]
    takes_prior: ClassVar[bool] = True  # --workers-prior

    @property
    def calibratable(self) -> bool:
        """False if a hidden answer would look like one that was withheld on purpose."""
        return getattr(self, "missing", "ignored") == "ignored"

    def estimate(self, counts: Floats, prior_is_fixed: bool) -> Model:
        """Return the model of expected counts, (n_workers, K, K)."""
        raise NotImplementedError

    def solve(
        self, engine: Engine, on_iteration: OnIteration, start: Start | None = None
    ) -> Fitted:
        from misc_cli.aggregators.confusion_kernels import fit_confusions

        return fit_confusions(cast(Any, self), engine, on_iteration, start)

    def refit_subset(self, engine: Engine, whole: Fitted, start: Start | None = None) -> Fitted:
        """Fit a part of the answers; `start` gives a prior."""
        from misc_cli.data.types import Start

        if engine.n_votes >= WARM_ANSWERS:
            begun = Start() if start is None else start
            start = replace(begun, confusions=whole.confusions, class_prior=whole.class_prior)
        return self.solve(engine, ignore_iteration, start)


@dataclass(frozen=True)
class OneCoin(Checked, ConfusionModel):
    """one-coin: one accuracy per worker, wrong answers spread evenly; hard to beat on thin data.

    `shrinkage` pseudo-answers pull the accuracy of a worker towards the crowd's. The class prior is
    uniform in both presets: one accuracy cannot express that a class is rarely answered, so an
    estimated prior runs away to the largest class (80 % errors on `relevance`).
    """

    class_prior: str = shared("class_prior", "uniform")
    shrinkage: float = shared("shrinkage", 2.0)
    tol: float = shared("tol", 1e-3)
    max_iter: int = shared("max_iter", 100)

    name: ClassVar[str] = "one-coin"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"paper": {"shrinkage": 0.0}}

    def estimate(self, counts: Floats, prior_is_fixed: bool) -> Model:
        import numpy as np

        from misc_cli.aggregators.confusion_kernels import TINY, Model

        # accuracy_w = expected correct / answered
        n_classes = counts.shape[1]
        correct = np.trace(counts, axis1=1, axis2=2)
        answered = counts.sum(axis=(1, 2))
        crowd = correct.sum() / max(answered.sum(), TINY)
        accuracy = (correct + self.shrinkage * crowd + TINY) / (
            answered + self.shrinkage + 2 * TINY
        )
        accuracy = np.clip(accuracy, TINY, 1.0 - TINY)[:, None, None]
        wrong = (1.0 - accuracy) / max(n_classes - 1, 1)
        confusions = np.where(np.eye(n_classes, dtype=bool), accuracy, wrong)
        if n_classes == 1:
            confusions = np.ones_like(confusions)
        return Model(np.log(confusions), confusions)


@dataclass(frozen=True)
class DawidSkene(Checked, ConfusionModel):
    """ds-em: a confusion matrix per worker.

    `shrinkage` pseudo-answers per true class pull the row of a worker towards the mean row of the
    crowd: a worker with few answers counts as an average worker.
    """

    class_prior: str = shared("class_prior", "estimated")
    shrinkage: float = shared("shrinkage", 2.0)
    missing: str = shared("missing", "ignored")
    tol: float = shared("tol", 1e-3)
    max_iter: int = shared("max_iter", 100)

    name: ClassVar[str] = "ds-em"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {"class_prior": "uniform", "shrinkage": 0.0}
    }

    def estimate(self, counts: Floats, prior_is_fixed: bool) -> Model:
        import numpy as np

        from misc_cli.aggregators.confusion_kernels import Model, shrunk_rows

        # eq. 2.3 with pseudo-counts: π_w[ck] ∝ n_w[ck] + shrinkage · crowd[ck]
        confusions = shrunk_rows(counts, self.shrinkage)
        return Model(np.log(confusions), confusions)


@dataclass(frozen=True)
class MeanField(Checked, ConfusionModel):
    """ds-mf: Dawid–Skene with Dirichlet priors by mean field (Liu, Peng & Ihler 2012, sec. 3.3).

        q(π_w[c]) = Dirichlet(α_w[c]),  α_w[c] = prior[c] + n_w[c]   → pseudo
        E[log π]  = ψ(α) − ψ(Σ α)                                    → logs, for the E-step
        objective   Σ_i log Z_i − Σ_w KL(q(π_w) ‖ prior), the evidence lower bound

    Pseudo-counts are `diagonal` on the right answer, `off_diagonal` elsewhere. `shrinkage` adds
    pseudo-answers spread as the mean row of the crowd to every row: the robust preset estimates
    the typical row, the paper assumes one.
    """

    class_prior: str = shared("class_prior", "estimated")
    shrinkage: float = shared("shrinkage", 2.0)
    diagonal: float = shared("diagonal", 0.1)
    off_diagonal: float = shared("off_diagonal", 0.01)
    missing: str = shared("missing", "ignored")
    tol: float = shared("tol", 1e-3)
    max_iter: int = shared("max_iter", 100)

    name: ClassVar[str] = "ds-mf"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {"class_prior": "uniform", "shrinkage": 0.0, "diagonal": 2.0, "off_diagonal": 1.0}
    }

    def estimate(self, counts: Floats, prior_is_fixed: bool) -> Model:
        import numpy as np
        from scipy.special import digamma, gammaln

        from misc_cli.aggregators.confusion_kernels import Model, crowd_rows

        prior = np.full(counts.shape[1:], self.off_diagonal)
        np.fill_diagonal(prior, self.diagonal)
        pseudo = counts + prior + self.shrinkage * crowd_rows(counts)
        totals = pseudo.sum(axis=-1, keepdims=True)
        logs = digamma(pseudo) - digamma(totals)
        divergence = None  # nothing need rise if the prior is not fixed
        if prior_is_fixed and self.shrinkage == 0:  # Σ_w KL(q(π_w) ‖ prior)
            own = gammaln(totals).sum() - gammaln(pseudo).sum()
            of_prior = gammaln(prior.sum(axis=-1)).sum() - gammaln(prior).sum()
            moved = ((pseudo - prior) * logs).sum()
            divergence = float(own + moved - len(pseudo) * of_prior)
        return Model(logs, pseudo / totals, divergence)
