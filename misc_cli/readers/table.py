"""A table of a file: columns of text by position; and how delimited text becomes one.

The delimiter is the one that splits most rows into the same number of columns. The first row is a
header when it scores two points: known names, names above numbers, names that only tools give.
Anything less is data: a headerless file must never lose its first answer. The rows are read by
pyarrow's parser, with a slow second look when it fails.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from misc_cli.errors import InputError
from misc_cli.readers.options import DELIMITERS, delimiter_of
from misc_cli.readers.source import (
    Buffer,
    Source,
    chunks,
    line_at,
    one_line,
    refuse_odd_bytes,
    refuse_undecodable,
)
from misc_cli.readers.values import MISSING, is_number
from misc_cli.readers.vocabulary import find_roles, names_of_tools, normalise

SAMPLE_BYTES = 1 << 19
SAMPLE_ROWS = 1000
MOST_COLUMNS = 100_000
MOST_TITLES = 20  # lines above a header
SPACE = DELIMITERS["space"]
BLOCK_BYTES = 1 << 22
LARGEST_BLOCK = (1 << 31) - 1
MOST_LINES = 1000  # of one cell; --quotes-span-lines allows any number

_WITHOUT_CELLS = ("approve", "reject", "")  # named by Mechanical Turk, and left out of rows

Row = list[str]
Synonyms = dict[str, list[set[str]]]


@dataclass(frozen=True)
class Table:
    """The columns of a file, parsed only when somebody asks for them.

    names     the columns' names; their positions ("1", "2", …) where there is no header
    sample    the first rows as text, at most 1,000
    fetch     columns by position (from 0) → arrow arrays of text, dictionary-encoded
    lines_of  the lines (or records) of rows (from 0), for messages
    header    whether the first row is one; None where the format has no such thing
    first_row  its cells as they are, header or not; empty where the format has no such thing
    doubtful  there is no header, but the first row looks like one
    start     where the rows of data begin, in bytes of the text
    bad_lines  lines of rows that were left out for their form, known once columns were fetched
    """

    names: list[str]
    sample: list[Row]
    fetch: Callable[[Sequence[int]], list[Any]]
    lines_of: Callable[[Sequence[int]], list[int]] = lambda rows: [row + 1 for row in rows]
    header: bool | None = None
    delimiter: str | None = None
    first_row: Row = field(default_factory=list)
    doubtful: bool = False
    start: int = 0
    bad_lines: list[int] = field(default_factory=list)

    def line(self, row: int) -> int:
        """Return the line of a row."""
        return self.lines_of([row])[0]


def open_table(
    source: Source,
    synonyms: Synonyms,
    delimiter: str | None = None,
    header: bool | None = None,
    bad_rows: Callable[[int], int] | None = None,
) -> Table:
    """Return a delimited file, laid out by its first rows but not parsed.

    Delimiter and header are found unless given; `synonyms` help to tell a header. Rows of another
    width than the first are set aside as far as `bad_rows` allows it.
    """
    refuse_odd_bytes(source, is_table=True)
    csv.field_size_limit(sys.maxsize)  # the default refuses cells above 128 KiB
    view, size = memoryview(source.content), SAMPLE_BYTES
    while size < len(view) and b"\n" not in bytes(view[:size]).strip():
        size *= 4  # two lines or more where there are, however long
    text = bytes(view[:size]).decode("utf-8", errors="surrogateescape")
    lines = [line for line in re.split(r"(?<=\n)|(?<=\r)(?!\n)", text) if line]
    if size < len(view) and len(lines) > 1:
        lines.pop()  # cut in the middle
    if max(map(lines[0].count, ",\t;|")) > MOST_COLUMNS:
        raise InputError(
            f"{source.name}, line 1: more than {MOST_COLUMNS:,} columns; give a row per answer"
        )
    if delimiter is None:
        fits = {one: _fit(lines, one, synonyms) for one in DELIMITERS.values() if one != SPACE}
        if not any(enough for enough, *_ in fits.values()):
            # Words within text agree by chance: spaces count only where nothing else splits at all.
            fits[SPACE] = _fit(lines, SPACE, synonyms)
        delimiter = max(fits, key=fits.__getitem__)
    else:
        delimiter = delimiter_of(delimiter)
    n_before = 0 if header is False else _count_titles(lines, delimiter, synonyms)
    rows = list(islice(_records(lines[n_before:], delimiter), SAMPLE_ROWS))
    sizes = {cell.strip() for cell in rows[0]}
    if header is not True and all(map(str.isdecimal, sizes)):
        n_lines = line_at(source.content, source.content.size) - 1
        if n_lines > 20 and sizes & {str(n_lines - 1), str(n_lines)}:
            n_before, rows = n_before + 1, rows[1:]
    first, doubtful, n_without = rows[0], False, 0
    if header is None:
        header, doubtful = _tell_header(first, rows[1:], synonyms)
    names = [str(at + 1) for at in range(len(first))]
    if header:
        rest = iter(lines[n_before:])
        next(_records(rest, delimiter))
        n_before = len(lines) - len(list(rest))
        rows = rows[1:]
        # as R writes rows, a name of their own before them; or an empty cell behind each
        if rows and all(len(row) == len(first) + 1 for row in rows):
            if not any(row[-1].strip() for row in rows):
                first = [*first, ""]
            elif len({row[0] for row in rows}) == len(rows):
                first = ["", *first]
        without = takewhile(lambda name: normalise(name) in _WITHOUT_CELLS, reversed(first))
        n_without = len(list(without))
        names = distinct([name.strip() or "unnamed" for name in first])
        if re.search("[\udc80-\udcff]", "".join(names)):
            refuse_undecodable(source)  # bytes that are no UTF-8 came through as surrogates
    start = len("".join(lines[:n_before]).encode("utf-8", errors="surrogateescape"))
    content = source.content.slice(start)
    body = DelimitedText(source, content, delimiter, len(first), n_before, bad_rows, n_without)
    found = (header, delimiter, first, doubtful, start, body.bad_lines)
    return Table(names, rows, body.fetch, body.lines_of, *found)


def distinct(names: Sequence[str]) -> list[str]:
    """Return names with those that come again told apart: label, label_2, label_3."""
    found, taken, times = list[str](), set(names), Counter[str]()
    for name in names:
        times[name] += 1
        numbered = (f"{name}_{n}" for n in itertools.count(times[name]))
        found.append(name if times[name] == 1 else next(n for n in numbered if n not in taken))
        taken.add(found[-1])
    return found


def _fit(lines: list[str], delimiter: str, synonyms: Synonyms) -> tuple[float, ...]:
    """Return how well a delimiter splits the lines, the largest is the best; its width last."""
    rows = list(islice(_records(lines, delimiter), SAMPLE_ROWS))
    width, n_agreeing = Counter(map(len, rows)).most_common(1)[0]
    has_tabs = delimiter == "\t" and width > 1  # by chance no text has as many in every row
    share, points = n_agreeing / len(rows), _points(rows[0], synonyms)
    return width >= len(synonyms), share, has_tabs, points, width


def _points(row: Row, synonyms: Synonyms) -> int:
    """Return how many names of a header a row holds; two make it one."""
    return sum(map(bool, find_roles(row, synonyms).values())) + names_of_tools(row)


def _records(lines: Iterable[str], delimiter: str) -> Iterator[Row]:
    """Yield the cells of each record, blank lines left out."""
    if delimiter == SPACE:
        lines = (line.replace("\t", " ").strip() for line in lines)
    return filter(None, csv.reader(lines, delimiter=delimiter, skipinitialspace=delimiter == SPACE))


def _count_titles(lines: list[str], delimiter: str, synonyms: Synonyms) -> int:
    """Return how many lines stand above the table: of one cell, or of any above a sure header."""
    *_, width = _fit(lines, delimiter, synonyms)
    for at, line in enumerate(lines[:MOST_TITLES]):
        row = next(_records([line], delimiter), [])
        n_filled = sum(1 for cell in row if cell.strip())
        is_short = n_filled < len(synonyms) or len(row) < width - 1
        if not is_short and not (line.startswith("#") and n_filled != width):
            below = list(islice(_records(lines[at:], delimiter), 1, SAMPLE_ROWS))
            n_cells = max(map(len, _records(lines[:at], delimiter)), default=0)
            is_sure = n_cells == 1 or _tell_header(row, below, synonyms)[0]
            return at if n_cells and is_sure else 0
        if line.count('"') % 2:
            return 0  # a name of several lines
    return 0


def _tell_header(first: Row, below: list[Row], synonyms: Synonyms) -> tuple[bool, bool]:
    """Return whether the first row is a header, and whether it only looks like one."""
    columns = [[row[at].strip() for row in below if at < len(row)] for at in range(len(first))]
    pairs = zip(map(str.strip, first), columns, strict=True)
    used = [(name, column) for name, column in pairs if name or any(column)]
    names, columns = [name for name, _ in used], [column for _, column in used]
    filled = [[cell for cell in column if cell not in ("", *MISSING)] for column in columns]
    numbers = [bool(cells) and all(map(is_number, cells)) for cells in filled]
    has_numbers = any(map(is_number, names))
    is_new = not any(name in column for name, column in used if name)
    are_words = all(re.search(r"[^\W\d]", name) and not re.search(r"\d", name) for name in names)
    doubtful, points = bool(below) and is_new and are_words, _points(first, synonyms)
    if doubtful:  # a point for ids below, two for numbers
        with_digits = (c and all(re.search(r"\d", cell) for cell in c) for c in columns)
        points += sum(numbers) + sum(map(bool, with_digits))
    # nameless, and tells rows apart: a data frame's index
    is_frame = len(names) > 2 and not names[0] and all(names[1:])
    is_frame = is_frame and len(set(columns[0])) == len(columns[0]) > 1
    # the first row alone holds no numbers where most columns hold nothing else
    is_above = not has_numbers and sum(numbers) >= max(2, len(names) / 2)
    # nowhere again above columns that repeat a few values
    n_few = sum(2 * len(set(column)) <= len(column) for column in columns)
    is_apart = len(below) >= 5 and is_new and not has_numbers and n_few >= 2
    # a known name, then the numbers of classes or workers
    counted = [int(name) for name in names[1:] if name.isdecimal()]
    is_numbered = points > 0 and not any(map(is_number, columns[0]))
    is_numbered = is_numbered and 1 < len(counted) == len(names) - 1 == counted[-1] - counted[0] + 1
    is_header = points >= 2 or is_frame or is_above or is_apart or is_numbered
    return is_header, doubtful and not is_header


@dataclass
class DelimitedText:
    """The rows of a text; those whose form is broken are left out where allowed.

    n_lines    how many lines of the source stand above the body
    bad_rows   how many of so many rows may be left out; None for none
    n_without  names at the header's end that a tool writes no cells for
    """

    source: Source
    body: Buffer
    delimiter: str
    width: int
    n_lines: int = 0
    bad_rows: Callable[[int], int] | None = None
    n_without: int = 0
    bad_lines: list[int] = field(default_factory=list)
    _line_numbers: list[int] | None = None  # of rows that were written anew

    def __post_init__(self) -> None:
        """Write runs of spaces and tabs as single spaces: pyarrow splits at every one of them."""
        if self.delimiter == SPACE:
            data = self.body.to_pybytes()
            if b'"' in data:  # what is quoted stays as it is
                quoted = rb'("[^"\n]*")|[ \t]+'
                data = re.sub(quoted, lambda found: found[1] or b" ", data)
            else:
                data = re.sub(rb" +", b" ", data.replace(b"\t", b" "))
            self.body = pa.py_buffer(re.sub(rb"(?m)^ +| +(?=\r?$)", b"", data))

    def lines_of(self, rows: Sequence[int]) -> list[int]:
        """Return the lines of rows, in one pass up to the last of them."""
        numbers = self._line_numbers
        if numbers is None:
            up_to_last = islice(self._numbered_rows(), max(rows, default=-1) + 1)
            numbers = [number for number, *_ in up_to_last]
        return [numbers[row] for row in rows]

    def fetch(self, positions: Sequence[int]) -> list[Any]:
        """Return columns by position, each once, in the order asked for."""
        try:
            return self.parse(positions)
        except InputError:
            if not self._mend():
                raise
            return self.parse(positions)

    def parse(self, positions: Sequence[int]) -> list[Any]:
        """Return columns as they are; an error if any row has another form than the first."""
        body, wanted = self.body, [f"f{position}" for position in positions]
        if not body.size:
            return [pa.array([], pa.string()).dictionary_encode() for _ in wanted]
        has_quotes = any(b'"' in chunk for chunk in chunks(body))
        if has_quotes and self._line_numbers is None:
            self._check_quotes()  # pyarrow takes all between two stray ones for one cell, unsaid
        options = (
            arrow_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=has_quotes),
            arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(wanted, pa.dictionary(pa.int32(), pa.string())),
                include_columns=list(dict.fromkeys(wanted)),
                strings_can_be_null=False,
            ),
        )
        names = [f"f{at}" for at in range(self.width)]
        for block in (BLOCK_BYTES, LARGEST_BLOCK):
            read = arrow_csv.ReadOptions(column_names=names, block_size=block)
            try:
                table = arrow_csv.read_csv(pa.BufferReader(body), read, *options)
                break
            except pa.ArrowInvalid as error:
                if "straddling" in str(error) and block < LARGEST_BLOCK:
                    continue  # a row longer than a block, which is rare
                refuse_undecodable(self.source)
                name, width = self.source.name, self.width
                for line, row, _ in self._numbered_rows():
                    if len(row) != width:
                        raise InputError(
                            f"{name}, line {line}: {len(row)} columns where the first row has "
                            f"{width}; quote cells that hold the delimiter, set --delimiter, or "
                            "leave such rows out with --max-bad-rows 1%"
                        ) from None
                raise InputError(f"{name}: {one_line(error)}; check the file's layout") from None
        return [table[name].combine_chunks() for name in wanted]

    def _mend(self) -> bool:
        """Write broken rows anew; return whether that can be done.

        Between tabs quotes are plain text if every line has as many cells without them. Cells that
        Mechanical Turk leaves out at the end are empty. Other rows are set aside, so many as the
        user allows.
        """
        if self._line_numbers is not None:
            return False
        width, least = self.width, self.width - self.n_without
        lines = filter(bytes.strip, self.body.to_pybytes().splitlines())
        is_plain = self.delimiter == "\t" and all(line.count(b"\t") == width - 1 for line in lines)
        stream, numbers, bad = io.StringIO(), [], []
        writer = csv.writer(stream, delimiter=self.delimiter, lineterminator="\n")
        quoting = csv.QUOTE_NONE if is_plain else csv.QUOTE_MINIMAL
        for number, row, _ in self._numbered_rows(quoting=quoting):
            if len(row) in (width, least):
                writer.writerow([*row, *[""] * (width - len(row))])
                numbers.append(number)
            else:
                bad.append(number)
        allowed = self.bad_rows(len(numbers) + len(bad)) if self.bad_rows is not None else 0
        if len(bad) > allowed or not (bad or is_plain or self.n_without):
            return False
        self.body = pa.py_buffer(stream.getvalue().encode("utf-8"))
        self.bad_lines.extend(bad)
        self._line_numbers = numbers
        return True

    def _numbered_rows(self, **form: Any) -> Iterator[tuple[int, Row, list[str]]]:
        """Yield line number, cells and lines of every row: slow, where something is wrong."""
        body = io.BytesIO(memoryview(self.body))
        text = io.TextIOWrapper(body, encoding="utf-8", errors="replace", newline="")
        number, lines = self.n_lines + 1, list[str]()

        def read() -> Iterator[str]:
            for line in text:
                lines.append(line)
                yield line

        try:
            for row in csv.reader(read(), delimiter=self.delimiter, **form):
                if row:
                    yield number, row, lines
                number += len(lines)
                lines.clear()
        except csv.Error:
            raise InputError(
                f"{self.source.name}, line {number}: a quote opens in this row and does not close, "
                "or text follows the one that closes; remove it, or double quotes within a cell "
                '("")'
            ) from None

    def _check_quotes(self) -> None:
        """Raise an InputError with the line of the first quote that cannot be meant."""
        data = np.frombuffer(self.body, dtype=np.uint8)
        quotes = np.flatnonzero(data == ord('"'))
        opening, closing = quotes[: len(quotes) // 2 * 2 : 2], quotes[1::2]
        # beside another one: a quote within the cell
        edges = np.frombuffer(f'{self.delimiter}\r\n"'.encode(), dtype=np.uint8)
        opens_well = (opening == 0) | np.isin(data[opening - 1], edges)
        closes_well = (closing == len(data) - 1) | np.isin(data[(closing + 1) % len(data)], edges)
        are_paired = len(quotes) % 2 == 0 and opens_well.all() and closes_well.all()
        breaks = np.flatnonzero(data == ord("\n"))
        n_within = np.searchsorted(breaks, closing) - np.searchsorted(breaks, opening)
        if are_paired and (self.source.quotes_span_lines or not n_within.any()):
            return
        n_spanning, swallowing = 0, dict[int, int]()  # line → number of lines
        for number, row, lines in self._numbered_rows(strict=True):
            if len(lines) == 1:
                continue
            n_spanning += 1
            n_lines = 1 + max(cell.count("\n") for cell in row)
            are_rows = all(line.count(self.delimiter) == self.width - 1 for line in lines)
            is_pair = are_rows and sum(line.count('"') for line in lines) == 2
            if is_pair or n_lines > MOST_LINES:
                swallowing[number] = n_lines
        n_rows = max(swallowing.values(), default=0)
        # Texts of several lines look like rows now and then; stray quotes do so each time.
        is_sure = 2 * len(swallowing) > n_spanning or n_rows > MOST_LINES
        if is_sure and not self.source.quotes_span_lines:
            line = max(swallowing, key=swallowing.__getitem__)
            raise InputError(
                f"{self.source.name}, line {line}: a quote opens here and closes below, which "
                f"would swallow rows ({n_rows:,}); remove the stray quotes, or say "
                "--quotes-span-lines if this is one cell"
            )
