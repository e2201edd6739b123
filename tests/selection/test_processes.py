"""Trials in processes of their own: in order, in time, and what becomes of those that die."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from threading import Timer

import pytest

from misc_cli.data.resources import limits
from misc_cli.errors import MiscError
from misc_cli.selection.worker_pool import NEVER, clock, run_all
from tests.conftest import REPO

pytestmark = pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="no forking here")


@pytest.fixture(autouse=True)
def _asked_for() -> Iterator[None]:
    """As on the command line; the Python functions start no process unless asked."""
    with limits(processes=True):
        yield


def run(
    function: Callable[[int], int], tasks: list[int], seconds: float | None = None
) -> list[int]:
    with limits(2):
        return list(
            run_all(
                function,
                tasks,
                deadline=NEVER if seconds is None else clock() + seconds,
                parallel=True,
            )
        )


def no_children() -> bool:
    """Whether every child was ended and reaped."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return True
    return False


def test_results_come_in_order_from_other_processes() -> None:
    assert run(lambda task: task if os.getpid() != here else -1, [3, 1, 2]) == [3, 1, 2]
    assert no_children()


here = os.getpid()


def test_what_runs_at_the_deadline_is_ended() -> None:
    def sleep(task: int) -> int:
        time.sleep(task)
        return task

    started = time.monotonic()
    assert run(sleep, [0, 60, 0], seconds=0.5) == [0]
    assert time.monotonic() - started < 20
    assert no_children()


def test_a_killed_trial_is_an_error_and_not_a_wait_for_ever() -> None:
    def die(task: int) -> int:
        if task == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return task

    with pytest.raises(MiscError, match="lower --threads"):
        run(die, [0, 1, 2])
    assert no_children()


def test_a_child_killed_halfway_through_its_result_is_no_hang() -> None:
    """The result is larger than a pipe; its sender dies with the parent in the midst of reading."""

    def large(task: int) -> bytes:
        if task == 1:
            Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()
        return bytes(200_000_000 if task == 1 else 10)

    with limits(2):
        results = run_all(large, [0, 1, 2, 3], deadline=float("inf"), parallel=True)
        next(results)
        time.sleep(1.0)  # while nobody reads, the pipe is full
        with pytest.raises(MiscError, match="lower --threads"):
            list(results)
    assert no_children()


def test_the_deadline_holds_in_the_midst_of_a_large_result() -> None:
    def large(task: int) -> bytes:
        return bytes(50_000_000)

    for seconds in (0.01, 0.05, 0.1, 0.15, 0.2):
        with limits(2):
            found = run_all(
                large,
                [0] * 6,
                deadline=NEVER if seconds is None else clock() + seconds,
                parallel=True,
            )
            assert all(len(result) == 50_000_000 for result in found)
    assert no_children()


def test_an_error_of_a_trial_is_raised_in_its_turn() -> None:
    class Odd(Exception):
        """Cannot be pickled: it is local."""

    def fail(task: int) -> int:
        if task == 2:
            raise Odd("so odd")
        if task == 3:
            raise MemoryError
        return task

    with pytest.raises(RuntimeError, match="Odd: so odd"):
        run(fail, [0, 1, 2])
    with pytest.raises(MemoryError):
        run(fail, [3, 1])
    assert no_children()


@pytest.mark.parametrize("missing", ["fork", "pipe"])
def test_without_processes_trials_run_in_turn(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, missing, refuse)
    assert run(lambda task: os.getpid(), [1, 2]) == [here, here]


def test_no_shared_memory_is_needed() -> None:
    """A container may have no /dev/shm, or one that cannot be written: semaphores would fail."""
    script = "import misc_cli.selection.worker_pool, sys; print('_multiprocessing' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=REPO
    )
    assert done.stdout == "False\n"


def test_a_daemon_runs_its_trials_in_turn() -> None:
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(_inside_a_daemon) == [1, 2]


def _inside_a_daemon() -> list[int]:
    return run(abs, [-1, -2])


ORPHANS = """
import os, time
from misc_cli.data.resources import limits
from misc_cli.selection.worker_pool import clock, run_all

def pid(task):
    return os.getpid()

asked = limits(processes=True)
asked.__enter__()
for child in run_all(pid, [0, 1], deadline=float("inf"), parallel=True):
    print(child, flush=True)
    time.sleep(60)
"""


def test_children_do_not_outlive_a_killed_parent() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", ORPHANS], stdout=subprocess.PIPE, text=True, cwd=REPO
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until = time.monotonic() + 20
    while _runs(child):
        assert time.monotonic() < until
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    """Whether there is such a process that still does something; nobody may have reaped it."""
    try:
        with open(f"/proc/{pid}/stat") as stream:
            return stream.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# Children that still start when the search is over, under the signal handlers of `misc`.
SLOW_START = """
import os, signal, sys, time
from misc_cli.selection.worker_pool import clock, run_all
from misc_cli.data.resources import limits

signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
os.register_at_fork(after_in_child=lambda: time.sleep(1.0))
with limits(2), limits(processes=True):
    print(list(run_all(abs, [1, 2], deadline=clock() + 0.3, parallel=True)))
"""


def test_a_child_that_only_just_starts_is_ended_too() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SLOW_START],
        capture_output=True,
        text=True,
        check=True,
        cwd=REPO,
        timeout=30,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
