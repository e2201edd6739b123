"""Kernels that rows follow from: what an engine runs again when it has lost rows, or keeps none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from misc_cli.core.engines.protocol import Kernel


@dataclass(frozen=True)
class _Entry:
    """A kernel, and the names of the rows it needs and writes; None where it does not say."""

    needs: frozenset[str] | None
    writes: frozenset[str] | None
    payload: bytes


class KernelLog:
    """The pickled kernels that made the rows there are, in their order, and no more than needed."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []

    @property
    def payloads(self) -> list[bytes]:
        return [entry.payload for entry in self._entries]

    def add(self, kernel: Kernel[Any], payload: bytes) -> None:
        """One more; those whose rows are all written again before any kernel needs them go."""
        entry = _Entry(_names(kernel, "needs"), _names(kernel, "writes"), payload)
        if entry.writes is not None and not entry.writes:
            return
        kept: list[_Entry] = []
        rewritten: frozenset[str] = frozenset()  # by kernels after this one, and not needed by them
        for one in (entry, *reversed(self._entries)):
            if one.writes is not None and one.writes <= rewritten:
                continue
            kept.append(one)
            if one.needs is None:
                rewritten = frozenset()
            else:
                rewritten = (rewritten | (one.writes or frozenset())) - one.needs
        self._entries = kept[::-1]


def _names(kernel: Kernel[Any], which: str) -> frozenset[str] | None:
    names = getattr(kernel, which, None)
    return None if names is None else frozenset(names)
