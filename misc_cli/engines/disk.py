"""`--engine disk`: keep votes and rows in files of one process."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from misc_cli import cleanup
from misc_cli.data.encode import Counts
from misc_cli.data.types import Answers, Floats, KnownLabels
from misc_cli.data.votes import Int32s, Pointers, SparseVotes, Votes, block_ranges
from misc_cli.engines.local import LocalEngine
from misc_cli.engines.partitioned import (
    PART_ANSWERS,
    EncodingRules,
    PartsEngine,
    Summary,
    encode_part,
    part_of,
    split,
)
from misc_cli.engines.protocol import Array, Vocabulary, add_up
from misc_cli.errors import InputError
from misc_cli.readers.chunks import Piece, batches, fingerprint


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


LEAST_PARTS = 4


@contextmanager
def opened(
    pieces: Sequence[Piece], rules: EncodingRules, *, spill: str | None
) -> Iterator[PartsEngine]:
    """Yield the engine, whose files are in a new folder below `spill`, deleted at the end."""
    n_parts = max(LEAST_PARTS, -(-sum(piece.n_answers for piece in pieces) // PART_ANSWERS))
    counts, parent = Counts(), spill or tempfile.gettempdir()

    def answers() -> Iterator[Answers]:
        nonlocal counts
        for piece in pieces:
            for batch in batches(piece):
                counts += Counts(batch.n_rows, batch.n_empty)
                yield batch.answers

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
    batches: Iterable[Answers], folder: Path, n_parts: int, rules: EncodingRules
) -> PartsEngine:
    """Build parts on disk from a stream of answers with worker, item and label."""
    files, told = [], [Summary.of(None)]
    for number in _spill(batches, folder, n_parts):
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


def _spill(batches: Iterable[Answers], folder: Path, n_parts: int) -> list[int]:
    """Write one file of pieces for each part that has some; return their numbers."""
    with ExitStack() as stack:
        writers: dict[int, Any] = {}
        for batch in batches:
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
