"""A run.json that somebody changed: every command that reads one says so in a line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from misc_cli.__main__ import run
from tests.conftest import REPO

ODD: dict[str, Callable[[dict[str, Any]], object]] = {
    "files are numbers": lambda record: record.update(files=[3]),
    "files are none": lambda record: record.update(files=None),
    "request is a number": lambda record: record.update(request=3),
    "request is empty": lambda record: record.update(request={}),
    "settings are a list": lambda record: record["request"].update(settings=[]),
    "inputs have no names": lambda record: record.update(inputs=[{}]),
    "outputs are a list": lambda record: record.update(outputs=[]),
    "counts are none": lambda record: record.update(counts=None),
    "classes are numbers": lambda record: record.update(classes=[1, 2]),
    "state is made up": lambda record: record.update(state={"folder": 3}),
    "a name has a NUL": lambda record: record["inputs"][0].update(name="a\0b"),
    "questions are numbers": lambda record: record.update(questions=[1]),
    "nothing is anything": lambda record: record.update(
        {key: None for key in record if key not in ("schema", "misc")}
    ),
}
COMMANDS = (["rerun"], ["report", "-o", "r.html"], ["items"], ["workers"])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    answers = str(REPO / "sample_data" / "answers.csv")
    words = ["aggregate", answers, "--aggregator", "mv", "-q", "-o", str(folder / "labels.csv")]
    assert run(words) == 0
    return folder / "labels.run.json"


@pytest.mark.parametrize("change", [*ODD, "deep"])
def test_an_odd_record_is_an_error_of_the_input(
    change: str,
    finished: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    odd = finished.with_name("odd.run.json")
    record = json.loads(finished.read_text())
    odd.write_text("[" * 100_000 if change == "deep" else "")
    if change != "deep":
        ODD[change](record)
        odd.write_text(json.dumps(record))
    for first, *more in COMMANDS:
        assert run([first, str(odd), *more]) == 2, first
        said = capfd.readouterr().err
        assert "odd.run.json" in said
        assert said.count("\n") == 1
    assert run(["verify", str(odd)]) in (0, 4)


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(finished.parent)
    (finished.parent / "labels.csv").unlink()
    os.mkfifo("labels.csv")
    assert run(["verify", str(finished)]) == 4


def test_a_table_that_was_changed_since_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    answers = str(REPO / "sample_data" / "answers.csv")
    assert run(["aggregate", answers, "--aggregator", "mv", "-q", "-o", "labels.csv"]) == 0
    with Path("labels.csv").open("a") as labels:
        labels.write("another,cat,1\n")
    for words in (["report", "-o", "r.html"], ["items"], ["workers"]):
        assert run([words[0], "labels.run.json", *words[1:]]) == 2
        assert "labels.csv: changed since the run" in capfd.readouterr().err
