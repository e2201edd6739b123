"""Split answers by a hash of their item into parts that are encoded alone.

All answers to an item are in one part, so that repeats and contradictions are found within a part.
Workers and classes are few: their names are collected and ordered once for all parts, and every
part translates its codes. Names of items never leave their part. `--engine disk` keeps votes and
rows of its parts in files of one process.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from misc_cli import cleanup
from misc_cli.data.encode import Counts, Encoding, encode, encode_known, order_classes
from misc_cli.data.holdout import name_hashes
from misc_cli.data.types import Answers, Codes, Floats, KnownLabels, Labels, Names
from misc_cli.data.votes import Int32s, Pointers, SparseVotes, Votes, block_ranges
from misc_cli.engines.local import CHUNK_ROWS, LocalEngine
from misc_cli.engines.pieces import Piece, batches, fingerprint
from misc_cli.engines.protocol import (
    GOLD,
    Array,
    Columns,
    Kernel,
    MakeColumns,
    Summed,
    Sums,
    Vocabulary,
    WriteChunks,
    add_up,
)
from misc_cli.errors import InputError

COLUMNS = ["worker", "item", "label"]
TEXT = pa.dictionary(pa.int32(), pa.string())
# Answers that are encoded at a time: some 100 bytes each at the peak.
PART_ANSWERS = 4_000_000
LEAST_PARTS = 4  # on disk


@dataclass(frozen=True)
class EncodingRules:
    """The rules by which all parts of a run are encoded; `name` is the input's name in errors."""

    duplicates: str = "last"
    class_order: Sequence[str] | None = None
    gold: KnownLabels | None = None
    name: str = "the answers"


def split(answers: Answers, n_parts: int) -> list[Any]:
    """Return one arrow table (worker, item, label; dictionaries) per part, rows in their order."""
    columns = [_plain(column) for column in (answers.worker, answers.item, answers.label)]
    table = pa.table(columns, names=COLUMNS)
    if n_parts == 1:
        return [table]
    item = columns[1]
    hashes = name_hashes(pc.utf8_trim_whitespace(item.dictionary))
    with np.errstate(over="ignore"):
        hashes = hashes * np.uint64(0xD6E8FEB86659FD93)
    of_name = ((hashes >> np.uint64(32)) % np.uint64(n_parts)).astype(np.uint16)
    of_row = of_name[item.indices.to_numpy()]
    order = np.argsort(of_row, kind="stable")
    edges = np.searchsorted(of_row[order], np.arange(n_parts + 1))
    tables = [table.take(pa.array(order[first:last])) for first, last in pairwise(edges)]
    return [pa.table([_used(_plain(one[name])) for name in COLUMNS], COLUMNS) for one in tables]


def _plain(column: Any) -> Any:
    """Return the column as one dictionary array of text with int32 codes."""
    if isinstance(column, pa.ChunkedArray):
        column = column.unify_dictionaries().combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # no chunk at all
            column = pa.array([], TEXT)
    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.string()).dictionary_encode()
    return column.cast(TEXT)


def _used(column: Any) -> Any:
    """Return the column with a dictionary that holds only the words in use."""
    codes = column.indices.to_numpy()
    seen = np.zeros(len(column.dictionary), dtype=bool)
    seen[codes] = True
    if seen.all():
        return column
    remap = (np.cumsum(seen) - 1).astype(np.int32)
    names = column.dictionary.filter(pa.array(seen))
    return pa.DictionaryArray.from_arrays(pa.array(remap[codes]), names)


def encode_part(tables: Sequence[Any], rules: EncodingRules) -> Encoding | None:
    """Encode the tables of a part by its own vocabularies; None if it has no answers."""
    table = joined(tables)
    if table.num_rows == 0:
        return None
    worker, item, label = (_plain(table[column]) for column in COLUMNS)
    encoding = encode(Answers(worker, item, label, rules.name), duplicates=rules.duplicates)
    counts = replace(encoding.counts, n_rows=0, n_empty=0)  # those of the batches count
    return Encoding(encoding.labels, counts)


