"""The answers of one piece (pieces.py), batch by batch: rows of worker, item and label."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from misc_cli.core.types import Answers
from misc_cli.errors import InputError
from misc_cli.io.columns import first_nameless
from misc_cli.io.pieces import Piece
from misc_cli.io.stores import one_line, open_store, unpacked
from misc_cli.io.vocabulary import ROLES
from misc_cli.io.write import sha256_of

BLOCK_BYTES = 1 << 24
BATCH_ROWS = 1 << 20


@dataclass(frozen=True)
class Batch:
    """Answers that have a label, and how many rows had none."""

    answers: Answers
    n_rows: int
    n_empty: int


def batches(piece: Piece) -> Iterator[Batch]:
    """The answers of a piece, a batch at a time, in their order."""
    before = 0
    for columns in read_columns(piece, dict(zip(ROLES, piece.positions, strict=True))):
        n_rows = len(columns["label"])
        for role in ("worker", "item"):
            row = first_nameless(columns, role)
            if row is not None:
                raise InputError(
                    f"{piece.path}, row {before + row + 1}{piece.whence}: "
                    f"a label without its {role}; fill it in or drop the row"
                )
        before += n_rows
        empty = pc.equal(pc.utf8_trim_whitespace(columns["label"].dictionary), "")
        n_empty = 0
        if pc.any(empty).as_py():
            kept = pc.invert(empty.take(columns["label"].indices))
            columns = {role: column.filter(kept) for role, column in columns.items()}
            n_empty = n_rows - len(columns["label"])
        answers = Answers(columns["worker"], columns["item"], columns["label"], piece.path)
        yield Batch(answers, n_rows, n_empty)


def read_columns(piece: Piece, wanted: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Columns by name, given their positions, a batch at a time; text, dictionary-encoded."""
    read = _text if piece.row_groups is None else _parquet
    yield from read(piece, wanted)


def fingerprint(path: str) -> dict[str, Any]:
    """A file of the input for the record: name, size, SHA-256. What lies in a store is not read
    once more for it."""
    filesystem, inner = open_store(path)
    digest, size = None, filesystem.get_file_info(inner).size
    if "://" not in path:
        with open(path, "rb") as stream:
            digest = sha256_of(stream)
    return {"name": path, "bytes": size, "sha256": digest}


def _parquet(piece: Piece, wanted: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet as parquet

    filesystem, inner = open_store(piece.path)
    try:
        with filesystem.open_input_file(inner) as file:
            opened = parquet.ParquetFile(file)
            names = {role: opened.schema_arrow.names[at] for role, at in wanted.items()}
            groups = list(piece.row_groups or ())
            for batch in opened.iter_batches(BATCH_ROWS, groups, list(names.values())):
                yield {role: _encoded(batch[name]) for role, name in names.items()}
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{piece.path}: {one_line(error)}; write the file again") from None


def _text(piece: Piece, wanted: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    names = {role: f"f{position}" for role, position in wanted.items()}
    filesystem, inner = open_store(piece.path)
    with _rows_from(piece, filesystem, inner) as stream:
        watched = _Watched(
            piece.path, stream, None if piece.end is None else piece.end - piece.start
        )
        try:
            reader = arrow_csv.open_csv(
                pa.PythonFile(watched, mode="r"),
                arrow_csv.ReadOptions(
                    column_names=[f"f{at}" for at in range(piece.width)], block_size=BLOCK_BYTES
                ),
                arrow_csv.ParseOptions(delimiter=piece.delimiter, newlines_in_values=True),
                arrow_csv.ConvertOptions(
                    column_types={name: pa.string() for name in names.values()},
                    include_columns=list(names.values()),
                    strings_can_be_null=False,
                ),
            )
            for batch in reader:
                yield {role: _encoded(batch[name]) for role, name in names.items()}
        except pa.ArrowInvalid as error:
            if "Empty CSV file" in str(error):
                return
            watched.refuse()
            raise InputError(f"{piece.path}: {one_line(error)}; check the file's layout") from None
        watched.refuse()


class _Watched:
    """Bytes on their way to the parser, watched for what it would misread without a word."""

    closed = False

    def __init__(self, path: str, stream: Any, left: int | None) -> None:
        self.path, self.stream, self.left = path, stream, left
        self.n_quotes, self.has_nul = 0, False

    def read(self, size: int = -1) -> bytes:
        if self.left is not None:
            size = min(size, self.left) if size >= 0 else self.left
        chunk: bytes = self.stream.read(size if size >= 0 else None)
        if self.left is not None:
            self.left -= len(chunk)
        self.n_quotes += chunk.count(b'"')
        self.has_nul = self.has_nul or b"\0" in chunk
        return chunk

    def refuse(self) -> None:
        if self.has_nul:
            raise InputError(f"{self.path}: NUL bytes, so this is no plain text; export it anew")
        if self.n_quotes % 2:
            raise InputError(
                f"{self.path}: a quote opens and does not close; --engine local says in which line"
            )

    def close(self) -> None:
        self.closed = True


def _rows_from(piece: Piece, filesystem: Any, inner: str) -> Any:
    """The text from the piece's first row on."""
    if not piece.later:
        stream = unpacked(filesystem, inner)
        stream.read(piece.start)
        return stream
    file = filesystem.open_input_file(inner)
    file.seek(piece.start)
    return file


def _encoded(column: Any) -> Any:
    """Text, dictionary-encoded; a missing value is an empty one."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    column = column.cast(pa.string())
    return (column.fill_null("") if column.null_count else column).dictionary_encode()
