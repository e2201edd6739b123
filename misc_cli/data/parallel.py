"""Walks over blocks of items on several threads; results come in the order of the blocks."""

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

# Context variables belong to the calling thread: calls that overlap may have different limits.
_thread_limit: ContextVar[int] = ContextVar("thread_limit", default=MOST_THREADS)
# Processes are off unless the caller allows them, as the command line does.
_may_start: ContextVar[bool] = ContextVar("may_start_processes", default=False)


def may_start_processes() -> bool:
    """Return True if this call may start processes."""
    return _may_start.get()


@contextmanager
def processes(allowed: bool) -> Iterator[None]:
    """Allow or forbid processes for trials within the block; no result depends on it."""
    before = _may_start.set(allowed)
    try:
        yield
    finally:
        _may_start.reset(before)


def threads() -> int:
    """Return the number of threads that walk the blocks."""
    return _thread_limit.get()


@contextmanager
def thread_limit(threads: int | None) -> Iterator[None]:
    """Set the number of threads within the block; no result depends on it."""
    before = _thread_limit.set(threads or _thread_limit.get())
    try:
        yield
    finally:
        _thread_limit.reset(before)


def map_in_order(kernel: Callable[[Block], T], blocks: list[Block]) -> Iterator[T]:
    """Yield `kernel(block)` in block order, so that sums never depend on threads."""
    if threads() == 1 or len(blocks) == 1:
        yield from map(kernel, blocks)
        return
    with ThreadPoolExecutor(threads()) as pool:
        yield from pool.map(kernel, blocks)
