"""How much memory a run may take, asked before it takes it."""

from __future__ import annotations

import os
from pathlib import Path

from misc_cli.errors import ConfigError

GIB = 1 << 30


def available_bytes() -> int:
    """Memory that can be had without swapping: the system's, within the container's limit."""
    available = _system_bytes()
    try:
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
    except (OSError, ValueError):  # no such file, or "max": no limit
        return available
    return min(available, max(limit - used, 0))


def require(needed: int, what: str, remedy: str) -> None:
    """Raise a ConfigError if `needed` bytes are not there; `remedy` says what would fit."""
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
