"""`misc diff`, and `misc aggregate --changes` with the gates that compare with yesterday."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from misc_cli.__main__ import run
from tests.conftest import REPO

ANSWERS = REPO / "sample_data" / "answers.csv"


@pytest.fixture
def nights(tmp_path: Path) -> tuple[Path, Path]:
    """The sample as it was on the first night, and whole."""
    lines = ANSWERS.read_text().splitlines(keepends=True)
    first = tmp_path / "first.csv"
    first.write_text("".join(lines[:1200]))
    return first, ANSWERS


def aggregate(answers: Path, folder: Path, *words: str) -> int:
    outputs = ["-o", str(folder / "labels.csv"), "--workers", str(folder / "workers.csv")]
    return run(["aggregate", str(answers), "--aggregator", "ds-em", *outputs, *words])


def test_changes_of_the_second_night_are_those_that_diff_finds(
    nights: tuple[Path, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    changes = tmp_path / "changes.csv"
    assert aggregate(nights[0], tmp_path, "--changes", str(changes)) == 0
    first = changes.read_text().splitlines()
    labels = (tmp_path / "labels.csv").read_text()
    assert {line.split(",")[0] for line in first[1:]} == {"new"}  # nothing earlier: all is new
    (tmp_path / "old.csv").write_text(labels)
    gates = ["--fail-if", "flips>50%"]
    assert aggregate(nights[1], tmp_path, "--changes", str(changes), *gates) == 0
    capfd.readouterr()
    words = ["diff", str(tmp_path / "old.csv"), str(tmp_path / "labels.csv")]
    again = tmp_path / "again.csv"
    assert run([*words, "--json", "--changes", str(again)]) == 0
    found = json.loads(capfd.readouterr().out)
    assert again.read_bytes() == changes.read_bytes()
    kinds = [line.split(",")[0] for line in changes.read_text().splitlines()[1:]]
    assert found["items"]["flipped"] == kinds.count("flipped") > 0
    assert found["items"]["appeared"] == kinds.count("new") > 0
    figures = json.loads((tmp_path / "labels.run.json").read_text())["figures"]
    assert figures["flips"] == found["items"]["flips_percent"]
    assert run([*words, "--fail-if", "flips>0"]) == 3
    assert "flips is" in capfd.readouterr().err


def test_a_gate_on_changes_keeps_what_is_there(nights: tuple[Path, Path], tmp_path: Path) -> None:
    assert aggregate(nights[0], tmp_path, "--fail-if", "new-items<1") == 0
    before = (tmp_path / "labels.csv").read_bytes()
    assert aggregate(nights[0], tmp_path, "--fail-if", "new-items<1") == 3
    assert aggregate(nights[1], tmp_path, "--fail-if", "flips>0%") == 3
    assert (tmp_path / "labels.csv").read_bytes() == before
    assert aggregate(nights[1], tmp_path, "--fail-if", "flips>0%", "--publish-anyway") == 3
    assert (tmp_path / "labels.csv").read_bytes() != before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--fail-if", "flips>2%"], "name a file with -o"),
        (["--changes", "changes.csv"], "name a file with -o"),
    ],
)
def test_what_cannot_be_compared_is_said_before_the_work(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["aggregate", str(ANSWERS), "--aggregator", "mv", *words]) == 2
    assert message in capfd.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_earlier_file_that_is_no_table_of_labels_is_an_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "labels.csv").write_text("item,label,confidence\na,x,much\n")
    assert aggregate(ANSWERS, tmp_path, "--changes", str(tmp_path / "changes.csv")) == 2
    assert "no number between 0 and 1" in capfd.readouterr().err
