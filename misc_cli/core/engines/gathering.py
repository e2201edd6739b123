"""What an engine holds as labels in this process's memory, where that is little."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from misc_cli.core.engines.parts import Vocabulary
from misc_cli.core.engines.protocol import GOLD, Array, Block, Engine, RowArrays
from misc_cli.core.types import Labels, Names
from misc_cli.core.votes import SparseVotes

# The items' names, how many votes each has, the votes' columns, known classes (or None).
Piece = tuple[Names, Array, Array, Array | None]


@dataclass(frozen=True)
class Gather:
    """Everything of a block but its rows; `chosen` says by their names which items are wanted."""

    chosen: Callable[[Names], Array] | None = None

    writes: ClassVar[tuple[str, ...]] = ()

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, list[Piece]]:
        matrix = block.matrix
        gold = np.array(rows[GOLD]) if GOLD in rows else None
        names = pa.concat_arrays([block.items])  # a slice would travel with all it was cut from
        if self.chosen is not None:
            wanted = self.chosen(names)
            matrix, names = matrix[wanted], names.filter(pa.array(wanted))
            gold = None if gold is None else gold[wanted]
        return {}, [(names, np.diff(matrix.indptr), matrix.indices, gold)]


@dataclass(frozen=True)
class Gathered:
    """Votes as those of a CSR matrix, by item in byte order; known classes (or None)."""

    names: Names
    pointers: Array
    columns: Array
    gold: Array | None


def gathered_votes(engine: Engine, chosen: Callable[[Names], Array] | None = None) -> Gathered:
    """All votes (of the chosen items) in the order that one memory would have them in."""
    pieces: list[Piece] = engine.sweep(Gather(chosen))
    names = pa.concat_arrays([piece[0] for piece in pieces])
    sizes, columns = (np.concatenate([piece[at] for piece in pieces]) for at in (1, 2))
    order = pc.sort_indices(names).to_numpy().astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)])[:-1][order]
    pointers = np.concatenate([[0], np.cumsum(sizes[order])])
    within = np.arange(len(columns)) - np.repeat(pointers[:-1], np.diff(pointers))
    in_order = columns[np.repeat(starts, np.diff(pointers)) + within]
    golds = [piece[3] for piece in pieces]
    known = [gold for gold in golds if gold is not None]
    gold = np.concatenate(known)[order] if len(known) == len(golds) else None
    return Gathered(names.take(pa.array(order)), pointers, in_order, gold)


def gathered_labels(engine: Engine, vocabulary: Vocabulary) -> Labels:
    """All votes as labels."""
    found = gathered_votes(engine)
    shape = (len(found.names), engine.n_workers * engine.n_classes)
    columns, pointers = found.columns.astype(np.int32), found.pointers.astype(np.int32)
    parts = (np.ones(len(columns)), columns, pointers)
    return Labels(
        SparseVotes(sp.csr_array(parts, shape=shape), engine.n_workers, engine.n_classes),
        vocabulary.workers,
        found.names,
        vocabulary.classes,
        vocabulary.ordered,
        found.gold,
    )
