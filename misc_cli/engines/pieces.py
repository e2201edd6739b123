"""Files cut into pieces, for data that no memory should hold.

A *piece* is what one process reads on its own: some row groups of a Parquet file, or a CSV or TSV
file, here or in a store. Its layout is found as for every other command, on the first rows; its
rows are parsed as every other text, a block at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import file_digest
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as arrow_fs
import pyarrow.parquet as parquet

from misc_cli.data.types import Answers
from misc_cli.errors import ConfigError, InputError
from misc_cli.readers import addresses, checks
from misc_cli.readers.columns import first_nameless
from misc_cli.readers.document import Document, encoded
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.questions import pick
from misc_cli.readers.read import opened_document, read_document
from misc_cli.readers.reading import Question, rows_of
from misc_cli.readers.remote import open_store
from misc_cli.readers.row_filters import counting_rows, folded, where_column, with_words
from misc_cli.readers.source import LONGEST_LINE, Source, empty, one_line
from misc_cli.readers.table import DelimitedText, Table
from misc_cli.readers.values import CHOICE
from misc_cli.readers.vocabulary import ROLES
from misc_cli.redaction import redact

SAMPLE_BYTES = 1 << 20
SAMPLE_ROWS = 20_000
BLOCK_BYTES = 1 << 24
PIECE_ROWS = 1 << 20  # row groups are one piece until they hold so many rows; a batch
# What an answer takes in a text file, roughly; only the number of parts depends on it.
BYTES_PER_ANSWER = 16


@dataclass(frozen=True)
class Piece:
    """A part of the input and how it is laid out.

    positions   of worker, item and label among the columns, which are called `names`
    n_answers   how many rows, for text a guess
    start       where a text's rows begin, in bytes
    row_groups  of a Parquet file; None for text
    beside      the positions of columns that filters look at
    spelling    of labels, by --fold-case; None without it
    """

    path: str
    positions: tuple[int, ...]
    names: tuple[str, ...]
    n_answers: int = 0
    delimiter: str = ","
    start: int = 0
    row_groups: tuple[int, ...] | None = None
    beside: tuple[int, ...] = ()
    options: ReadOptions = field(default_factory=ReadOptions)
    spelling: Mapping[str, str] | None = None


def batches(piece: Piece) -> Iterator[tuple[Answers, int, int]]:
    """Yield the answers of a piece that count, a batch at a time, how many rows, and empty ones."""
    n_before, needed = 0, sorted({*piece.positions, *piece.beside})
    for found in _columns(piece, needed):
        question = _counting(piece, found)
        columns = {role: getattr(question, role) for role in ROLES}
        for role in ("worker", "item"):
            row = first_nameless(columns, role)
            if row is not None:
                raise InputError(
                    f"{piece.path}, row {n_before + rows_of(question)[row] + 1}: a label "
                    f"without its {role}; fill it in or drop the row"
                )
        n_before += len(found[needed[0]])
        blank = pc.equal(pc.utf8_trim_whitespace(columns["label"].dictionary), "")
        if pc.any(blank).as_py():
            kept = pc.invert(blank.take(columns["label"].indices))
            columns = {role: column.filter(kept) for role, column in columns.items()}
        answers = Answers(columns["worker"], columns["item"], columns["label"], piece.path)
        yield answers, len(question), len(question) - len(answers.label)


def _counting(piece: Piece, columns: Mapping[int, Any]) -> Question:
    """Return the answers that count among the rows of a batch."""
    table = Table(list(piece.names), [], lambda positions: [columns[at] for at in positions])
    question = Question("", CHOICE, *table.fetch(piece.positions))
    question, _ = counting_rows(Document(piece.path, "", lambda: table), question, piece.options)
    if piece.spelling is None:
        return question
    words = question.label.dictionary.to_pylist()
    return with_words(question, [piece.spelling.get(word, word) for word in words])


def _columns(piece: Piece, positions: Sequence[int]) -> Iterator[dict[int, Any]]:
    """Yield columns by position, a batch at a time; text, dictionary-encoded."""
    if piece.row_groups is not None:
        filesystem, inner = open_store(piece.path)
        names = [piece.names[at] for at in positions]
        with _readable(piece.path), filesystem.open_input_file(inner) as file:
            opened = parquet.ParquetFile(file)
            for batch in opened.iter_batches(PIECE_ROWS, list(piece.row_groups), names):
                yield {at: encoded(batch[piece.names[at]]) for at in positions}
        return
    for n_lines, block in _blocks(piece):
        body = pa.py_buffer(block)
        source = Source(piece.path, b"", body)
        text = DelimitedText(source, body, piece.delimiter, len(piece.names), n_lines)
        yield dict(zip(positions, text.parse(positions), strict=True))


def _blocks(piece: Piece) -> Iterator[tuple[int, bytes]]:
    """Yield a text in blocks of whole rows, each with the number of lines before it."""
    with _readable(piece.path), _unpacked(piece.path) as stream:
        n_lines, rest, data = len(stream.read(piece.start).splitlines()), b"", b" "
        while data:
            data = stream.read(BLOCK_BYTES)
            rest += data
            block = _whole_rows(rest) if data else rest
            rest = rest[len(block) :]
            if b"\0" in block:
                raise InputError(f"{piece.path}: NUL bytes, so this is no plain text; convert it")
            if len(rest) > max(LONGEST_LINE, BLOCK_BYTES):
                raise InputError(
                    f"{piece.path}: a quote opens and does not close; --engine local says where"
                )
            if block.strip():
                yield n_lines, block
            n_lines += int(np.count_nonzero(np.frombuffer(block, np.uint8) == ord("\n")))


def _whole_rows(text: bytes) -> bytes:
    """Return the text up to its last line break that is not within quotes."""
    end, n_quotes = len(text), text.count(b'"')
    while (at := text.rfind(b"\n", 0, end)) >= 0:
        n_quotes -= text.count(b'"', at, end)
        if n_quotes % 2 == 0:
            return text[: at + 1]
        end = at
    return b""


@contextmanager
def _readable(path: str) -> Iterator[None]:
    """Turn what Arrow says of a file into one line."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: cannot be read ({one_line(error)}); check the file") from None


