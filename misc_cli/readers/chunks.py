"""Files cut into pieces, for data that no memory should hold.

A *piece* is what one process reads on its own: some row groups of a Parquet file, or a CSV or TSV
file, here or in a store. Its layout is found as for every other command, on the first rows.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from hashlib import file_digest
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.fs as arrow_fs
import pyarrow.parquet as parquet

from misc_cli.data.types import Answers
from misc_cli.errors import ConfigError, InputError
from misc_cli.readers import checks
from misc_cli.readers.addresses import PACKED_SUFFIXES, STORES, expand, redact, scheme_of
from misc_cli.readers.answer_table import read_as
from misc_cli.readers.columns import first_nameless
from misc_cli.readers.dialect import SPACE
from misc_cli.readers.document import Document, Table, encoded
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.questions import pick
from misc_cli.readers.read import opened_document, read_document
from misc_cli.readers.reading import Question, rows_of
from misc_cli.readers.remote import open_store
from misc_cli.readers.row_filters import counting_rows, folded, gold_of, where_column, with_words
from misc_cli.readers.source import Source, empty, one_line
from misc_cli.readers.values import CHOICE
from misc_cli.readers.vocabulary import ROLES

SUFFIXES = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".parquet")
SAMPLE_BYTES = 1 << 20
SAMPLE_ROWS = 20_000
BLOCK_BYTES = 1 << 24
BATCH_ROWS = 1 << 20
PIECE_ROWS = 1 << 20  # row groups of a Parquet file are one piece until they hold so many rows
# What an answer takes in a text file, roughly; only the number of parts depends on it.
BYTES_PER_ANSWER = 16


@dataclass(frozen=True)
class Piece:
    """A part of the input and how it is laid out.

    positions   of worker, item and label among the `width` columns
    n_answers   how many rows, for text a guess
    start       where a text's rows begin, in bytes
    row_groups  of a Parquet file; None for text
    gold        the column that has the right answer, where it is known; None if there is none
    names       of all columns; `beside` are the positions of those that filters look at
    spelling    of labels, by --fold-case; None without it
    """

    path: str
    positions: tuple[int, ...]
    n_answers: int
    delimiter: str = ","
    start: int = 0
    width: int = 0
    row_groups: tuple[int, ...] | None = None
    gold: int | None = None
    names: tuple[str, ...] = ()
    beside: tuple[int, ...] = ()
    options: ReadOptions = field(default_factory=ReadOptions)
    spelling: Mapping[str, str] | None = None

    @property
    def first(self) -> bool:
        """Return whether the file begins with it."""
        return self.row_groups is None or self.row_groups[0] == 0


@dataclass(frozen=True)
class Batch:
    """Answers that have a label, and how many rows had none."""

    answers: Answers
    n_rows: int
    n_empty: int


def batches(piece: Piece) -> Iterator[Batch]:
    """Yield the answers of a piece, a batch at a time, in their order."""
    before = 0
    for found in piece_columns(piece, {str(at): at for at in {*piece.positions, *piece.beside}}):
        question = _counting(piece, found)
        columns = {role: getattr(question, role) for role in ROLES}
        n_rows = len(question)
        for role in ("worker", "item"):
            row = first_nameless(columns, role)
            if row is not None:
                group = f" of row group {piece.row_groups[0] + 1}" if piece.row_groups else ""
                raise InputError(
                    f"{piece.path}, row {before + rows_of(question)[row] + 1}{group}: a label "
                    f"without its {role}; fill it in or drop the row"
                )
        before += len(found[str(piece.positions[0])])
        blank = pc.equal(pc.utf8_trim_whitespace(columns["label"].dictionary), "")
        if pc.any(blank).as_py():
            kept = pc.invert(blank.take(columns["label"].indices))
            columns = {role: column.filter(kept) for role, column in columns.items()}
        answers = Answers(columns["worker"], columns["item"], columns["label"], piece.path)
        yield Batch(answers, n_rows, n_rows - len(columns["label"]))


def _counting(piece: Piece, columns: Mapping[str, Any]) -> Question:
    """Return the answers that count among the rows of a batch; columns are by position."""

    def fetch(positions: Sequence[int]) -> list[Any]:
        return [columns[str(at)] for at in positions]

    table = Table(list(piece.names), [], fetch)
    question = Question("", CHOICE, *fetch(piece.positions))
    question, _ = counting_rows(Document(piece.path, "", lambda: table), question, piece.options)
    if piece.spelling is None:
        return question
    words = question.label.dictionary.to_pylist()
    return with_words(question, [piece.spelling.get(word, word) for word in words])


def piece_columns(piece: Piece, wanted: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Yield columns by name, given their positions, a batch at a time; text, dictionary-encoded."""
    read = _text_batches if piece.row_groups is None else _parquet_batches
    for batch in read(piece, list(wanted.values())):
        yield {role: encoded(column) for role, column in zip(wanted, batch.columns, strict=True)}


