"""The Python API: DataFrames in and out, the same result as the command line."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from misc_cli import aggregate, compare, read_answers
from misc_cli.__main__ import run
from misc_cli.core.types import Iteration
from misc_cli.errors import ConfigError, ConvergenceWarning, InputError, MiscWarning
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
    with pytest.raises(InputError, match="no column 'worker'"):
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
    assert found["method"].tolist() == ["one-coin", "mv"]
    assert found["score"].is_monotonic_decreasing
    judged = compare(frame, completers=["none"], aggregators=["mv"], truth=SAMPLE / "truth.csv")
    assert judged["error"].tolist() == pytest.approx([25.05], abs=0.01)