def joined(tables: Sequence[Any]) -> Any:
    """Join tables of one part into one."""
    nothing = pa.table([pa.array([], TEXT)] * 3, names=COLUMNS)
    return pa.concat_tables(tables or [nothing]).unify_dictionaries().combine_chunks()


def _union(ours: Names, theirs: Names) -> Names:
    return pc.unique(pa.concat_arrays([ours, theirs]))


@dataclass
class Summary(Summed):
    """All that parts must know of each other; `sizes` has the items and votes of each part."""

    workers: Names = field(metadata={"join": _union})
    classes: Names = field(metadata={"join": _union})
    counts: Counts
    sizes: list[tuple[int, int]]

    @classmethod
    def of(cls, part: Encoding | None) -> Summary:
        """Summarize one part; None has no answers."""
        if part is None:
            return cls(pa.array([], pa.string()), pa.array([], pa.string()), Counts(), [(0, 0)])
        labels = part.labels
        sizes = [(labels.n_items, labels.votes.n_votes)]
        return cls(labels.workers, labels.classes, part.counts, sizes)

    def vocabulary(self, rules: EncodingRules) -> Vocabulary:
        """Return all workers and classes in their order."""
        if not len(self.workers):
            raise InputError(
                f"{rules.name}: no answers are left: every label is empty; check --label-col"
            )
        workers, names = (
            found.take(pc.sort_indices(found)) for found in (self.workers, self.classes)
        )
        codes = np.arange(len(names), dtype=np.int32)
        _, classes, ordered = order_classes(codes, names, rules.class_order)
        if len(workers) * len(classes) >= 2**31:
            raise InputError("workers × classes exceed 2^31: split the data or merge classes")
        return Vocabulary(workers, classes, ordered)


def part_of(labels: Labels, vocabulary: Vocabulary, gold: KnownLabels | None) -> LocalEngine:
    """Return the engine of a part in the codes that all parts share, with its known classes."""
    votes = labels.votes
    assert isinstance(votes, SparseVotes)
    n_workers, n_classes = len(vocabulary.workers), len(vocabulary.classes)
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
    votes, known = SparseVotes(matrix, n_workers, n_classes), {}
    if gold is not None:
        labels = replace(labels, votes=votes, classes=vocabulary.classes)
        codes = encode_known(labels, gold, "gold")
        known = {GOLD: codes}
    return LocalEngine(votes, known, items=labels.items)


def _positions(names: Names, within: Names) -> Codes:
    found: Codes = pc.index_in(names, within).to_numpy(zero_copy_only=False).astype(np.int32)
    return found


