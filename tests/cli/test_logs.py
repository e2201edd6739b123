"""Logs, heartbeats and metrics: what a machine reads of a run."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from threading import Event

import pytest

from misc_cli.__main__ import run
from misc_cli.cli import console, logs
from misc_cli.data.types import Iteration
from tests.conftest import REPO

SAMPLE = REPO / "sample_data"
ANSWERS = str(SAMPLE / "answers.csv")


def events(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_json_log_is_all_that_stderr_has(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["aggregate", ANSWERS, "--log-format", "json", "-o", str(tmp_path / "labels.csv")]
    assert run([*words, "--aggregator", "ds-em", "--max-iter", "2"]) == 0
    found = events(capfd.readouterr().err)
    assert [line["event"] for line in found] == ["start", "stage", "warning", "aggregated", "done"]
    assert "--max-iter" in str(found[2]["message"])
    assert len({line["run"] for line in found}) == 1
    done = found[-1]
    assert done["figures"]["items"] == 500  # type: ignore[index]
    assert isinstance(done["seconds"], float)
    assert isinstance(done["peak_memory_bytes"], int)
    assert run(["aggregate", "absent.csv", "--log-format", "json"]) == 2
    last = events(capfd.readouterr().err)[-1]
    assert (last["event"], last["exit_code"]) == ("error", 2)
    assert run(["aggregate", "absent.csv"]) == 2  # the log is over, errors are lines again
    assert capfd.readouterr().err.startswith("misc: error: absent.csv")


def test_a_log_file_grows_and_leaves_stderr_as_it_is(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "misc.log"
    for _ in range(2):
        words = ["--aggregator", "ds-em", "--max-iter", "2", "--log-file", str(log)]
        assert run(["aggregate", ANSWERS, *words, "-o", str(tmp_path / "labels.csv")]) == 0
    assert "misc: warning:" in capfd.readouterr().err
    assert log.read_text().count(" info start ") == 2
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z info start ", log.read_text())
    assert run(["aggregate", ANSWERS, "--log-file", str(tmp_path / "no" / "where")]) == 2


def test_the_heart_beats_and_says_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "BEAT_SECONDS", 0.02)
    log = tmp_path / "log.jsonl"
    logs.open_log(["misc"], "json", str(log), [])
    watcher = console.Console()
    with watcher.watching():
        watcher.on_iteration(Iteration("search", 3, extra={"of": 12}))
        deadline = time.monotonic() + 10
        while "heartbeat" not in log.read_text() and time.monotonic() < deadline:
            time.sleep(0.01)
    logs.close()
    beat = next(line for line in events(log.read_text()) if line["event"] == "heartbeat")
    assert (beat["stage"], beat["done"], beat["of"]) == ("search", 3, 12)
    assert isinstance(beat["seconds_left"], float)
    count = log.read_text().count("heartbeat")
    time.sleep(0.1)
    assert log.read_text().count("heartbeat") == count  # it stops with the run


def test_no_beat_comes_after_the_heart_has_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A beat that has begun ends before `stop` returns, or a line would follow the summary."""
    monkeypatch.setattr(console, "BEAT_SECONDS", 0.001)
    monkeypatch.setattr(console, "LAST_BEAT_SECONDS", 30.0)  # however busy the machine is
    begun, ended = Event(), Event()

    def beat() -> None:
        begun.set()
        time.sleep(0.1)
        ended.set()

    heart = console.Heartbeat(beat)
    heart.stop()  # one that never started
    heart = console.Heartbeat(beat)
    heart.start()
    assert begun.wait(10)
    heart.stop()
    assert ended.is_set()


def test_a_heart_may_stop_itself_and_one_that_hangs_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(console, "BEAT_SECONDS", 0.001)
    monkeypatch.setattr(console, "LAST_BEAT_SECONDS", 0.05)
    begun, stopped, over = Event(), Event(), Event()

    def beat() -> None:
        heart.stop()
        stopped.set()

    heart = console.Heartbeat(beat)
    heart.start()
    assert stopped.wait(10)

    def hang() -> None:
        begun.set()
        over.wait(30)

    hanging = console.Heartbeat(hang)
    hanging.start()
    assert begun.wait(10)
    started = time.monotonic()
    hanging.stop()
    assert time.monotonic() - started < 10
    over.set()


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


@pytest.mark.parametrize("how", ["flag", "variable", "file"])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["aggregate", "a.csv", "--seeed", "1"], "No such option"),
        (["aggregate", "a.csv", "--seed", "x"], "not a whole number"),
        (["aggregat", "a.csv"], "No such command"),
        (["aggregate", "nowhere.csv"], "no such file"),
    ],
)
def test_a_usage_error_is_an_event_of_the_log(
    words: list[str],
    message: str,
    how: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    if how == "variable":
        monkeypatch.setenv("MISC_LOG_FORMAT", "json")
    elif how == "file" and words[0] == "aggregate":
        (tmp_path / "misc.toml").write_text('log-format = "json"\n')
    else:
        words = [*words, "--log-format", "json"]
    assert run(words) == 2
    events = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [event["event"] for event in events] == ["start", "error"]
    assert message in events[-1]["message"]
    assert events[-1]["exit_code"] == 2
    assert run(["aggregate", "--no-such-flag"]) == 2
    if how == "flag":  # the log of one call is not that of the next
        assert capfd.readouterr().err.startswith("misc: error:")


def test_a_program_that_uses_misc_has_a_log_too(caplog: pytest.LogCaptureFixture) -> None:
    import misc_cli

    with caplog.at_level("INFO", logger="misc_cli"):
        misc_cli.aggregate(ANSWERS, aggregator="mv")
    (record,) = caplog.records
    assert (record.name, record.getMessage()) == ("misc_cli", "aggregated")
    assert record.fields["figures"]["items"] == 500  # type: ignore[attr-defined]
