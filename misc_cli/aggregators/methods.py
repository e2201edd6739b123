"""All aggregators as records of their parameters, with the M-steps of the confusion models.

mv, ds-em, one-coin and ds-mf are votes, and the models with one confusion matrix per worker. Dawid
& Skene 1979 (doi:10.2307/2346806) by expectation maximisation:
    π → confusions (eq. 2.3)    p → class_prior (eq. 2.4)    T → posteriors (eq. 2.5)
Their E-step (`Expectation`) and the EM loop are in confusion_kernels.py; the algebra of ebcc and of
mmce is in the folders of these names. No numeric imports: the records are read for the help.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

from misc_cli.data.parameters import COUNT, FEW, POSITIVE, WEIGHT, Checked, Parameter, parameter
from misc_cli.data.solver import Iteration, OnIteration, ignore_iteration
from misc_cli.errors import ConfigError

if TYPE_CHECKING:
    from misc_cli.aggregators.confusion_kernels import Model
    from misc_cli.data.types import Aggregation, Floats, Labels, Start
    from misc_cli.engines.protocol import Engine, Fitted

# Pseudo-answers per class that pull the confusions of a worker towards the crowd's.
VOTE_SHRINKAGE = 0.5
# With fewer, what was fitted with the hidden answers would still know them.
WARM_ANSWERS = 500_000
# So near to where it began a fold may stop earlier: the temperature of ds-em and one-coin is the
# same to four digits, that of ds-mf to three.
WARM_TOL = 0.02
# Of the variants that cross-validation fits.
RESTARTS_IN_FOLDS = 2
TOL_IN_FOLDS = 0.05


class OnEngines(ABC):
    """A method for engines that can be called on labels in memory, as every aggregator."""

    def __call__(self, labels: Labels, on_iteration: OnIteration = ignore_iteration) -> Aggregation:
        from misc_cli.engines.local import MemoryEngine
        from misc_cli.engines.protocol import gathered

        engine = MemoryEngine(labels)
        return gathered(engine, self.solve(engine, on_iteration, labels.start))

    @abstractmethod
    def solve(
        self, engine: Engine, on_iteration: OnIteration, start: Start | None = None
    ) -> Fitted:
        """Fit on the engine, which then has the posteriors; return all that is not of an item."""


# Parameters that several methods have.
SHARED = {
    "class_prior": Parameter(
        "How common the classes are taken to be.", choices=("estimated", "uniform")
    ),
    "shrinkage": Parameter("Pseudo-answers that pull a worker towards the crowd.", WEIGHT),
    "diagonal": Parameter("Pseudo-answers on the true class.", POSITIVE),
    "off_diagonal": Parameter("Pseudo-answers on every other class.", POSITIVE),
    "tol": Parameter("Stop when posteriors move less than this; 0 runs all iterations.", WEIGHT),
    "max_iter": Parameter("Iterations at most.", COUNT),
}


def shared(name: str, default: Any) -> Any:
    """Return the declaration of a shared parameter with a method's own default."""
    return field(default=default, metadata={"parameter": SHARED[name]})


@dataclass(frozen=True)
class MajorityVote(OnEngines):
    """The most frequent answer wins; every worker counts the same.

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

    @abstractmethod
    def estimate(self, counts: Floats) -> Model:
        """Return the model of expected counts, (n_workers, K, K)."""

    def solve(
        self, engine: Engine, on_iteration: OnIteration, start: Start | None = None
    ) -> Fitted:
        from misc_cli.aggregators.confusion_kernels import fit_confusions

        return fit_confusions(cast(Any, self), engine, on_iteration, start)

    def refit_subset(self, engine: Engine, whole: Fitted, start: Start | None = None) -> Fitted:
        """Fit a part of the answers; `start` gives a prior."""
        from misc_cli.data.types import Start

        method = cast(Any, self)
        if engine.n_votes >= WARM_ANSWERS:
            begun = Start() if start is None else start
            start = replace(begun, confusions=whole.confusions, class_prior=whole.class_prior)
            method = replace(method, tol=max(method.tol, WARM_TOL))
        found: Fitted = method.solve(engine, ignore_iteration, start)
        return found


@dataclass(frozen=True)
class OneCoin(Checked, ConfusionModel):
    """Each worker has one accuracy; wrong answers spread evenly. Hard to beat on thin data.

    Reference: Zhang, Chen, Zhou & Jordan 2016, Spectral Methods Meet EM, JMLR 17(102)

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

    def estimate(self, counts: Floats) -> Model:
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
    """Each worker has a confusion matrix: how often it says each label when another is true.

    Reference: Dawid & Skene 1979, Applied Statistics 28(1), 20-28

    `shrinkage` pseudo-answers per true class pull the row of a worker towards the mean row of the
    crowd: a worker with few answers counts as an average worker.
    """

    class_prior: str = shared("class_prior", "estimated")
    shrinkage: float = shared("shrinkage", 2.0)
    tol: float = shared("tol", 1e-3)
    max_iter: int = shared("max_iter", 100)

    name: ClassVar[str] = "ds-em"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {"class_prior": "uniform", "shrinkage": 0.0}
    }

    def estimate(self, counts: Floats) -> Model:
        import numpy as np

        from misc_cli.aggregators.confusion_kernels import Model, shrunk_rows

        # eq. 2.3 with pseudo-counts: π_w[ck] ∝ n_w[ck] + shrinkage · crowd[ck]
        confusions = shrunk_rows(counts, self.shrinkage)
        return Model(np.log(confusions), confusions)


