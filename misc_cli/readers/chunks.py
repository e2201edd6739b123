"""Files cut into pieces, for data that no memory should hold.

A *piece* is what one process reads on its own: some row groups of a Parquet file, or some lines of
a CSV or TSV file, here or in a store. Its layout is found as for every other command, on the first
rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import file_digest
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.fs as arrow_fs

from misc_cli.data.types import Answers
from misc_cli.errors import ConfigError, InputError
from misc_cli.readers import checks
from misc_cli.readers.answer_table import read_as
from misc_cli.readers.columns import first_nameless
from misc_cli.readers.dialect import SPACE, sniff
from misc_cli.readers.document import encoded
from misc_cli.readers.expand import expand
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.questions import pick
from misc_cli.readers.read import opened_document, read_document
from misc_cli.readers.remote import DATABASES, WEB, redact, scheme_of
from misc_cli.readers.row_status import gold_of
from misc_cli.readers.source import Source, one_line
from misc_cli.readers.vocabulary import ROLES, SYNONYMS


def open_store(path: str) -> tuple[Any, str]:
    """Return arrow's file system of a path, and the path within it."""
    if "://" not in path:
        return arrow_fs.LocalFileSystem(), os.path.abspath(path)
    try:
        filesystem, inner = arrow_fs.FileSystem.from_uri(path)
    except (pa.ArrowException, ValueError, OSError) as error:
        raise InputError(f"{path}: {one_line(error)}; check the address") from None
    return filesystem, inner


def unpacked(filesystem: Any, inner: str) -> Any:
    """Return a file as a stream of what was packed, if it was."""
    try:
        return filesystem.open_input_stream(inner, compression="detect", buffer_size=1 << 20)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{inner}: cannot be read ({one_line(error)}); check the file") from None


BLOCK_BYTES = 1 << 24
BATCH_ROWS = 1 << 20


@dataclass(frozen=True)
class Batch:
    """Answers that have a label, and how many rows had none."""

    answers: Answers
    n_rows: int
    n_empty: int


def batches(piece: Piece) -> Iterator[Batch]:
    """Yield the answers of a piece, a batch at a time, in their order."""
    before = 0
    for columns in piece_columns(piece, dict(zip(ROLES, piece.positions, strict=True))):
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


def piece_columns(piece: Piece, wanted: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Yield columns by name, given their positions, a batch at a time; text, dictionary-encoded."""
    return (_text if piece.row_groups is None else _parquet)(piece, wanted)


def fingerprint(path: str) -> dict[str, Any]:
    """Return name, size and SHA-256 of a file; one in a store is not read once more for it."""
    filesystem, inner = open_store(path)
    digest, size = None, filesystem.get_file_info(inner).size
    if "://" not in path:
        with open(path, "rb") as stream:
            digest = file_digest(stream, "sha256").hexdigest()
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
                yield {role: encoded(batch[name]) for role, name in names.items()}
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{piece.path}: {one_line(error)}; write the file again") from None


def _text(piece: Piece, wanted: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    names = {role: f"f{position}" for role, position in wanted.items()}
    filesystem, inner = open_store(piece.path)
    with _rows_from(piece, filesystem, inner) as stream:
        length = None if piece.end is None else piece.end - piece.start
        watched = _Watched(piece.path, stream, length)
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
                yield {role: encoded(batch[name]) for role, name in names.items()}
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
    """Return the text from the piece's first row on."""
    if not piece.later:
        stream = unpacked(filesystem, inner)
        stream.read(piece.start)
        return stream
    file = filesystem.open_input_file(inner)
    file.seek(piece.start)
    return file


SUFFIXES = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".parquet")
SAMPLE_BYTES = 1 << 20
SAMPLE_ROWS = 20_000
# A text file is cut into pieces of about this size, a Parquet file into some with so many rows.
PIECE_BYTES = 1 << 26
PIECE_ROWS = 1 << 20
PACKED = (".gz", ".bz2", ".zst")
# What an answer takes in a text file, roughly; only the number of parts depends on it.
BYTES_PER_ANSWER = 16


