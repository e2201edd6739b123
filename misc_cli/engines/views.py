"""Views of an engine without some answers or without gold; engines gathered into memory.

`Hide` marks the items some of whose answers a draw hides; `TrainingView` is the engine without
those answers; `reveal` returns them and what a fit on the view says of their items, never anything
of the size of the items.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from misc_cli.data.holdout import Draw, Hashes, Positions, Triplets, item_keys, without
from misc_cli.data.resources import require_for
from misc_cli.data.types import Codes, Floats, Labels, Names
from misc_cli.data.votes import SparseVotes, totals_by_class
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.protocol import (
    GOLD,
    POSTERIORS,
    TRUTH,
    AnswerEngine,
    Array,
    Block,
    Engine,
    Kernel,
    RowArrays,
    Summed,
    SumOver,
    Sums,
)

# The items' names, how many votes each has, the votes' columns, and the rows asked for.
Piece = tuple[Names, Array, Array, dict[str, Array]]


def gather(
    block: Block,
    rows: RowArrays,
    chosen: Callable[[Names], Array] | None = None,
    names: tuple[str, ...] = (),
) -> list[Piece]:
    """Return the votes of a block and the rows of these names; `chosen` as in `gathered_votes`."""
    matrix = block.matrix
    found = {name: np.array(rows[name]) for name in names if name in rows}
    items = pa.concat_arrays([block.items])  # a slice would travel with all it was cut from
    if chosen is not None:
        wanted = chosen(items)
        matrix, items = matrix[wanted], items.filter(pa.array(wanted))
        found = {name: values[wanted] for name, values in found.items()}
    return [(items, np.diff(matrix.indptr), matrix.indices, found)]


@dataclass(frozen=True)
class Gathered:
    """Votes as those of a CSR matrix, by item in byte order, and rows by name."""

    names: Names
    pointers: Array
    columns: Array
    rows: Mapping[str, Array]


def gathered_votes(
    engine: Engine,
    chosen: Callable[[Names], Array] | None = None,
    rows: tuple[str, ...] = (),
) -> Gathered:
    """Return all votes in the order that one memory would have them in.

    `chosen` says by their names which items are wanted; None: all.
    """
    pieces = engine.sweep(SumOver(partial(gather, chosen=chosen, names=rows)))
    names = pa.concat_arrays([piece[0] for piece in pieces])
    sizes = np.concatenate([piece[1] for piece in pieces])
    columns = np.concatenate([piece[2] for piece in pieces])
    order = pc.sort_indices(names).to_numpy().astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)])[:-1][order]
    pointers = np.concatenate([[0], np.cumsum(sizes[order])])
    within = np.arange(len(columns)) - np.repeat(pointers[:-1], np.diff(pointers))
    in_order = columns[np.repeat(starts, np.diff(pointers)) + within]
    everywhere = [name for name in rows if all(name in piece[3] for piece in pieces)]
    found = {
        name: np.concatenate([piece[3][name] for piece in pieces])[order] for name in everywhere
    }
    return Gathered(names.take(pa.array(order)), pointers, in_order, found)


def behind(engine: Engine) -> AnswerEngine:
    """Return the engine with all answers behind a view, or the engine itself."""
    return cast(AnswerEngine, engine.engine if isinstance(engine, View) else engine)


def gathered_engine(engine: AnswerEngine, rows: tuple[str, ...] = ()) -> MemoryEngine:
    """Return an engine in memory with all votes, known classes, truth, and these rows.

    An engine that is in memory already is returned as it is.
    """
    if isinstance(engine, MemoryEngine):
        return engine
    require_for(engine.n_items, engine.n_workers, engine.n_classes)
    found = gathered_votes(engine, rows=(GOLD, TRUTH, *rows))
    shape = (len(found.names), engine.n_workers * engine.n_classes)
    columns, pointers = found.columns.astype(np.int32), found.pointers.astype(np.int32)
    matrix = sp.csr_array((np.ones(len(columns)), columns, pointers), shape=shape)
    vocabulary = engine.vocabulary
    labels = Labels(
        SparseVotes(matrix, engine.n_workers, engine.n_classes),
        vocabulary.workers,
        found.names,
        vocabulary.classes,
        vocabulary.ordered,
        found.rows.get(GOLD),
    )
    facts = {**engine.facts(), "gathered": True}
    return MemoryEngine(labels, found.rows, engine.counts, engine.inputs, facts)


# The key of an item some of whose answers are hidden, 0 of all others, (n_block_items,).
DRAWN = "drawn"


@dataclass(frozen=True)
class Hide:
    """Marks the items whose answers a draw hides, and counts the hidden answers."""

    draw: Draw
    n_classes: int

    needs: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[tuple[str, ...]] = (DRAWN,)

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, int]:
        matrix, keys = block.matrix, item_keys(block.items)
        hidden = self.draw.hidden(matrix, self.n_classes, keys)
        drawn = np.zeros_like(keys)
        of_hidden = _rows_of(matrix, hidden)
        drawn[of_hidden] = keys[of_hidden]
        return {DRAWN: drawn}, len(hidden)


def _rows_of(matrix: sp.csr_array, positions: Positions) -> Positions:
    return np.searchsorted(matrix.indptr, positions, side="right") - 1


def _hidden(matrix: sp.csr_array, n_classes: int, draw: Draw, drawn: Hashes) -> Positions:
    """Return the positions of the hidden votes; only marked items are searched."""
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
class MaskedKernel:
    """Base of kernels that show another kernel only a part; the rows are those of that kernel."""

    kernel: Kernel[Any]

    @property
    def needs(self) -> tuple[str, ...] | None:
        return getattr(self.kernel, "needs", None)

    @property
    def writes(self) -> tuple[str, ...] | None:
        return getattr(self.kernel, "writes", None)


@dataclass(frozen=True)
class Without(MaskedKernel):
    """Shows a kernel the block without the hidden votes."""

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
class WithoutGold(MaskedKernel):
    """Shows a kernel the rows without the known classes."""

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, Any]:
        return self.kernel(block, {name: rows[name] for name in rows if name != GOLD})


@dataclass(frozen=True)
class View:
    """Base of engines that show a part of another engine."""

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
class TrainingView(View):
    """Shows an engine without the answers that a draw hides; `Hide` went before."""

    draw: Draw
    n_hidden: int

    @property
    def n_votes(self) -> int:
        return self.engine.n_votes - self.n_hidden

    def sweep(self, kernel: Kernel[Sums]) -> Sums:
        blinded: Kernel[Sums] = Without(kernel, self.draw, self.n_classes)
        return self.engine.sweep(blinded)


@dataclass(frozen=True)
class WithoutGoldView(View):
    """Shows an engine without its known classes."""

    def sweep(self, kernel: Kernel[Sums]) -> Sums:
        blinded: Kernel[Sums] = WithoutGold(kernel)
        return self.engine.sweep(blinded)


@dataclass
class Revealed(Summed):
    """Hidden answers, collected per block, unordered, and what a fit without them says.

    keys        (n_hidden,) of their items, by which `sorted` puts them into one order for all
    columns     (n_hidden,) worker * n_classes + class
    posteriors  (n_hidden, n_classes) of their items
    """

    keys: list[Hashes]
    columns: list[Codes]
    posteriors: list[Floats]

    def sorted(self, n_classes: int) -> tuple[Triplets, Floats]:
        """Return the hidden answers and the posteriors of their items, row by row.

        The order, by item, then by worker and class, is that of all engines; `items` are the rows.
        """
        columns = np.concatenate(self.columns)
        order = np.lexsort((columns, np.concatenate(self.keys)))
        workers, classes = np.divmod(columns[order], np.int32(n_classes))
        rows = np.arange(len(order), dtype=np.int32)
        return Triplets(workers, rows, classes), np.concatenate(self.posteriors)[order]


def reveal(block: Block, rows: RowArrays, draw: Draw, n_classes: int) -> Revealed:
    """Return the answers that a draw hides, with the posteriors of their items if there are any."""
    matrix = block.matrix
    hidden = _hidden(matrix, n_classes, draw, rows[DRAWN])
    items = _rows_of(matrix, hidden)
    known = rows[POSTERIORS] if POSTERIORS in rows else np.zeros((matrix.shape[0], 0))
    return Revealed([rows[DRAWN][items]], [matrix.indices[hidden]], [known[items]])
