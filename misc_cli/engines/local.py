"""The engine of one process: votes and rows in its memory (or mapped), blocks walked by threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from misc_cli.data.parallel import map_in_order
from misc_cli.data.types import Floats, Labels, Names
from misc_cli.data.votes import Rows, Votes
from misc_cli.engines.protocol import GOLD, Array, FusedKernels, FusedSums, Kernel, Sums

# (name, shape, dtype) → an array for the rows of that name
Allocate = Callable[[str, tuple[int, ...], "np.dtype[np.generic]"], Array]


@dataclass(frozen=True)
class VotesBlock:
    """A range of items of some votes."""

    votes: Votes
    rows: Rows
    names: Names = None

    @property
    def items(self) -> Names:
        return self.names.slice(self.rows.start, self.rows.stop - self.rows.start)

    @property
    def matrix(self) -> sp.csr_array:
        return self.votes.block(self.rows)

    def class_totals(self) -> Floats:
        return self.votes.class_totals(self.rows)


def in_memory(name: str, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
    return np.empty(shape, dtype)


class LocalEngine:
    """`rows` are those there are at the start, (n_items, ...) each; `allocate` makes new ones.

    `items` are the items' names, for kernels that ask for them.
    """

    def __init__(
        self,
        votes: Votes,
        rows: Mapping[str, Array] | None = None,
        allocate: Allocate = in_memory,
        items: Names = None,
        ordered: bool = False,
    ) -> None:
        self.votes, self.items, self.ordered = votes, items, ordered
        self._arrays = dict(rows or {})
        self._allocate = allocate
        self._lock = Lock()

    @classmethod
    def of(cls, labels: Labels, rows: Mapping[str, Array] | None = None) -> LocalEngine:
        """The labels' votes and gold, with these rows besides."""
        known = dict(rows or {})
        if labels.gold is not None:
            known[GOLD] = labels.gold
        return cls(labels.votes, known, items=labels.items, ordered=labels.ordered)

    @property
    def n_items(self) -> int:
        return self.votes.n_items

    @property
    def n_workers(self) -> int:
        return self.votes.n_workers

    @property
    def n_classes(self) -> int:
        return self.votes.n_classes

    @property
    def n_votes(self) -> int:
        return self.votes.n_votes

    def sweep(self, kernel: Kernel[Sums]) -> Sums:
        # Kernels that run together are tasks of their own: threads have work even in one block.
        kernels = kernel.kernels if isinstance(kernel, FusedKernels) else (kernel,)
        votes, before = self.votes, dict(self._arrays)

        def walk(task: tuple[Kernel[Any], Rows]) -> Any:
            one, rows = task
            views = {name: array[rows] for name, array in before.items()}
            new, sums = one(VotesBlock(votes, rows, self.items), views)
            for name, values in new.items():
                self._array(name, values)[rows] = values
            return sums

        blocks = votes.blocks
        partials = map_in_order(walk, [(one, rows) for one in kernels for rows in blocks])
        each: list[Any] = []
        for at, sums in enumerate(partials):
            if at % len(blocks) == 0:
                each.append(sums)
            else:
                each[-1] += sums
        found: Any = FusedSums(each) if isinstance(kernel, FusedKernels) else each[0]
        return cast(Sums, found)

    def whole(self, name: str) -> Array:
        return self._arrays[name]

    def _array(self, name: str, values: Array) -> Array:
        """Where the rows of this name are kept, made for the first block that has some."""
        with self._lock:
            if name not in self._arrays:
                shape = (self.n_items, *values.shape[1:])
                self._arrays[name] = self._allocate(name, shape, values.dtype)
            return self._arrays[name]
