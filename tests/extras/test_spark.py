"""`misc_cli.spark.aggregate` in a real local Spark session."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

import misc_cli
from misc_cli import registry
from misc_cli.errors import ConfigError, InputError
from misc_cli.spark import _plainly, aggregate, fit
from tests.engines.crowds import METHODS, crowd

pyspark = pytest.importorskip("pyspark", reason="needs the extra spark")
pytestmark = [
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java, which is not here"),
    pytest.mark.filterwarnings("default"),  # what Spark itself warns of is not ours
]


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    # Spark would take the first python3 of the PATH for its workers
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = pyspark.sql.SparkSession.builder.master("local[2]").appName("misc")
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "3",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    yield made
    made.stop()


@pytest.fixture(scope="module")
def answers() -> pd.DataFrame:
    """Without contradictions: a DataFrame has no last answer."""
    rows = pd.DataFrame(crowd(), columns=["who", "what", "says"])
    rows = rows.drop_duplicates(["who", "what"])
    return rows[~rows["what"].str.startswith(" ")].reset_index(drop=True)


@pytest.mark.parametrize(
    ("method", "partitions"), [*((method, 2) for method in METHODS), ("ds-em", 5)]
)
def test_spark_gives_the_labels_of_memory(
    method: str, partitions: int, session: Any, answers: pd.DataFrame
) -> None:
    named = answers.set_axis(["worker", "item", "label"], axis=1)
    # a sweep costs Spark a second
    few: dict[str, Any] = {} if method == "mv" else {"max_iter": 6, "tol": 0.0}
    if method == "ebcc":
        few["restarts"] = 3
    by_name = registry.create("aggregator", method, **few)
    here = misc_cli.aggregate(named.sort_values("item"), aggregator=by_name, calibrate=False)
    df = session.createDataFrame(answers)
    there = aggregate(
        df,
        aggregator=method,
        worker="who",
        item="what",
        label="says",
        partitions=partitions,
        probabilities=True,
        calibrate=False,
        **few,
    ).toPandas()
    there = there.sort_values("item", ignore_index=True)
    assert there["item"].tolist() == here.labels["item"].tolist()
    assert there["label"].tolist() == here.labels["label"].tolist()
    found = there[[f"p_{name}" for name in here.posteriors.columns]].to_numpy()
    np.testing.assert_allclose(found, here.posteriors.to_numpy(), atol=1e-8)


def test_gold_and_calibration_are_those_of_memory(session: Any, answers: pd.DataFrame) -> None:
    named = answers.set_axis(["worker", "item", "label"], axis=1)
    known = dict.fromkeys(sorted(set(named["item"]))[::9], "c")
    gold = pd.DataFrame({"item": list(known), "label": list(known.values())})
    few: dict[str, Any] = {"max_iter": 4, "tol": 0.0}
    method = misc_cli.DawidSkene(**few)
    here = misc_cli.aggregate(named.sort_values("item"), aggregator=method, gold=gold)
    df = session.createDataFrame(named)
    there = aggregate(df, aggregator="ds-em", gold=known, partitions=2, **few).toPandas()
    there = there.sort_values("item", ignore_index=True)
    assert there["label"].tolist() == here.labels["label"].tolist()
    np.testing.assert_allclose(there["confidence"], here.labels["confidence"], atol=1e-8)


def test_figures_workers_and_details_are_those_of_memory(
    session: Any, answers: pd.DataFrame
) -> None:
    named = answers.set_axis(["worker", "item", "label"], axis=1)
    again = named[named["worker"] == named["worker"][0]].assign(worker="a copy")
    named = pd.concat([named, again], ignore_index=True)
    few: dict[str, Any] = {"max_iter": 4, "tol": 0.0}
    method, ordered = misc_cli.DawidSkene(**few), named.sort_values("item")
    here = misc_cli.aggregate(ordered, aggregator=method, calibrate=False)
    df = session.createDataFrame(named)
    there = fit(df, aggregator="ds-em", partitions=2, calibrate=False, **few)
    of_memory = {name: here.figures[name] for name in there.figures}
    assert there.figures == pytest.approx(of_memory, abs=2e-6)
    assert there.figures["alike-pairs"] == 1
    workers = there.workers().toPandas().sort_values("worker", ignore_index=True)
    columns = ["worker", "answers", "accuracy", "verdict"]
    found = here.workers.sort_values("worker", ignore_index=True)[columns]
    pd.testing.assert_frame_equal(workers[columns], found, check_dtype=False)
    details = there.labels(probabilities=True, item_details=True).toPandas()
    details = details.sort_values("item", ignore_index=True)
    for name in ("answers", "agreement", "votes_a"):
        np.testing.assert_allclose(details[name], here.labels[name], atol=1e-8)
    assert list(details.columns)[-3:] == ["p_a", "p_b", "p_c"]


def test_the_automatic_choice_is_that_of_memory(session: Any, answers: pd.DataFrame) -> None:
    named = answers.set_axis(["worker", "item", "label"], axis=1)
    here = misc_cli.aggregate(named.sort_values("item"))
    there = fit(session.createDataFrame(named), aggregator="auto", partitions=2)
    assert there.result.fit.selection["chosen"] == here.outcome.fit.selection["chosen"]
    labels = there.labels().toPandas()
    assert labels["label"].tolist() == here.labels["label"].tolist()
    np.testing.assert_allclose(labels["confidence"], here.labels["confidence"], atol=1e-8)
    there.unpersist()


def test_a_worker_who_contradicts_itself_is_named(session: Any) -> None:
    rows = [("ann", "i1", "yes"), ("ann", "i1", "no"), ("bob", "i1", "no")]
    df = session.createDataFrame(rows, ["worker", "item", "label"])
    with pytest.raises(InputError, match="'ann' gave different labels to item 'i1'") as told:
        aggregate(df)
    assert str(told.value).endswith('; count all of them with duplicates="all"')
    found = aggregate(df, aggregator="mv", duplicates="all").collect()
    assert [tuple(row) for row in found] == [("i1", "no", pytest.approx(2 / 3))]


def test_types_are_those_of_the_answers_and_nothing_stays_cached(session: Any) -> None:
    """Twelve blocks, so that executors add sums of sums."""
    rows = [(worker, item, (worker + item) % 2) for worker in range(3) for item in range(40)]
    df = session.createDataFrame(rows, "worker int, item bigint, label int")
    cached = session.sparkContext._jsc.getPersistentRDDs
    before = cached().size()
    run = fit(df, aggregator="mv", calibrate=False, partitions=12)
    assert run.labels().dtypes[:2] == [("item", "bigint"), ("label", "int")]
    assert run.workers().dtypes[0] == ("worker", "int")
    assert (run.engine.n_items, run.engine.n_votes) == (40, 120)
    assert cached().size() == before + 1
    run.unpersist()
    assert cached().size() == before
    with pytest.raises(InputError):
        fit(session.createDataFrame([(1, 1, 0), (1, 1, 1)], df.schema))
    assert cached().size() == before


def test_executors_without_misc_are_told_in_one_line() -> None:
    with pytest.raises(ConfigError, match="the executors have no misc-cli"), _plainly():
        raise RuntimeError("PythonException: ModuleNotFoundError: No module named 'misc_cli'")


def test_what_cannot_be_is_said(session: Any) -> None:
    df = session.createDataFrame([("ann", None, "yes")], "worker string, item string, label string")
    with pytest.raises(InputError, match="a label without its item"):
        aggregate(df)
    with pytest.raises(ConfigError, match="not 'mmce-c'"):
        aggregate(df, aggregator="mmce-c")
    with pytest.raises(InputError, match="no column 'who'"):
        aggregate(df, worker="who")
