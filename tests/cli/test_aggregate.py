"""`misc aggregate` as a user meets it: files in, files and exit codes out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from misc_cli.__main__ import run
from misc_cli.api import aggregate

ANSWERS = """worker,item,label
ann,q1,yes
bob,q1,yes
eve,q1,no
ann,q2,no
bob,q2,no
eve,q2,yes
ann,q3,yes
bob,q3,yes
"""


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "answers.csv"
    path.write_text(ANSWERS)
    return path


def test_majority_vote_to_stdout(answers: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(["aggregate", "answers.csv", "--aggregator", "mv"]) == 0
    out, err = capfdbinary.readouterr()
    assert out == b"item,label,confidence\nq1,yes,0.666667\nq2,no,0.666667\nq3,yes,1\n"
    assert err == b""


def test_output_file_brings_diagnostics_and_manifest(answers: Path) -> None:
    assert run(["aggregate", "answers.csv", "-o", "labels.csv"]) == 0
    manifest = json.loads(Path("labels.run.json").read_text())
    records = [
        json.loads(line) for line in Path("labels.diagnostics.jsonl").read_text().splitlines()
    ]
    assert manifest["counts"]["answers"] == 8
    assert len(records) == manifest["iterations"]["ds-em"]
    assert sorted(path.name for path in answers.parent.iterdir()) == [
        "answers.csv",
        "labels.csv",
        "labels.diagnostics.jsonl",
        "labels.run.json",
    ]


def test_python_api_agrees_with_the_command(answers: Path) -> None:
    assert run(["aggregate", "answers.csv", "-o", "labels.csv"]) == 0
    labels = aggregate(answers).labels
    rows = [f"{r.item},{r.label},{r.confidence:.6g}" for r in labels.itertuples()]
    assert Path("labels.csv").read_text().splitlines()[1:] == rows