def fingerprint(path: str) -> dict[str, Any]:
    """Return name, size and SHA-256 of a file; one in a store is not read once more for it."""
    filesystem, inner = open_store(path)
    digest, size = None, filesystem.get_file_info(inner).size
    if "://" not in path:
        with open(path, "rb") as stream:
            digest = file_digest(stream, "sha256").hexdigest()
    return {"name": path, "bytes": size, "sha256": digest}


def _parquet_batches(piece: Piece, positions: list[int]) -> Iterator[Any]:
    filesystem, inner = open_store(piece.path)
    try:
        with filesystem.open_input_file(inner) as file:
            opened = parquet.ParquetFile(file)
            names = [opened.schema_arrow.names[at] for at in positions]
            for batch in opened.iter_batches(BATCH_ROWS, list(piece.row_groups or ()), names):
                yield batch.select(names)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{piece.path}: {one_line(error)}; write the file again") from None


def _text_batches(piece: Piece, positions: list[int]) -> Iterator[Any]:
    names = [f"f{at}" for at in positions]
    with closing(_Watched(piece.path)) as watched:
        watched.stream.read(piece.start)
        try:
            yield from arrow_csv.open_csv(
                pa.PythonFile(watched, mode="r"),
                arrow_csv.ReadOptions(
                    column_names=[f"f{at}" for at in range(piece.width)], block_size=BLOCK_BYTES
                ),
                arrow_csv.ParseOptions(delimiter=piece.delimiter, newlines_in_values=True),
                arrow_csv.ConvertOptions(
                    column_types={name: pa.string() for name in names},
                    include_columns=names,
                    strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid as error:
            watched.refuse()
            if "Empty CSV file" not in str(error):
                raise InputError(
                    f"{piece.path}: {one_line(error)}; check the file's layout"
                ) from None
        watched.refuse()


def _unpacked(path: str) -> Any:
    """Return a file as a stream of what was packed, if it was."""
    filesystem, inner = open_store(path)
    try:
        return filesystem.open_input_stream(inner, compression="detect", buffer_size=1 << 20)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: cannot be read ({one_line(error)}); check the file") from None


class _Watched:
    """Bytes on their way to the parser, watched for what it would misread without a word."""

    closed = False

    def __init__(self, path: str) -> None:
        self.path, self.stream = path, _unpacked(path)
        self.n_quotes, self.has_nul = 0, False

    def read(self, size: int = -1) -> bytes:
        chunk: bytes = self.stream.read(size if size >= 0 else None)
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
        with suppress(OSError):  # whatever a close says, what was read is read
            self.stream.close()


def pieces_of(sources: Sequence[str], options: ReadOptions) -> list[Piece]:
    """Return everything that `sources` name, cut into pieces, in a fixed order."""
    if options.encoding not in (None, "utf-8", "utf8"):
        raise ConfigError(
            "--encoding: this engine reads UTF-8; recode the files, or --engine local"
        )
    plain = replace(options, fold_case=None)
    cut = [_cut(path, plain) for source in sources for path in _files(source)]
    return [piece for pieces in cut for piece in (_folded(pieces) if options.fold_case else pieces)]


def _folded(pieces: list[Piece]) -> list[Piece]:
    """Return the pieces of a file with one spelling of each label: one more pass over it."""
    counts: Counter[str] = Counter()
    for piece in pieces:
        for batch in batches(piece):
            told = batch.answers.label.value_counts()
            counts.update(dict(zip(*map(pa.Array.to_pylist, told.flatten()), strict=True)))
    spelling = dict(zip(counts, folded(list(counts), np.array([*counts.values()])), strict=True))
    return [replace(piece, spelling=spelling) for piece in pieces]


def _files(source: str) -> list[str]:
    if source == "-" or scheme_of(source) not in (None, *STORES):
        raise ConfigError(f"{redact(source)}: this engine reads files and stores; --engine local")
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
                return _row_groups(path, parquet.ParquetFile(file), options)
            file.seek(0, os.SEEK_END)
            return [_text_piece(path, file.tell(), options)]
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: cannot be read ({one_line(error)}); check the file") from None


def _row_groups(path: str, opened: Any, options: ReadOptions) -> list[Piece]:
    """Return row groups together until they hold some `PIECE_ROWS` rows."""
    if opened.metadata.num_rows == 0:
        return []
    sample = pa.BufferOutputStream()
    first = next(opened.iter_batches(batch_size=SAMPLE_ROWS))
    parquet.write_table(pa.Table.from_batches([first]), sample)
    source = Source(path, sample.getvalue(), sample.getvalue())
    laid_out = _laid_out(opened_document(source, options), options)
    pieces, groups, rows = [], [], 0
    for group in range(opened.metadata.num_row_groups):
        groups.append(group)
        rows += opened.metadata.row_group(group).num_rows
        if rows >= PIECE_ROWS or group == opened.metadata.num_row_groups - 1:
            pieces.append(replace(laid_out, n_answers=rows, row_groups=tuple(groups)))
            groups, rows = [], 0
    return pieces


def _text_piece(path: str, size: int, options: ReadOptions) -> Piece:
    with _unpacked(path) as stream:
        start = stream.read(SAMPLE_BYTES)
    if len(start) == SAMPLE_BYTES:
        start = _whole_rows(start)
    if not start.strip():
        raise empty(path)
    mark = 3 if start.startswith(b"\xef\xbb\xbf") else 0
    content = pa.py_buffer(start[mark:])
    document = opened_document(Source(path, content, content), options)
    if document.format not in ("csv", "tsv"):
        raise _not_streamed(path, document.format)
    laid_out, table = _laid_out(document, options), document.table
    if table.delimiter is None or table.delimiter == SPACE:
        raise _not_streamed(path, "columns are parted by spaces")
    return replace(
        laid_out,
        n_answers=(4 if path.endswith(PACKED_SUFFIXES) else 1) * size // BYTES_PER_ANSWER + 1,
        delimiter=table.delimiter,
        start=mark + table.start,
        width=len(table.first_row),
    )


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


def _laid_out(document: Document, options: ReadOptions) -> Piece:
    """Return a piece that says where worker, item, label, gold and what filters look at are."""
    reading = read_document(document, options)
    if reading.reader != "long":
        raise _not_streamed(document.name, reading.title)
    (question,) = pick(document.name, document, reading, options)
    if reading.aside:
        raise _not_streamed(document.name, "some of its rows are to be set aside by their status")
    question, _ = counting_rows(document, question, options)
    if len(question):
        told = read_as(dict(question.columns), {})
        checks.refuse(document.name, checks.oddities(question, options, document), options, told)
    layout = reading.layout
    if layout is None or any(len(getattr(layout, role)) != 1 for role in ROLES):
        raise _not_streamed(document.name, "its items or workers are no single column")
    known = gold_of(document, [*layout.worker, *layout.item], layout.label).get(question.name)
    places = tuple(document.position(getattr(layout, role)[0]) for role in ROLES)
    return Piece(
        document.name,
        places,
        0,
        gold=None if known is None else document.position(known),
        names=tuple(document.names),
        beside=tuple(where_column(document, text) for text in options.where or ()),
        options=options,
    )


def _not_streamed(path: str, what: str) -> InputError:
    return InputError(
        f"{path}: {what}; this engine reads rows of worker, item and label in CSV, TSV or Parquet: "
        "convert it, or use --engine local"
    )