class PartitionedEngine:
    """Base of engines whose answers are in parts; counts and inputs as in `AnswerEngine`."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        sizes: Iterable[tuple[int, int]],
        counts: Counts,
        inputs: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.vocabulary, self.counts, self.inputs = vocabulary, counts, inputs
        self.n_workers, self.n_classes = len(vocabulary.workers), len(vocabulary.classes)
        self.ordered = vocabulary.ordered
        self.n_items, self.n_votes = map(sum, zip(*sizes, strict=True))

    def whole(self, name: str) -> None:
        return None


class PartsEngine(PartitionedEngine):
    """Walks the parts of one process one after the other, each by all threads."""

    def __init__(
        self,
        parts: Sequence[LocalEngine],
        vocabulary: Vocabulary,
        counts: Counts = Counts(),  # noqa: B008 – frozen
        inputs: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        sizes = ((part.n_items, part.n_votes) for part in parts)
        super().__init__(vocabulary, sizes, counts, inputs)
        self.parts = parts

    def sweep(self, kernel: Kernel[Sums]) -> Sums:
        return add_up(part.sweep(kernel) for part in self.parts)

    @property
    def facts(self) -> dict[str, Any]:
        return {"parts": len(self.parts)}

    def chunks(self, make: MakeColumns) -> Iterator[Columns]:
        def table(part: int, rows: slice) -> Any:
            return pa.table(dict(self.parts[part].columns(make, rows)))

        return merged([part.items for part in self.parts], table)

    def write_parts(
        self, folder: Path, suffix: str, make: MakeColumns, write: WriteChunks
    ) -> dict[str, str]:
        paths = [folder / f"part-{number:05}{suffix}" for number in range(len(self.parts))]
        each = zip(self.parts, paths, strict=True)
        return {path.name: write(part.chunks(make), path) for part, path in each}


def merged(
    names: Sequence[Names], table: Callable[[int, slice], Any], chunk_rows: int = CHUNK_ROWS
) -> Iterator[Columns]:
    """Yield columns of all rows in byte order of the items, some `chunk_rows` at a time.

    `names` are the items of each part in byte order, `table` returns some rows of a part. Items are
    evenly mixed by the hash, so every part's share of a range of names is about alike.
    """
    n_rows = sum(map(len, names))
    step = max(1, chunk_rows // max(len(names), 1))
    sample = pa.concat_arrays([items.take(np.arange(0, len(items), step)) for items in names])
    sample = sample.take(pc.sort_indices(sample))
    every = max(1, round(chunk_rows / max(n_rows, 1) * len(sample)))
    splitters = sample.take(np.arange(every, len(sample), every)).to_pylist()

    def first_not_below(items: Names, name: str) -> int:  # arrow and Python sort text alike
        return bisect_left(range(len(items)), name, key=lambda row: items[row].as_py())

    edges = [
        [0, *(first_not_below(items, splitter) for splitter in splitters), len(items)]
        for items in names
    ]
    for ranges in zip(*map(pairwise, edges), strict=True):
        tables = [
            table(part, slice(first, last))
            for part, (first, last) in enumerate(ranges)
            if first < last
        ]
        if tables:
            chunk = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
            yield columns_of(chunk.take(pc.sort_indices(chunk["item"])))


def columns_of(table: Any) -> Columns:
    """Return an arrow table as columns: numbers as numpy arrays, the rest as arrow arrays."""
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    numbers = [
        name for name in columns if columns[name].type == "double" and not columns[name].null_count
    ]
    return {**columns, **{name: columns[name].to_numpy() for name in numbers}}


def joined_columns(chunks: Iterable[Columns]) -> Columns:
    """Return chunks of columns as one."""
    found = list(chunks)
    if len(found) == 1:
        return found[0]
    tables = [pa.table(dict(chunk)) for chunk in found]
    return columns_of(pa.concat_tables(tables).unify_dictionaries())


# `--engine disk`: votes and rows are files of one process.


class MappedVotes(Votes):
    """Votes whose columns are a file: a block is read when it is needed and freed after."""

    def __init__(self, columns: Int32s, pointers: Pointers, n_workers: int, n_classes: int) -> None:
        super().__init__(len(pointers) - 1, n_workers, n_classes, len(columns))
        self.columns, self.pointers = columns, pointers

    @property
    def blocks(self) -> list[slice]:
        return self._layout[0]

    @cached_property
    def _layout(self) -> tuple[list[slice], Floats]:
        """Return the items of the blocks, and ones for the votes of the largest block."""
        ranges = block_ranges(self.pointers, self.n_workers * self.n_classes)
        edges = self.pointers[[0, *(rows.stop for rows in ranges)]]
        return ranges, np.ones(int(np.diff(edges).max()))

    def block(self, rows: slice) -> sp.csr_array:
        pointers = np.array(self.pointers[rows.start : rows.stop + 1])
        columns = np.array(self.columns[pointers[0] : pointers[-1]])
        shape = (rows.stop - rows.start, self.n_workers * self.n_classes)
        ones = self._layout[1][: len(columns)]
        return sp.csr_array((ones, columns, pointers - pointers[0]), shape=shape)


@contextmanager
def on_disk(
    pieces: Sequence[Piece], rules: EncodingRules, *, spill: str | None
) -> Iterator[PartsEngine]:
    """Yield the engine, whose files are in a new folder below `spill`, deleted at the end."""
    n_parts = max(LEAST_PARTS, -(-sum(piece.n_answers for piece in pieces) // PART_ANSWERS))
    counts, parent = Counts(), spill or tempfile.gettempdir()

    def answers() -> Iterator[Answers]:
        nonlocal counts
        for piece in pieces:
            for batch, n_rows, n_empty in batches(piece):
                counts += Counts(n_rows, n_empty)
                yield batch

    try:
        with cleanup.folder("misc-spill-", spill) as folder:
            engine = build(answers(), folder, n_parts, rules)
            engine.counts += counts
            engine.inputs = [fingerprint(path) for path in dict.fromkeys(p.path for p in pieces)]
            yield engine
    except OSError as error:
        if error.filename is None or str(error.filename).startswith(parent):
            raise InputError(
                f"--spill {parent}: {error.strerror or error}; name a folder that can be written "
                "and has space (about 16 bytes an answer)"
            ) from None
        raise


def build(
    answers: Iterable[Answers], folder: Path, n_parts: int, rules: EncodingRules
) -> PartsEngine:
    """Build parts on disk from a stream of answers with worker, item and label."""
    files, told = [], [Summary.of(None)]
    for number in _spill(answers, folder, n_parts):
        path = folder / f"{number:05}.pieces"
        with pa.OSFile(str(path), "rb") as file:
            reader = pa.ipc.open_stream(file)
            tables = [pa.Table.from_batches([batch]) for batch in reader]
            part = encode_part(tables, rules)
            del tables
        path.unlink()
        if part is not None:
            told.append(Summary.of(part))
            files.append(path.with_suffix(".labels"))
            files[-1].write_bytes(pickle.dumps(part.labels, protocol=5))
    summary = add_up(told)
    vocabulary = summary.vocabulary(rules)
    parts = [_mapped_part(file, vocabulary, rules.gold) for file in files]
    return PartsEngine(parts, vocabulary, summary.counts)


def _spill(answers: Iterable[Answers], folder: Path, n_parts: int) -> list[int]:
    """Write one file of pieces for each part that has some; return their numbers."""
    with ExitStack() as stack:
        writers: dict[int, Any] = {}
        for batch in answers:
            for number, piece in enumerate(split(batch, n_parts)):
                if piece.num_rows == 0:
                    continue
                if number not in writers:
                    sink = stack.enter_context(pa.OSFile(str(folder / f"{number:05}.pieces"), "wb"))
                    writer = pa.ipc.new_stream(sink, piece.schema)
                    writers[number] = stack.enter_context(writer)
                writers[number].write_table(piece)
    return sorted(writers)


def _mapped_part(path: Path, vocabulary: Vocabulary, gold: KnownLabels | None) -> LocalEngine:
    """Return a part in common codes, with its votes and the names of its items in mapped files."""
    part = part_of(pickle.loads(path.read_bytes()), vocabulary, gold)
    path.unlink()
    assert isinstance(part.votes, SparseVotes)
    matrix = part.votes.matrix
    columns = _mapped(path.with_suffix(".columns.npy"), matrix.indices)
    pointers = _mapped(path.with_suffix(".pointers.npy"), matrix.indptr)
    table, items = pa.table({"item": part.items}), str(path.with_suffix(".items"))
    with pa.OSFile(items, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pa.memory_map(items) as source:
        names = pa.ipc.open_file(source).read_all()["item"].combine_chunks()
    votes = MappedVotes(columns, pointers, part.n_workers, part.n_classes)
    return LocalEngine(votes, part.arrays, partial(_allocate, path), names)


def _mapped(path: Path, values: Array) -> Array:
    np.save(path, values)
    mapped: Array = np.load(path, mmap_mode="r")
    return mapped


def _allocate(stem: Path, name: str, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
    """Make rows in a file with reserved space, so that a full disk is an error and no crash."""
    path = stem.with_suffix(f".{name}.rows")
    size = max(int(np.prod(shape)) * dtype.itemsize, 1)
    with path.open("wb") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:  # macOS
            file.truncate(size)
    return np.memmap(path, dtype=dtype, mode="r+", shape=shape)
