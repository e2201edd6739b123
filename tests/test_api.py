"""The Python API: what the commands do as functions, data frames of any kind in and out."""

from __future__ import annotations

import doctest
import json
import os
import subprocess
import sys
import typing
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import misc_cli
from misc_cli import aggregate, compare, read_answers, registry
from misc_cli.__main__ import run
from misc_cli.arguments import AggregatorName, CompleterName, Duplicates, Preset
from misc_cli.data.parameters import DUPLICATES
from misc_cli.data.types import Iteration, Labels
from misc_cli.errors import (
    ConfigError,
    ConvergenceWarning,
    InputError,
    MiscWarning,
    python_words,
)
from misc_cli.run import pipeline
from tests.conftest import REPO

SAMPLE = REPO / "sample_data"
FUNCTIONS = [
    *("aggregate", "compare", "diff", "evaluate", "inspect", "items", "queue"),
    *("read_answers", "report", "simulate", "workers"),
]


@pytest.fixture
def answers() -> pd.DataFrame:
    generator = np.random.default_rng(2)
    truth = generator.integers(3, size=50)
    worker, item = (axis.ravel() for axis in np.meshgrid(np.arange(6), np.arange(50)))
    right = generator.random(len(item)) < 0.7
    label = np.where(right, truth[item], generator.integers(3, size=len(item)))
    return pd.DataFrame({"worker": worker, "item": item, "label": label})


def test_every_function_is_found_documented_and_its_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert set(FUNCTIONS) <= set(dir(misc_cli))
    finder = doctest.DocTestFinder()
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for name in FUNCTIONS:
        function = getattr(misc_cli, name)
        assert "Parameters\n" in function.__doc__, name
        (test,) = finder.find(function, name)
        assert test.examples, name
        assert not runner.run(test).failed, name
    for module in ("misc_cli", "misc_cli.estimators"):
        assert not doctest.testmod(import_module(module)).failed


def test_the_names_that_a_type_checker_knows_are_those_of_the_registry() -> None:
    assert typing.get_args(AggregatorName) == ("auto", *registry.AGGREGATORS)
    assert typing.get_args(CompleterName) == ("auto", "none", *registry.COMPLETERS)
    assert typing.get_args(Preset) == registry.PRESETS
    assert typing.get_args(Duplicates) == DUPLICATES


WRONG = """
import pandas as pd
import misc_cli
from misc_cli.estimators import DawidSkene
answers = pd.DataFrame()
misc_cli.aggregate(answers, aggregator="ds-em", completer="tucker", preset="paper")
misc_cli.aggregate(answers, aggregator=misc_cli.DawidSkene(max_iter=3), seed=1).labels.head()
misc_cli.aggregate("answers.csv", aggregator=lambda labels: labels.counts).labels.head()
misc_cli.aggregate(answers, aggregator="ds-emm")  # wrong
misc_cli.aggregate(answers, max_iterr=3)  # wrong
misc_cli.aggregate(answers, completer="tuker")  # wrong
misc_cli.aggregate(answers, preset="best")  # wrong
misc_cli.aggregate(answers, seed="1")  # wrong
misc_cli.DawidSkene(max_iterr=3)  # wrong
misc_cli.Tucker(rank=(1, 1, 1))  # wrong
misc_cli.compare(answers, aggregators=["mv", "ds"])  # wrong
misc_cli.queue(answers, bugdet=3)  # wrong
misc_cli.read_answers("a.csv", reading=misc_cli.ReadOptions(delimter=";"))  # wrong
misc_cli.simulate(worker=3)  # wrong
misc_cli.evaluate(3, answers)  # wrong
misc_cli.nothing  # wrong
DawidSkene(nonsense=3)  # wrong
DawidSkene(n_iter="many")  # wrong
"""


