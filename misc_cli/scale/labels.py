"""Labels of parts: decided where the part is, written part by part or merged into one table."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.core.decide import decide
from misc_cli.core.engines.parts import Part, Vocabulary
from misc_cli.core.engines.protocol import POSTERIORS
from misc_cli.core.types import Names
from misc_cli.run.tables import plain_columns, probability_columns

# Rows that are sorted and rendered at a time.
CHUNK_ROWS = 1 << 20


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
    probabilities: bool

    @property
    def items(self) -> Names:
        return self.part.items

    def table(self, rows: slice) -> Any:
        posteriors = np.array(self.part.engine.whole(POSTERIORS)[rows])
        items = self.items.slice(rows.start, rows.stop - rows.start)
        columns = plain_columns(items, self.vocabulary.classes, decide(posteriors))
        if self.probabilities:
            columns.update(probability_columns(self.vocabulary.classes, posteriors))
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
