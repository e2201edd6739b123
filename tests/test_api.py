"""The Python API: DataFrames in and out, the same result as the command line."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from misc_cli import aggregate, compare, read_answers
from misc_cli.__main__ import run
from misc_cli.api import _seconds
from misc_cli.data.types import Iteration
from misc_cli.errors import ConfigError, ConvergenceWarning, InputError, MiscWarning
from misc_cli.run import pipeline
from tests.conftest import REPO

SAMPLE = REPO / "sample_data"


@pytest.fixture
def answers() -> pd.DataFrame:
    generator = np.random.default_rng(2)
    truth = generator.integers(3, size=50)
    worker, item = (axis.ravel() for axis in np.meshgrid(np.arange(6), np.arange(50)))
    right = generator.random(len(item)) < 0.7
    label = np.where(right, truth[item], generator.integers(3, size=len(item)))
    return pd.DataFrame({"worker": worker, "item": item, "label": label})


def test_a_frame_of_numbers_in_a_result_of_frames_out(answers: pd.DataFrame) -> None:
    before = answers.copy()
    seen: list[Iteration] = []
    result = aggregate(answers, aggregator="ds-em", shrinkage=1.0, on_iteration=seen.append)
    pd.testing.assert_frame_equal(answers, before)
    assert list(result.labels.columns[:3]) == ["item", "label", "confidence"]
    assert len(result.labels) == 50
    assert pd.api.types.is_string_dtype(result.labels.label)
    assert result.posteriors.shape == (50, 3)
    np.testing.assert_allclose(result.posteriors.sum(axis=1), 1.0)
    assert result.posteriors.loc["7"].idxmax() == result.labels.set_index("item").label["7"]
    assert len(result.workers) == 6
    assert len(result.diagnostics) == result.iterations == len(seen)
    assert result.converged
    assert result.error is None
    assert repr(result).startswith("<Result: 50 items from 300 answers by 6 workers, 3 classes")


def test_the_command_writes_what_the_function_returns(
    answers: pd.DataFrame, tmp_path: Path
) -> None:
    source, target = tmp_path / "answers.csv", tmp_path / "labels.csv"
    answers.to_csv(source, index=False)
    assert run(["aggregate", str(source), "-o", str(target), "-q"]) == 0
    written = pd.read_csv(target, dtype={"item": "str", "label": "str"})
    for given in (answers, source, [source], read_answers(source)):
        labels = aggregate(given).labels
        assert labels.item.tolist() == written.item.tolist()
        assert labels.label.tolist() == written.label.tolist()
        np.testing.assert_allclose(labels.confidence, written.confidence, atol=5e-7)


def test_missing_labels_are_no_answers(answers: pd.DataFrame) -> None:
    thin = answers.astype({"label": "float"})  # what pandas makes of whole numbers with gaps
    thin.loc[:9, "label"] = None
    labels = aggregate(thin).labels
    pd.testing.assert_frame_equal(labels, aggregate(answers[10:]).labels)
    assert set(labels.label) == {"0", "1", "2"}


def test_truth_and_gold_as_frames(answers: pd.DataFrame) -> None:
    known = pd.DataFrame({"item": [0, 1], "label": [2, 2]})
    result = aggregate(answers, gold=known, truth=known)
    assert result.error == 0
    assert result.posteriors.loc[["0", "1"], "2"].tolist() == [1, 1]


def test_errors_and_warnings_are_the_librarys_own(answers: pd.DataFrame) -> None:
    with pytest.raises(InputError, match="no worker column among"):
        aggregate(answers.rename(columns={"worker": "who"}))
    with pytest.raises(ConfigError, match="--shrinkage does not apply"):
        aggregate(answers, aggregator="mv", shrinkage=1.0)
    with pytest.raises(ConfigError, match="no preset"):
        aggregate(answers, preset="best")
    with pytest.warns(ConvergenceWarning, match="did not converge") as caught:
        result = aggregate(answers, max_iter=1)
    assert result.warnings == tuple(str(warning.message) for warning in caught)
    assert caught[0].filename == __file__, "a warning should point at the caller"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MiscWarning)
        assert not aggregate(answers, max_iter=1).converged


@pytest.mark.parametrize(
    "bad",
    [
        {"seed": -1},
        {"seed": 1.5},
        {"threads": 0},
        {"time_budget": float("nan")},
        {"duplicates": "newest"},
        {"class_order": ["0", "", "1", "2"]},
        {"class_prior": "flat"},
        {"tol": -1.0},
        {"tol": "small"},
        {"max_iter": 0},
        {"max_iter": 2.5},
        {"shrinkage": float("inf")},
        {"aggregator": "mmce-c", "regularization": float("nan")},
        {"aggregator": "mmce-c", "center": "middle"},
        {"max_iter": True},
        {"completer": "tucker", "ranks": (0, 1, 1)},
        {"completer": "tucker", "ranks": (1, 1)},
        {"completer": "tucker", "ranks": (1.5, 1, 1)},
        {"completer": "tucker", "ranks": "many"},
        {"completer": "lrtc", "lrtc_weights": (1.0, 1.0)},
        {"completer": "tucker", "passes": 0},
        {"completer": "tucker", "slice": "thin"},
        {"completer": "lrtc", "rho": 0.0},
        {"completer": "lrtc", "lrtc_weights": (1.0, 1.0, float("nan"))},
        {"completer": "tenals", "observed": "some"},
    ],
    ids=repr,
)
def test_a_value_that_cannot_be_is_said_to_be_so(
    answers: pd.DataFrame, bad: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match=list(bad)[-1].replace("_", "-")):
        aggregate(answers, **{"aggregator": "ds-em", **bad})


@pytest.mark.parametrize("role", ["answers", "gold", "truth"])
@pytest.mark.parametrize("given", [{"item": ["0"]}, 5, [5]], ids=repr)
def test_what_is_no_table_and_no_path(answers: pd.DataFrame, role: str, given: Any) -> None:
    with pytest.raises(InputError, match="neither a DataFrame nor the path"):
        aggregate(**{"answers": answers, "aggregator": "mv", role: given})


def test_compare_ranks_methods_without_truth() -> None:
    frame = read_answers(SAMPLE / "answers.csv")
    found = compare(frame, completers=["none"], aggregators=["mv", "one-coin"])
    assert found["method"].tolist() == ["one-coin", "mv", "null"]
    assert found["score"].is_monotonic_decreasing
    judged = compare(frame, completers=["none"], aggregators=["mv"], truth=SAMPLE / "truth.csv")
    assert judged["error"].tolist()[:1] == pytest.approx([25.05], abs=0.01)


def test_the_python_functions_start_no_process_unless_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from misc_cli.data import resources

    asked = []
    monkeypatch.setattr(
        pipeline, "run", lambda *_, **__: asked.append(resources.may_start_processes())
    )
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


def test_reading_options_and_crowd_kits_columns(tmp_path: Path) -> None:
    frame = pd.DataFrame({"task": ["1", "1", "2"], "worker": ["a", "b", "a"], "label": list("xyx")})
    assert aggregate(frame, aggregator="mv").labels["item"].tolist() == ["1", "2"]
    renamed = frame.rename(columns={"label": "verdict"})
    assert len(aggregate(renamed, aggregator="mv", label_col="verdict").labels) == 2
    with pytest.raises(ConfigError, match="delimiter says how to read a file"):
        aggregate(frame, aggregator="mv", delimiter=";")
    with pytest.raises(ConfigError, match="lable_col: no such option; did you mean label_col"):
        aggregate(frame, aggregator="mv", lable_col="verdict")
    with pytest.raises(ConfigError, match="lable_col: no such way to read"):
        read_answers(tmp_path / "answers.csv", lable_col="verdict")


@pytest.mark.parametrize(("given", "seconds"), [("10s", 10.0), ("1.5m", 90.0), (7, 7)])
def test_a_time_budget_may_be_text(given: float | str, seconds: float) -> None:
    assert _seconds(given) == seconds
    with pytest.raises(ConfigError, match="soon"):
        _seconds("soon")


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


def test_estimators_take_what_crowd_kits_take() -> None:
    frame = pd.DataFrame(
        {"task": ["1", "1", "1", "2", "2"], "worker": list("abcab"), "label": list("xxyyy")}
    )
    from misc_cli.estimators import DawidSkene, MajorityVote, Misc

    for estimator in (DawidSkene(calibrate=False), MajorityVote(), Misc()):
        labels = estimator.fit_predict(frame)
        assert labels.to_dict() == {"1": "x", "2": "y"}
        assert labels.index.name == "task"
        probabilities = estimator.fit_predict_proba(frame)
        assert probabilities.columns.tolist() == ["x", "y"]
        assert probabilities.to_numpy()[1, 1] > 0.5
    assert MajorityVote().fit(frame).result_.outcome.methods.names == {"aggregator": "mv"}


def test_a_slip_in_an_options_name_is_said() -> None:
    answers = pd.DataFrame({"worker": ["a", "b"], "item": ["1", "1"], "label": ["x", "y"]})
    with pytest.raises(ConfigError, match="agregator: no such option; did you mean aggregator"):
        aggregate(answers, agregator="mv")


def test_a_state_is_shared_by_python_and_the_command_line(tmp_path: Path) -> None:
    """What one leaves, the other goes on with; labels are those of a run without a state."""
    lines = (SAMPLE / "answers.csv").read_text().splitlines(keepends=True)
    early, state = tmp_path / "early.csv", tmp_path / "state"
    early.write_text("".join(lines[:1700]))
    first = aggregate(early, aggregator="ds-em", state=state)
    second = aggregate(SAMPLE / "answers.csv", aggregator="ds-em", state=str(state))
    cold = aggregate(SAMPLE / "answers.csv", aggregator="ds-em")
    assert first.iterations > 2 * second.iterations
    assert cold.iterations > 2 * second.iterations
    assert (second.labels["label"] != cold.labels["label"]).sum() <= 2
    labels = tmp_path / "labels.csv"
    words = ["--aggregator", "ds-em", "--state", str(state), "-o", str(labels)]
    assert run(["aggregate", str(SAMPLE / "answers.csv"), *words]) == 0
    record = json.loads(labels.with_suffix(".run.json").read_text())
    assert record["state"]["methods"].startswith("kept from")
    (state / "state.json").write_text("{")
    with pytest.warns(MiscWarning, match="starts from nothing"):
        aggregate(early, aggregator="ds-em", state=state)
    assert aggregate(early, aggregator="ds-em", state=state).iterations > 0
