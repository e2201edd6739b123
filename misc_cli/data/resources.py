"""Threads, processes and memory that a run may take; threads give results in block order."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TypeVar

from misc_cli.errors import ConfigError

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


GIB = 1 << 30

# Files of a control group: its limit, its usage, and the name of idle cache in memory.stat.
V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
V2 = ("memory.max", "memory.current", "inactive_file")


def available_bytes() -> int:
    """Return the memory free without swapping, within every limit set on this process."""
    return max(0, min([_system_bytes(), *_container_bytes(), *_process_bytes()]))


def _container_bytes(root: Path = Path("/sys/fs/cgroup")) -> Iterator[int]:
    """Yield the bytes left in each control group around this process, of version 1 or 2."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if kinds and "memory" not in kinds.split(","):
            continue
        base = root / "memory" if kinds else root
        limit, used, idle = V1 if kinds else V2
        group = base / path.lstrip("/")
        for place in (group, *group.parents):
            try:
                most = int((place / limit).read_text())  # "max" is none
                taken = int((place / used).read_text())
                cache = re.search(rf"^{idle} (\d+)$", (place / "memory.stat").read_text(), re.M)
            except (OSError, ValueError):
                most = taken = 0
                cache = None
            if most:
                yield most - taken + (int(cache[1]) if cache else 0)
            if place == base:
                break


def _process_bytes() -> Iterator[int]:
    """Yield the bytes that `ulimit -v` leaves."""
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most != resource.RLIM_INFINITY:
        try:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
        except OSError:
            pages = 0
        yield most - pages * os.sysconf("SC_PAGE_SIZE")


def require_for(n_items: int, n_workers: int, n_classes: int) -> None:
    """Check the memory that every method needs: posteriors and a confusion matrix per worker."""
    needed = 8 * n_classes * (3 * n_items + 2 * n_workers * n_classes)
    require(
        needed,
        f"{n_classes:,} classes of {n_workers:,} workers on {n_items:,} items",
        "labels with so many values look like free text: merge them, or name another --label-col",
    )


def require(needed: int, what: str, remedy: str) -> None:
    """Raise a ConfigError if `needed` bytes are not free; `remedy` says what would fit."""
    available = available_bytes()
    if needed > available:
        raise ConfigError(
            f"{what} needs about {needed / GIB:.1f} GiB and {available / GIB:.1f} GiB are free; "
            f"{remedy}"
        )


def _system_bytes() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
