"""The line that says how far a command is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from misc_cli.cli import console
from misc_cli.cli.console import Progress
from misc_cli.data.types import Iteration


def test_a_fit_says_its_limit_its_target_and_the_time_left() -> None:
    progress = Progress(sources=("answers.csv", "more.csv"))
    progress.on_stage("read")
    assert str(progress) == "reading answers.csv · 0 s"
    progress.on_stage("fit")
    assert str(progress) == "fitting · 0 s"
    start = progress.since
    for number, change in enumerate([0.8, 0.4, 0.2, 0.1], start=1):
        progress.on_iteration(Iteration("mmce-c", number, change=change, limit=50, target=0.0125))
    progress.since, progress.heard = start, start + 40.0  # ten seconds each
    # it halves each time: three more steps to 0.0125
    assert progress.seconds_left == 30.0
    assert "mmce-c · 4 of at most 50 · change 0.1, done below 0.0125" in str(progress)


def test_trials_say_how_many_there_are() -> None:
    progress = Progress()
    progress.on_stage("fit")
    extra: dict[str, float | int | str | None] = {"of": 8, "candidate": "ebcc"}
    progress.on_iteration(Iteration("search", 2, extra=extra))
    progress.heard = progress.since + 4.0
    assert progress.seconds_left == 12.0
    assert str(progress).startswith("trying methods · 2 of 8 · ebcc · 0 s")


def test_a_live_line_is_drawn_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.openpty()
    monkeypatch.setattr(console, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(console, "TICK_SECONDS", 0.01)
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(theirs, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        watcher = console.Console(sources=("big.csv",))
        seen = ""
        with watcher.watching():
            watcher.on_stage("read")
            deadline = time.monotonic() + 20
            while "reading big.csv" not in seen and time.monotonic() < deadline:
                seen += os.read(ours, 4096).decode()
        watcher.say("that is it")
        while "that is it" not in seen:
            seen += os.read(ours, 4096).decode()
    os.close(ours)
    assert console.CLEAR + "misc: that is it" in seen


def test_answers_that_are_typed_are_asked_for(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "misc_cli", "aggregate", "-", "--aggregator", "mv"],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    ) as process:
        os.close(theirs)
        assert process.stderr is not None
        assert b"Ctrl-D" in process.stderr.readline()
        os.write(ours, b"worker,item,label\na,x,1\nb,x,1\na,y,2\nb,y,2\n\x04")
        assert process.stdout is not None
        assert process.stdout.read().startswith(b"item,label,confidence\nx,1,")
    os.close(ours)