@dataclass(frozen=True)
class Piece:
    """A part of the input and how it is laid out.

    positions   of worker, item and label among the `width` columns
    start, end  where a text's rows begin and end, in bytes; None is the end of the file
    later       whether other rows of the text file come before it
    row_groups  of a Parquet file; None for text
    n_answers   how many rows, for text a guess
    gold        the column that has the right answer, where it is known; None if there is none
    """

    path: str
    positions: tuple[int, ...]
    n_answers: int
    delimiter: str = ","
    start: int = 0
    width: int = 0
    row_groups: tuple[int, ...] | None = None
    end: int | None = None
    later: bool = False
    gold: int | None = None

    @property
    def first(self) -> bool:
        """Return whether the file begins with it."""
        return self.row_groups[0] == 0 if self.row_groups is not None else not self.later

    @property
    def whence(self) -> str:
        """Return what a row's number counts from, if that is not the file's first row."""
        if self.row_groups is not None:
            return f" of its row groups from {self.row_groups[0] + 1}"
        return f" of those from byte {self.start:,} on" if self.later else ""


def pieces_of(sources: Sequence[str], options: ReadOptions) -> list[Piece]:
    """Return everything that `sources` name, cut into pieces, in a fixed order."""
    if options.encoding not in (None, "utf-8", "utf8"):
        raise ConfigError(
            "--encoding: this engine reads UTF-8; recode the files, or --engine local"
        )
    if options.keep is not None or options.max_bad_rows is not None:
        raise ConfigError("--keep and --max-bad-rows need --engine local")
    pieces: list[Piece] = []
    for source in sources:
        if scheme_of(source) in (*WEB, *DATABASES):
            raise ConfigError(
                f"{redact(source)}: this engine reads files and stores; download it first, or "
                "--engine local"
            )
        for path in _files(source):
            pieces += _cut(path, options)
    return pieces


def _files(source: str) -> list[str]:
    if source == "-":
        raise ConfigError("-: this engine reads files, folders and globs; use --engine local")
    if "://" not in source:
        files = [path for path in expand([source]) if _is_table(path) or path == source]
        if not files:
            raise InputError(f"{source}: no {', '.join(SUFFIXES)} in this folder; check the path")
        return files
    filesystem, inner = open_store(source)
    if filesystem.get_file_info(inner).type != arrow_fs.FileType.Directory:
        return [source]
    listed = filesystem.get_file_info(arrow_fs.FileSelector(inner, recursive=True))
    scheme = source.partition("://")[0]
    return [f"{scheme}://{path}" for path in sorted(one.path for one in listed) if _is_table(path)]


def _is_table(path: str) -> bool:
    """Return whether a path is a table's; hidden files (and Spark's _SUCCESS) are none."""
    return path.lower().endswith(SUFFIXES) and os.path.basename(path)[0] not in "._"


def _cut(path: str, options: ReadOptions) -> list[Piece]:
    filesystem, inner = open_store(path)
    try:
        with filesystem.open_input_file(inner) as file:
            if file.read(4) == b"PAR1":
                return _cut_parquet(path, file, options)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: cannot be read ({one_line(error)}); check the file") from None
    return _lines(_text_piece(path, filesystem, inner, options), filesystem, inner)


def _cut_parquet(path: str, file: Any, options: ReadOptions) -> list[Piece]:
    """Return row groups together until they hold some `PIECE_ROWS` rows."""
    import pyarrow.parquet as parquet

    file.seek(0)
    opened = parquet.ParquetFile(file)
    if opened.metadata.num_rows == 0:
        return []
    first = next(opened.iter_batches(batch_size=SAMPLE_ROWS))
    sample = pa.BufferOutputStream()
    parquet.write_table(pa.Table.from_batches([first]), sample)
    positions, gold = _positions(Source(path, sample.getvalue(), sample.getvalue()), options)
    pieces, groups, rows = [], [], 0
    for group in range(opened.metadata.num_row_groups):
        groups.append(group)
        rows += opened.metadata.row_group(group).num_rows
        if rows >= PIECE_ROWS or group == opened.metadata.num_row_groups - 1:
            pieces.append(Piece(path, positions, rows, row_groups=tuple(groups), gold=gold))
            groups, rows = [], 0
    return pieces