def test_a_type_checker_refuses_a_misspelt_method_or_parameter(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed here")
    place = tmp_path / "wrong_calls.py"
    place.write_text(WRONG)
    words = ["-m", "mypy", "--strict", "--follow-imports=silent", "--ignore-missing-imports"]
    done = subprocess.run(
        [sys.executable, *words, "--cache-dir", str(REPO / ".mypy_cache"), str(place)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(REPO)},
    )
    refused = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error: " in line}
    lines = WRONG.splitlines()
    assert refused == {at for at, line in enumerate(lines, 1) if "# wrong" in line}, done.stdout


def test_a_frame_of_numbers_in_a_result_of_frames_out(answers: pd.DataFrame) -> None:
    before = answers.copy()
    seen: list[Iteration] = []
    method = misc_cli.DawidSkene(shrinkage=1.0)
    result = aggregate(answers, aggregator=method, on_iteration=seen.append)
    pd.testing.assert_frame_equal(answers, before)
    assert list(result.labels.columns[:3]) == ["item", "label", "confidence"]
    assert len(result.labels) == 50
    assert result.labels["label"].dtype == result.labels["item"].dtype == np.int64
    assert result.posteriors.shape == (50, 3)
    np.testing.assert_allclose(result.posteriors.sum(axis=1), 1.0)
    assert result.posteriors.loc[7].idxmax() == result.labels.set_index("item").label[7]
    assert len(result.workers) == 6
    assert len(result.diagnostics) == result.iterations == len(seen)
    assert result.converged
    assert result.error is None
    assert repr(result).startswith("<Result: 50 items from 300 answers by 6 workers, 3 classes")
    said = result.confusions[3]
    assert said.index.name == "true"
    assert said.columns.equals(pd.Index([0, 1, 2], name="said"))
    np.testing.assert_allclose(said.sum(axis=1), 1.0)
    assert result.outcome.methods.resolved["aggregator"]["shrinkage"] == 1.0


# items, workers and labels of four answers: item 1 first, then item 0
TYPES: dict[str, tuple[Any, Any, Any]] = {
    "int": ([10, 10, 9, 9], [2, 1, 2, 1], [1, 1, 0, 0]),
    "str": (["b", "b", "a", "a"], list("vuvu"), list("xxyy")),
    "bool": ([10, 10, 9, 9], [2, 1, 2, 1], [True, True, False, False]),
    "float": ([1.5, 1.5, 1.0, 1.0], [2.0, 1.0, 2.0, 1.0], [0.5, 0.5, 2.0, 2.0]),
    "missing": ([10, 10, 9, 9], [2, 1, 2, 1], [1, 1, 0, None]),
}
MIXED = ([1, 1, "1", "1"], ["a", 7, "a", 7], ["x", "x", 3, 3])


@pytest.mark.parametrize("name", [*TYPES, "category", "mixed", "time"])
def test_pandas_types_and_order_round_trip(name: str) -> None:
    columns = TYPES.get(name, MIXED if name == "mixed" else TYPES["str"])
    frame = pd.DataFrame(dict(zip(("task", "worker", "label"), columns, strict=True)))
    if name == "category":
        frame = frame.astype("category")
        frame["label"] = frame["label"].cat.set_categories(["y", "z", "x"], ordered=True)
    if name == "time":
        frame["task"] = pd.to_datetime(["2026-02-01"] * 2 + ["2026-01-01"] * 2)
    result = aggregate(frame, aggregator="mv")
    found = result.labels
    assert found["item"].tolist() == frame["task"].unique().tolist(), "in order of appearance"
    assert found["item"].dtype == frame["task"].dtype
    assert found["label"].tolist() == frame["label"].dropna().unique().tolist()
    assert found["label"].dtype == frame["label"].dtype
    truth = frame.drop_duplicates("task").set_index("task")["label"]
    by_item = found.set_index("item")["label"]
    assert (by_item == truth.reindex(by_item.index)).mean() == 1.0
    assert aggregate(frame, aggregator="mv", truth=truth).error == 0.0
    workers = result.workers["worker"]
    assert workers.tolist() == frame["worker"].unique().tolist()
    assert result.posteriors.index.tolist() == found["item"].tolist()
    if name == "category":
        assert result.posteriors.columns.tolist() == ["y", "x"], "as the category has them"


def test_spaces_around_a_name_are_no_part_of_it() -> None:
    frame = pd.DataFrame({"item": [" a", "a", "b"], "worker": list("uvu"), "label": list("xxy")})
    assert aggregate(frame, aggregator="mv").labels["item"].tolist() == [" a", "b"]


def test_an_enum_of_polars_stays_one() -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    frame = polars.DataFrame(
        {"item": [2, 2, 1], "worker": list("uvu"), "label": ["hi", "hi", "lo"]},
        schema_overrides={"label": polars.Enum(["lo", "mid", "hi"]), "worker": polars.Categorical},
    )
    result = aggregate(frame, aggregator="mv")
    assert result.to_frame().schema["label"] == frame.schema["label"]
    assert result.workers.schema["worker"] == frame.schema["worker"]


@pytest.mark.parametrize("kind", ["polars", "pyarrow"])
@pytest.mark.parametrize("name", [*TYPES, "category"])
def test_arrow_frames_come_back_as_they_came(kind: str, name: str) -> None:
    columns = dict(zip(("item", "worker", "label"), TYPES.get(name, TYPES["str"]), strict=True))
    table = pa.table(columns)
    if name == "category":
        at = table.column_names.index("label")
        table = table.set_column(at, "label", table["label"].dictionary_encode())
    frame: Any = table
    if kind == "polars":
        frame = pytest.importorskip("polars", reason="polars is not installed").from_arrow(table)
    result = aggregate(frame, aggregator="mv")
    for found in (result.labels, result.to_frame(), misc_cli.items(result)):
        assert type(found) is type(frame)
        back = pa.table(found)
        assert sorted(back["item"].to_pylist()) == sorted(set(columns["item"]))
        assert back.schema.field("item").type == pa.table(frame).schema.field("item").type
        assert back.schema.field("label").type == pa.table(frame).schema.field("label").type
    assert pa.table(result.labels)["item"].to_pylist() == list(dict.fromkeys(columns["item"]))
    assert type(result.workers) is type(misc_cli.queue(result)) is type(frame)
    assert pa.table(result.posteriors).column_names[0] == "item"
    assert (
        aggregate(
            frame,
            aggregator="mv",
            truth=frame[["item", "label"]] if kind == "polars" else frame.select(["item", "label"]),
        ).error
        == 0.0
    )


def test_the_command_writes_what_the_function_returns(
    answers: pd.DataFrame, tmp_path: Path
) -> None:
    source, target = tmp_path / "answers.csv", tmp_path / "labels.csv"
    answers.to_csv(source, index=False)
    assert run(["aggregate", str(source), "-o", str(target), "-q"]) == 0
    written = pd.read_csv(target, dtype={"item": "str", "label": "str"}).set_index("item")
    results = [aggregate(answers), aggregate(source), aggregate([source])]
    for result in [*results, aggregate(read_answers(source))]:
        labels = result.labels.set_index(result.labels["item"].astype(str)).loc[written.index]
        assert labels["label"].astype(str).tolist() == written["label"].tolist()
        np.testing.assert_allclose(labels["confidence"], written["confidence"], atol=5e-7)


def test_missing_labels_are_no_answers(answers: pd.DataFrame) -> None:
    thin = answers.astype({"label": "float"})  # what pandas makes of whole numbers with gaps
    thin.loc[:9, "label"] = None
    labels = aggregate(thin).labels.sort_values("item", ignore_index=True)
    expected = aggregate(answers[10:]).labels.sort_values("item", ignore_index=True)
    pd.testing.assert_frame_equal(labels, expected, check_dtype=False)


def test_truth_and_gold_as_frames_and_series(answers: pd.DataFrame) -> None:
    known = pd.DataFrame({"item": [0, 1], "label": [2, 2]})
    result = aggregate(answers, gold=known, truth=known.set_index("item")["label"])
    assert result.error == 0
    assert result.posteriors.loc[[0, 1], 2].tolist() == [1, 1]


def test_an_own_function_is_a_method(answers: pd.DataFrame) -> None:
    def squared(labels: Labels) -> Any:
        workers, items, classes = labels.triplets
        assert labels.matrix.shape == (labels.n_items, labels.n_workers * labels.n_classes)
        assert len(workers) == len(items) == len(classes) == labels.matrix.nnz
        return labels.counts**2

    result = aggregate(answers, aggregator=squared)
    votes = aggregate(answers, aggregator="mv")
    assert result.labels["label"].tolist() == votes.labels["label"].tolist()
    raw = aggregate(answers, aggregator=squared, calibrate=False).labels["confidence"]
    assert (raw >= votes.labels["confidence"] - 1e-12).all()
    assert result.outcome.methods.names == {"aggregator": "squared"}
    completed = aggregate(answers, aggregator=squared, completer=misc_cli.Tucker(ranks=(2, 3, 2)))
    assert completed.outcome.methods.names["completer"] == "tucker"
    few = misc_cli.DawidSkene(max_iter=2)
    found = compare(answers, completers=["none"], aggregators=["mv", squared, few])
    assert set(found["method"]) == {"mv", "squared", "ds-em (max_iter=2)", "null"}
    with pytest.raises(ConfigError, match=r"shape \(3,\); posteriors are items × classes"):
        aggregate(answers, aggregator=lambda _: [1, 2, 3])
    with pytest.raises(ConfigError, match="finite and not negative"):
        aggregate(answers, aggregator=lambda labels: labels.counts - 2)


def test_errors_and_warnings_are_in_pythons_words(answers: pd.DataFrame, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no worker column among") as refused:
        aggregate(answers.rename(columns={"worker": "who"}))
    assert "worker_col=" in str(refused.value)
    assert "--" not in str(refused.value)
    odd = tmp_path / "odd.csv"
    odd.write_text("who,thing,said\nanna,1,x\nbert,1,y\nanna,2,x\n")
    with pytest.raises(InputError) as refused:
        aggregate(odd, worker_col="nobody_here")
    assert "--" not in str(refused.value)
    with pytest.raises(InputError, match=r"^no--such.csv: no such file"):
        aggregate("no--such.csv")
    assert python_words("say --no-answer or --no-header") == "say no_answer= or header=False"
    with pytest.raises(ConfigError, match="max_iter=0: give a whole number from 1"):
        misc_cli.DawidSkene(max_iter=0)
    with pytest.raises(ConfigError, match="layout=round: choose from long"):
        misc_cli.ReadOptions(layout="round")
    with pytest.raises(ConfigError, match="no preset"):
        aggregate(answers, preset="best")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="no aggregator is called 'ds-emm'"):
        aggregate(answers, aggregator="ds-emm")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="is no completer; give a name or a method"):
        aggregate(answers, completer=3)  # type: ignore[arg-type]
    once = misc_cli.DawidSkene(max_iter=1)
    with pytest.warns(ConvergenceWarning, match="raise max_iter= or tol=") as caught:
        result = aggregate(answers, aggregator=once)
    assert result.warnings == tuple(str(warning.message) for warning in caught)
    assert caught[0].filename == __file__, "a warning should point at the caller"
    with pytest.warns(MiscWarning) as caught:
        misc_cli.workers(answers.iloc[[0, 7]])
    assert {warning.filename for warning in caught} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MiscWarning)
        assert not aggregate(answers, aggregator=once).converged


