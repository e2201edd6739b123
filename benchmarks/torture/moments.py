"""Signals and kills: exactly at the renames, and at random moments; hangs; races."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from torture.harness import Ended, Tally, answers, attempt, finish, folder, leftovers, start

WORDS = ["aggregate", "in.csv", "--aggregator", "mv", "-o", "labels.csv", "--workers", "w.csv"]
SET = ("labels.csv", "w.csv", "labels.diagnostics.jsonl", "labels.run.json")
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGKILL: -9}


def content() -> dict[str, bytes]:
    return {name: Path(name).read_bytes() for name in SET if Path(name).exists()}


def _signal_at(call: str, at: int, number: int, after: bool) -> None:
    """Patch one of os's calls so that the N-th sends a signal to its own process."""
    genuine = getattr(os, call)
    done = 0

    def patched(*words: object, **more: object) -> object:
        nonlocal done
        done += 1
        if done == at and not after:
            os.kill(os.getpid(), number)
        found = genuine(*words, **more)
        if done == at and after:
            os.kill(os.getpid(), number)
        return found

    setattr(os, call, patched)


def renames(count: int) -> Tally:
    """Check that a signal never leaves a mixed set, and kill -9 none that `misc verify` accepts."""
    tally = Tally("signals and kills at the renames")
    moments: list[tuple[str, int, bool]] = [
        (call, at, after)
        for call, most in (("replace", 4), ("link", 4), ("fsync", 5), ("unlink", 6))
        for at in range(1, most + 1)
        for after in (False, True)
    ]
    rng = random.Random(1)
    with folder():
        Path("in.csv").write_text(answers())
        attempt(WORDS)
        for number in range(count):
            call, at, after = moments[number % len(moments)]
            sent = list(CODES)[rng.randrange(len(CODES))]
            before = content()
            more = ["--probabilities"] * (number % 2)
            ended = attempt([*WORDS, *more], partial(_signal_at, call, at, sent, after))
            what = f"{signal.Signals(sent).name} {'after' if after else 'before'} {call} {at}"
            tally.check(*_judge(ended, sent, before, what))
            attempt(WORDS)
            if leftovers():
                tally.failures.append(f"{what}: left {leftovers()}")
    return tally


def _judge(ended: Ended, sent: int, before: dict[str, bytes], what: str) -> tuple[bool, str]:
    """Check that the files are the old ones, or a set of one run that `misc verify` accepts."""
    now = content()
    accepted = attempt(["verify", "labels.run.json"]).code == 0
    of_one_run = now == before or (accepted and _agree(now))
    if sent == signal.SIGKILL:
        good = ended.code in (-9, 0) and (of_one_run or not accepted)
    else:
        good = ended.code in (0, CODES[signal.Signals(sent)]) and of_one_run and not leftovers()
    return good, f"{what}: of one run: {of_one_run}, accepted: {accepted}, {leftovers()}, {ended}"


def _agree(files: dict[str, bytes]) -> bool:
    """Return True if run.json and the labels are of the same run, told by an option."""
    asked = "--probabilities" in json.loads(files["labels.run.json"])["command"]
    return asked == (b",p_" in files["labels.csv"].partition(b"\n")[0])


def budgets(count: int) -> Tally:
    """Check that no run in several processes hangs under a time budget or a TERM."""
    tally = Tally("time budgets and TERM in the midst")
    rng = random.Random(2)
    with folder():
        Path("in.csv").write_text(answers(4000, 60))
        for number in range(count):
            seconds = rng.uniform(0.05, 1.5)
            if number % 2:
                budget = ["--time-budget", f"{seconds:.2f}s"]
                ended = attempt(["aggregate", "in.csv", "-o", "labels.csv", *budget])
                good = ended.code == 0
            else:
                sent = rng.choice([signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
                pid = start(["compare", "in.csv", "-o", "board.csv"])
                time.sleep(seconds)
                _send(pid, sent, group=number % 4 == 0)
                ended = finish(pid)
                # a signal before the first line of ours ends a process in the system's own way
                good = ended.code in (0, CODES[sent], -sent)
            tally.check(good and "Traceback" not in ended.err, f"{seconds:.2f} s: {ended}")
    return tally


def _send(pid: int, number: int, *, group: bool) -> None:
    with suppress(ProcessLookupError):
        (os.killpg if group else os.kill)(pid, number)


def at_random(count: int) -> Tally:
    """Send a signal at a random moment; the set must be the old one or the new one."""
    tally = Tally("signals at random moments")
    rng = random.Random(3)
    with folder():
        Path("in.csv").write_text(answers(600, 20))
        attempt(WORDS)
        started = time.monotonic()
        attempt(WORDS)
        length = time.monotonic() - started
        for number in range(count):
            sent = list(CODES)[number % len(CODES)]
            before = content()
            pid = start([*WORDS, "--probabilities"] if number % 2 else WORDS)
            time.sleep(rng.uniform(0, length * 1.1))
            _send(pid, sent, group=False)
            ended = finish(pid)
            if ended.code == -sent:  # before our handlers: nothing can have been written
                ended = Ended(CODES[signal.Signals(sent)], ended.err)
            tally.check(*_judge(ended, sent, before, f"{signal.Signals(sent).name} {number}"))
            if number % 4 == 3:
                attempt(WORDS)
                if leftovers():
                    tally.failures.append(f"left {leftovers()}")
    return tally


def races(count: int) -> Tally:
    """Start several runs on one output: each ends with 0 or says why not; the set is whole."""
    tally = Tally("runs on one output at once")
    with folder() as here:
        Path("in.csv").write_text(answers(600, 20))
        for _ in range(count):
            pids = [start([*WORDS, *["--probabilities"] * (n % 2)]) for n in range(4)]
            codes = [finish(pid).code for pid in pids]
            whole = attempt(["verify", "labels.run.json"]).code == 0
            tally.check(
                set(codes) <= {0, 2} and 0 in codes and whole and not leftovers(),
                f"exit codes {codes}, whole: {whole}, {leftovers()} in {here}",
            )
    return tally


def changing(count: int) -> Tally:
    """Cut, rewrite or extend an input while it is read."""
    tally = Tally("input that changes while it is read")
    rng = random.Random(4)
    text = answers(30_000, 50)
    with folder():
        for number in range(count):
            Path("in.csv").write_text(text)
            pid = start(["aggregate", "in.csv", "--aggregator", "mv", "-o", "labels.csv"])
            time.sleep(rng.uniform(0, 0.12))
            changes: list[Callable[[], object]] = [
                lambda: os.truncate("in.csv", 1000),
                lambda: Path("in.csv").write_text(text[:5000]),
                lambda: os.write(os.open("in.csv", os.O_WRONLY | os.O_APPEND), b"w1,i1,a\n"),
            ]
            changes[number % 3]()
            ended = finish(pid)
            tally.check(ended.code in (0, 2), str(ended))
    return tally
