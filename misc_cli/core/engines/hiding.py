"""Answers hidden from a method on any engine, and what then shows how well it does without them.

`Hide` marks the items some of whose answers a draw hides; `Kept` is the engine without those
answers; `Reveal` brings what a fit there says of them. What comes back is of the size of the
hidden answers and of the workers, never of the items.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from misc_cli.core.draw import Draw, Hashes, Positions, item_keys, without
from misc_cli.core.engines.protocol import (
    GOLD,
    POSTERIORS,
    Array,
    Block,
    Engine,
    Kernel,
    RowArrays,
    Sums,
)
from misc_cli.core.engines.sums import Counted, Summed
from misc_cli.core.holdout import Triplets
from misc_cli.core.types import Codes, Floats, Names
from misc_cli.core.votes import totals_by_class

# The key of an item some of whose answers are hidden, 0 of all others, (n_block_items,).
DRAWN = "drawn"


@dataclass
class Said(Summed):
    """How many answers are hidden; how often each column of the votes was said by the others."""

    n_hidden: int
    counts: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Hide:
    """Marks what the draw hides."""

    draw: Draw
    n_classes: int

    needs: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[tuple[str, ...]] = (DRAWN,)

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, Said]:
        matrix, keys = block.matrix, item_keys(block.items)
        hidden = self.draw.hidden(matrix, self.n_classes, keys)
        drawn = np.zeros_like(keys)
        of_hidden = _rows_of(matrix, hidden)
        drawn[of_hidden] = keys[of_hidden]
        counts = np.bincount(matrix.indices, minlength=matrix.shape[1])
        counts -= np.bincount(matrix.indices[hidden], minlength=matrix.shape[1])
        return {DRAWN: drawn}, Said(len(hidden), counts)


def _rows_of(matrix: sp.csr_array, positions: Positions) -> Positions:
    return np.searchsorted(matrix.indptr, positions, side="right") - 1


def _hidden(matrix: sp.csr_array, n_classes: int, draw: Draw, drawn: Hashes) -> Positions:
    """Where the hidden votes are, given the marks: only marked items are looked at again."""
    marked = np.flatnonzero(drawn)
    starts, sizes = matrix.indptr[marked], np.diff(matrix.indptr)[marked]
    few = matrix[marked]
    found = draw.hidden(few, n_classes, drawn[marked])
    # from positions among the votes of marked items to those among all
    return np.asarray((np.repeat(starts - few.indptr[:-1], sizes))[found] + found)


@dataclass(frozen=True)
class KeptBlock:
    """A block without its hidden votes."""

    block: Block
    hidden: Positions
    n_classes: int

    @property
    def items(self) -> Names:
        return self.block.items

    @cached_property
    def matrix(self) -> sp.csr_array:
        return without(self.block.matrix, self.hidden)

    def class_totals(self) -> Floats:
        return totals_by_class(self.matrix, self.n_classes)


@dataclass(frozen=True)
class Blinded:
    """A kernel that does not see all there is; it makes the rows that the kernel itself makes."""

    kernel: Kernel[Any]

    @property
    def needs(self) -> tuple[str, ...] | None:
        return getattr(self.kernel, "needs", None)

    @property
    def writes(self) -> tuple[str, ...] | None:
        return getattr(self.kernel, "writes", None)


@dataclass(frozen=True)
class Without(Blinded):
    """It does not see the hidden votes."""

    draw: Draw
    n_classes: int

    @property
    def needs(self) -> tuple[str, ...] | None:
        needs = super().needs
        return None if needs is None else (*needs, DRAWN)

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, Any]:
        hidden = _hidden(block.matrix, self.n_classes, self.draw, rows[DRAWN])
        return self.kernel(KeptBlock(block, hidden, self.n_classes), rows)


@dataclass(frozen=True)
class WithoutGold(Blinded):
    """It does not see which classes are known."""

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, Any]:
        return self.kernel(block, {name: rows[name] for name in rows if name != GOLD})


@dataclass(frozen=True)
class View:
    """An engine whose kernels do not see all there is."""

    engine: Engine

    @property
    def n_items(self) -> int:
        return self.engine.n_items

    @property
    def n_workers(self) -> int:
        return self.engine.n_workers

    @property
    def n_classes(self) -> int:
        return self.engine.n_classes

    @property
    def n_votes(self) -> int:
        return self.engine.n_votes

    @property
    def ordered(self) -> bool:
        return self.engine.ordered

    def whole(self, name: str) -> Array | None:
        return self.engine.whole(name)


@dataclass(frozen=True)
class Kept(View):
    """The engine without the answers that a draw hides; `Hide` went before."""

    draw: Draw
    n_hidden: int

    @property
    def n_votes(self) -> int:
        return self.engine.n_votes - self.n_hidden

    def sweep(self, kernel: Kernel[Sums]) -> Sums:
        blinded: Kernel[Sums] = Without(kernel, self.draw, self.n_classes)
        return self.engine.sweep(blinded)


@dataclass(frozen=True)
class Unaware(View):
    """The engine without its gold."""

    def sweep(self, kernel: Kernel[Sums]) -> Sums:
        blinded: Kernel[Sums] = WithoutGold(kernel)
        return self.engine.sweep(blinded)


@dataclass
class Revealed(Counted):
    """What a fit without the hidden answers says of them, in the order of no matter which block.

    counts      (n_workers * n_classes observed, n_classes true): expected, of the kept answers
    keys        (n_hidden,) of their items, by which `sorted` puts them into one order for all
    columns     (n_hidden,) worker * n_classes + class
    posteriors  (n_hidden, n_classes) of their items
    """

    keys: list[Hashes]
    columns: list[Codes]
    posteriors: list[Floats]

    def sorted(self) -> tuple[Triplets, Floats]:
        """The hidden answers, and their items' posteriors: row n is that of answer n."""
        columns = np.concatenate(self.columns)
        order = np.lexsort((columns, np.concatenate(self.keys)))
        workers, classes = np.divmod(columns[order], np.int32(self.counts.shape[1]))
        rows = np.arange(len(order), dtype=np.int32)
        return Triplets(workers, rows, classes), np.concatenate(self.posteriors)[order]


@dataclass(frozen=True)
class Reveal:
    """After a fit on `Kept`."""

    draw: Draw

    writes: ClassVar[tuple[str, ...]] = ()

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, Revealed]:
        matrix, posteriors = block.matrix, np.asarray(rows[POSTERIORS])
        hidden = _hidden(matrix, posteriors.shape[1], self.draw, rows[DRAWN])
        items = _rows_of(matrix, hidden)
        return {}, Revealed(
            without(matrix, hidden).T @ posteriors,
            [rows[DRAWN][items]],
            [matrix.indices[hidden]],
            [posteriors[items]],
        )
