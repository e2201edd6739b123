"""Votes: the item-mode unfolding of the label tensor, in blocks of items; and the tensor.

Every kernel reads a CSR block `(n_block_items, n_workers * n_classes)`; column
`worker * n_classes + class` says who answered what. The block comes from sparse answers
(`SparseVotes`) or from a completed label matrix (`DenseVotes`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

T = TypeVar("T")

Floats = npt.NDArray[np.float64]
Int32s = npt.NDArray[np.int32]
Pointers = npt.NDArray[np.int32] | npt.NDArray[np.int64]
Rows = slice  # a range of items; an alias because "slice" also names the loop's extra worker
LabelCodes = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]

# The rows and partial sums of a block should fit the second-level cache: half a megabyte.
BLOCK_VOTES = 1 << 16


class Votes(ABC):
    """Base of sources of votes. Blocks are the same whatever the number of threads."""

    def __init__(self, n_items: int, n_workers: int, n_classes: int, n_votes: int) -> None:
        self.n_items, self.n_workers = int(n_items), n_workers
        self.n_classes, self.n_votes = n_classes, int(n_votes)

    @property
    @abstractmethod
    def blocks(self) -> list[slice]:
        """Contiguous ranges of items that cover all items."""

    @abstractmethod
    def block(self, rows: slice) -> sp.csr_array:
        """Return the votes on these items, CSR (n_block_items, n_workers * n_classes)."""

    def class_totals(self, rows: slice) -> Floats:
        """Return the number of votes per class on these items, (n_block_items, n_classes)."""
        return totals_by_class(self.block(rows), self.n_classes)


def block_ranges(pointers: Pointers, n_columns: int) -> list[slice]:
    """Return ranges of items with about `BLOCK_VOTES` votes each; `pointers` is (n_items + 1,)."""
    # A block's votes must outweigh its partial sums, which are as long as the columns.
    size, n_items = max(BLOCK_VOTES, 4 * n_columns), len(pointers) - 1
    targets = np.arange(size, int(pointers[-1]), size)
    cuts = np.unique(np.searchsorted(pointers, targets, side="left"))
    edges = [0, *cuts[(cuts > 0) & (cuts < n_items)].tolist(), n_items]
    return [slice(a, b) for a, b in pairwise(edges)]


def totals_by_class(block: sp.csr_array, n_classes: int) -> Floats:
    """Return the number of votes per class on the items of a block, (n_block_items, n_classes)."""
    by_class = (block.data, block.indices % n_classes, block.indptr)
    totals: Floats = sp.csr_array(by_class, shape=(block.shape[0], n_classes)).toarray()
    return totals


def votes_per_item(votes: Votes) -> Pointers:
    """Return the number of votes on each item, (n_items,)."""
    return np.concatenate([np.diff(votes.block(rows).indptr) for rows in votes.blocks])


def votes_by_worker(votes: Votes) -> npt.NDArray[np.int64]:
    """Return the number of times each worker gave each answer, (n_workers, n_classes)."""
    counts = np.zeros(votes.n_workers * votes.n_classes, dtype=np.int64)
    for rows in votes.blocks:
        counts += np.bincount(votes.block(rows).indices, minlength=len(counts))
    return counts.reshape(votes.n_workers, votes.n_classes)


class SparseVotes(Votes):
    """Votes held as one CSR matrix `(n_items, n_workers * n_classes)` of ones."""

    def __init__(self, matrix: sp.csr_array, n_workers: int, n_classes: int) -> None:
        super().__init__(matrix.shape[0], n_workers, n_classes, matrix.nnz)
        self.matrix = matrix

    @cached_property
    def blocks(self) -> list[slice]:
        return [slice(first, first + one.shape[0]) for first, one in self._cut.items()]

    @cached_property
    def _cut(self) -> dict[int, sp.csr_array]:
        """The blocks by first item, cut once for all iterations.

        A walk asks for `blocks` before its threads start, so no thread ever cuts. scipy copies a
        small view of a large array whenever it wraps or transposes it: therefore each block owns
        its columns (4 bytes a vote), and all blocks share one array of ones.
        """
        pointers, columns = self.matrix.indptr, self.matrix.indices
        ranges = block_ranges(pointers, self.matrix.shape[1])
        edges = pointers[[0, *(rows.stop for rows in ranges)]]
        ones = np.ones(np.diff(edges).max())
        cut = {}
        for rows, (first, last) in zip(ranges, pairwise(edges), strict=True):
            own = columns[first:last].copy(), pointers[rows.start : rows.stop + 1] - first
            shape = (rows.stop - rows.start, self.matrix.shape[1])
            cut[rows.start] = sp.csr_array((ones[: last - first], *own), shape=shape)
        return cut

    def block(self, rows: slice) -> sp.csr_array:
        return self._cut[rows.start]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle columns and pointers: the ones and the blocks are three quarters of all bytes."""
        return _sparse, (self.matrix.indices, self.matrix.indptr, self.n_workers, self.n_classes)