def _unpacked(path: str) -> Any:
    """Return a file as a stream of what was packed, if it was."""
    filesystem, inner = open_store(path)
    return filesystem.open_input_stream(inner, compression="detect", buffer_size=1 << 20)


def fingerprint(path: str) -> dict[str, Any]:
    """Return name, size and SHA-256 of a file; one in a store is not read once more for it."""
    filesystem, inner = open_store(path)
    digest, size = None, filesystem.get_file_info(inner).size
    if "://" not in path:
        with open(path, "rb") as stream:
            digest = file_digest(stream, "sha256").hexdigest()
    return {"name": path, "bytes": size, "sha256": digest}


def pieces_of(sources: Sequence[str], options: ReadOptions) -> list[Piece]:
    """Return everything that `sources` name, cut into pieces, in a fixed order."""
    plain = replace(options, fold_case=None)
    cut = [_cut(path, plain) for source in sources for path in _files(source)]
    return [piece for pieces in cut for piece in (_folded(pieces) if options.fold_case else pieces)]


def _folded(pieces: list[Piece]) -> list[Piece]:
    """Return the pieces of a file with one spelling of each label: one more pass over it."""
    counts: Counter[str] = Counter()
    for piece in pieces:
        for answers, *_ in batches(piece):
            told = answers.label.value_counts()
            counts.update(dict(zip(*map(pa.Array.to_pylist, told.flatten()), strict=True)))
    spelling = dict(zip(counts, folded(list(counts), np.array([*counts.values()])), strict=True))
    return [replace(piece, spelling=spelling) for piece in pieces]


def _files(source: str) -> list[str]:
    """Return the tables that a path, a folder or a pattern means, here or in a store."""
    if source == "-" or addresses.scheme_of(source) not in (None, *addresses.STORES):
        raise ConfigError(f"{redact(source)}: this engine reads files and stores; --engine local")
    if "://" not in source:
        return addresses.expand([source])
    filesystem, inner = open_store(source)
    if filesystem.get_file_info(inner).type != arrow_fs.FileType.Directory:
        return [source]
    listed = filesystem.get_file_info(arrow_fs.FileSelector(inner, recursive=True))
    # hidden files (and Spark's _SUCCESS) are no tables
    return sorted(
        f"{addresses.scheme_of(source)}://{one.path}"
        for one in listed
        if addresses.suffix_of(one.path) in addresses.TABLES and one.base_name[0] not in "._"
    )


def _cut(path: str, options: ReadOptions) -> list[Piece]:
    filesystem, inner = open_store(path)
    with _readable(path), filesystem.open_input_file(inner) as file:
        if file.read(4) == b"PAR1":
            return _row_groups(path, parquet.ParquetFile(file), options)
    with _readable(path), _unpacked(path) as stream:
        start = stream.read(SAMPLE_BYTES)
    if len(start) == SAMPLE_BYTES:
        start = _whole_rows(start) or start
    if not start.strip():
        raise empty(path)
    mark = 3 if start.startswith(b"\xef\xbb\xbf") else 0
    content = pa.py_buffer(start[mark:])
    document = opened_document(Source(path, content, content), options)
    table = document.table
    if table.delimiter is None:
        raise _not_streamed(path, document.format)
    grows = 4 if path.endswith(addresses.PACKED_SUFFIXES) else 1
    n_answers = grows * filesystem.get_file_info(inner).size // BYTES_PER_ANSWER + 1
    piece = replace(_laid_out(document, options), n_answers=n_answers, delimiter=table.delimiter)
    return [replace(piece, start=mark + table.start)]


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
        checks.refuse(question, options, document)
    layout = reading.layout
    if layout is None or any(len(getattr(layout, role)) != 1 for role in ROLES):
        raise _not_streamed(document.name, "its items or workers are no single column")
    places = tuple(document.names.index(getattr(layout, role)[0]) for role in ROLES)
    return Piece(
        document.name,
        places,
        tuple(document.names),
        beside=tuple(where_column(document, text)[0] for text in options.where or ()),
        options=options,
    )


def _not_streamed(path: str, what: str) -> InputError:
    return InputError(
        f"{path}: {what}; this engine reads rows of worker, item and label in CSV, TSV or Parquet: "
        "convert it, or use --engine local"
    )
