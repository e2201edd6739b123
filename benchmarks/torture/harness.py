"""Run `misc` thousands of times, forked from a process that has everything loaded."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ALLOWED = (0, 2, 3, 4, 129, 130, 143)
HANGS_AFTER = 120.0  # seconds
HUNG = -999
MEMORY_BYTES = 8 << 30  # of one run: more is a failure too


@dataclass
class Tally:
    """The number of tries of a section and its failures."""

    name: str
    tries: int = 0
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def check(self, held: bool, otherwise: str) -> None:
        self.tries += 1
        if not held:
            self.failures.append(otherwise)


@dataclass(frozen=True)
class Ended:
    """The end of one run: exit code (-9 for a kill, as in Python) and the last line of stderr."""

    code: int
    err: str

    @property
    def is_allowed(self) -> bool:
        return self.code in ALLOWED and "Traceback" not in self.err

    def __str__(self) -> str:
        return f"exit {self.code}: {self.err.strip()[-300:]}"


def load() -> None:
    """Import once what every run needs; nothing that starts a thread."""
    import numpy
    import pyarrow.compute
    import pyarrow.csv
    import pyarrow.parquet
    import scipy.sparse

    import misc_cli.__main__
    import misc_cli.api
    import misc_cli.cli.aggregate
    import misc_cli.cli.compare
    import misc_cli.readers.read
    import misc_cli.run.pipeline

    assert all((numpy, pyarrow.compute, pyarrow.csv, pyarrow.parquet, scipy.sparse, misc_cli.api))


def start(words: list[str], prepare: Callable[[], None] | None = None) -> int:
    """Start a run in a child, in the current folder; stdout goes to `out`, stderr to `err`."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setpgid(0, 0)
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        if prepare is not None:
            prepare()
        from misc_cli.__main__ import main

        sys.argv = ["misc", *words]
        main(words)
    except SystemExit as ending:
        sys.stdout.flush()
        os._exit(int(ending.code or 0))
    except BaseException:
        traceback.print_exc()
    os._exit(99)


def finish(pid: int, seconds: float = HANGS_AFTER) -> Ended:
    """Wait for a run; one that hangs is killed with all its children."""
    give_up = time.monotonic() + seconds
    pause = 0.002
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            break
        if time.monotonic() > give_up:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            code = HUNG
            break
        time.sleep(pause)
        pause = min(0.05, pause * 1.5)
    return Ended(code, Path("err").read_text(errors="replace") if Path("err").exists() else "")


def attempt(
    words: list[str], prepare: Callable[[], None] | None = None, seconds: float = HANGS_AFTER
) -> Ended:
    return finish(start(words, prepare), seconds)


def leftovers() -> list[str]:
    """Return the temporary files and locks in the current folder."""
    return [name for name in os.listdir() if name.endswith((".part", ".lock"))]


@contextmanager
def folder() -> Iterator[Path]:
    """Make an empty folder to work in."""
    before = Path.cwd()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # thousands of syncs
    path = Path(tempfile.mkdtemp(prefix="torture-", dir=memory))
    os.chdir(path)
    try:
        yield path
    finally:
        os.chdir(before)
        shutil.rmtree(path, ignore_errors=True)


def answers(n_items: int = 60, n_workers: int = 7, per_item: int = 5) -> str:
    """Write a plain file of answers, the same each time."""
    rows = ["worker,item,label"]
    for item in range(n_items):
        for at in range(per_item):
            worker = (item * 3 + at * at) % n_workers
            label = "abc"[(item + (worker == 2) * at) % 3]
            rows.append(f"w{worker},i{item},{label}")
    return "\n".join(rows) + "\n"
