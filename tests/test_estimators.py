"""Estimators by convention: crowd-kit's examples run with ours, scikit-learn's clone works."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

import misc_cli
from misc_cli import MiscError
from misc_cli.estimators import DawidSkene, Estimator, MajorityVote, Misc, OneCoinDawidSkene

# As crowd-kit's README and the docstrings of its classes have them; `df, gt` are its datasets'
# form: int tasks, workers and labels, and the truth as a Series by task.
IMPORT = "from crowdkit.aggregation import DawidSkene, MajorityVote, OneCoinDawidSkene\n"
EXAMPLES = {
    "labels": "found = DawidSkene(100).fit_predict(df)",
    "vote": "found = MajorityVote().fit_predict(df)",
    "one coin": "found = OneCoinDawidSkene(n_iter=100).fit_predict(df)",
    "probabilities": "mv = MajorityVote()\nfound = mv.fit_predict_proba(df)",
    "accuracy": (
        "ds = DawidSkene(n_iter=50, tol=1e-5).fit(df, true_labels=gt[: len(gt) // 2])\n"
        "found = ds.labels_\n"
        "accuracy = (found == gt.reindex(found.index)).mean()"
    ),
}


@pytest.fixture(scope="module")
def data() -> tuple[pd.DataFrame, pd.Series[Any]]:
    """A crowd with numbers for names, tasks in no order."""
    answers, truth = misc_cli.simulate(workers=30, items=200, classes=3, accuracy=0.8, seed=4)
    shuffled = answers.sample(frac=1.0, random_state=1).rename(columns={"item": "task"})
    for name in ("task", "worker", "label"):
        shuffled[name] = shuffled[name].str.extract(r"(\d+)")[0].astype(int)
    known = truth.apply(lambda column: column.str.extract(r"(\d+)")[0].astype(int))
    return shuffled, known.set_index("item")["label"].rename_axis("task")


def played(example: str, data: tuple[pd.DataFrame, pd.Series[Any]], package: str) -> dict[str, Any]:
    names: dict[str, Any] = {"df": data[0], "gt": data[1]}
    exec(IMPORT.replace("crowdkit.aggregation", package) + example, names)
    return names


@pytest.mark.parametrize("name", EXAMPLES)
def test_crowd_kits_examples_with_the_import_swapped(
    name: str, data: tuple[pd.DataFrame, pd.Series[Any]]
) -> None:
    ours = played(EXAMPLES[name], data, "misc_cli.estimators")
    found, (frame, truth) = ours["found"], data
    assert found.index.tolist() == frame["task"].unique().tolist()
    assert found.index.name == "task"
    assert found.index.dtype == frame["task"].dtype
    if isinstance(found, pd.Series):
        assert found.dtype == frame["label"].dtype
        assert (found == truth.reindex(found.index)).mean() > 0.8
    if name == "accuracy":
        half = truth[: len(truth) // 2]
        assert (found[half.index] == half).all(), "labels that are known are kept"
        assert ours["accuracy"] > 0.85
    pytest.importorskip("crowdkit", reason="crowd-kit is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what they use of pandas
        theirs = played(EXAMPLES[name], data, "crowdkit.aggregation")["found"]
    assert type(found) is type(theirs)
    assert found.index.equals(theirs.index)
    if isinstance(found, pd.Series):
        assert found.name == theirs.name
        assert found.dtype == theirs.dtype
        assert (found == theirs).mean() > 0.9
    else:
        assert found.columns.tolist() == theirs.columns.tolist()
        np.testing.assert_allclose(found, theirs, atol=1e-12)


def test_fitted_attributes_are_called_and_shaped_as_crowd_kits(
    data: tuple[pd.DataFrame, pd.Series[Any]],
) -> None:
    frame, _ = data
    fitted = DawidSkene(shrinkage=0.0, calibrate=False).fit(frame)
    assert fitted.errors_.index.names == ["worker", "label"]
    np.testing.assert_allclose(fitted.errors_.groupby(level="worker").sum(), 1.0, atol=1e-9)
    assert fitted.priors_.sum() == pytest.approx(1.0)
    assert fitted.skills_.index.name == "worker"
    assert fitted.skills_.between(0, 1).all()
    assert fitted.result_.outcome.methods.names == {"aggregator": "ds-em"}
    theirs = pytest.importorskip("crowdkit.aggregation", reason="crowd-kit is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        of_theirs = theirs.DawidSkene(100).fit(frame)
    pd.testing.assert_series_equal(fitted.priors_, of_theirs.priors_, atol=0.02, rtol=0.0)
    both = fitted.errors_.reindex(of_theirs.errors_.index)
    busy = frame["worker"].value_counts().head(5).index
    np.testing.assert_allclose(both.loc[busy], of_theirs.errors_.loc[busy], atol=0.1)


@pytest.mark.parametrize(
    "estimator",
    [
        Misc(aggregator="ebcc", seed=3),
        MajorityVote(),
        DawidSkene(n_iter=7, class_prior="uniform"),
        OneCoinDawidSkene(5, 0.1),
    ],
    ids=repr,
)
def test_parameters_by_convention(estimator: Estimator) -> None:
    given = estimator.get_params()
    again = type(estimator)(**given)
    assert again.get_params() == given
    assert repr(again) == repr(estimator)
    assert eval(repr(estimator)).get_params() == given
    if "calibrate" in given:
        assert again.set_params(calibrate=False) is again
        assert again.get_params()["calibrate"] is False
    with pytest.raises(ValueError, match="has no parameter 'nonsense'"):
        estimator.set_params(nonsense=3)
    clone = pytest.importorskip("sklearn.base", reason="scikit-learn is not installed").clone
    copied = clone(estimator)
    assert copied is not estimator
    assert copied.get_params() == given


def test_an_impossible_parameter_is_said_in_pythons_words() -> None:
    frame = pd.DataFrame({"task": [1, 1], "worker": ["a", "b"], "label": ["x", "y"]})
    with pytest.raises(MiscError, match="max_iter=0: give a whole number from 1"):
        DawidSkene(n_iter=0).fit(frame)
