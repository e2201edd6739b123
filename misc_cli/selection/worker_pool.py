"""Run independent trials on all cores, in order, within a time budget.

Processes, not threads: one that still runs at the deadline can be ended, and the thread limit and
the warning filters, of which a process has one, stay each trial's own. What the trials share
(labels, folds) is inherited by forking, not copied; where there is no forking they run in turn.

Each child has a connection of its own, so one that dies, even halfway through a result, is the end
of its connection and never a wait. (`concurrent.futures` shares one pipe and one lock among all.)
"""

from __future__ import annotations

import math
import os
import pickle
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

from misc_cli import cleanup
from misc_cli.data.resources import PROCESSES, THREADS, limits
from misc_cli.errors import MiscError, MiscWarning

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkProcess

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")


class OutOfTime(Exception):
    """Raised by a fit that notices, between two iterations, that its deadline is past."""


# A deadline is a moment of `clock`.
clock = time.monotonic
NEVER = math.inf


def check(deadline: float) -> None:
    """Raise OutOfTime after the deadline, where nobody else ends the work."""
    if clock() >= deadline:
        raise OutOfTime


def warn_of_time(left_out: Sequence[str]) -> None:
    """Say what a time budget left out, if anything."""
    if left_out:
        said = ", ".join(left_out)
        warnings.warn(f"the time budget left no time for {said}", MiscWarning, stacklevel=4)


def run_all(
    function: Callable[[Task], Outcome],
    tasks: Sequence[Task],
    *,
    deadline: float,
    parallel: bool,
) -> Iterator[Outcome]:
    """Yield `function` of every task in order; what is unfinished at the deadline is dropped.

    A child is ended at the deadline. In this process `function` must raise OutOfTime by itself.
    """
    from multiprocessing import current_process, get_context

    processes = min(THREADS.get(), len(tasks))
    may_fork = PROCESSES.get() and sys.platform != "darwin"
    # a daemon is a worker of somebody's `Pool` and may have no children
    if parallel and processes > 1 and may_fork and not current_process().daemon:
        children: dict[Connection, ForkProcess] = {}
        context = get_context("fork")
        try:
            # A signal in the midst of a fork would be lost, or end a child that cannot know it.
            with cleanup.deferred(), warnings.catch_warnings():
                # Python ≥ 3.12 warns of forking while threads exist (ours waits for signals,
                # arrow's are idle); the children touch neither arrow nor any of their locks.
                warnings.simplefilter("ignore", DeprecationWarning)
                with suppress(OSError):  # no more processes, or no more open files
                    for _ in range(processes):
                        ours, theirs = context.Pipe()
                        work = (function, tasks, theirs)
                        child = context.Process(target=_work, args=work, daemon=True)
                        child.start()
                        theirs.close()
                        children[ours] = child
            if children:
                yield from _results(children, len(tasks), deadline)
                return
        except OutOfTime:
            return
        finally:  # at the deadline and on Ctrl-C some still run: they are ended, not waited for
            with cleanup.deferred():
                for connection, child in children.items():
                    child.kill()  # one just starting may miss anything milder
                    connection.close()
                for child in children.values():
                    child.join()
    for task in tasks:
        try:
            check(deadline)
            outcome = function(task)
        except OutOfTime:
            return
        yield outcome


def _results(
    children: dict[Connection, ForkProcess], n_tasks: int, deadline: float
) -> Iterator[Any]:
    """Yield results in the order of the tasks, each as soon as it is there."""
    from multiprocessing.connection import wait

    waiting = iter(range(n_tasks))
    at: dict[Connection, int] = {}
    found: dict[int, bytes] = {}

    def give(connection: Connection) -> None:
        if (task := next(waiting, None)) is not None:
            at[connection] = task
            with suppress(OSError):  # it is dead, which reading from it will tell
                connection.send(task)

    for connection in children:
        give(connection)
    for task in range(n_tasks):
        while task not in found:
            left = deadline - clock()
            if left <= 0.0:
                return
            ready = wait(list(at), None if deadline == NEVER else left)
            for connection in [one for one in at if one in ready]:
                try:
                    found[at.pop(connection)] = connection.recv_bytes()
                except (EOFError, OSError):
                    raise MiscError(
                        "a trial was killed from outside, probably for want of memory; "
                        "lower --threads"
                    ) from None
                give(connection)
        succeeded, outcome = pickle.loads(found.pop(task))
        if not succeeded:
            raise outcome
        yield outcome


def _work(function: Callable[[Any], Any], tasks: Sequence[Any], orders: Connection) -> None:
    """Answer a child's orders until it is killed; its parent answers Ctrl-C for all."""
    from multiprocessing import parent_process

    for number in cleanup.ENDINGS:
        signal.signal(number, signal.SIG_IGN)

    def die_with_parent() -> None:
        """End a child whose parent was killed and cannot end it."""
        if (parent := parent_process()) is not None:
            parent.join()
        os._exit(1)

    Thread(target=die_with_parent, daemon=True).start()
    while True:
        orders.send_bytes(_answer(function, tasks[orders.recv()]))


def _answer(function: Callable[[Any], Any], task: Any) -> bytes:
    try:
        with limits(1):
            return pickle.dumps((True, function(task)), pickle.HIGHEST_PROTOCOL)
    except BaseException as error:
        error.add_note(traceback.format_exc())
        try:
            answer = pickle.dumps((False, error))
            pickle.loads(answer)
        except Exception:  # an error that cannot travel sends its words
            answer = pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))
        return answer