@pytest.mark.parametrize(
    "bad",
    [
        {"seed": -1},
        {"seed": 1.5},
        {"threads": 0},
        {"time_budget": float("nan")},
        {"duplicates": "newest"},
        {"class_order": ["0", "", "1", "2"]},
        {"class_order": "abc"},
    ],
    ids=repr,
)
def test_a_value_that_cannot_be_is_said_to_be_so(
    answers: pd.DataFrame, bad: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match=next(iter(bad))):
        aggregate(answers, **{"aggregator": "ds-em", **bad})


@pytest.mark.parametrize("role", ["answers", "gold", "truth"])
@pytest.mark.parametrize("given", [{"item": ["0"]}, 5, [5]], ids=repr)
def test_what_is_no_table_and_no_path(answers: pd.DataFrame, role: str, given: Any) -> None:
    with pytest.raises(InputError, match="neither a data frame nor the path"):
        aggregate(**{"answers": answers, "aggregator": "mv", role: given})


def test_compare_ranks_methods_without_truth() -> None:
    frame = read_answers(SAMPLE / "answers.csv")
    found = compare(frame, completers=["none"], aggregators=["mv", "one-coin"])
    assert found["method"].tolist() == ["one-coin", "mv", "null"]
    assert found["score"].is_monotonic_decreasing
    judged = compare(frame, completers=["none"], aggregators=["mv"], truth=SAMPLE / "truth.csv")
    assert judged["error"].tolist()[:1] == pytest.approx([25.05], abs=0.01)


