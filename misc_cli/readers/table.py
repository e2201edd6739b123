"""Delimited text → dictionary columns: pyarrow's parser, and a slow second look when it fails."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv

from misc_cli.errors import InputError
from misc_cli.readers.dialect import SPACE, Dialect, Row, check_quotes, delimiter_of, sniff
from misc_cli.readers.document import Document, Table
from misc_cli.readers.source import (
    Buffer,
    Source,
    count,
    line_at,
    one_line,
    refuse_endless,
    refuse_nul,
    refuse_undecodable,
)

BLOCK_BYTES = 1 << 22
LARGEST_BLOCK = (1 << 31) - 1
# pyarrow's own allocator takes some 25 MiB at once: worth it only for files that need them.
SMALL_BYTES = 1 << 24


def open_table(
    source: Source,
    format_name: str,
    synonyms: dict[str, list[set[str]]],
    delimiter: str | None = None,
    header: bool | None = None,
    bad_rows: Callable[[int], int] | None = None,
) -> Document:
    """Return a delimited file, laid out but not parsed; `synonyms` help to tell a header.

    Rows of another width than the first are set aside as far as `bad_rows` allows it.
    """
    refuse_endless(source)
    refuse_nul(source)
    dialect = sniff(source.content, synonyms, delimiter_of(delimiter), header)
    names = [name.strip() for name in dialect.first_row]
    if not dialect.header:
        names = [str(at + 1) for at in range(len(names))]
    elif not all(map(_is_text, names)):
        refuse_undecodable(source)
    text = _DelimitedText(source, dialect, bad_rows)
    table = Table(
        names,
        dialect.sample,
        fetch=text.fetch,
        line=text.line,
        header=dialect.header,
        delimiter=dialect.delimiter,
        first_row=dialect.first_row,
        doubtful=dialect.doubtful,
        lines=text.lines,
        bad_lines=text.bad_lines,
    )
    return Document(source.name, format_name, lambda: table)


def _is_text(name: str) -> bool:
    """Return whether a name was plain UTF-8; bytes that are not came through as surrogates."""
    return not any("\udc80" <= character <= "\udcff" for character in name)


class _DelimitedText:
    """The rows of a delimited file; those whose form is broken are left out where allowed."""

    def __init__(
        self, source: Source, dialect: Dialect, bad_rows: Callable[[int], int] | None
    ) -> None:
        self.source, self.dialect, self._bad_rows = source, dialect, bad_rows
        body = source.content.slice(dialect.start)
        self.body = _single_spaces(body) if dialect.delimiter == SPACE else body
        self.bad_lines: list[int] = []
        self._line_numbers: list[int] | None = None  # of rows that were written anew
        self._quoted = True

    def line(self, row: int) -> int:
        if self._line_numbers is not None:
            return self._line_numbers[row]
        return next(islice(self._numbered_rows(), row, None))[0]

    def lines(self, rows: Sequence[int]) -> list[int]:
        if self._line_numbers is not None:
            return [self._line_numbers[row] for row in rows]
        wanted = set(rows)
        numbered = enumerate(self._numbered_rows())
        found = {row: number for row, (number, _) in numbered if row in wanted}
        return [found[row] for row in rows]

    def fetch(self, positions: Sequence[int]) -> list[Any]:
        """Return columns by position, each once, in the order asked for."""
        try:
            return self._parse(positions)
        except InputError:
            if not self._mend():
                raise
            return self._parse(positions)

    def _parse(self, positions: Sequence[int]) -> list[Any]:
        source, body, dialect = self.source, self.body, self.dialect
        wanted = [f"f{position}" for position in positions]
        if not body.size:
            return [pa.array([], pa.string()).dictionary_encode() for _ in wanted]
        convert = arrow_csv.ConvertOptions(
            column_types={name: pa.string() for name in wanted},
            include_columns=list(dict.fromkeys(wanted)),
            strings_can_be_null=False,
        )
        width = len(dialect.first_row)
        n_quotes = count(body, b'"') if self._quoted else 0
        if n_quotes:  # pyarrow would take all between two stray ones for one cell, and say nothing
            first_line = line_at(source.content, dialect.start)
            spanning = source.quotes_span_lines or self._line_numbers is not None
            check_quotes(source.name, body, dialect.delimiter, first_line, width, spanning=spanning)
        parse = arrow_csv.ParseOptions(
            delimiter=dialect.delimiter,
            newlines_in_values=n_quotes > 0,
            quote_char='"' if self._quoted else False,
        )
        try:
            table = _read_csv(body, [f"f{at}" for at in range(width)], parse, convert)
        except pa.ArrowInvalid as error:
            refuse_undecodable(source)
            self._refuse_ragged()
            raise InputError(f"{source.name}: {one_line(error)}; check the file's layout") from None
        texts = {name: table[name] for name in table.column_names}
        del table
        with ThreadPoolExecutor(len(texts)) as pool:
            # Each column's text goes as soon as its codes are there: it is the larger part by far.
            pending = {name: pool.submit(_encoded, texts.pop(name)) for name in list(texts)}
            encoded = {name: future.result() for name, future in pending.items()}
        return [encoded[name] for name in wanted]

    def _mend(self) -> bool:
        """Find another way to read broken rows; return whether there is one.

        Between tabs quotes are plain text if every line has as many cells without them. Cells that
        Mechanical Turk leaves out at the end are empty. Other rows are set aside, so many as the
        user allows.
        """
        if self._line_numbers is not None or not self._quoted:
            return False
        width, delimiter = len(self.dialect.first_row), self.dialect.delimiter.encode()
        whole = [line for line in bytes(memoryview(self.body)).splitlines() if line.strip()]
        if delimiter == b"\t" and all(line.count(delimiter) == width - 1 for line in whole):
            self._quoted = False
            return True
        rows, numbers, bad = [], [], []
        least = width - self.dialect.n_without_cells
        for number, row in self._numbered_rows():
            if len(row) == width or len(row) == least:
                rows.append([*row, *[""] * (width - len(row))])
                numbers.append(number)
            else:
                bad.append(number)
        allowed = self._bad_rows(len(rows) + len(bad)) if self._bad_rows is not None else 0
        if len(bad) > allowed or (not bad and least == width):
            return False
        stream = io.StringIO()
        csv.writer(stream, delimiter=self.dialect.delimiter, lineterminator="\n").writerows(rows)
        self.body = pa.py_buffer(stream.getvalue().encode("utf-8"))
        self.bad_lines.extend(bad)
        self._line_numbers = numbers
        return True

    def _numbered_rows(self) -> Iterator[tuple[int, Row]]:
        """Yield line number and cells of every row of the body: slow, where something is wrong."""
        text = io.TextIOWrapper(
            io.BytesIO(memoryview(self.body)), encoding="utf-8", errors="replace", newline=""
        )
        head = bytes(memoryview(self.source.content)[: self.dialect.start])
        before = len(head.splitlines())
        delimiter = self.dialect.delimiter
        reader = csv.reader(text, delimiter=delimiter)
        if not self._quoted:
            reader = csv.reader(text, delimiter=delimiter, quoting=csv.QUOTE_NONE)
        line = 1
        while True:
            try:
                row = next(reader, None)
            except csv.Error:
                raise InputError(
                    f"{self.source.name}, line {before + line}: a quote opens in this row and does "
                    'not close before the next cell; close it, or double quotes within a cell ("")'
                ) from None
            if row is None:
                return
            if row:
                yield before + line, row
            line = reader.line_num + 1

    def _refuse_ragged(self) -> None:
        width = len(self.dialect.first_row)
        for line, row in self._numbered_rows():
            if len(row) != width:
                n_columns = "1 column" if len(row) == 1 else f"{len(row)} columns"
                raise InputError(
                    f"{self.source.name}, line {line}: {n_columns} where the first row has "
                    f"{width}; quote cells that hold the delimiter, set --delimiter, or leave "
                    "such rows out with --max-bad-rows 1%"
                )


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
