"""Measure whole processes from start to exit: wall clock, processor time, peak memory.

Standard library only: a child's peak memory starts at what its parent holds when it forks, so the
parent must stay small.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Run:
    """Figures of one process; if it was `capped` (stopped), they are lower bounds.

    `inner` is what the process says about itself, for example the seconds of its fit alone.
    """

    wall: float
    cpu: float
    peak_mib: float
    capped: bool = False
    inner: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """A command, a reader of the figures that it leaves, and its time limit.

    `cap` is in seconds; `at_most` is how often it is run where others are run more often. With
    `with_children` the memory of all its child processes counts (Linux only).
    """

    name: str
    command: Sequence[str]
    read_inner: Callable[[], Mapping[str, float]] = dict
    cap: float = 600.0
    at_most: int | None = None
    with_children: bool = False


class Failed(Exception):
    """A process that ended with an error; the message is the end of what it wrote to stderr."""


class Sampler:
    """Sample the memory of a process with its children; keep the most.

    Proportional set sizes: what a fork shares with its parent counts once.
    """

    def __init__(self, pid: int) -> None:
        self.pid, self.most = pid, 0.0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()

    def stop(self) -> float:
        """Return the most MiB."""
        self.over.set()
        self.thread.join()
        return self.most

    def _look(self) -> None:
        while not self.over.wait(0.1):
            self.most = max(self.most, sum(map(_proportional_mib, _family(self.pid))))


def _family(pid: int) -> list[int]:
    """Return a process and its descendants."""
    found = [pid]
    for parent in found:
        with suppress(OSError):
            text = Path(f"/proc/{parent}/task/{parent}/children").read_text()
            found += map(int, text.split())
    return found


def _proportional_mib(pid: int) -> float:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 2**10
    return 0.0


def run(case: Case) -> Run:
    """Run the command to its end or to the cap, and return its figures."""
    with tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        process = subprocess.Popen(
            case.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors
        )
        capped = False

        def stop(*_: object) -> None:
            nonlocal capped
            capped = True
            process.kill()

        signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, case.cap)
        sampler = Sampler(process.pid) if case.with_children else None
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        of_all = 0.0 if sampler is None else sampler.stop()
        signal.setitimer(signal.ITIMER_REAL, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode and not capped:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines()
            raise Failed(f"{' '.join(case.command)}: {lines[-1] if lines else 'no message'}")
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return Run(
        wall=wall,
        cpu=usage.ru_utime + usage.ru_stime,
        peak_mib=max(usage.ru_maxrss / unit, of_all),
        capped=capped,
        inner={} if capped else case.read_inner(),
    )


def in_turn(cases: Sequence[Case], repeats: int) -> dict[str, Run]:
    """Run all cases in turn, `repeats` times; return the best of each figure.

    What was stopped at its cap is not tried again.
    """
    runs: dict[str, list[Run]] = {case.name: [] for case in cases}
    for number in range(repeats):
        for case in cases:
            done = runs[case.name]
            enough = case.at_most is not None and number >= case.at_most
            if not (enough or (done and done[-1].capped)):
                done.append(run(case))
                say(f"{case.name}: {done[-1].wall:.2f} s")
    return {name: best(done) for name, done in runs.items()}


def best(runs: Sequence[Run]) -> Run:
    """Return the minimum of each figure: other work on the machine can only add to it."""
    ended = [run for run in runs if not run.capped] or runs
    return Run(
        wall=min(run.wall for run in ended),
        cpu=min(run.cpu for run in ended),
        peak_mib=min(run.peak_mib for run in ended),
        capped=ended[0].capped,
        inner={name: min(run.inner[name] for run in ended) for name in ended[0].inner},
    )


def json_figures(path: Path, *keys: str) -> Callable[[], Mapping[str, float]]:
    """Return a reader of numbers in a JSON file that the process writes."""

    def read() -> Mapping[str, float]:
        content = json.loads(path.read_text())
        for key in keys:
            content = content[key]
        return {name: float(value) for name, value in content.items()}

    return read


def say(message: str) -> None:
    """Print progress to stderr: stdout is for the tables."""
    print(message, file=sys.stderr, flush=True)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a markdown table; all columns but the first are right-aligned."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def seconds(value: float, capped: bool = False) -> str:
    digits = 3 if value < 1 else 2 if value < 10 else 1
    return f"{'> ' if capped else ''}{value:.{digits}f}"


def times(ours: float, peer: float, capped: bool = False) -> str:
    """Return how many times longer (or more) the peer needs."""
    ratio = peer / ours
    return f"{'> ' if capped else ''}{ratio:.{1 if ratio >= 9.95 else 2}f}×"
