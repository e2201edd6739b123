"""Independent trials on all cores, in order, within a time budget.

Processes, not threads: one that still runs at the deadline can be ended, and the thread limit and
the warning filters, of which a process has one, stay each trial's own. What the trials share
(labels, folds) is inherited by forking, not copied; where there is no forking they run in turn.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from threading import Thread
from typing import Any, TypeVar

from misc_cli.core.parallel import thread_limit, threads
from misc_cli.errors import MiscError

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")

HELD = (signal.SIGINT, signal.SIGTERM)

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
    if parallel and processes > 1 and _may_fork():
        yield from _run_forked(function, tasks, deadline, processes)
        return
    for task in tasks:
        if deadline.passed:
            return
        yield function(task)


def _may_fork() -> bool:
    """Not everywhere, and not inside a daemon: a worker of somebody's `multiprocessing.Pool`."""
    return sys.platform != "darwin" and not multiprocessing.current_process().daemon


def _run_forked(
    function: Callable[[Task], Outcome], tasks: Sequence[Task], deadline: Deadline, processes: int
) -> Iterator[Outcome]:
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("fork")
    executor = ProcessPoolExecutor(processes, context, _enter, (function,))
    try:
        with _signals_held(), warnings.catch_warnings():
            # Python ≥ 3.12 warns of forking while arrow's idle reader threads exist; the children
            # touch neither arrow nor any lock those threads could hold.
            warnings.simplefilter("ignore", DeprecationWarning)
            pending = [executor.submit(_call, task) for task in tasks]
        for future in pending:
            if wait([future], deadline.left).not_done:
                return
            yield future.result()
    except BrokenProcessPool:
        raise MiscError(
            "a trial was killed from outside, probably for want of memory; lower --threads"
        ) from None
    finally:  # at the deadline and on Ctrl-C some still run: they are ended, not waited for
        for child in set(multiprocessing.active_children()) - others:
            child.kill()  # a child that is only just starting may miss anything milder
        executor.shutdown(cancel_futures=True)


@contextmanager
def _signals_held() -> Iterator[None]:
    """Ctrl-C waits until all children are there: in the midst of a fork it would be lost."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _enter(function: Callable[[Any], Any]) -> None:
    global _function
    _function = function
    # The parent answers Ctrl-C for all, and ends the children without their leave.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)
    Thread(target=_follow_the_parent, daemon=True).start()


def _follow_the_parent() -> None:
    """A parent that is killed cannot end its children: they would wait for work for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _call(task: Any) -> Any:
    assert _function is not None
    with thread_limit(1):
        return _function(task)
