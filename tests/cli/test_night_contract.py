"""A state learns what its nights have in common; news are an error until they are accepted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from misc_cli.__main__ import run
from tests.conftest import REPO

LINES = (REPO / "sample_data" / "answers.csv").read_text().splitlines()
WORDS = ["aggregate", "in.csv", "--aggregator", "mv", "-o", "labels.csv", "--state", "st"]

# News of a later night: the kind that --accept names, and what the error shows.
NEWS: dict[str, tuple[Callable[[list[str]], list[str]], str]] = {
    "new-labels": (lambda rows: [*rows, "w1,extra,Yess", "w2,extra,Yess"], "'Yess' (so far: "),
    "columns": (
        lambda rows: ["annotator,task,label", *rows[1:]],
        "'worker = annotator, item = task, label = label' (so far: 'worker = ",
    ),
    "format": (lambda rows: [row.replace(",", ";") for row in rows], "delimiter ';'"),
}


@pytest.fixture(autouse=True)
def first_night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    night(LINES[:800])
    assert run(WORDS) == 0


def night(rows: list[str]) -> None:
    Path("in.csv").write_text("\n".join(rows) + "\n")


@pytest.mark.parametrize("kind", NEWS)
def test_news_are_an_error_that_writes_nothing_until_they_are_accepted(
    kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    change, shown = NEWS[kind]
    before = {path: path.read_bytes() for path in Path().rglob("*.*") if path.is_file()}
    night(change(LINES[:900]))
    before[Path("in.csv")] = Path("in.csv").read_bytes()
    capfd.readouterr()
    assert run(WORDS) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert f"not as on earlier nights: {kind}: " in line
    assert shown in line
    assert line.endswith(f"add --accept {kind}")
    assert {path: path.read_bytes() for path in Path().rglob("*.*") if path.is_file()} == before
    others = ",".join({*NEWS, "duplicates"} - {kind})
    assert run([*WORDS, "--accept", others]) == 2
    assert run([*WORDS, "--accept", kind]) == 0
    night(change(LINES[:950]))
    assert run(WORDS) == 0  # known from now on
    night(LINES[:960])
    assert run(WORDS) == 0  # and the old ones still are


def test_a_column_for_each_worker_may_come_with_a_worker() -> None:
    words = ["aggregate", "wide.csv", "--aggregator", "mv", "-o", "w.csv", "--state", "wide"]
    for n_workers in (3, 4):
        names = ",".join(f"rater_{n}" for n in range(n_workers))
        rows = [f"{n},{','.join('ab'[(n + w) % 2] for w in range(n_workers))}" for n in range(9)]
        Path("wide.csv").write_text("\n".join([f"item,{names}", *rows]) + "\n")
        assert run(words) == 0


def test_accepted_copies_are_not_told_of_again_and_new_ones_are(
    capfd: pytest.CaptureFixture[str],
) -> None:
    rows = [line.split(",") for line in LINES[1:]]
    workers = [row[0] for row in rows]
    first, second = sorted(set(workers), key=workers.count)[-2:]

    def with_copies(*originals: str) -> list[str]:
        copied = [
            f"copy of {w}{n},{item},{label}"
            for n in range(4)
            for w, item, label in rows
            if w in originals
        ]
        return [*LINES, *copied]

    words = [*WORDS[:2], "-o", "labels.csv", "--state", "st"]  # a choice looks for copies
    told = []
    for n, (copied, more) in enumerate(
        [([first], []), ([first], ["--accept", "duplicates"]), ([first], []), ([first, second], [])]
    ):
        night([*with_copies(*copied), *[f"w1,new{n},{rows[0][2]}"] * n])
        capfd.readouterr()
        assert run([*words, *more]) == 0
        said = "count once" in capfd.readouterr().err
        told.append(said)
        recorded = json.loads(Path("labels.run.json").read_text())["warnings"]
        assert any("count once" in text for text in recorded) == said
    assert told == [True, False, False, True]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--accept", "labels"], "--accept labels: choose from new-labels, columns, format"),
        (["--each-question"], "--state is for one question"),
    ],
)
def test_flags_that_make_no_sense(
    words: list[str], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run([*WORDS, *words]) == 2
    assert said in capfd.readouterr().err
    assert run(["aggregate", "in.csv", "--accept", "columns"]) == 2
    assert "--accept needs --state" in capfd.readouterr().err
