"""Partial sums that are records: two of them are added field by field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from operator import iadd
from typing import Any, Self

from misc_cli.core.types import Floats

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


@dataclass
class Counted(Summed):
    """With counts (n_workers * n_classes observed, n_classes true): how often, as expected."""

    counts: Floats

    @property
    def by_worker(self) -> Floats:
        """n_w[ck], (n_workers, n_classes true, n_classes observed)."""
        n_classes = self.counts.shape[1]
        return self.counts.reshape(-1, n_classes, n_classes).transpose(0, 2, 1)
