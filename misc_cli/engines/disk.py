"""`--engine disk`: keep votes and rows in files of one process."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from misc_cli import cleanup
from misc_cli.data.encode import Counts, Encoding
from misc_cli.data.types import Answers, Floats, KnownLabels, Labels, Names
from misc_cli.data.votes import Int32s, Pointers, SparseVotes, block_ranges, totals_by_class
from misc_cli.engines.partitioned import (
    PART_ANSWERS,
    Part,
    PartsEngine,
    Tally,
    encode_part,
    joined,
    part_of,
    split,
    translate,
    vocabulary_of,
)
from misc_cli.engines.protocol import Array, Vocabulary
from misc_cli.errors import ConfigError, InputError
from misc_cli.readers.chunks import Piece, batches, fingerprint


@dataclass(frozen=True)
class MappedVotes:
    """Votes whose columns are a file: a block is read when it is needed and freed after."""

    columns: Int32s
    pointers: Pointers
    n_workers: int
    n_classes: int

    @property
    def n_items(self) -> int:
        return len(self.pointers) - 1

    @property
    def n_votes(self) -> int:
        return len(self.columns)

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

    def class_totals(self, rows: slice) -> Floats:
        return totals_by_class(self.block(rows), self.n_classes)


@contextmanager
def spill_folder(parent: str | None) -> Iterator[Path]:
    """Yield a new folder below `parent` (None: the temporary folder); delete it at the end."""
    with ExitStack() as stack:
        try:
            own = stack.enter_context(cleanup.folder("misc-spill-", parent))
        except OSError as error:
            where = tempfile.gettempdir() if parent is None else parent
            raise ConfigError(
                f"--spill {where}: cannot be written ({error.strerror}); name another folder"
            ) from None
        try:
            yield own
        except OSError as error:
            if error.filename is None or str(error.filename).startswith(str(own)):
                raise InputError(
                    f"--spill {own.parent}: {error.strerror or error}; name a folder with more "
                    "space (about 16 bytes an answer)"
                ) from None
            raise


def build(
    batches: Iterable[Answers],
    folder: Path,
    *,
    n_parts: int,
    duplicates: str,
    class_order: list[str] | None,
    gold: KnownLabels | None,
    name: str,
) -> PartsEngine:
    """Build parts on disk from a stream of answers with worker, item and label."""
    stored, counts = [], Counts()
    for number in _spill(batches, folder, n_parts):
        encoded = encode_part(_read_pieces(_pieces(folder, number)), duplicates, name)
        if encoded is not None:
            counts += encoded.counts
            stored.append(_Stored.save(folder, number, encoded))
    if not stored:
        raise InputError(f"{name}: no answers are left: every label is empty; check --label-col")
    vocabulary = vocabulary_of(
        (part.workers for part in stored), (part.classes for part in stored), class_order
    )
    return PartsEngine([part.opened(vocabulary, gold) for part in stored], vocabulary, counts)


def _spill(batches: Iterable[Answers], folder: Path, n_parts: int) -> list[int]:
    """Write one file of pieces for each part that has some; return their numbers."""
    with ExitStack() as stack:
        writers: dict[int, Any] = {}
        for batch in batches:
            for number, piece in enumerate(split(batch, n_parts)):
                if piece.num_rows == 0:
                    continue
                if number not in writers:
                    sink = stack.enter_context(pa.OSFile(str(_pieces(folder, number)), "wb"))
                    writer = pa.ipc.new_stream(sink, piece.schema)
                    writers[number] = stack.enter_context(writer)
                writers[number].write_table(piece)
    return sorted(writers)


def _pieces(folder: Path, number: int) -> Path:
    return folder / f"{number:05}.pieces"


def _read_pieces(path: Path) -> Any:
    """Return the pieces as one table and delete their file."""
    with pa.OSFile(str(path), "rb") as file:
        reader = pa.ipc.open_stream(file)
        table = joined([pa.Table.from_batches([batch]) for batch in reader])
    path.unlink()
    return table


@dataclass(frozen=True)
class _Stored:
    """An encoded part on disk; its small vocabularies stay in memory."""

    stem: Path
    workers: Names
    classes: Names

    @classmethod
    def save(cls, folder: Path, number: int, part: Encoding) -> _Stored:
        stem, labels = folder / f"{number:05}", part.labels
        votes = labels.votes
        assert isinstance(votes, SparseVotes)
        np.save(stem.with_suffix(".columns.npy"), votes.matrix.indices)
        np.save(stem.with_suffix(".pointers.npy"), votes.matrix.indptr)
        table = pa.table({"item": labels.items})
        items = str(stem.with_suffix(".items"))
        with pa.OSFile(items, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        return cls(stem, labels.workers, labels.classes)

    def opened(self, vocabulary: Vocabulary, gold: KnownLabels | None) -> Part:
        """Translate the part to common codes and map it into memory."""
        columns_file = self.stem.with_suffix(".columns.npy")
        pointers = np.load(self.stem.with_suffix(".pointers.npy"))
        columns = np.load(columns_file)
        with pa.memory_map(str(self.stem.with_suffix(".items"))) as source:
            items = pa.ipc.open_file(source).read_all()["item"].combine_chunks()
        shape = (len(items), len(self.workers) * len(self.classes))
        matrix = sp.csr_array((np.ones(len(columns)), columns, pointers), shape=shape)
        votes = SparseVotes(matrix, len(self.workers), len(self.classes))
        labels = translate(Labels(votes, self.workers, items, self.classes), vocabulary)
        assert isinstance(labels.votes, SparseVotes)
        np.save(columns_file, labels.votes.matrix.indices)
        np.save(self.stem.with_suffix(".pointers.npy"), labels.votes.matrix.indptr)
        mapped = MappedVotes(
            np.load(columns_file, mmap_mode="r"),
            np.load(self.stem.with_suffix(".pointers.npy"), mmap_mode="r"),
            labels.n_workers,
            labels.n_classes,
        )
        return part_of(labels, gold, mapped, self._allocate)

    def _allocate(self, name: str, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
        """Make rows in a file with reserved space, so that a full disk is an error and no crash."""
        path = self.stem.with_suffix(f".{name}.rows")
        size = max(int(np.prod(shape)) * dtype.itemsize, 1)
        with path.open("wb") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            else:  # macOS
                file.truncate(size)
        return np.memmap(path, dtype=dtype, mode="r+", shape=shape)


LEAST_PARTS = 4


@contextmanager
def opened(
    pieces: Sequence[Piece],
    *,
    spill: str | None,
    duplicates: str,
    class_order: list[str] | None,
    gold: KnownLabels | None,
    name: str,
) -> Iterator[PartsEngine]:
    """Yield the engine; delete its files at the end."""
    n_parts = max(LEAST_PARTS, -(-sum(piece.n_answers for piece in pieces) // PART_ANSWERS))
    with spill_folder(spill) as folder:
        inputs = _Fingerprints([piece.path for piece in pieces])
        tally = Tally(chain.from_iterable(map(batches, pieces)))
        engine = build(
            tally,
            folder,
            n_parts=n_parts,
            duplicates=duplicates,
            class_order=class_order,
            gold=gold,
            name=name,
        )
        engine.counts += tally.counts
        engine.inputs = inputs.result()
        yield engine


class _Fingerprints:
    """Hash the input files while they are read, on a daemon thread."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = list(dict.fromkeys(paths))
        self.found: list[dict[str, Any]] = []
        self.thread = Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        with suppress(InputError, OSError):  # who reads the file says so
            for path in self.paths:
                self.found.append(fingerprint(path))

    def result(self) -> list[dict[str, Any]]:
        self.thread.join()
        return [*self.found, *map(fingerprint, self.paths[len(self.found) :])]
