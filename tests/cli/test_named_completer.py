"""A named completer is used, whatever hidden answers say of it."""

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


def test_another_aggregator_fills_the_first_slice(capfd: pytest.CaptureFixture[str]) -> None:
    words = ["--completer", "tucker", "--ranks", "3,6,4", "-p", "start=ds-mf", "--aggregator", "mv"]
    assert run(["aggregate", SAMPLE, *words]) == 2
    assert "needs --final completed" in capfd.readouterr().err
    assert run(["aggregate", SAMPLE, *words, "--final", "completed", "-o", "labels.csv", "-v"]) == 0
    assert "on top of ds-mf, last step: completed, judged by mv" in capfd.readouterr().err
