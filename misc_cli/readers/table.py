"""Delimited text → dictionary columns: pyarrow's parser, and a slow second look when it fails."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv

from misc_cli.errors import InputError
from misc_cli.readers.columns import Parsed, is_position
from misc_cli.readers.dialect import SPACE, Dialect, Row, check_quotes, delimiter_of, sniff
from misc_cli.readers.document import Table
from misc_cli.readers.layouts.long_checks import from_table
from misc_cli.readers.source import Buffer, Source, count, line_at, refuse_nul, refuse_undecodable

BLOCK_BYTES = 1 << 22
LARGEST_BLOCK = (1 << 31) - 1
# pyarrow's own allocator takes some 25 MiB at once: worth it only for files that need them.
SMALL_BYTES = 1 << 24


def read_table(
    source: Source,
    given: dict[str, str | None],
    synonyms: dict[str, list[set[str]]],
    delimiter: str | None = None,
    header: bool | None = None,
) -> Parsed:
    """The columns sought, by role, of a CSV, TSV or otherwise delimited file."""
    sniffed = header is None and not any(map(_is_name, given.values()))
    table = open_table(source, given, synonyms, delimiter, header)
    hint = ", or say --no-header if the first row is data" if sniffed else ""
    return from_table(source.name, table, given, synonyms, hint)


def open_table(
    source: Source,
    given: dict[str, str | None],
    synonyms: dict[str, list[set[str]]],
    delimiter: str | None = None,
    header: bool | None = None,
) -> Table:
    """A delimited file, laid out but not parsed; `synonyms` help to tell a header from data."""
    refuse_nul(source)
    if any(map(_is_name, given.values())):
        header = True  # a column was named, so there are names
    dialect = sniff(source.content, synonyms, delimiter_of(delimiter), header)
    names = [name.strip() for name in dialect.first_row]
    if not dialect.header:
        names = [str(at + 1) for at in range(len(names))]
    elif not all(map(_is_text, names)):
        refuse_undecodable(source)
    body = source.content.slice(dialect.start)
    if dialect.delimiter == SPACE:
        body = _single_spaces(body)

    def line(row: int) -> int:
        return next(islice(_numbered_rows(source, dialect, body), row, None))[0]

    def lines(rows: Sequence[int]) -> list[int]:
        wanted = set(rows)
        numbered = enumerate(_numbered_rows(source, dialect, body))
        found = {row: number for row, (number, _) in numbered if row in wanted}
        return [found[row] for row in rows]

    return Table(
        names,
        dialect.sample,
        fetch=lambda positions: _parse(source, body, dialect, positions),
        line=line,
        header=dialect.header,
        delimiter=dialect.delimiter,
        first_row=dialect.first_row,
        doubtful=dialect.doubtful,
        lines=lines,
    )


def _is_name(given: str | None) -> bool:
    return given is not None and not is_position(given)


def _is_text(name: str) -> bool:
    """Whether a sniffed name was plain UTF-8; bytes that are not came through as surrogates."""
    return not any("\udc80" <= character <= "\udcff" for character in name)


def _parse(source: Source, body: Buffer, dialect: Dialect, positions: Sequence[int]) -> list[Any]:
    """Columns by position, each once, in the order asked for."""
    wanted = [f"f{position}" for position in positions]
    if not body.size:
        return [pa.array([], pa.string()).dictionary_encode() for _ in wanted]
    convert = arrow_csv.ConvertOptions(
        column_types={name: pa.string() for name in wanted},
        include_columns=list(dict.fromkeys(wanted)),
        strings_can_be_null=False,
    )
    names = [f"f{at}" for at in range(len(dialect.first_row))]
    n_quotes = count(body, b'"')
    if n_quotes:  # pyarrow would take all between two stray ones for one cell, and say nothing
        first_line = line_at(source.content, dialect.start)
        check_quotes(
            source.name,
            body,
            dialect.delimiter,
            first_line,
            len(dialect.first_row),
            spanning=source.quotes_span_lines,
        )
    parse = arrow_csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=n_quotes > 0)
    try:
        table = _read_csv(body, names, parse, convert)
    except pa.ArrowInvalid as error:
        refuse_undecodable(source)
        _refuse_ragged(source, dialect, body)
        raise InputError(f"{source.name}: {_one_line(error)}; check the file's layout") from None
    texts = {name: table[name] for name in table.column_names}
    del table
    with ThreadPoolExecutor(len(texts)) as pool:
        # Each column's text goes as soon as its codes are there: it is the larger part by far.
        pending = {name: pool.submit(_encoded, texts.pop(name)) for name in list(texts)}
        encoded = {name: future.result() for name, future in pending.items()}
    return [encoded[name] for name in wanted]


def _read_csv(body: Buffer, names: list[str], parse: Any, convert: Any) -> Any:
    block = BLOCK_BYTES
    pool = pa.system_memory_pool() if body.size < SMALL_BYTES else pa.default_memory_pool()
    while True:
        read = arrow_csv.ReadOptions(column_names=names, block_size=block)
        try:
            return arrow_csv.read_csv(pa.BufferReader(body), read, parse, convert, pool)
        except pa.ArrowInvalid as error:
            # A row longer than a block: rare, so blocks grow only when it happens.
            if "straddling" not in str(error) or block >= min(body.size, LARGEST_BLOCK):
                raise
            block = min(block * 16, LARGEST_BLOCK)


def _encoded(column: Any) -> Any:
    encoded = column.dictionary_encode()
    return encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded


def _single_spaces(body: Buffer) -> Buffer:
    """Runs of spaces and tabs as single spaces: pyarrow splits at every one of them."""
    data = bytes(memoryview(body))
    if b'"' in data:  # what is quoted stays as it is
        data = re.sub(rb'"[^"\n]*"|[ \t]+', lambda m: m[0] if m[0][:1] == b'"' else b" ", data)
        return pa.py_buffer(re.sub(rb"(?m)^ | (?=\r?$)", b"", data))
    data = data.replace(b"\t", b" ")
    if b"  " in data or b"\n " in data or b" \n" in data or b" \r" in data or data[:1] == b" ":
        data = re.sub(rb"(?m)^ +| +(?=\r?$)", b"", re.sub(rb" +", b" ", data))
    return pa.py_buffer(data.rstrip(b" "))


def _numbered_rows(source: Source, dialect: Dialect, body: Buffer) -> Iterator[tuple[int, Row]]:
    """Line number and cells of every row of the body: slow, for error messages only."""
    text = io.TextIOWrapper(
        io.BytesIO(memoryview(body)), encoding="utf-8", errors="replace", newline=""
    )
    head = bytes(memoryview(source.content)[: dialect.start])
    before = len(head.splitlines())
    reader = csv.reader(text, delimiter=dialect.delimiter)
    line = 1
    while True:
        try:
            row = next(reader, None)
        except csv.Error:
            raise InputError(
                f"{source.name}, line {before + line}: a quote opens in this row and does not "
                'close before the next cell; close it, or double quotes within a cell ("")'
            ) from None
        if row is None:
            return
        if row:
            yield before + line, row
        line = reader.line_num + 1


def _refuse_ragged(source: Source, dialect: Dialect, body: Buffer) -> None:
    width = len(dialect.first_row)
    for line, row in _numbered_rows(source, dialect, body):
        if len(row) != width:
            raise InputError(
                f"{source.name}, line {line}: {_columns(len(row))} where the first row has "
                f"{width}; quote cells that hold the delimiter, or set --delimiter"
            )


def _columns(n_columns: int) -> str:
    return "1 column" if n_columns == 1 else f"{n_columns} columns"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