def test_evaluate_diff_inspect_and_report_are_those_of_the_commands(
    answers: pd.DataFrame, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    result = aggregate(SAMPLE / "answers.csv", aggregator="ds-em", truth=SAMPLE / "truth.csv")
    result.save(tmp_path)
    labels = str(tmp_path / "labels.csv")
    assert run(["evaluate", labels, str(SAMPLE / "truth.csv"), "--json"]) == 0
    command = json.loads(capfd.readouterr().out)
    for given in (result, result.labels, labels):
        judged = misc_cli.evaluate(given, SAMPLE / "truth.csv")
        assert judged.to_json()["confusion"] == command["confusion"]
    assert misc_cli.diff(result, labels).empty
    votes = aggregate(SAMPLE / "answers.csv", aggregator="mv")
    assert set(misc_cli.diff(votes, result)["change"]) == {"flipped"}
    assert run(["inspect", str(SAMPLE / "answers.csv"), "--json"]) == 0
    command = json.loads(capfd.readouterr().out)
    told = misc_cli.inspect(SAMPLE / "answers.csv")
    assert json.loads(json.dumps(told["questions"], default=str)) == command["questions"]
    record = tmp_path / "labels.run.json"
    again, here = misc_cli.workers(record), misc_cli.workers(result)
    assert again["worker"].tolist() == here["worker"].tolist()
    assert misc_cli.report(record, tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_pictures(answers: pd.DataFrame) -> None:
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    matplotlib.use("Agg")
    result = aggregate(answers, aggregator="ds-em")
    shown = result.plot.confusion(3)
    assert shown.get_ylabel() == "true"
    assert [text.get_text() for text in shown.get_xticklabels()] == ["0", "1", "2"]
    moved = result.plot.convergence().get_lines()[0].get_ydata()
    assert len(moved) == result.iterations
    dots = result.plot.agreement().collections[0].get_offsets()
    assert len(dots) == 6
    with pytest.raises(ConfigError, match="give truth="):
        result.plot.calibration()
    drawn = result.plot.calibration(result.labels[["item", "label"]])
    assert {round(y, 6) for _, y in drawn.collections[-1].get_offsets()} == {1.0}
    matplotlib.pyplot.close("all")


def test_the_python_functions_start_no_process_unless_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from misc_cli.data import resources

    asked = []
    monkeypatch.setattr(pipeline, "run", lambda *_, **__: asked.append(resources.PROCESSES.get()))
    frame = pd.DataFrame({"worker": ["a"], "item": ["1"], "label": ["x"]})
    aggregate(frame, aggregator="mv")
    aggregate(frame, aggregator="mv", processes=True)
    assert asked == [False, True]


def test_one_blas_thread_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the host's environment says: our own threads walk the items."""
    from threadpoolctl import threadpool_info

    seen: list[int] = []

    def look(*_: object, **__: object) -> None:
        pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
        seen.extend(pool["num_threads"] for pool in pools)

    monkeypatch.setattr(pipeline, "run", look)
    aggregate(pd.DataFrame({"worker": ["a"], "item": ["1"], "label": ["x"]}), aggregator="mv")
    assert set(seen) == {1}


def test_columns_by_name_and_how_to_read(tmp_path: Path) -> None:
    frame = pd.DataFrame({"task": ["1", "1", "2"], "worker": ["a", "b", "a"], "label": list("xyx")})
    assert aggregate(frame, aggregator="mv").labels["item"].tolist() == ["1", "2"]
    renamed = frame.rename(columns={"label": "verdict"})
    assert len(aggregate(renamed, aggregator="mv", label_col="verdict").labels) == 2
    with pytest.raises(ConfigError, match="delimiter says how to read a file"):
        aggregate(frame, reading=misc_cli.ReadOptions(delimiter=";"))
    place = tmp_path / "answers.csv"
    frame.to_csv(place, index=False, sep=";")
    found = read_answers(place, reading=misc_cli.ReadOptions(delimiter=";"))
    assert found["label"].tolist() == list("xyx")


def test_progress_is_told_on_stderr(
    answers: pd.DataFrame, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = iter(range(100_000))
    monkeypatch.setattr("misc_cli.arguments.time.monotonic", lambda: float(next(ticks)))
    aggregate(answers, aggregator="ds-em", progress=True)
    said = capsys.readouterr()
    assert said.err.startswith("ds-em 2\nds-em 4\n")
    assert said.out == ""


def test_a_result_can_be_saved_verified_and_shown(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"worker": ["a", "b", "c"] * 2, "item": ["1"] * 3 + ["<b>2"] * 3, "label": list("xxyyyx")}
    )
    result = aggregate(frame, aggregator="ds-em")
    result.save(tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").iterdir() if not path.name.startswith(".")}
    assert names == {"labels.csv", "workers.csv", "labels.diagnostics.jsonl", "labels.run.json"}
    saved = pd.read_csv(tmp_path / "out" / "labels.csv", dtype={"item": str})
    assert saved.columns.tolist() == result.to_frame().columns.tolist()
    assert run(["verify", str(tmp_path / "out" / "labels.run.json")]) == 0
    shown = result._repr_html_()
    assert "&lt;b&gt;2" in shown
    assert "2 items from 6 answers" in shown
