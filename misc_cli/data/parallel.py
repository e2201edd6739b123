"""Blocks of items walked on several threads, their results in the order of the blocks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
Block = TypeVar("Block")

MOST_THREADS = min(os.cpu_count() or 1, 8)

# Of the calling thread, not of the process: calls that overlap may each have a limit of their own.
_thread_limit: ContextVar[int] = ContextVar("thread_limit", default=MOST_THREADS)


# Trials may run in processes of their own only where somebody said so: the command line does.
_may_start: ContextVar[bool] = ContextVar("may_start_processes", default=False)


def may_start_processes() -> bool:
    """Whether this call may start processes."""
    return _may_start.get()


@contextmanager
def processes(allowed: bool) -> Iterator[None]:
    """Let trials run in processes of their own, or not; changes how long they take, no result."""
    before = _may_start.set(allowed)
    try:
        yield
    finally:
        _may_start.reset(before)


def threads() -> int:
    """How many threads walk the blocks."""
    return _thread_limit.get()


@contextmanager
def thread_limit(threads: int | None) -> Iterator[None]:
    """Walk blocks on this many threads; changes how long a run takes and nothing else."""
    before = _thread_limit.set(threads or _thread_limit.get())
    try:
        yield
    finally:
        _thread_limit.reset(before)


def map_in_order(kernel: Callable[[Block], T], blocks: list[Block]) -> Iterator[T]:
    """`kernel` of every block, results in block order, so that sums never depend on threads."""
    if threads() == 1 or len(blocks) == 1:
        yield from map(kernel, blocks)
        return
    with ThreadPoolExecutor(threads()) as pool:
        yield from pool.map(kernel, blocks)
