"""Partial sums that are records: two of them are added field by field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from operator import iadd
from typing import Any, Self

_JOIN = "join"
# `change: float = field(metadata=LARGEST)` keeps the larger of two instead of their sum.
LARGEST: Mapping[str, Callable[..., Any]] = {_JOIN: max}
SMALLEST: Mapping[str, Callable[..., Any]] = {_JOIN: min}


@dataclass
class Summed:
    """Base of such a record: its numbers and arrays are added, its lists grow, all in place."""

    def __iadd__(self, other: Self) -> Self:
        for each in fields(self):
            join = each.metadata.get(_JOIN, iadd)
            joined = join(getattr(self, each.name), getattr(other, each.name))
            setattr(self, each.name, joined)
        return self
