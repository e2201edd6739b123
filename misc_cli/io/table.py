"""Delimited text → dictionary columns: pyarrow's parser, and a slow second look when it fails."""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv

from misc_cli.errors import InputError, MiscWarning
from misc_cli.io.columns import (
    Column,
    Parsed,
    by_position,
    choose,
    first_nameless,
    flag,
    is_position,
)
from misc_cli.io.formats import platform_columns
from misc_cli.io.sniff import SPACE, Dialect, Row, delimiter_of, sniff
from misc_cli.io.source import (
    Buffer,
    Source,
    count,
    refuse_nul,
    refuse_undecodable,
)

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
    refuse_nul(source)
    sniffed = header is None
    if any(name is not None and not is_position(name) for name in given.values()):
        header, sniffed = True, False  # a column was named, so there are names
    dialect = sniff(source.content, synonyms, delimiter_of(delimiter), header)
    if dialect.header:
        names = [name.strip() for name in dialect.first_row]
        if not all(map(_is_text, names)):
            refuse_undecodable(source)
        hint = ", or say --no-header if the first row is data" if sniffed else ""
        asked = {**platform_columns(names, synonyms), **_given(given)}
        chosen = choose(source.name, names, asked, synonyms, hint)
    else:
        chosen = by_position(source.name, len(dialect.first_row), given, list(synonyms))
    body = source.content.slice(dialect.start)
    if dialect.delimiter == SPACE:
        body = _single_spaces(body)
    columns = _parse(source, body, dialect, chosen)
    n_rows = len(columns["label"])
    _refuse_nameless(source, dialect, body, columns)
    if dialect.doubtful:
        _warn_of_header(source.name, dialect.first_row, list(synonyms))
    return Parsed(columns, chosen, n_rows, dialect.delimiter, dialect.header)


def _warn_of_header(name: str, first_row: Row, roles: list[str]) -> None:
    shown = ", ".join(cell.strip() for cell in first_row[:5]) + ", …" * (len(first_row) > 5)
    shown = shown.encode("utf-8", "replace").decode()
    flags = f", or say --header, {flag(roles[0])} and so on" if "worker" in roles else ""
    warnings.warn(
        f"{name}: no header was found, so the first row ({shown}) counts as data; if it is the "
        f"header, call its columns {', '.join(roles)}{flags}",
        MiscWarning,
        stacklevel=2,
    )


def _is_text(name: str) -> bool:
    """Whether a sniffed name was plain UTF-8; bytes that are not came through as surrogates."""
    return not any("\udc80" <= character <= "\udcff" for character in name)


def _given(given: dict[str, str | None]) -> dict[str, str | None]:
    return {role: name for role, name in given.items() if name is not None}


def _parse(
    source: Source, body: Buffer, dialect: Dialect, chosen: dict[str, Column]
) -> dict[str, Any]:
    positions = {role: f"f{column.position}" for role, column in chosen.items()}
    if not body.size:
        nothing = pa.array([], pa.string()).dictionary_encode()
        return dict.fromkeys(chosen, nothing)
    convert = arrow_csv.ConvertOptions(
        column_types={name: pa.string() for name in positions.values()},
        include_columns=list(positions.values()),
        strings_can_be_null=False,
    )
    names = [f"f{at}" for at in range(len(dialect.first_row))]
    n_quotes = count(body, b'"')
    if n_quotes % 2:  # pyarrow would take all that follows for one cell, and say nothing
        _refuse_open_quote(source, dialect, body)
    parse = arrow_csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=n_quotes > 0)
    try:
        table = _read_csv(body, names, parse, convert)
    except pa.ArrowInvalid as error:
        refuse_undecodable(source)
        _refuse_ragged(source, dialect, body)
        raise InputError(f"{source.name}: {_one_line(error)}; check the file's layout") from None
    source.release_pages()
    texts = {role: table[name] for role, name in positions.items()}
    del table
    with ThreadPoolExecutor(len(texts)) as pool:
        # Each column's text goes as soon as its codes are there: it is the larger part by far.
        pending = {role: pool.submit(_encoded, texts.pop(role)) for role in list(texts)}
        return {role: future.result() for role, future in pending.items()}


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
    data = bytes(memoryview(body)).replace(b"\t", b" ")
    if b"  " in data or b"\n " in data or b" \n" in data or b" \r" in data or data[:1] == b" ":
        data = re.sub(rb"(?m)^ +| +(?=\r?$)", b"", re.sub(rb" +", b" ", data))
    return pa.py_buffer(data.rstrip(b" "))


def _numbered_rows(
    source: Source, dialect: Dialect, body: Buffer, strict: bool = False
) -> Iterator[tuple[int, Row]]:
    """Line number and cells of every row of the body: slow, for error messages only."""
    text = io.TextIOWrapper(
        io.BytesIO(memoryview(body)), encoding="utf-8", errors="replace", newline=""
    )
    head = bytes(memoryview(source.content)[: dialect.start])
    before = len(head.splitlines())
    reader = csv.reader(text, delimiter=dialect.delimiter, strict=strict)
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


def _refuse_open_quote(source: Source, dialect: Dialect, body: Buffer) -> None:
    for _ in _numbered_rows(source, dialect, body, strict=True):
        pass


def _refuse_ragged(source: Source, dialect: Dialect, body: Buffer) -> None:
    width = len(dialect.first_row)
    for line, row in _numbered_rows(source, dialect, body):
        if len(row) != width:
            raise InputError(
                f"{source.name}, line {line}: {_columns(len(row))} where the first row has "
                f"{width}; quote cells that hold the delimiter, or set --delimiter"
            )


def _refuse_nameless(
    source: Source, dialect: Dialect, body: Buffer, columns: dict[str, Any]
) -> None:
    """An answer needs a worker and an item."""
    for role in columns:
        row = first_nameless(columns, role)
        if row is not None:
            line, _ = next(islice(_numbered_rows(source, dialect, body), row, None))
            raise InputError(
                f"{source.name}, line {line}: a label without its {role}; "
                "fill it in or drop the row"
            )


def _columns(n_columns: int) -> str:
    return "1 column" if n_columns == 1 else f"{n_columns} columns"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
