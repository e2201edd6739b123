"""Estimators by the conventions of crowd-kit and scikit-learn.

`from misc_cli.estimators import DawidSkene, MajorityVote, OneCoinDawidSkene` in place of
`from crowdkit.aggregation import …`: frames have the columns task, worker and label, labels come
back as a Series by task, tasks in the order in which they first appear, of the types that they had.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
import pandas as pd

from misc_cli.aggregators import dawid_skene
from misc_cli.api import aggregate
from misc_cli.arguments import Completion, Method
from misc_cli.dataframes import Frame, Known
from misc_cli.results import Result

ClassPrior = Literal["estimated", "uniform"]


class Estimator:
    """Base of the estimators: parameters are what the constructor takes, kept as they were given.

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

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; one that there is not is an error."""
        for name, value in params.items():
            if name not in self._names():
                known = ", ".join(self._names()) or "none"
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}; it has {known}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        given = self.get_params().items()
        shown = [f"{name}={value!r}" for name, value in given if value != defaults[name].default]
        return f"{type(self).__name__}({', '.join(shown)})"

    def _aggregate(self, data: Frame, gold: Known | None) -> Result[Any]:
        raise NotImplementedError

    def fit(self, data: Frame, true_labels: Known | None = None) -> Self:
        """Aggregate the answers (task, worker, label); `true_labels` of some tasks teach."""
        self.result_ = result = self._aggregate(data, true_labels)
        own, names = result.kind, result.outcome.labels
        labels = own.values("label", names.classes).rename("label")
        table = result.to_frame()
        if not isinstance(table, pd.DataFrame):
            table = pd.DataFrame({c: np.asarray(table[c]) for c in ("item", "label")})
        tasks = pd.Index(table["item"], name="task")
        self.labels_ = table["label"].set_axis(tasks).rename("agg_label")
        order = own.values("item", names.items).get_indexer(tasks)
        self.probas_ = pd.DataFrame(result.outcome.posteriors[order], index=tasks, columns=labels)
        confusions = result.confusions
        workers = confusions.workers.rename("worker")
        said = confusions.values.transpose(0, 2, 1).reshape(-1, len(labels))
        rows = pd.MultiIndex.from_product([workers, labels])
        self.errors_ = pd.DataFrame(said, index=rows, columns=labels)
        self.priors_ = pd.Series(result.outcome.fit.class_prior, index=labels, name="prior")
        right = np.einsum("c,wcc->w", self.priors_.to_numpy(), confusions.values)
        self.skills_ = pd.Series(right, index=workers, name="skill")
        return self

    def fit_predict(self, data: Frame, true_labels: Known | None = None) -> pd.Series[Any]:
        """Return one label per task."""
        return self.fit(data, true_labels).labels_

    def fit_predict_proba(self, data: Frame, true_labels: Known | None = None) -> pd.DataFrame:
        """Return the probability of each label, tasks × labels."""
        return self.fit(data, true_labels).probas_


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

    def __init__(
        self,
        aggregator: Method = "auto",
        completer: Completion | None = None,
        *,
        calibrate: bool = True,
        seed: int = 0,
    ) -> None:
        self.aggregator = aggregator
        self.completer = completer
        self.calibrate = calibrate
        self.seed = seed

    def _aggregate(self, data: Frame, gold: Known | None) -> Result[Any]:
        return aggregate(data, gold=gold, **self.get_params())


class MajorityVote(Estimator):
    """The most frequent label."""

    def _aggregate(self, data: Frame, gold: Known | None) -> Result[Any]:
        return aggregate(data, gold=gold, aggregator=dawid_skene.MajorityVote())


class DawidSkene(Estimator):
    """A confusion matrix per worker, by expectation maximisation.

    `n_iter` and `tol` are those of crowd-kit (`max_iter` and `tol` of `misc_cli.DawidSkene`);
    `class_prior` None is the method's own.
    """

    method: type[dawid_skene.DawidSkene] | type[dawid_skene.OneCoin] = dawid_skene.DawidSkene

    def __init__(
        self,
        n_iter: int = 100,
        tol: float = 1e-3,
        *,
        class_prior: ClassPrior | None = None,
        shrinkage: float = 2.0,
        calibrate: bool = True,
    ) -> None:
        self.n_iter = n_iter
        self.tol = tol
        self.class_prior = class_prior
        self.shrinkage = shrinkage
        self.calibrate = calibrate

    def _aggregate(self, data: Frame, gold: Known | None) -> Result[Any]:
        method = self.method(shrinkage=self.shrinkage, tol=self.tol, max_iter=self.n_iter)
        if self.class_prior is not None:
            method = replace(method, class_prior=self.class_prior)
        return aggregate(data, gold=gold, aggregator=method, calibrate=self.calibrate)


class OneCoinDawidSkene(DawidSkene):
    """One accuracy per worker, wrong answers spread evenly."""

    method = dawid_skene.OneCoin
