"""Threads, processes and memory that a run may take; threads give results in block order."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TypeVar

from misc_cli.errors import ConfigError

T = TypeVar("T")
Block = TypeVar("Block")

MOST_THREADS = min(os.cpu_count() or 1, 8)

# Context variables belong to the calling thread: calls that overlap may have different limits.
# How many threads walk the blocks, and whether trials may start processes: off unless the caller
# allows it, as the command line does.
THREADS: ContextVar[int] = ContextVar("threads", default=MOST_THREADS)
PROCESSES: ContextVar[bool] = ContextVar("processes", default=False)


@contextmanager
def limits(threads: int | None = None, processes: bool | None = None) -> Iterator[None]:
    """Set the threads, and allow or forbid processes, within the block; no result depends on it."""
    before = THREADS.set(threads or THREADS.get())
    allowed = PROCESSES.set(PROCESSES.get() if processes is None else processes)
    try:
        yield
    finally:
        THREADS.reset(before)
        PROCESSES.reset(allowed)


def map_in_order(kernel: Callable[[Block], T], blocks: list[Block]) -> Iterator[T]:
    """Yield `kernel(block)` in block order, so that sums never depend on threads."""
    if THREADS.get() == 1 or len(blocks) == 1:
        yield from map(kernel, blocks)
        return
    with ThreadPoolExecutor(THREADS.get()) as pool:
        yield from pool.map(kernel, blocks)


GIB = 1 << 30


def available_bytes(groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the memory free without swapping, within `ulimit -v` and the control groups."""
    page = os.sysconf("SC_PAGE_SIZE")
    free = [page * os.sysconf("SC_PHYS_PAGES")]
    with suppress(OSError):
        said = re.findall(r"^MemAvailable: +(\d+)", Path("/proc/meminfo").read_text(), re.M)
        free += [int(kilobytes) * 1024 for kilobytes in said]
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most != resource.RLIM_INFINITY:
        with suppress(OSError):
            free.append(most - page * int(Path("/proc/self/statm").read_text().split()[0]))
    with suppress(OSError):
        own = re.search(r"^0::/(.*)$", Path("/proc/self/cgroup").read_text(), re.M)
        group = groups / (own[1] if own else "")
        while group.is_relative_to(groups):
            with suppress(OSError, ValueError):  # the limit may be "max", which is none
                left = int((group / "memory.max").read_text())
                left -= int((group / "memory.current").read_text())
                stat = (group / "memory.stat").read_text()
                free.append(left + sum(map(int, re.findall(r"^inactive_file (\d+)$", stat, re.M))))
            group = group.parent
    return max(0, min(free))


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
