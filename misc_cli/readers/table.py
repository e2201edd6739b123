"""Delimited text → dictionary columns: pyarrow's parser, and a slow second look when it fails."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as arrow_csv

from misc_cli.errors import InputError
from misc_cli.readers.dialect import SPACE, Dialect, Row, Synonyms, sniff
from misc_cli.readers.document import Document, Table
from misc_cli.readers.options import delimiter_of
from misc_cli.readers.source import (
    Buffer,
    Source,
    count,
    line_at,
    one_line,
    refuse_odd_bytes,
    refuse_undecodable,
)

BLOCK_BYTES = 1 << 22
LARGEST_BLOCK = (1 << 31) - 1
# pyarrow's own allocator takes some 25 MiB at once: worth it only for files that need them.
SMALL_BYTES = 1 << 24
MOST_BREAKS = 1000  # line breaks within one cell; --quotes-span-lines allows any number
CHUNK = 1 << 24

Positions = npt.NDArray[np.int64]


def open_table(
    source: Source,
    format_name: str,
    synonyms: Synonyms,
    delimiter: str | None = None,
    header: bool | None = None,
    bad_rows: Callable[[int], int] | None = None,
) -> Document:
    """Return a delimited file, laid out but not parsed; `synonyms` help to tell a header.

    Rows of another width than the first are set aside as far as `bad_rows` allows it.
    """
    refuse_odd_bytes(source, is_table=True)
    character = None if delimiter is None else delimiter_of(delimiter)
    dialect = sniff(source.content, synonyms, character, header)
    names = [name.strip() for name in dialect.first_row]
    if not dialect.header:
        names = [str(at + 1) for at in range(len(names))]
    elif any("\udc80" <= letter <= "\udcff" for name in names for letter in name):
        refuse_undecodable(source)  # bytes that are no UTF-8 came through as surrogates
    text = _DelimitedText(source, dialect, bad_rows)
    table = Table(
        names,
        dialect.sample,
        fetch=text.fetch,
        lines_of=text.lines_of,
        header=dialect.header,
        delimiter=dialect.delimiter,
        first_row=dialect.first_row,
        doubtful=dialect.doubtful,
        start=dialect.start,
        bad_lines=text.bad_lines,
    )
    return Document(source.name, format_name, lambda: table)


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

    def lines_of(self, rows: Sequence[int]) -> list[int]:
        """Return the lines of rows, in one pass up to the last of them."""
        if self._line_numbers is not None:
            return [self._line_numbers[row] for row in rows]
        wanted, last = set(rows), max(rows, default=-1)
        found = {}
        for row, (number, _) in enumerate(self._numbered_rows()):
            if row in wanted:
                found[row] = number
            if row == last:
                break
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
            _check_quotes(source.name, body, dialect.delimiter, first_line, width, spanning)
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
            encode = pa.ChunkedArray.dictionary_encode
            pending = {name: pool.submit(encode, texts.pop(name)) for name in list(texts)}
            encoded = {name: future.result().combine_chunks() for name, future in pending.items()}
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
        line = 1 + len(bytes(memoryview(self.source.content)[: self.dialect.start]).splitlines())
        delimiter = self.dialect.delimiter
        reader = csv.reader(text, delimiter=delimiter)
        if not self._quoted:
            reader = csv.reader(text, delimiter=delimiter, quoting=csv.QUOTE_NONE)
        first = line
        try:
            for row in reader:
                if row:
                    yield line, row
                line = first + reader.line_num
        except csv.Error:
            raise _stray(self.source.name, line) from None

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


def _stray(name: str, line: int) -> InputError:
    return InputError(
        f"{name}, line {line}: a quote opens in this row and does not close, or text follows the "
        'one that closes; remove it, or double quotes within a cell ("")'
    )


def _positions(data: Any, byte: int) -> Positions:
    found = [
        np.flatnonzero(data[start : start + CHUNK] == byte) + start
        for start in range(0, len(data), CHUNK)
    ]
    return np.concatenate(found) if found else np.array([], dtype=np.int64)


def _check_quotes(
    name: str, body: Buffer, delimiter: str, first_line: int, width: int, spanning: bool
) -> None:
    """Raise an InputError with the line of the first quote that cannot be meant.

    `first_line` is the number of the body's first line, `width` how many columns its rows have,
    `spanning` that the user knows of cells with many lines.
    """
    data = np.frombuffer(body, dtype=np.uint8)
    quotes = _positions(data, ord('"'))
    ends = np.frombuffer(f"{delimiter}\r\n".encode(), dtype=np.uint8)
    opening, closing = quotes[: len(quotes) // 2 * 2 : 2], quotes[1::2]
    doubled = closing[:-1] + 1 == opening[1:]  # closes and opens again: a quote within the cell
    starts = opening[np.append(True, ~doubled)[: len(opening)]]
    stops = closing[np.append(~doubled, True)[: len(closing)]]
    is_first, is_last = starts == 0, stops == len(data) - 1
    starts_well = is_first | np.isin(data[starts - 1], ends)
    stops_well = is_last | np.isin(data[(stops + 1) % len(data)], ends)
    if len(quotes) % 2 or not (starts_well.all() and stops_well.all()):
        starts, stops = _scanned(name, body, bytes(ends), first_line)
    if spanning:
        return
    breaks = _positions(data, ord("\n"))
    before = np.searchsorted(breaks, starts)
    n_breaks = np.searchsorted(breaks, stops) - before
    cells = np.flatnonzero(n_breaks)
    if not len(cells):
        return
    swallowing = cells[n_breaks[cells] > MOST_BREAKS].tolist()
    if not swallowing:
        edges = np.concatenate([[-1], breaks, [len(data)]])
        n_delimiters = np.diff(np.searchsorted(_positions(data, ord(delimiter)), edges))
        n_quotes = np.diff(np.searchsorted(quotes, edges))  # by line of the body
        for at in cells:
            lines = slice(before[at], before[at] + n_breaks[at] + 1)
            if (n_delimiters[lines] == width - 1).all() and n_quotes[lines].sum() == 2:
                swallowing.append(at)
        # Texts of several lines look like rows now and then; stray quotes do so each time.
        if 2 * len(swallowing) <= len(cells):
            return
    n_rows = int(n_breaks[swallowing[0]])
    raise InputError(
        f"{name}, line {first_line + int(before[swallowing[0]])}: a quote opens here and closes "
        f"below, which would swallow rows ({n_rows:,}); remove the stray quotes, or say "
        "--quotes-span-lines if this is one cell"
    )


def _scanned(name: str, body: Buffer, ends: bytes, first_line: int) -> tuple[Positions, Positions]:
    """Return quoted cells where a quote may also stand within plain text (5" wide): one by one."""
    text = memoryview(body).cast("B")  # Arrow says signed bytes
    opening = re.compile(rb"(?:\A|(?<=[" + re.escape(ends) + rb']))"')
    cell = re.compile(rb'"[^"]*(?:""[^"]*)*"')
    starts, stops, at = [], [], 0
    while found := opening.search(text, at):
        whole = cell.match(text, found.start())
        if whole is None:
            raise _stray(name, first_line + bytes(text[: found.start()]).count(b"\n"))
        at = whole.end()
        if at < len(text) and text[at] not in ends:
            raise _stray(name, first_line + bytes(text[:at]).count(b"\n"))
        starts.append(found.start())
        stops.append(at - 1)
    return np.array(starts, dtype=np.int64), np.array(stops, dtype=np.int64)
