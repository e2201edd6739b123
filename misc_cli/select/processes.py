"""Independent trials on all cores, in order, within a time budget.

Processes, not threads: scipy's sparse products hold the interpreter's lock. What the trials share
(labels, folds) is inherited by forking and never copied; where there is no fork they run in turn.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from misc_cli.votes import thread_limit, threads

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")

_function: Callable[[Any], Any] | None = None


class Deadline:
    """When a search must stop; `None` seconds never."""

    def __init__(self, seconds: float | None) -> None:
        self.end = None if seconds is None else time.monotonic() + seconds

    @property
    def passed(self) -> bool:
        return self.end is not None and time.monotonic() >= self.end

    @property
    def left(self) -> float | None:
        return None if self.end is None else max(0.0, self.end - time.monotonic())


def run_all(
    function: Callable[[Task], Outcome],
    tasks: Sequence[Task],
    *,
    deadline: Deadline,
    parallel: bool,
) -> Iterator[Outcome]:
    """`function` of every task in order, until the deadline; what is unfinished then is dropped."""
    processes = min(threads(), len(tasks))
    if not parallel or processes < 2 or sys.platform in ("win32", "darwin"):
        for task in tasks:
            if deadline.passed:
                return
            yield function(task)
        return
    with warnings.catch_warnings():
        # Python ≥ 3.12 warns of forking while arrow's idle reader threads exist; the children
        # touch neither arrow nor any lock those threads could hold.
        warnings.simplefilter("ignore", DeprecationWarning)
        pool = multiprocessing.get_context("fork").Pool(processes, _enter, (function,))
    with pool:  # leaving terminates what still runs: at the deadline, on Ctrl-C
        pending = pool.imap(_call, tasks)
        for _ in tasks:
            try:
                yield pending.next(deadline.left)
            except multiprocessing.TimeoutError:
                return


def _enter(function: Callable[[Any], Any]) -> None:
    global _function
    _function = function
    # The parent answers Ctrl-C for all, and ends the children without their leave.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _call(task: Any) -> Any:
    assert _function is not None
    with thread_limit(1):
        return _function(task)