def _text_piece(path: str, filesystem: Any, inner: str, options: ReadOptions) -> Piece:
    with unpacked(filesystem, inner) as stream:
        start = stream.read(SAMPLE_BYTES)
    if len(start) == SAMPLE_BYTES:
        start = _whole_rows(start)
    if not start.strip():
        raise InputError(f"{path}: the file is empty; give a file with answers in it")
    mark = 3 if start.startswith(b"\xef\xbb\xbf") else 0
    content = pa.py_buffer(start[mark:])
    source = Source(path, content, content)
    document = opened_document(source, options)
    if document.format not in ("csv", "tsv"):
        raise _not_streamed(path, document.format)
    positions, gold = _positions(source, options)
    table = document.table
    if table.delimiter == SPACE:
        raise InputError(f"{path}: columns are parted by spaces; use --engine local, or commas")
    assert table.delimiter is not None
    dialect = sniff(source.content, SYNONYMS, table.delimiter, table.header)
    packed = 4 if inner.endswith(PACKED) else 1
    guess = packed * filesystem.get_file_info(inner).size // BYTES_PER_ANSWER + 1
    width = len(table.first_row)
    return Piece(path, positions, guess, table.delimiter, mark + dialect.start, width, gold=gold)


def _lines(whole: Piece, filesystem: Any, inner: str) -> list[Piece]:
    """Cut a large text file at ends of lines, unless it is packed or has cells that span lines."""
    size = filesystem.get_file_info(inner).size
    if size < 2 * PIECE_BYTES or inner.endswith(PACKED):
        return [whole]
    with filesystem.open_input_stream(inner, compression=None) as stream:
        while chunk := stream.read(SAMPLE_BYTES):
            if b'"' in chunk:
                return [whole]
    edges = [whole.start]
    with filesystem.open_input_file(inner) as file:
        while (after := edges[-1] + PIECE_BYTES) < size:
            file.seek(after)
            at = -1
            while at < 0 and (part := file.read(1 << 16)):
                at = part.find(b"\n")
                after += len(part) if at < 0 else at + 1
            if after >= size:
                break
            edges.append(after)
    ends = [*edges[1:], None]
    return [
        replace(
            whole,
            n_answers=((end or size) - start) // BYTES_PER_ANSWER + 1,
            start=start,
            end=end,
            later=start > edges[0],
        )
        for start, end in zip(edges, ends, strict=True)
    ]


def _whole_rows(start: bytes) -> bytes:
    """Return the text up to the last line break that is not within quotes, if one is near."""
    end = len(start)
    for _ in range(100):
        end = start.rfind(b"\n", 0, end)
        if end < 0:
            break
        if start.count(b'"', 0, end) % 2 == 0:
            return start[: end + 1]
    return start


def _positions(sample: Source, options: ReadOptions) -> tuple[tuple[int, ...], int | None]:
    """Return where worker, item and label are, and gold if the file carries some."""
    document = opened_document(sample, options)
    reader, _, reading = read_document(document, options)
    if reader.name != "long":
        raise _not_streamed(sample.name, reader.title)
    (question,) = pick(sample.name, document, reading, options)
    if reading.aside or options.has_filters or checks.nothing(question.label) is not None:
        raise _not_streamed(sample.name, "some of its rows are to be set aside")
    chosen = dict(question.columns)
    told = read_as(chosen, {})
    checks.refuse(sample.name, checks.oddities(question, options, document), options, told)
    layout = reading.layout
    if layout is None or any(len(getattr(layout, role)) != 1 for role in ROLES):
        raise _not_streamed(sample.name, "its items or workers are no single column")
    known = gold_of(document, [*layout.worker, *layout.item], layout.label).get(question.name)
    places = tuple(document.position(getattr(layout, role)[0]) for role in ROLES)
    return places, None if known is None else document.position(known)


def _not_streamed(path: str, what: str) -> InputError:
    return InputError(
        f"{path}: {what}; this engine reads rows of worker, item and label in CSV, TSV or Parquet: "
        "convert it, or use --engine local"
    )
