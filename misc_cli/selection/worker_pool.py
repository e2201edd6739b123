"""Independent trials on all cores, in order, within a time budget.

Processes, not threads: one that still runs at the deadline can be ended, and the thread limit and
the warning filters, of which a process has one, stay each trial's own. What the trials share
(labels, folds) is inherited by forking, not copied; where there is no forking they run in turn.

A child has two pipes of its own, one for the numbers of its tasks and one for their results, and
nobody else holds their other ends. So a child that dies, even halfway through a result, is the end
of its pipe and never a wait; there is no lock and no shared memory that it could leave in disorder.
`concurrent.futures` shares one pipe and one lock among all children, and hangs on either.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import select
import signal
import struct
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Thread
from typing import Any, NoReturn, TypeVar

from misc_cli import cleanup
from misc_cli.data.parallel import may_start_processes, thread_limit, threads
from misc_cli.errors import MiscError

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")

NUMBER = struct.Struct("<Q")  # of a task; of the bytes of a result
PIECE = 1 << 20
LONGEST_WAIT = 3600.0  # seconds that a poll may be told; then it asks again


class OutOfTime(Exception):
    """A fit noticed, between two of its iterations, that its deadline is past."""


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

    def check(self) -> None:
        """For those that nobody else can end."""
        if self.passed:
            raise OutOfTime


NO_DEADLINE = Deadline(None)


def run_all(
    function: Callable[[Task], Outcome],
    tasks: Sequence[Task],
    *,
    deadline: Deadline,
    parallel: bool,
) -> Iterator[Outcome]:
    """`function` of every task in order, until the deadline; what is unfinished then is dropped.

    A child is ended at the deadline. In this process `function` must raise OutOfTime by itself.
    """
    processes = min(threads(), len(tasks))
    if parallel and processes > 1 and _may_fork():
        crew = _Crew(function, tasks)
        try:
            crew.hire(processes)
            if crew.children:
                yield from crew.results(deadline)
                return
        except OutOfTime:
            return
        finally:  # at the deadline and on Ctrl-C some still run: they are ended, not waited for
            crew.dismiss()
    for task in tasks:
        if deadline.passed:
            return
        try:
            outcome = function(task)
        except OutOfTime:
            return
        yield outcome


def _may_fork() -> bool:
    """Only where it was asked for, and not inside a daemon: a worker of somebody's `Pool`."""
    if not may_start_processes():
        return False
    return sys.platform != "darwin" and not multiprocessing.current_process().daemon


@dataclass
class _Child:
    """One process: where it takes orders, where its results come from, what it is at."""

    pid: int
    orders: int
    results: int
    task: int | None = None
    received: bytearray = field(default_factory=bytearray)

    def give(self, task: int) -> None:
        self.task = task
        with suppress(BrokenPipeError):  # it is dead, which its other pipe will tell
            os.write(self.orders, NUMBER.pack(task))

    def take(self) -> bytes | None:
        """A whole result, or None while some of it is still to come."""
        piece = os.read(self.results, PIECE)
        if not piece:
            raise MiscError(
                "a trial was killed from outside, probably for want of memory; lower --threads"
            )
        self.received += piece
        if len(self.received) < NUMBER.size:
            return None
        end = NUMBER.size + NUMBER.unpack_from(self.received)[0]
        if len(self.received) < end:
            return None
        whole = bytes(memoryview(self.received)[NUMBER.size :])
        self.received, self.task = bytearray(), None
        return whole


class _Crew:
    """The children of one call, and what they have found so far."""

    def __init__(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> None:
        self.function = function
        self.tasks = tasks
        self.children: list[_Child] = []

    def hire(self, count: int) -> None:
        """As many children as the system allows, maybe none."""
        # A signal in the midst of a fork would be lost, or end a child that cannot know it.
        with cleanup.deferred(), warnings.catch_warnings():
            # Python ≥ 3.12 warns of forking while arrow's idle reader threads exist; the children
            # touch neither arrow nor any lock those threads could hold.
            warnings.simplefilter("ignore", DeprecationWarning)
            with suppress(OSError):  # no more processes, or no more open files
                for _ in range(count):
                    self._hire_one()

    def _hire_one(self) -> None:
        pipes: list[int] = []
        try:
            pipes += os.pipe()
            pipes += os.pipe()
            pid = os.fork()
        except OSError:
            for end in pipes:
                os.close(end)
            raise
        take_orders, give_orders, take_results, give_results = pipes
        if pid == 0:
            theirs = [give_orders, take_results]
            theirs += [end for child in self.children for end in (child.orders, child.results)]
            _labour(self.function, self.tasks, take_orders, give_results, theirs)
        os.close(take_orders)
        os.close(give_results)
        self.children.append(_Child(pid, give_orders, take_results))

    def results(self, deadline: Deadline) -> Iterator[Any]:
        """Results in the order of the tasks, as soon as each is there."""
        waiting = iter(range(len(self.tasks)))
        poll = select.poll()
        by_pipe = {child.results: child for child in self.children}
        for child in self.children:
            poll.register(child.results, select.POLLIN)
            child.give(next(waiting))
        found: dict[int, bytes] = {}
        for task in range(len(self.tasks)):
            while task not in found:
                left = deadline.left
                if left is not None and left <= 0.0:
                    return
                for pipe, _ in poll.poll(min(LONGEST_WAIT, left or LONGEST_WAIT) * 1000):
                    child = by_pipe[pipe]
                    done = child.task
                    whole = child.take()
                    if whole is None or done is None:
                        continue
                    found[done] = whole
                    following = next(waiting, None)
                    if following is None:
                        poll.unregister(pipe)
                    else:
                        child.give(following)
            succeeded, outcome = pickle.loads(found.pop(task))
            if not succeeded:
                raise outcome
            yield outcome

    def dismiss(self) -> None:
        with cleanup.deferred():
            for child in self.children:
                with suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGKILL)  # one just starting may miss anything milder
                os.close(child.orders)
                os.close(child.results)
            for child in self.children:
                with suppress(ChildProcessError):  # a host program reaped it
                    os.waitpid(child.pid, 0)
            self.children.clear()


def _labour(
    function: Callable[[Any], Any],
    tasks: Sequence[Any],
    orders: int,
    results: int,
    theirs: Sequence[int],
) -> NoReturn:
    """A child's whole life. It never returns into its parent's code, whatever happens."""
    try:
        # The parent answers Ctrl-C for all, and ends the children without their leave.
        for number in cleanup.ENDINGS:
            signal.signal(number, signal.SIG_IGN)
        for end in theirs:
            os.close(end)
        numbers: SimpleQueue[int] = SimpleQueue()
        Thread(target=_listen, args=(orders, numbers), daemon=True).start()
        while True:
            number = numbers.get()
            answer = _answer(function, tasks[number])
            _send(results, NUMBER.pack(len(answer)) + answer)
    finally:
        os._exit(1)


def _listen(orders: int, numbers: SimpleQueue[int]) -> None:
    """Take orders; a parent that is killed cannot end its children, but its pipe closes."""
    while order := os.read(orders, NUMBER.size):
        numbers.put(NUMBER.unpack(order)[0])
    os._exit(1)


def _answer(function: Callable[[Any], Any], task: Any) -> bytes:
    try:
        with thread_limit(1):
            return pickle.dumps((True, function(task)), pickle.HIGHEST_PROTOCOL)
    except BaseException as error:
        error.add_note(traceback.format_exc())
        try:
            answer = pickle.dumps((False, error))
            pickle.loads(answer)
        except Exception:  # an error that cannot travel sends its words
            answer = pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))
        return answer


def _send(pipe: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(pipe, view) :]
