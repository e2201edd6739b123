"""`misc compare` and `misc queue` as a user meets them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from misc_cli.__main__ import run
from tests.conftest import REPO

WORDS = ["--completers", "none,tucker", "--aggregators", "mv,ds-em"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--workers", "20", "--items", "200", "--classes", "3", "--answers-per-item", "5"]
    assert run(["simulate", "-o", "answers.csv", "--truth", "truth.csv", *words]) == 0


def test_the_leaderboard_is_sorted_and_truth_is_only_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["compare", "answers.csv", *WORDS, "--json"]) == 0
    blind = json.loads(capsys.readouterr().out)["methods"]
    assert run(["compare", "answers.csv", *WORDS, "--truth", "truth.csv", "--json"]) == 0
    judged = json.loads(capsys.readouterr().out)["methods"]
    tried = {"mv", "ds-em", "tucker + mv", "tucker + ds-em"}
    assert {row["method"] for row in blind} == {"null", *tried}
    assert {row["method"]: row["share"] for row in blind}["null"] == 0.0
    assert [row["score"] for row in blind] == sorted((r["score"] for r in blind), reverse=True)
    assert blind[0]["behind"] == 0.0
    assert blind[0]["differs"] == 0
    assert [row["method"] for row in judged] == [row["method"] for row in blind]
    assert all(row["error"] is None for row in blind)
    errors = [row["error"] for row in judged if row["method"] != "null"]
    assert all(0.0 <= error <= 100.0 for error in errors)


def test_the_table_goes_to_stdout_or_to_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--completers", "none", "--aggregators", "mv,one-coin"]
    assert run(["compare", "answers.csv", *words]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[1].split() == [
        "method",
        "score",
        "±",
        "share",
        "%",
        "behind",
        "differs",
        "seconds",
    ]
    assert run(["compare", "answers.csv", *words, "-o", "table.csv"]) == 0
    with open("table.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert {row["method"] for row in rows} == {"mv", "one-coin", "null"}
    assert run(["compare", "answers.csv", *words, "--json", "-o", "table.json"]) == 0
    assert {row["method"] for row in json.loads(Path("table.json").read_text())["methods"]} == {
        "mv",
        "one-coin",
        "null",
    }
    assert capsys.readouterr().out == ""
    assert run(["compare", "answers.csv", *words, "--json", "-o", "table.tsv"]) == 2
    assert "table.tsv: this command writes no such format" in capsys.readouterr().err


def test_an_unknown_method_is_one_line_and_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "answers.csv", "--aggregators", "mv,nonesuch"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "nonesuch" in said


def test_it_gives_no_advice_that_it_has_no_flag_for(capsys: pytest.CaptureFixture[str]) -> None:
    """ds-em meets its limit on this crowd, but compare has no --max-iter to raise."""
    words = ["--completers", "none", "--aggregators", "ds-em"]
    assert run(["compare", str(REPO / "sample_data" / "groups.csv"), *words]) == 0
    assert capsys.readouterr().err == ""


def test_standard_input_is_read_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Truth read from the same pipe would be called an empty file."""
    assert run(["compare", "-", "--truth", "-"]) == 2
    assert "standard input (-) can be read only once" in capsys.readouterr().err


def test_the_queue_lists_the_most_useful_items_first() -> None:
    assert run(["queue", "answers.csv", "--aggregator", "ds-em", "-o", "all.csv"]) == 0
    words = ["--aggregator", "ds-em", "--top", "7", "-o", "few.csv"]
    assert run(["queue", "answers.csv", *words]) == 0
    with open("all.csv", newline="") as stream:
        everything = list(csv.DictReader(stream))
    with open("few.csv", newline="") as stream:
        few = list(csv.DictReader(stream))
    gains = [float(row["gain"]) for row in everything]
    assert gains == sorted(gains, reverse=True)
    assert few == everything[:7]
    assert min(gains) > 0.0


def test_known_items_are_never_asked_again() -> None:
    words = ["--aggregator", "ds-em", "--gold", "truth.csv", "-o", "asked.csv"]
    assert run(["queue", "answers.csv", *words]) == 0
    assert Path("asked.csv").read_text().splitlines()[1:] == []


def test_it_warns_of_what_aggregate_warns_of(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = [f"w{w},i{i},{'ab'[(i * w) % 2]}" for i in range(40) for w in range(4)]
    place = tmp_path / "answers.csv"
    place.write_text("worker,item,label\n" + "\n".join([*rows, "w0,i0,b"]) + "\n")
    words = ["--completers", "none", "--aggregators", "mv,one-coin"]
    assert run(["compare", str(place), *words]) == 0
    assert "a worker gave an item more than one label" in capfd.readouterr().err
