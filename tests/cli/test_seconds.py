"""Seconds that answers took: shown as a median of each worker, and never decide."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from misc_cli import aggregate
from misc_cli.__main__ import run
from tests.report.crowds import batch

NAMES = {"worker": "WorkerId", "item": "HITId", "label": "Answer.animal"}
EM = ["--aggregator", "ds-em"]


@pytest.fixture
def timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """A batch of Mechanical Turk; nobody says how long its first worker took."""
    monkeypatch.chdir(tmp_path)
    table = batch(60).drop(columns="Input.text").rename(columns=NAMES)
    seconds = np.random.default_rng(3).integers(2, 300, len(table))
    first = table["WorkerId"] == table["WorkerId"].min()
    table["WorkTimeInSeconds"] = pd.Series(seconds, dtype="Int64").mask(first)
    table.to_csv("batch.csv", index=False)
    table.drop(columns="WorkTimeInSeconds").to_csv("untimed.csv", index=False)
    return table


def listed(capfd: pytest.CaptureFixture[str], *words: str) -> dict[str, float | None]:
    capfd.readouterr()
    assert run(["workers", *words, "--json"]) == 0
    rows = json.loads(capfd.readouterr().out)["workers"]
    return {row["worker"]: row["seconds"] for row in rows}


def test_a_batch_shows_medians_everywhere_and_its_labels_stay_the_same_bytes(
    timed: pd.DataFrame, capfd: pytest.CaptureFixture[str]
) -> None:
    told = timed.groupby("WorkerId")["WorkTimeInSeconds"].median()
    expected = {worker: None if pd.isna(one) else one for worker, one in told.items()}
    assert list(expected.values()).count(None) == 1
    assert listed(capfd, "batch.csv", *EM) == expected
    for name in ("batch", "untimed"):
        words = ["--workers", f"{name}.workers.csv", "--report", f"{name}.html"]
        assert run(["aggregate", f"{name}.csv", *EM, *words, "-o", f"{name}.labels.csv"]) == 0
    assert Path("batch.labels.csv").read_bytes() == Path("untimed.labels.csv").read_bytes()
    assert listed(capfd, "batch.labels.run.json") == expected
    written, untimed = (pd.read_csv(f"{name}.workers.csv") for name in ("batch", "untimed"))
    pd.testing.assert_frame_equal(written.drop(columns="seconds"), untimed)
    page = Path("batch.html").read_text()
    assert 'data-head="Seconds"' in page
    assert "no verdict looks at it" in page
    assert 'data-head="Seconds"' not in Path("untimed.html").read_text()


def test_a_declared_column_is_taken_and_what_is_no_number_is_refused_with_its_line(
    timed: pd.DataFrame, capfd: pytest.CaptureFixture[str]
) -> None:
    timed = timed.rename(columns={"WorkTimeInSeconds": "pace"})
    timed.to_csv("pace.csv", index=False)
    medians = listed(capfd, "pace.csv", *EM, "--seconds-col", "pace")
    assert medians == listed(capfd, "batch.csv", *EM)
    one = timed.index[timed["pace"].notna()][4]
    timed["pace"] = timed["pace"].astype(object).where(timed.index != one, "1:20")
    timed.to_csv("pace.csv", index=False)
    assert run(["workers", "pace.csv", *EM, "--seconds-col", "pace"]) == 2
    assert f"pace.csv, line {one + 2}: '1:20' is no number of seconds" in capfd.readouterr().err
    assert run(["workers", "pace.csv", "--seconds-col", "WorkerId"]) == 2
    assert "is read as worker, item or label" in capfd.readouterr().err
    assert run(["aggregate", "batch.csv", "--engine", "disk", "--seconds-col", "pace"]) == 2
    assert "--seconds-col is for --engine local, not disk" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("column", "cells", "expected"),
    [
        ("Lead Time", ["3.5", "2", "", "4.5", "1e1", "6"], {"a": 4.0, "b": 6.0, "c": 6.0}),
        ("duration", ["3", "2", "1", "4", "long", "6"], None),
        ("time_spent", ["", "", "", "", "", ""], None),
        ("created", ["1", "2", "3", "4", "5", "6"], None),
    ],
)
def test_a_column_is_found_by_its_name_if_it_holds_numbers(
    tmp_path: Path, column: str, cells: list[str], expected: dict[str, float] | None
) -> None:
    frame = pd.DataFrame({"worker": [*"abcabc"], "item": [*"111222"], "label": [*"xxyyyx"]})
    frame[column] = cells
    frame.to_csv(tmp_path / "answers.csv", index=False)
    found = aggregate(tmp_path / "answers.csv", aggregator="mv").workers
    assert ("seconds" in found) == (expected is not None)
    if expected is not None:
        assert found.set_index("worker")["seconds"].to_dict() == expected


def test_a_row_of_several_answers_tells_no_ones_seconds(tmp_path: Path) -> None:
    rows = {"item": [*"123"], "rater_1": [*"xyx"], "rater_2": [*"xyy"], "rater_3": [*"xxx"]}
    pd.DataFrame({**rows, "duration": [3, 4, 5]}).to_csv(tmp_path / "wide.csv", index=False)
    assert "seconds" not in aggregate(tmp_path / "wide.csv", aggregator="mv").workers


def test_seconds_of_frames_of_several_files_and_of_label_studio(tmp_path: Path) -> None:
    frame = pd.DataFrame({"worker": [*"abab"], "item": [*"1122"], "label": [*"xxyy"]})
    frame["pace"] = [1.0, 2.5, 3.0, None]
    expected = {"a": 2.0, "b": 2.5}
    frame.drop(columns="pace").to_csv(tmp_path / "1.csv", index=False)
    frame.rename(columns={"pace": "seconds"}).to_csv(tmp_path / "2.csv", index=False)
    both = aggregate([tmp_path / "1.csv", tmp_path / "2.csv"], aggregator="mv").workers
    assert both.set_index("worker")["seconds"].to_dict() == expected
    tasks = [
        {
            "id": item,
            "data": {"text": f"text {item}"},
            "annotations": [
                {
                    "id": 10 * item + who,
                    "completed_by": who,
                    "lead_time": 2.5 * who * item,
                    "result": [
                        {"from_name": "mood", "type": "choices", "value": {"choices": [mood]}}
                    ],
                }
                for who in (1, 2)
            ],
        }
        for item, mood in enumerate(["sad", "glad", "sad"], 1)
    ]
    (tmp_path / "tasks.json").write_text(json.dumps(tasks))
    found = aggregate(tmp_path / "tasks.json", aggregator="mv").workers
    assert found.set_index("worker")["seconds"].to_dict() == {"1": 5.0, "2": 10.0}
