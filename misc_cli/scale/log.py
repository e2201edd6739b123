"""Kernels that rows follow from: what an engine runs again when it has lost rows, or keeps none."""

from __future__ import annotations

from typing import Any

from misc_cli.core.engines.protocol import Kernel

# A kernel that does not say which rows it writes may write any.
EVERYTHING = ("*",)


class KernelLog:
    """The pickled kernels that made the rows there are, in their order, and no more than needed."""

    def __init__(self) -> None:
        self._entries: list[tuple[set[str], bytes]] = []

    @property
    def payloads(self) -> list[bytes]:
        return [payload for _, payload in self._entries]

    def add(self, kernel: Kernel[Any], payload: bytes) -> None:
        """One that needs no rows, and writes all that others wrote, stands for all of them."""
        writes = set(getattr(kernel, "writes", EVERYTHING))
        if not writes:
            return
        fresh = getattr(kernel, "needs", None) == ()
        if fresh and all(earlier <= writes for earlier, _ in self._entries):
            self._entries.clear()
        self._entries.append((writes, payload))
