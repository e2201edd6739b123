"""Which of many answers are hidden: a function of who answered what, and of a seed.

Every machine finds the hidden ones among its own answers, whatever it holds of the others: a 64-bit
number of each answer, mixed from its item's name, its worker's code and the seed. The upper half is
its place between 0 and 1: a fold hides a range of places. Of the lower halves the least of an item
stays: without any answer the item could not be forecast from anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp

Hashes = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.intp]
Names = Any
HALF = np.uint64(32)
# odd numbers without a pattern, for positions of bytes, workers and seeds
BYTES, WORKERS, SEEDS = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9


def name_hashes(names: Names) -> Hashes:
    """A number for each text that is the same in every process, without an object per text."""
    text = names.cast(pa.large_string())
    if len(text) == 0:
        return np.zeros(0, dtype=np.uint64)
    _, offsets, content = text.buffers()
    edges = np.frombuffer(offsets, dtype=np.int64)[text.offset : text.offset + len(text) + 1]
    data = np.frombuffer(content or b"", dtype=np.uint8)[edges[0] : edges[-1]]
    edges = edges - edges[0]
    lengths = np.diff(edges)
    # Σ (byte + 1) · odd^(position + 1), in 64 bits; then the bits are mixed
    with np.errstate(over="ignore"):
        powers = np.cumprod(np.full(int(lengths.max()) + 1, BYTES, dtype=np.uint64))
        positions = np.arange(len(data)) - np.repeat(edges[:-1], lengths)
        terms = (data.astype(np.uint64) + np.uint64(1)) * powers[positions]
        running = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(terms, dtype=np.uint64)])
        return mixed(running[edges[1:]] - running[edges[:-1]])


def mixed(numbers: Hashes) -> Hashes:
    """Every bit of a number spread over all others (Stafford's variant 13)."""
    with np.errstate(over="ignore"):
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
        return np.asarray(numbers ^ (numbers >> np.uint64(31)))


def item_keys(names: Names) -> Hashes:
    """What stands for an item in a draw, never 0."""
    return name_hashes(names) | np.uint64(1)


@dataclass(frozen=True)
class Draw:
    """The answers whose place lies in [first, last), both between 0 and 1."""

    seed: int
    first: float
    last: float

    def hidden(self, matrix: sp.csr_array, n_classes: int, keys: Hashes) -> Positions:
        """Where the hidden votes are among those of a block (n_items, n_workers * n_classes)."""
        pointers = matrix.indptr
        numbers = self._numbers(np.repeat(keys, np.diff(pointers)), matrix.indices // n_classes)
        places = numbers >> HALF
        low, high = (np.uint64(round(edge * 2.0**32)) for edge in (self.first, self.last))
        among = np.flatnonzero((places >= low) & (places < high))
        if len(among) == 0:
            return among
        ranks = np.append(numbers & np.uint64(2**32 - 1), np.uint64(2**32))
        rows = np.searchsorted(pointers, among, side="right") - 1
        ends = list(chain.from_iterable(zip(pointers[rows], pointers[rows + 1], strict=True)))
        least = np.minimum.reduceat(ranks, ends)[::2]
        return among[ranks[among] > least]

    def _numbers(self, keys: Hashes, workers: npt.NDArray[np.int32]) -> Hashes:
        with np.errstate(over="ignore"):
            seed = np.uint64(self.seed % 2**64) * np.uint64(SEEDS)
            return mixed(
                keys + (workers.astype(np.uint64) + np.uint64(1)) * np.uint64(WORKERS) + seed
            )


def fold_draws(n_votes: int, n_items: int, n_folds: int, size: int, seed: int) -> list[Draw]:
    """`n_folds` draws of about `size` answers each that have none in common.

    One answer of each item stays, so the others must make up for it.
    """
    share = size / max(n_votes - n_items, 1)
    edges = [min(fold * share, 1.0) for fold in range(n_folds + 1)]
    return [Draw(seed, a, b) for a, b in pairwise(edges) if a < b]


def without(matrix: sp.csr_array, positions: Positions) -> sp.csr_array:
    """The votes but for those at these (sorted) positions."""
    kept = np.ones(matrix.nnz, dtype=bool)
    kept[positions] = False
    pointers = matrix.indptr - np.searchsorted(positions, matrix.indptr).astype(matrix.indptr.dtype)
    return sp.csr_array((matrix.data[kept], matrix.indices[kept], pointers), shape=matrix.shape)
