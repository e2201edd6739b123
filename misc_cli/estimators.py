"""For those who come from crowd-kit: classes with fit, fit_predict and fit_predict_proba.

A thin layer over `misc_cli.aggregate`. DataFrames have the columns task, worker and label; labels
come back as a Series by task, probabilities as a DataFrame of tasks × labels.

from misc_cli.estimators import DawidSkene, Misc
labels = Misc().fit_predict(answers)
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import pandas as pd

from misc_cli.api import Result, aggregate


class Misc:
    """The automatic choice, unless `aggregator` (and `completer`) name methods.

    `options` are those of `misc_cli.aggregate`. After a fit: `result_` has everything that was
    found out, `labels_` and `probas_` what crowd-kit's classes have under these names.
    """

    method: ClassVar[str | None] = None

    def __init__(self, **options: Any) -> None:
        self.options = options

    def fit(self, data: pd.DataFrame, truth: pd.DataFrame | None = None) -> Self:
        """Aggregate; `truth` (task, label) only judges."""
        named = {} if self.method is None else {"aggregator": self.method}
        self.result_: Result = aggregate(data, truth=truth, **{**named, **self.options})
        self.probas_ = self.result_.posteriors.rename_axis(index="task", columns="label")
        labels = self.result_.labels
        self.labels_ = pd.Series(
            labels["label"].to_numpy(),
            index=pd.Index(labels["item"].to_numpy(), name="task"),
            name="agg_label",
        )
        return self

    def fit_predict(self, data: pd.DataFrame) -> pd.Series[Any]:
        """Return one label per task."""
        return self.fit(data).labels_

    def fit_predict_proba(self, data: pd.DataFrame) -> pd.DataFrame:
        """Return the probability of each label, tasks × labels."""
        return self.fit(data).probas_


class MajorityVote(Misc):
    """The most frequent label."""

    method = "mv"


class OneCoin(Misc):
    """One accuracy per worker."""

    method = "one-coin"


class DawidSkene(Misc):
    """A confusion matrix per worker, by expectation maximisation."""

    method = "ds-em"


class MeanField(Misc):
    """A confusion matrix per worker with priors, by mean field."""

    method = "ds-mf"


class EBCC(Misc):
    """Subtypes of classes, so that workers may err together."""

    method = "ebcc"


class MMCE(Misc):
    """Minimax conditional entropy: workers' confusions and items' difficulty."""

    method = "mmce-c"
