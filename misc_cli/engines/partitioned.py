"""Split answers by a hash of their item into parts that are encoded alone.

All answers to an item are in one part, so that repeats and contradictions are found within a part.
Workers and classes are few: their names are collected and ordered once for all parts, and every
part translates its codes. Names of items never leave their part.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from misc_cli.data.encode import Counts, Encoding, encode, encode_gold, order_classes
from misc_cli.data.holdout import name_hashes
from misc_cli.data.types import Answers, Codes, KnownLabels, Labels, Names
from misc_cli.data.votes import SparseVotes, Votes
from misc_cli.engines.local import CHUNK_ROWS, Allocate, LocalEngine, column_chunks, in_memory
from misc_cli.engines.protocol import (
    GOLD,
    Columns,
    Kernel,
    MakeColumns,
    Sums,
    Vocabulary,
    WriteChunks,
    add_up,
)
from misc_cli.errors import InputError
from misc_cli.readers.chunks import Batch

COLUMNS = ("worker", "item", "label")
# Answers that are encoded at a time: some 100 bytes each at the peak.
PART_ANSWERS = 4_000_000


def vocabulary_of(
    workers: Iterable[Names], classes: Iterable[Names], class_order: list[str] | None
) -> Vocabulary:
    """Return the vocabulary that parts share, from those of each."""
    names = _sorted_union(classes)
    _, in_order, ordered = order_classes(np.arange(len(names), dtype=np.int32), names, class_order)
    return Vocabulary(_sorted_union(workers), in_order, ordered)


def _sorted_union(vocabularies: Iterable[Names]) -> Names:
    names = pc.unique(pa.chunked_array(list(vocabularies), pa.string()))
    return names.take(pc.sort_indices(names))


def split(answers: Answers, n_parts: int, salt: int = 0) -> list[Any]:
    """Return one arrow table (worker, item, label; dictionaries) per part, rows in their order.

    A `salt` splits differently: once by machine, then within each by part.
    """
    columns = [_plain(column) for column in (answers.worker, answers.item, answers.label)]
    table = pa.table(columns, names=list(COLUMNS))
    if n_parts == 1:
        return [table]
    item = columns[1]
    hashes = name_hashes(pc.utf8_trim_whitespace(item.dictionary))
    with np.errstate(over="ignore"):
        hashes = (hashes + np.uint64(salt)) * np.uint64(0xD6E8FEB86659FD93)
    of_name = ((hashes >> np.uint64(32)) % np.uint64(n_parts)).astype(np.uint16)
    of_row = of_name[item.indices.to_numpy()]
    order = np.argsort(of_row, kind="stable")
    edges = np.searchsorted(of_row[order], np.arange(n_parts + 1))
    return [compact(table.take(pa.array(order[first:last]))) for first, last in pairwise(edges)]


def compact(table: Any) -> Any:
    """Return the rows with dictionaries that hold only the words in use."""
    columns = [_used(_plain(table[name])) for name in COLUMNS]
    return pa.table(columns, names=list(COLUMNS))


def _plain(column: Any) -> Any:
    """Return the column as one dictionary array of text with int32 codes."""
    if isinstance(column, pa.ChunkedArray):
        column = column.unify_dictionaries().combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # no chunk at all
            column = pa.array([], pa.dictionary(pa.int32(), pa.string()))
    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.string()).dictionary_encode()
    return column.cast(pa.dictionary(pa.int32(), pa.string()))


def _used(column: Any) -> Any:
    codes = column.indices.to_numpy()
    seen = np.zeros(len(column.dictionary), dtype=bool)
    seen[codes] = True
    if seen.all():
        return column
    remap = (np.cumsum(seen) - 1).astype(np.int32)
    names = column.dictionary.filter(pa.array(seen))
    return pa.DictionaryArray.from_arrays(pa.array(remap[codes]), names)


def joined(tables: Sequence[Any]) -> Any:
    """Join the pieces of one part into one table."""
    if not tables:
        empty = pa.array([], pa.dictionary(pa.int32(), pa.string()))
        return pa.table([empty] * 3, names=list(COLUMNS))
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def encode_part(table: Any, duplicates: str, name: str) -> Encoding | None:
    """Encode a part by its own vocabularies; None if it has no answers.

    `name` is the input's name in errors.
    """
    if table.num_rows == 0:
        return None
    worker, item, label = (_plain(table[column]) for column in COLUMNS)
    encoding = encode(Answers(worker, item, label, name), duplicates=duplicates)
    counts = replace(encoding.counts, n_rows=0, n_empty=0)  # those of the batches count
    return Encoding(encoding.labels, counts)


def translate(labels: Labels, vocabulary: Vocabulary) -> Labels:
    """Return the votes of the part in the codes that all parts share."""
    votes = labels.votes
    assert isinstance(votes, SparseVotes)
    n_workers, n_classes = len(vocabulary.workers), len(vocabulary.classes)
    if n_workers * n_classes >= 2**31:
        raise InputError("workers × classes exceed 2^31: split the data or merge classes")
    workers = _positions(labels.workers, vocabulary.workers)
    classes = _positions(labels.classes, vocabulary.classes)
    worker, code = np.divmod(votes.matrix.indices, votes.n_classes)
    columns = workers[worker] * np.int32(n_classes) + classes[code]
    matrix = sp.csr_array(
        (votes.matrix.data, columns.astype(np.int32), votes.matrix.indptr),
        shape=(votes.n_items, n_workers * n_classes),
    )
    if len(classes) > 1 and not (np.diff(classes) > 0).all():
        matrix.sort_indices()
    return replace(
        labels,
        votes=SparseVotes(matrix, n_workers, n_classes),
        workers=vocabulary.workers,
        classes=vocabulary.classes,
        ordered=vocabulary.ordered,
    )


def _positions(names: Names, within: Names) -> Codes:
    found: Codes = pc.index_in(names, within).to_numpy(zero_copy_only=False).astype(np.int32)
    return found


@dataclass(frozen=True)
class Part:
    """The items of a part, in byte order, and the engine with its votes and rows."""

    items: Names
    engine: LocalEngine


def part_of(
    labels: Labels, gold: KnownLabels | None, votes: Votes, allocate: Allocate = in_memory
) -> Part:
    """Make a part of these labels with these votes; `gold` says which items are known."""
    known = {}
    if gold is not None:
        codes = encode_gold(labels, gold.items, gold.labels, which=gold.called("gold"))
        known = {GOLD: codes}
    return Part(labels.items, LocalEngine(votes, known, allocate, labels.items))


class PartsEngine:
    """Walks the parts of one process one after the other, each by all threads.

    counts, inputs, facts  as in `AnswerEngine`
    """

    def __init__(
        self,
        parts: Sequence[Part],
        vocabulary: Vocabulary,
        counts: Counts = Counts(),  # noqa: B008 – frozen
        inputs: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.parts = list(parts)
        self.vocabulary, self.counts, self.inputs = vocabulary, counts, inputs

    @property
    def n_items(self) -> int:
        return sum(part.engine.n_items for part in self.parts)

    @property
    def n_workers(self) -> int:
        return len(self.vocabulary.workers)

    @property
    def n_classes(self) -> int:
        return len(self.vocabulary.classes)

    @property
    def ordered(self) -> bool:
        return self.vocabulary.ordered

    @property
    def n_votes(self) -> int:
        return sum(part.engine.n_votes for part in self.parts)

    def sweep(self, kernel: Kernel[Sums]) -> Sums:
        return add_up(part.engine.sweep(kernel) for part in self.parts)

    def whole(self, name: str) -> None:
        return None

    def facts(self) -> dict[str, Any]:
        return {"parts": len(self.parts)}

    def refuse_one_file(self) -> None:
        """Refuse nothing: parts are merged a chunk at a time."""

    def chunks(self, make: MakeColumns) -> Iterator[Columns]:
        return map(columns_of, merged([PartTable(part, make) for part in self]))

    def write_parts(
        self, folder: Path, suffix: str, make: MakeColumns, write: WriteChunks, first: int = 0
    ) -> dict[str, str]:
        """Write one file per part, numbered from `first` on, each sorted by item."""
        digests = {}
        for number, part in enumerate(self, start=first):
            name = f"part-{number:05}{suffix}"
            digests[name] = write(column_chunks(part.engine, make), folder / name)
        return digests

    def __iter__(self) -> Iterator[Part]:
        return iter(self.parts)


class SortedTable(Protocol):
    """A table of some items in byte order of their names."""

    @property
    def items(self) -> Names: ...
    def table(self, rows: slice) -> Any:
        """Return these rows as an arrow table."""


@dataclass(frozen=True)
class PartTable:
    """Columns of a part, made a few rows at a time."""

    part: Part
    make: MakeColumns

    @property
    def items(self) -> Names:
        return self.part.items

    def table(self, rows: slice) -> Any:
        items = self.items.slice(rows.start, rows.stop - rows.start)
        return pa.table(dict(self.make(items, self.part.engine.rows(rows))))


@dataclass(frozen=True)
class WholeTable:
    """A table that is here already."""

    whole: Any

    @property
    def items(self) -> Names:
        return self.whole["item"].combine_chunks()

    def table(self, rows: slice) -> Any:
        return self.whole.slice(rows.start, rows.stop - rows.start)


def merged(parts: Sequence[SortedTable], chunk_rows: int = CHUNK_ROWS) -> Iterator[Any]:
    """Yield arrow tables of all rows in byte order of the items, some `chunk_rows` at a time.

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
    """Return the first position whose name is not below; arrow and Python sort text alike."""
    return bisect_left(range(len(items)), name, key=lambda at: items[at].as_py())


def columns_of(table: Any) -> Columns:
    """Return an arrow table as columns: numbers as numpy arrays, the rest as arrow arrays."""
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    return {name: _as_numbers(column) for name, column in columns.items()}


def _as_numbers(column: Any) -> Any:
    plain = str(column.type) == "double" and not column.null_count
    return column.to_numpy() if plain else column


def joined_columns(chunks: Iterable[Columns]) -> Columns:
    """Return chunks of columns as one."""
    found = list(chunks)
    if len(found) == 1:
        return found[0]
    tables = [pa.table(dict(chunk)) for chunk in found]
    return columns_of(pa.concat_tables(tables).unify_dictionaries())


class Tally:
    """Passes batches of answers on to an engine and counts their rows."""

    def __init__(self, batches: Iterable[Batch]) -> None:
        self.batches, self.counts = batches, Counts()

    def __iter__(self) -> Iterator[Any]:
        for batch in self.batches:
            self.counts += Counts(batch.n_rows, batch.n_empty)
            yield batch.answers
