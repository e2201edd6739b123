"""Estimators by the conventions of crowd-kit and scikit-learn.

`from misc_cli.estimators import DawidSkene, MajorityVote, OneCoinDawidSkene` in place of
`from crowdkit.aggregation import …`: frames have the columns task, worker and label, labels come
back as a Series by task, tasks in the order in which they first appear, of the types that they had.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd

from misc_cli.aggregators import methods
from misc_cli.api import aggregate
from misc_cli.arguments import Completion, Frame, Known, Method
from misc_cli.results import Result

ClassPrior = Literal["estimated", "uniform"]


class Estimator:
    """Base of the estimators: dataclasses, whose fields are their parameters.

    After a fit
    -----------
    labels_   Series by task
    probas_   probability of each label, tasks × labels
    errors_   by worker and label said, a column for each true label: P(said | true)
    priors_   Series by label: how common it is
    skills_   Series by worker: the share of answers that are right
    result_   the `misc_cli.Result`, with everything else that was found out
    """

    labels_: pd.Series[Any]
    probas_: pd.DataFrame
    errors_: pd.DataFrame
    priors_: pd.Series[Any]
    skills_: pd.Series[Any]
    result_: Result[Any]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name."""
        own: Any = self
        return {field.name: getattr(self, field.name) for field in fields(own)}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; one that there is not is an error."""
        for name, value in params.items():
            if name not in (own := self.get_params()):
                known = ", ".join(own) or "none"
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}; it has {known}")
            setattr(self, name, value)
        return self

    def _arguments(self) -> dict[str, Any]:
        """Return what `aggregate` is told: the method and how it is used."""
        return self.get_params()

    def fit(self, data: Frame, true_labels: Known | None = None) -> Self:
        """Aggregate the answers (task, worker, label); `true_labels` of some tasks teach."""
        self.result_ = result = aggregate(data, gold=true_labels, **self._arguments())
        own, outcome, confusions = result.kind, result.outcome, result.confusions
        labels, workers = confusions.classes.rename("label"), confusions.workers.rename("worker")
        table: Any = result.to_frame()
        if not isinstance(table, pd.DataFrame):
            table = pd.DataFrame({name: np.asarray(table[name]) for name in ("item", "label")})
        tasks = pd.Index(table["item"], name="task")
        self.labels_ = table["label"].set_axis(tasks).rename("agg_label")
        order = own.values("item", outcome.labels.items).get_indexer(tasks)
        self.probas_ = pd.DataFrame(outcome.posteriors[order], index=tasks, columns=labels)
        said = confusions.values.transpose(0, 2, 1).reshape(-1, len(labels))
        rows = pd.MultiIndex.from_product([workers, labels])
        self.errors_ = pd.DataFrame(said, index=rows, columns=labels)
        self.priors_ = pd.Series(outcome.fit.class_prior, index=labels, name="prior")
        right = np.einsum("c,wcc->w", outcome.fit.class_prior, confusions.values)
        self.skills_ = pd.Series(right, index=workers, name="skill")
        return self

    def fit_predict(self, data: Frame, true_labels: Known | None = None) -> pd.Series[Any]:
        """Return one label per task."""
        return self.fit(data, true_labels).labels_

    def fit_predict_proba(self, data: Frame, true_labels: Known | None = None) -> pd.DataFrame:
        """Return the probability of each label, tasks × labels."""
        return self.fit(data, true_labels).probas_


@dataclass(eq=False)
class Misc(Estimator):
    """The automatic choice, unless `aggregator` and `completer` say otherwise, as in `aggregate`.

    Examples
    --------
    >>> import pandas as pd
    >>> from misc_cli.estimators import Misc
    >>> answers = pd.DataFrame(
    ...     {"task": [7, 7, 7, 2, 2], "worker": list("abcab"), "label": [1, 1, 0, 0, 0]}
    ... )
    >>> Misc(aggregator="mv").fit_predict(answers).to_dict()
    {7: 1, 2: 0}
    """

    aggregator: Method = "auto"
    completer: Completion | None = None
    _: KW_ONLY
    calibrate: bool = True
    seed: int = 0


@dataclass(eq=False)
class MajorityVote(Estimator):
    """The most frequent label."""

    def _arguments(self) -> dict[str, Any]:
        return {"aggregator": "mv"}


@dataclass(eq=False)
class DawidSkene(Estimator):
    """A confusion matrix per worker, by expectation maximisation.

    `n_iter` and `tol` are those of crowd-kit (`max_iter` and `tol` of `misc_cli.DawidSkene`);
    `class_prior` None is the method's own.
    """

    n_iter: int = 100
    tol: float = 1e-3
    _: KW_ONLY
    class_prior: ClassPrior | None = None
    shrinkage: float = 2.0
    calibrate: bool = True

    method: ClassVar[type[methods.DawidSkene | methods.OneCoin]] = methods.DawidSkene

    def _arguments(self) -> dict[str, Any]:
        method = self.method(shrinkage=self.shrinkage, tol=self.tol, max_iter=self.n_iter)
        if self.class_prior is not None:
            method = replace(method, class_prior=self.class_prior)
        return {"aggregator": method, "calibrate": self.calibrate}


@dataclass(eq=False)
class OneCoinDawidSkene(DawidSkene):
    """One accuracy per worker, wrong answers spread evenly."""

    method = methods.OneCoin
