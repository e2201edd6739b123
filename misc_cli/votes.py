"""The item-mode unfolding of the label tensor, walked block of items by block of items.

Every kernel sees the same thing, a CSR block `(n_block_items, n_workers * n_classes)` whose column
`worker * n_classes + class` says who answered what. Where the block comes from is the source's
affair: sparse answers (`SparseVotes`) or a completed label matrix (`DenseVotes`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

Floats = npt.NDArray[np.float64]
Rows = slice  # a range of items; an alias because "slice" also names the loop's extra worker
LabelCodes = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]
T = TypeVar("T")
Block = TypeVar("Block")

# A block's rows and partial sums should stay in the second-level cache: about half a megabyte.
BLOCK_VOTES = 1 << 16


class Votes(Protocol):
    """A source of votes. Blocks are the same whatever the number of threads."""

    @property
    def n_items(self) -> int: ...
    @property
    def n_workers(self) -> int: ...
    @property
    def n_classes(self) -> int: ...
    @property
    def n_votes(self) -> int: ...
    @property
    def blocks(self) -> list[slice]:
        """Contiguous ranges of items that together cover all of them."""

    def block(self, rows: slice) -> sp.csr_array:
        """The votes on these items, CSR (n_block_items, n_workers * n_classes)."""

    def class_totals(self, rows: slice) -> Floats:
        """How many votes each class has on these items, (n_block_items, n_classes)."""


@dataclass(frozen=True)
class SparseVotes:
    """Votes held as one CSR matrix `(n_items, n_workers * n_classes)` of ones."""

    matrix: sp.csr_array
    n_workers: int
    n_classes: int

    @property
    def n_items(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def n_votes(self) -> int:
        return int(self.matrix.nnz)

    @cached_property
    def blocks(self) -> list[slice]:
        # A block's votes must outweigh its partial sums, which are as long as the columns.
        size = max(BLOCK_VOTES, 4 * self.matrix.shape[1])
        targets = np.arange(size, self.n_votes, size)
        cuts = np.unique(np.searchsorted(self.matrix.indptr, targets, side="left"))
        edges = [0, *cuts[(cuts > 0) & (cuts < self.n_items)].tolist(), self.n_items]
        return [slice(a, b) for a, b in pairwise(edges)]

    @cached_property
    def _cut(self) -> dict[int, sp.csr_array]:
        """The blocks by first item, cut once for all iterations.

        scipy copies a small view of a large array whenever it wraps or transposes it, so each block
        owns its columns (4 bytes a vote) and all blocks share one array of ones.
        """
        edges = self.matrix.indptr[[0, *(rows.stop for rows in self.blocks)]]
        ones = np.ones(np.diff(edges).max())
        cut = {}
        for rows, (first, last) in zip(self.blocks, pairwise(edges), strict=True):
            pointers = self.matrix.indptr[rows.start : rows.stop + 1] - first
            columns = self.matrix.indices[first:last].copy()
            shape = (rows.stop - rows.start, self.matrix.shape[1])
            cut[rows.start] = sp.csr_array((ones[: last - first], columns, pointers), shape=shape)
        return cut

    def block(self, rows: slice) -> sp.csr_array:
        return self._cut[rows.start]

    def class_totals(self, rows: slice) -> Floats:
        to_class = np.tile(np.eye(self.n_classes), (self.n_workers, 1))
        totals: Floats = self.block(rows) @ to_class
        return totals


@dataclass(frozen=True)
class DenseVotes:
    """Votes of a full label matrix `(n_items, n_workers)` of class codes, one vote per cell.

    `weights`, (n_workers,), counts each worker's votes that many times (merged prototypes).
    """

    label_matrix: npt.NDArray[np.uint8]
    n_classes: int
    weights: Floats | None = None

    @property
    def n_items(self) -> int:
        return int(self.label_matrix.shape[0])

    @property
    def n_workers(self) -> int:
        return int(self.label_matrix.shape[1])

    @property
    def n_votes(self) -> int:
        return self.n_items * self.n_workers

    @cached_property
    def blocks(self) -> list[slice]:
        size = max(1, max(BLOCK_VOTES * 4, 4 * self.n_workers * self.n_classes) // self.n_workers)
        starts = range(0, self.n_items, size)
        return [slice(start, min(start + size, self.n_items)) for start in starts]

    @cached_property
    def _pattern(self) -> tuple[Floats, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Values, row pointers and first columns of the largest block: every block's are part."""
        n_rows = self.blocks[0].stop
        one_row = np.ones(self.n_workers) if self.weights is None else self.weights
        pointers = np.arange(n_rows + 1, dtype=np.int32) * np.int32(self.n_workers)
        first_columns = np.arange(self.n_workers, dtype=np.int32) * np.int32(self.n_classes)
        return np.tile(one_row, n_rows), pointers, first_columns

    def block(self, rows: slice) -> sp.csr_array:
        codes = self.label_matrix[rows]
        values, pointers, first_columns = self._pattern
        return sp.csr_array(
            (values[: codes.size], (codes + first_columns).ravel(), pointers[: len(codes) + 1]),
            shape=(len(codes), self.n_workers * self.n_classes),
        )

    def class_totals(self, rows: slice) -> Floats:
        codes = self.label_matrix[rows]
        totals = np.empty((len(codes), self.n_classes))
        for code in range(self.n_classes):
            hits = codes == code
            if self.weights is None:
                totals[:, code] = np.count_nonzero(hits, axis=1)
            else:
                totals[:, code] = hits @ self.weights
        return totals


_thread_limit = min(os.cpu_count() or 1, 8)


def threads() -> int:
    """How many threads walk the blocks."""
    return _thread_limit


@contextmanager
def thread_limit(threads: int | None) -> Iterator[None]:
    """Walk blocks on this many threads; changes how long a run takes and nothing else."""
    global _thread_limit
    before = _thread_limit
    _thread_limit = threads or before
    try:
        yield
    finally:
        _thread_limit = before


def map_in_order(kernel: Callable[[Block], T], blocks: list[Block]) -> Iterator[T]:
    """`kernel` of every block, results in block order, so that sums never depend on threads."""
    if _thread_limit == 1 or len(blocks) == 1:
        yield from map(kernel, blocks)
        return
    with ThreadPoolExecutor(_thread_limit) as pool:
        yield from pool.map(kernel, blocks)
