"""Views of an engine without some answers or without gold; engines gathered into memory.

`hide` marks the items some of whose answers a draw hides; `TrainingView` is the engine without
those answers; `revealed` returns them and what a fit on the view says of their items: nothing of
the size of all items.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from misc_cli.data.holdout import Draw, Hashes, Positions, Triplets, item_keys, without
from misc_cli.data.resources import require_for
from misc_cli.data.types import Codes, Floats, Labels, Names
from misc_cli.data.votes import SparseVotes
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
    SumOver,
    Sums,
    SumsOut,
    WriteRows,
    row_names,
)


def _gather(
    block: Block, rows: RowArrays, chosen: Callable[[Names], Array] | None, names: tuple[str, ...]
) -> list[tuple[Names, Array, Array, dict[str, Array]]]:
    """Return names, numbers of votes, columns of the votes and rows of the wanted items."""
    matrix = block.matrix
    found = {name: np.array(rows[name]) for name in names if name in rows}
    items = pa.concat_arrays([block.items])  # a slice would travel with all it was cut from
    if chosen is not None:
        wanted = chosen(items)
        matrix, items = matrix[wanted], items.filter(pa.array(wanted))
        found = {name: values[wanted] for name, values in found.items()}
    return [(items, np.diff(matrix.indptr), matrix.indices, found)]


def gathered_votes(
    engine: Engine,
    chosen: Callable[[Names], Array] | None = None,
    rows: tuple[str, ...] = (),
) -> tuple[Names, sp.csr_array, dict[str, Array]]:
    """Return items in byte order, their votes (n_items, n_workers * n_classes), and their rows.

    `chosen` says by their names which items are wanted; None: all.
    """
    found = engine.sweep(SumOver(partial(_gather, chosen=chosen, names=rows)))
    items, sizes, of_blocks, pieces = zip(*found, strict=True)
    names, columns = pa.concat_arrays(items), np.concatenate(of_blocks)
    pointers = np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.int32)
    shape = (len(names), engine.n_workers * engine.n_classes)
    votes = sp.csr_array((np.ones(len(columns)), columns.astype(np.int32), pointers), shape=shape)
    order = pc.sort_indices(names).to_numpy().astype(np.int64)
    kept = {
        name: np.concatenate([piece[name] for piece in pieces])[order]
        for name in rows
        if all(name in piece for piece in pieces)
    }
    return names.take(pa.array(order)), votes[order], kept


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
    items, matrix, found = gathered_votes(engine, rows=(GOLD, TRUTH, *rows))
    vocabulary = engine.vocabulary
    labels = Labels(
        SparseVotes(matrix, engine.n_workers, engine.n_classes),
        vocabulary.workers,
        items,
        vocabulary.classes,
        vocabulary.ordered,
        found.get(GOLD),
    )
    facts = {**engine.facts, "gathered": True}
    return MemoryEngine(labels, found, engine.counts, engine.inputs, facts)


# The key of an item some of whose answers are hidden, 0 of all others, (n_block_items,).
DRAWN = "drawn"


def hide(engine: Engine, draw: Draw) -> int:
    """Mark the items whose answers a draw hides; return how many answers that are."""
    return engine.sweep(WriteRows(partial(_hide, draw=draw), (), (DRAWN,)))


def _hide(block: Block, _: RowArrays, draw: Draw) -> tuple[RowArrays, int]:
    matrix, keys = block.matrix, item_keys(block.items)
    hidden = draw.hidden(matrix, block.n_classes, keys)
    drawn = np.zeros_like(keys)
    of_hidden = _rows_of(matrix, hidden)
    drawn[of_hidden] = keys[of_hidden]
    return {DRAWN: drawn}, len(hidden)


def _rows_of(matrix: sp.csr_array, positions: Positions) -> Positions:
    return np.searchsorted(matrix.indptr, positions, side="right") - 1


def _hidden(block: Block, draw: Draw, drawn: Hashes) -> Positions:
    """Return the positions of the hidden votes; only marked items are searched."""
    matrix, marked = block.matrix, np.flatnonzero(drawn)
    starts, sizes = matrix.indptr[marked], np.diff(matrix.indptr)[marked]
    few = matrix[marked]
    found = draw.hidden(few, block.n_classes, drawn[marked])
    # from positions among the votes of marked items to those among all
    return np.asarray((np.repeat(starts - few.indptr[:-1], sizes))[found] + found)


Mask = Callable[[Block, RowArrays], tuple[Block, RowArrays]]


@dataclass(frozen=True)
class MaskedKernel(Generic[SumsOut]):
    """Shows a kernel what a mask leaves of a block and its rows.

    `mask` is a function of a module, or a `partial` of one; `also` names rows that it needs.
    """

    kernel: Kernel[SumsOut]
    mask: Mask
    also: frozenset[str]

    @property
    def needs(self) -> frozenset[str] | None:
        needs = row_names("needs", self.kernel)
        return None if needs is None else needs | self.also

    @property
    def writes(self) -> frozenset[str] | None:
        return row_names("writes", self.kernel)

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, SumsOut]:
        return self.kernel(*self.mask(block, rows))


class View:
    """Shows an engine through a mask, which hides some of its votes, or rows."""

    def __init__(
        self, engine: Engine, mask: Mask, n_hidden: int = 0, also: tuple[str, ...] = ()
    ) -> None:
        self.engine, self.mask, self.also = engine, mask, frozenset(also)
        self.n_items, self.n_votes = engine.n_items, engine.n_votes - n_hidden
        self.n_workers, self.n_classes = engine.n_workers, engine.n_classes
        self.ordered = engine.ordered

    def sweep(self, kernel: Kernel[Sums]) -> Sums:
        return self.engine.sweep(MaskedKernel(kernel, self.mask, self.also))

    def whole(self, name: str) -> Array | None:
        return self.engine.whole(name)


class TrainingView(View):
    """Shows an engine without the answers that a draw hides; `hide` went before."""

    def __init__(self, engine: Engine, draw: Draw, n_hidden: int) -> None:
        super().__init__(engine, partial(_without_drawn, draw=draw), n_hidden, (DRAWN,))
        self.draw = draw


def block_without(block: Block, hidden: Positions) -> Block:
    """Return the block without the votes at these (sorted) positions."""
    return Block(block.items, block.n_classes, partial(without, block.matrix, hidden))


def _without_drawn(block: Block, rows: RowArrays, draw: Draw) -> tuple[Block, RowArrays]:
    hidden = _hidden(block, draw, rows[DRAWN])
    return block_without(block, hidden), rows


def without_gold(block: Block, rows: RowArrays) -> tuple[Block, RowArrays]:
    """Hide the known classes: the mask of a `View`."""
    return block, {name: rows[name] for name in rows if name != GOLD}


def revealed(engine: Engine, draw: Draw) -> tuple[Triplets, Floats]:
    """Return the answers that a draw hides, and the posteriors of their items, row by row.

    The order, by item, then by worker and class, is that of all engines; `items` are the rows.
    """
    found = zip(*engine.sweep(SumOver(partial(_reveal, draw=draw))), strict=True)
    keys, columns, posteriors = map(np.concatenate, found)
    order = np.lexsort((columns, keys))
    workers, classes = np.divmod(columns[order], np.int32(engine.n_classes))
    return Triplets(workers, np.arange(len(order), dtype=np.int32), classes), posteriors[order]


def _reveal(block: Block, rows: RowArrays, draw: Draw) -> list[tuple[Hashes, Codes, Floats]]:
    """Return keys of the hidden answers' items, their columns, and posteriors if there are any."""
    matrix = block.matrix
    hidden = _hidden(block, draw, rows[DRAWN])
    items = _rows_of(matrix, hidden)
    known = rows[POSTERIORS] if POSTERIORS in rows else np.zeros((matrix.shape[0], 0))
    return [(rows[DRAWN][items], matrix.indices[hidden], known[items])]