@dataclass(frozen=True)
class MeanField(Checked, ConfusionModel):
    """ds-em with a Dirichlet prior on every confusion matrix, by mean field.

    Reference: Liu, Peng & Ihler 2012, Variational Inference for Crowdsourcing, NIPS, section 3.3

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
    tol: float = shared("tol", 1e-3)
    max_iter: int = shared("max_iter", 100)

    name: ClassVar[str] = "ds-mf"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {"class_prior": "uniform", "shrinkage": 0.0, "diagonal": 2.0, "off_diagonal": 1.0}
    }

    def estimate(self, counts: Floats) -> Model:
        import numpy as np
        from scipy.special import digamma, gammaln

        from misc_cli.aggregators.confusion_kernels import Model, crowd_rows

        prior = np.full(counts.shape[1:], self.off_diagonal)
        np.fill_diagonal(prior, self.diagonal)
        pseudo = counts + prior + self.shrinkage * crowd_rows(counts)
        totals = pseudo.sum(axis=-1, keepdims=True)
        logs = digamma(pseudo) - digamma(totals)
        divergence = None  # nothing need rise if the prior is not fixed
        if self.shrinkage == 0:  # Σ_w KL(q(π_w) ‖ prior)
            own = gammaln(totals).sum() - gammaln(pseudo).sum()
            of_prior = gammaln(prior.sum(axis=-1)).sum() - gammaln(prior).sum()
            moved = ((pseudo - prior) * logs).sum()
            divergence = float(own + moved - len(pseudo) * of_prior)
        return Model(logs, pseudo / totals, divergence)


@dataclass(frozen=True)
class EnhancedBcc(Checked, OnEngines):
    """Classes have subtypes, so that workers may make the same mistakes together.

    Reference: Li, Rubinstein & Cohn 2019, Exploiting Worker Correlation for Label Aggregation in
    Crowdsourcing, ICML

    Of `restarts` random starts from `seed` the best evidence lower bound (ELBO) counts. Pseudo-
    counts of each worker and subtype: `diagonal` on the right answer, `off_diagonal` elsewhere,
    `shrinkage` spread as the crowd answers (against vote fractions), so that a worker with few
    answers counts as an average worker. `subtype_prior` is shared out over the `subtypes` of a
    class; it is small, so that unused subtypes die out. The class prior is Dirichlet with the sums
    of the vote fractions.
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
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {"diagonal": 4.0, "off_diagonal": 1.0, "shrinkage": 0.0}
    }

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

    def refit_subset(self, engine: Engine, whole: Fitted, start: Start | None = None) -> Fitted:
        """Fit a part of the answers, starting from the workers and subtypes of the whole fit.

        Never from its posteriors; `start` only gives a prior.
        """
        from misc_cli.aggregators.ebcc.fit import best_restart

        return best_restart(self, engine, ignore_iteration, start, whole)


@dataclass(frozen=True)
class MinimaxEntropy(Checked, OnEngines):
    """Workers and items both have parameters: a hard item explains a wrong answer.

    Reference: Zhou, Liu, Platt & Meek 2014, Aggregating Ordinal Labels from Crowds, ICML

    `worker_regularization` is λ_w / K², `item_regularization` is λ_i / λ_w in units of (mean
    answers per worker) / (mean answers per item). `center` is the point towards which workers are
    shrunk: the parameters that all share (crowd), or answers at random (zero).
    """

    class_prior: str = shared("class_prior", "estimated")
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
    """mmce-c for labels that have an order, such as 1 to 5: a parameter per threshold and side.

    Reference: Zhou, Liu, Platt & Meek 2014, Aggregating Ordinal Labels from Crowds, ICML
    """

    name: ClassVar[str] = "mmce-o"
    needs_order: ClassVar[bool] = True


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
