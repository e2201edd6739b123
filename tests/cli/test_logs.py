"""Logs, heartbeats and metrics: what a machine reads of a run."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from misc_cli.__main__ import run
from misc_cli.cli import console, logs
from misc_cli.data.types import Iteration
from tests.conftest import REPO

SAMPLE = REPO / "sample_data"
ANSWERS = str(SAMPLE / "answers.csv")


def events(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_log_on_stderr_is_json(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["aggregate", ANSWERS, "--log-file", "-", "-q", "-o", str(tmp_path / "labels.csv")]
    assert run([*words, "--aggregator", "ds-em", "--max-iter", "2"]) == 0
    found = events(capfd.readouterr().err)
    assert [line["event"] for line in found] == ["start", "stage", "warning", "aggregated", "done"]
    assert "--max-iter" in str(found[2]["message"])
    assert len({line["run"] for line in found}) == 1
    done = found[-1]
    assert done["figures"]["items"] == 500  # type: ignore[index]
    assert isinstance(done["seconds"], float)
    assert isinstance(done["peak_memory_bytes"], int)
    assert run(["aggregate", "absent.csv"]) == 2  # the log is over
    assert capfd.readouterr().err.startswith("misc: error: absent.csv")


def test_a_log_file_grows_and_leaves_stderr_as_it_is(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "misc.log"
    for _ in range(2):
        words = ["--aggregator", "ds-em", "--max-iter", "2", "--log-file", str(log)]
        assert run(["aggregate", ANSWERS, *words, "-o", str(tmp_path / "labels.csv")]) == 0
    assert "misc: warning:" in capfd.readouterr().err
    found = events(log.read_text())
    assert [line["event"] for line in found].count("start") == 2
    assert len({line["run"] for line in found}) == 2
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(found[0]["time"]))
    assert run(["aggregate", "absent.csv", "--log-file", str(log)]) == 2
    last = events(log.read_text())[-1]
    assert (last["event"], last["exit_code"]) == ("error", 2)
    assert run(["aggregate", ANSWERS, "--log-file", str(tmp_path / "no" / "where")]) == 2


def test_the_log_says_what_is_left_until_the_run_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "BEAT_SECONDS", 0.02)
    monkeypatch.setattr(console, "LAST_BEAT_SECONDS", 30.0)  # however busy the machine is
    log = tmp_path / "log.jsonl"
    handler = logs.Log(str(log), [])
    watcher = console.Console()
    with watcher.watching():
        watcher.on_iteration(Iteration("search", 3, extra={"of": 12}))
        deadline = time.monotonic() + 10
        while "heartbeat" not in log.read_text() and time.monotonic() < deadline:
            time.sleep(0.01)
    beat = next(line for line in events(log.read_text()) if line["event"] == "heartbeat")
    assert (beat["stage"], beat["done"], beat["of"]) == ("search", 3, 12)
    assert isinstance(beat["seconds_left"], float)
    count = log.read_text().count("heartbeat")
    time.sleep(0.1)
    assert log.read_text().count("heartbeat") == count  # none may follow the summary
    handler.close()


def test_metrics_are_valid_and_say_what_run_json_says(tmp_path: Path) -> None:
    file = tmp_path / "misc.prom"
    words = ["--aggregator", "ds-em", "-o", str(tmp_path / "labels.csv"), "--metrics", str(file)]
    assert run(["aggregate", ANSWERS, *words, "--fail-if", "items>1"]) == 3
    text = file.read_text()
    values: dict[str, float] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            match = re.fullmatch(r'([a-z_]+)(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? (\S+)', line)
            assert match, line
            values[match[1] + (match[2] or "")] = float(match[4])
    rejected = tmp_path / "labels.rejected" / "labels.run.json"
    figures = json.loads(rejected.read_text())["figures"]
    assert values["misc_items"] == figures["items"] == 500
    assert values["misc_confidence"] == figures["confidence"]
    assert values["misc_gates_tripped"] == 1
    assert abs(values["misc_run_timestamp_seconds"] - time.time()) < 60
    assert text.count("# TYPE ") == text.count("# HELP ") == len({*re.findall("TYPE (.*) ", text)})


def test_a_program_that_uses_misc_has_a_log_too(caplog: pytest.LogCaptureFixture) -> None:
    import misc_cli

    with caplog.at_level("INFO", logger="misc_cli"):
        misc_cli.aggregate(ANSWERS, aggregator="mv")
    (record,) = caplog.records
    assert (record.name, record.getMessage()) == ("misc_cli", "aggregated")
    assert record.fields["figures"]["items"] == 500  # type: ignore[attr-defined]
