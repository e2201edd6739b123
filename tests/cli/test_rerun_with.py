"""A named completer is used; a choice can be repeated without choosing; every word is true."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from misc_cli.__main__ import run
from tests.conftest import REPO

SAMPLE = str(REPO / "sample_data" / "answers.csv")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def facts(name: str = "labels.run.json") -> dict[str, object]:
    found: dict[str, object] = json.loads(Path(name).read_text())
    return found


def start(words: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """As a process would be started: run.json records the words."""
    monkeypatch.setattr("sys.argv", ["misc", *words])
    return run(words)


@pytest.mark.parametrize("completer", ["tucker", "tenals", "lrtc"])
def test_a_named_completer_is_used(
    completer: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["aggregate", SAMPLE, "--completer", completer, "--aggregator", "ds-em"]
    fast = ["--passes", "2"] if completer != "lrtc" else ["--passes", "1"]
    assert start([*words, *fast, "-o", "labels.csv", "--verbose"], monkeypatch) == 0
    said = capfd.readouterr().err
    assert f"{completer} on top of ds-em" in said
    assert str(facts()["method"]).startswith(f"{completer} started by ds-em")
    assert "not used" not in said


def test_with_few_answers_a_named_completer_gets_the_rule_of_thumb(
    capfd: pytest.CaptureFixture[str],
) -> None:
    few = "\n".join(Path(SAMPLE).read_text().splitlines()[:400])
    Path("few.csv").write_text(few + "\n")
    words = ["few.csv", "--completer", "tucker", "--aggregator", "ds-em", "-o", "labels.csv"]
    assert run(["aggregate", *words, "--verbose"]) == 0
    said = capfd.readouterr().err
    assert "cannot choose --ranks: the rule of thumb does" in said
    assert "tucker on top of ds-em" in said


@pytest.mark.parametrize(
    "method",
    [
        [],
        ["--completer", "tucker", "--aggregator", "mv", "--passes", "2"],
        [
            *("--completer", "tucker", "--aggregator", "mv"),
            *("--ranks", "2,4,4", "--ranks", "3,6,4", "--passes", "1,2"),
        ],
    ],
    ids=["automatic", "ranks chosen", "ranks and passes chosen from several"],
)
def test_a_choice_is_repeated_without_choosing_byte_for_byte(
    method: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert start(["aggregate", SAMPLE, *method, "-o", "labels.csv"], monkeypatch) == 0
    before = Path("labels.csv").read_bytes()
    assert run(["rerun", "labels.run.json", "--with", SAMPLE, "-o", "again.csv"]) == 0
    assert Path("again.csv").read_bytes() == before
    again = facts("again.run.json")
    assert "completed" not in dict(again["selection"])  # type: ignore[call-overload]
    Path("labels.run.json").unlink()  # the new record has the choice itself
    assert run(["rerun", "again.run.json", "-o", "third.csv"]) == 0
    assert Path("third.csv").read_bytes() == before


def test_a_choice_is_used_for_new_answers(capfd: pytest.CaptureFixture[str]) -> None:
    lines = Path(SAMPLE).read_text().splitlines(keepends=True)
    Path("a.csv").write_text("".join(lines[:900]))
    Path("b.csv").write_text(lines[0] + "".join(lines[900:]))
    assert run(["aggregate", "a.csv", "--quiet", "-o", "labels.csv"]) == 0
    words = ["rerun", "labels.run.json", "--with", "a.csv", "b.csv", "-o", "more.csv"]
    assert run([*words, "--quiet"]) == 0
    first, more = facts(), facts("more.run.json")
    assert first["members"] == more["members"]
    assert first["calibration"] == more["calibration"]
    assert [file["name"] for file in more["inputs"]] == ["a.csv", "b.csv"]  # type: ignore[attr-defined]
    assert run(["verify", "more.run.json"]) == 0
    assert run(["rerun", "labels.run.json", "b.csv"]) == 2
    assert "new answers go after --with" in capfd.readouterr().err


def test_named_methods_are_used_for_new_answers_too() -> None:
    assert run(["aggregate", SAMPLE, "--aggregator", "ds-em", "--quiet", "-o", "labels.csv"]) == 0
    assert run(["rerun", "labels.run.json", "--with", SAMPLE, "-o", "again.csv"]) == 0
    assert Path("again.csv").read_bytes() == Path("labels.csv").read_bytes()


def test_an_aggregator_that_nothing_would_use_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    words = ["--completer", "tucker", "--ranks", "3,6,4", "-p", "start=ds-mf", "--aggregator", "mv"]
    assert run(["aggregate", SAMPLE, *words]) == 2
    assert "--aggregator mv would not be used" in capfd.readouterr().err
    assert run(["aggregate", SAMPLE, *words, "--final", "completed", "-o", "labels.csv"]) == 0