def _sparse(columns: Int32s, pointers: Pointers, n_workers: int, n_classes: int) -> SparseVotes:
    shape = (len(pointers) - 1, n_workers * n_classes)
    matrix = sp.csr_array((np.ones(len(columns)), columns, pointers), shape=shape)
    return SparseVotes(matrix, n_workers, n_classes)


class DenseVotes(Votes):
    """Votes of a full label matrix `(n_items, n_workers)` of class codes, one vote per cell."""

    def __init__(self, label_matrix: npt.NDArray[np.uint8], n_classes: int) -> None:
        n_items, n_workers = label_matrix.shape
        super().__init__(n_items, n_workers, n_classes, label_matrix.size)
        self.label_matrix = label_matrix

    @property
    def blocks(self) -> list[slice]:
        return self._layout[0]

    @cached_property
    def _layout(self) -> tuple[list[slice], Floats, Int32s, Int32s]:
        """The ranges of the blocks; values, row pointers and first columns of the largest block.

        Smaller blocks use leading parts of these arrays. The caller of a walk makes them when it
        asks for `blocks`, never one of its threads.
        """
        size = max(1, max(BLOCK_VOTES * 4, 4 * self.n_workers * self.n_classes) // self.n_workers)
        starts = range(0, self.n_items, size)
        ranges = [slice(start, min(start + size, self.n_items)) for start in starts]
        pointers = np.arange(ranges[0].stop + 1, dtype=np.int32) * np.int32(self.n_workers)
        first_columns = np.arange(self.n_workers, dtype=np.int32) * np.int32(self.n_classes)
        return ranges, np.ones(ranges[0].stop * self.n_workers), pointers, first_columns

    def block(self, rows: slice) -> sp.csr_array:
        codes = self.label_matrix[rows]
        _, values, pointers, first_columns = self._layout
        return sp.csr_array(
            (values[: codes.size], (codes + first_columns).ravel(), pointers[: len(codes) + 1]),
            shape=(len(codes), self.n_workers * self.n_classes),
        )

    def class_totals(self, rows: slice) -> Floats:
        codes = self.label_matrix[rows]
        totals = np.empty((len(codes), self.n_classes))
        for code in range(self.n_classes):
            totals[:, code] = np.count_nonzero(codes == code, axis=1)
        return totals


@dataclass(frozen=True)
class LabelTensor:
    """T = [A; S]: (n_workers + 1) × n_items × n_classes, never held as one array.

    votes   A, sparse, one 1 per labelled fibre, unlabelled fibres zero
    slice   S, (n_items, n_classes), the current estimate, dense and real-valued

    Modes are 1 workers, 2 items, 3 classes (the paper's order). The item-mode unfolding T_(2) is
    [A_(2), S]: the votes' CSR matrix, and the slice as its last n_classes columns.
    """

    votes: SparseVotes
    slice: Floats
    cache: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.votes.n_workers + 1, self.votes.n_items, self.votes.n_classes

    def with_slice(self, new_slice: Floats) -> LabelTensor:
        """Return the tensor of the next pass: same votes, same cache, another slice."""
        return replace(self, slice=new_slice)

    def once(self, name: str, compute: Callable[[], T]) -> T:
        """Return a value that depends on the votes alone, computed once for all passes."""
        if name not in self.cache:
            self.cache[name] = compute()
        value: T = self.cache[name]
        return value

    @property
    def squared_norm(self) -> float:
        """‖T‖², all entries squared and summed."""
        votes = self.once("squared norm", lambda: float(np.square(self.votes.matrix.data).sum()))
        return votes + float(np.square(self.slice).sum())
