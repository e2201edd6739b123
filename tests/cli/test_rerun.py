"""`misc rerun`: a recorded run, byte for byte, or what is missing for it."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from misc_cli.__main__ import run
from tests.conftest import REPO

LINES = (REPO / "sample_data" / "answers.csv").read_text().splitlines(keepends=True)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "exports").mkdir()
    (tmp_path / "exports" / "1.csv").write_text("".join(LINES[:1500]))
    (tmp_path / "exports" / "2.csv").write_text(LINES[0] + "".join(LINES[1500:1600]))
    return tmp_path


def aggregate(*words: str) -> bytes:
    assert run(["aggregate", "exports/", "-o", "labels.csv", "--quiet", *words]) == 0
    return Path("labels.csv").read_bytes()


def test_the_same_bytes_whatever_the_settings_are_now(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "misc.toml").write_text(
        'seed = 5\n[aggregate]\naggregator = "ebcc"\nrestarts = 2\nprobabilities = true\n'
    )
    order = ["--class-order", "fox,dog,cat,bird", "--fail-if", "items>100000"]
    recorded = aggregate(*order, "--workers", "workers.csv")
    (folder / "misc.toml").write_text("seed = 6\n")
    (folder / "exports" / "3.csv").write_text(LINES[0] + "".join(LINES[1600:]))  # came later
    Path("workers.csv").unlink()
    monkeypatch.setenv("MISC_AGGREGATE_AGGREGATOR", "mv")
    capfd.readouterr()
    assert run(["rerun", "labels.run.json", "-o", "again.csv"]) == 0
    assert "byte for byte" in capfd.readouterr().err
    assert Path("again.csv").read_bytes() == recorded
    assert Path("labels.csv").read_bytes() == recorded
    assert not Path("workers.csv").exists()
    assert run(["rerun", "labels.run.json"]) == 0
    assert capfd.readouterr().out.encode() == recorded


def test_says_which_input_changed_or_is_gone(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    aggregate("--aggregator", "mv")
    (folder / "exports" / "1.csv").write_text("".join(LINES[:1400]))
    assert run(["rerun", "labels.run.json", "-o", "again.csv"]) == 2
    assert "exports/1.csv has changed" in capfd.readouterr().err
    (folder / "exports" / "2.csv").unlink()
    assert run(["rerun", "labels.run.json", "-o", "again.csv"]) == 2
    assert "exports/2.csv" in capfd.readouterr().err
    assert not Path("again.csv").exists()
    Path("other.json").write_text(json.dumps({"misc": "1"}))
    assert run(["rerun", "other.json"]) == 2
    assert "no run.json of misc aggregate" in capfd.readouterr().err
    record = json.loads(Path("labels.run.json").read_text())
    Path("old.run.json").write_text(json.dumps({**record, "schema": 1}))
    for words in (["rerun"], ["report"], ["items"], ["workers"], ["queue"]):
        assert run([*words, "old.run.json"]) == 2
        assert "made by another misc" in capfd.readouterr().err


def test_only_the_first_night_of_a_state_is_repeated(capfd: pytest.CaptureFixture[str]) -> None:
    words = ["--aggregator", "ds-em", "--state", "state"]
    recorded = aggregate(*words)
    assert run(["rerun", "labels.run.json", "-o", "again.csv"]) == 0
    assert Path("again.csv").read_bytes() == recorded
    Path("exports/2.csv").write_text(LINES[0] + "".join(LINES[1500:1700]))
    aggregate(*words)
    capfd.readouterr()
    assert run(["rerun", "labels.run.json"]) == 2
    assert "the state that it started from is another one now" in capfd.readouterr().err


def test_a_record_with_a_query_needs_a_yes_and_the_same_rows(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    table = sqlite3.connect("a.db")
    table.execute("create table t (worker, item, label)")
    table.executemany("insert into t values (?, ?, ?)", [("a", 1, "x"), ("b", 1, "x")])
    table.commit()
    query = ["--query", "select worker, item, label from t where worker != 'c'"]
    words = ["aggregate", "sqlite:///a.db", *query, "--aggregator", "mv", "-o", "labels.csv"]
    assert run([*words, "--quiet"]) == 0
    capfd.readouterr()
    assert run(["rerun", "labels.run.json", "-o", "again.csv"]) == 2
    said = capfd.readouterr().err
    assert "asks for 'sqlite:///a.db', \"select worker" in said
    assert "add --yes" in said
    assert run(["queue", "labels.run.json"]) == 2
    assert "came from sqlite:///a.db and are not read again" in capfd.readouterr().err
    assert run(["rerun", "labels.run.json", "-o", "again.csv", "--yes"]) == 0
    said = capfd.readouterr().err
    assert "labels.run.json: reads sqlite:///a.db; writes again.csv" in said
    assert "byte for byte" in said
    table.execute("insert into t values ('c', 2, 'x')")
    table.commit()
    assert run(["rerun", "labels.run.json", "--yes"]) == 0  # the query does not select it
    table.execute("insert into t values ('d', 2, 'x')")
    table.commit()
    assert run(["rerun", "labels.run.json", "-o", "again.csv", "--yes"]) == 2
    assert "sqlite:///a.db has changed" in capfd.readouterr().err


# What a stranger may have put into a run.json: a place in it, and an odd value.
MADE_UP: list[tuple[str, object]] = [
    ("request.reading.keep", {"a": {}}),
    ("request.truth", True),
    ("request.rechoose", "/etc/passwd"),
    ("selection.weights", "x"),
    ("selection.why", 3),
    ("figures.confidence", "\x1b]0;x\x07"),
    ("figures", {}),
    ("counts.items", 10**400),
    ("class_prior", []),
    ("options.class_order", 1e308),
    ("outputs.labels", []),
    ("outputs.workers", "exports/odd.txt"),
    ("questions", [[]]),
    ("inputs.0", 3),
]


def test_a_record_that_somebody_made_up_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    aggregate()
    before = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    commands = [[name, "x.run.json"] for name in ("rerun", "report", "workers", "items", "queue")]
    Path("exports/odd.txt").write_text("a\nb\nc,d,e\n")
    wrong = []
    for place, value in MADE_UP:
        record = json.loads(before[Path("labels.run.json")])
        *way, last = [int(word) if word.isdigit() else word for word in place.split(".")]
        inside = record
        for word in way:
            inside = inside[word]
        inside[last] = value
        Path("x.run.json").write_text(json.dumps(record))
        ended = {}
        for words in commands:
            capfd.readouterr()
            code = run(words)
            said = capfd.readouterr().err
            ended[code] = said
            if code not in (0, 2) or "\x1b" in said:
                wrong.append((place, words[0], said))
        if 2 not in ended:
            wrong.append((place, "every command", "not refused"))
    assert not wrong
    assert before.items() <= {p: p.read_bytes() for p in Path().iterdir() if p.is_file()}.items()
