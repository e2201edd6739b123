"""Labels of parts: decided where the part is, written part by part or merged into one table."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.data.decide import decide
from misc_cli.data.types import Floats, Names
from misc_cli.engines.partitioned import Part, Vocabulary
from misc_cli.engines.protocol import POSTERIORS, Block, Engine, RowArrays
from misc_cli.quality.agreement import ballots_of
from misc_cli.run.tables import MOST_CONFUSED, ItemDetails, columns_of_labels

# Rows that are sorted and rendered at a time.
CHUNK_ROWS = 1 << 20


@dataclass(frozen=True)
class Wanted:
    """Columns besides item, label and confidence.

    own  what a method knows of items: rows of the engine that are among the details
    """

    probabilities: bool = False
    item_details: bool = False
    own: tuple[str, ...] = ()


# Rows for the details: how many answers an item has and the share of their pairs that agree, (…, 2)
BALLOTS = "ballots"
# and how many of each class, (…, n_classes), unless there are so many that no table has them.
TOTALS = "class totals"


@dataclass(frozen=True)
class CountVotes:
    """What the details need beside the posteriors."""

    by_class: bool

    needs: ClassVar[tuple[str, ...]] = ()

    @property
    def writes(self) -> tuple[str, ...]:
        return (BALLOTS, TOTALS) if self.by_class else (BALLOTS,)

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, int]:
        totals = block.class_totals()
        ballots = ballots_of(totals)
        made = {BALLOTS: np.column_stack([ballots.answers, ballots.agreement])}
        return {**made, TOTALS: totals} if self.by_class else made, 0


def has_totals(vocabulary: Vocabulary) -> bool:
    return len(vocabulary.classes) <= MOST_CONFUSED


def prepare(engine: Engine, vocabulary: Vocabulary, wanted: Wanted) -> None:
    """The rows that tables with these columns are made of."""
    if wanted.item_details:
        engine.sweep(CountVotes(has_totals(vocabulary)))


class SortedTable(Protocol):
    """Labels of some items in byte order of their names."""

    @property
    def items(self) -> Names: ...
    def table(self, rows: slice) -> Any:
        """These rows as an arrow table: item, label, confidence, probabilities if asked for."""


@dataclass(frozen=True)
class PartLabels:
    """The labels of a part, decided a few rows at a time."""

    part: Part
    vocabulary: Vocabulary
    wanted: Wanted

    @property
    def items(self) -> Names:
        return self.part.items

    def table(self, rows: slice) -> Any:
        whole, details = self.part.engine.whole, None
        if self.wanted.item_details:
            own = {name: np.array(whole(name)[rows]) for name in self.wanted.own}
            totals = np.array(whole(TOTALS)[rows]) if has_totals(self.vocabulary) else None
            answers, agreement = np.array(whole(BALLOTS)[rows]).T
            details = ItemDetails(answers, agreement, totals, own)
        items = self.items.slice(rows.start, rows.stop - rows.start)
        posteriors = np.array(whole(POSTERIORS)[rows])
        return _table(items, self.vocabulary, posteriors, details, self.wanted)


def without_items(vocabulary: Vocabulary, wanted: Wanted) -> Any:
    """The table of no items, for its columns."""
    by_class, none = np.zeros((0, len(vocabulary.classes))), np.zeros(0)
    details = None
    if wanted.item_details:
        details = ItemDetails(none, none, by_class if has_totals(vocabulary) else None, {})
    return _table(vocabulary.workers[:0], vocabulary, by_class, details, wanted)


def _table(
    items: Names,
    vocabulary: Vocabulary,
    posteriors: Floats,
    details: ItemDetails | None,
    wanted: Wanted,
) -> Any:
    columns = columns_of_labels(
        items,
        vocabulary.classes,
        posteriors,
        decide(posteriors),
        details=details,
        probabilities=wanted.probabilities,
    )
    return pa.table(columns)


@dataclass(frozen=True)
class TableLabels:
    """Labels that came as a table."""

    whole: Any

    @property
    def items(self) -> Names:
        return self.whole["item"].combine_chunks()

    def table(self, rows: slice) -> Any:
        return self.whole.slice(rows.start, rows.stop - rows.start)


def merged(parts: Sequence[SortedTable], chunk_rows: int = CHUNK_ROWS) -> Iterator[Any]:
    """All rows in byte order of the items, some `chunk_rows` at a time.

    Items are evenly mixed by the hash, so every part's share of a range of names is about alike.
    """
    names = [part.items for part in parts]
    n_rows = sum(map(len, names))
    step = max(1, chunk_rows // max(len(parts), 1))
    sample = pa.concat_arrays([items.take(np.arange(0, len(items), step)) for items in names])
    sample = sample.take(pc.sort_indices(sample))
    every = max(1, round(chunk_rows / max(n_rows, 1) * len(sample)))
    splitters = sample.take(np.arange(every, len(sample), every)).to_pylist()
    edges = [
        [0, *(_first_not_below(items, splitter) for splitter in splitters), len(items)]
        for items in names
    ]
    for ranges in zip(*map(pairwise, edges), strict=True):
        tables = [
            part.table(slice(first, last))
            for part, (first, last) in zip(parts, ranges, strict=True)
            if first < last
        ]
        if tables:
            table = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
            yield table.take(pc.sort_indices(table["item"]))


def _first_not_below(items: Names, name: str) -> int:
    """Arrow sorts text by its bytes, as Python sorts text by its code points: the same order."""
    return bisect_left(range(len(items)), name, key=lambda at: items[at].as_py())


def joined(tables: Iterator[Any]) -> dict[str, Any]:
    """All of them as one, as columns."""
    return columns_of(pa.concat_tables(tables).unify_dictionaries())


def columns_of(table: Any) -> dict[str, Any]:
    """A table as the columns that `render` writes: numbers as numpy, the rest as arrow."""
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    return {name: _as_numbers(column) for name, column in columns.items()}


def _as_numbers(column: Any) -> Any:
    plain = str(column.type) == "double" and not column.null_count
    return column.to_numpy() if plain else column
