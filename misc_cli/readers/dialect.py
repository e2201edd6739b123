"""Delimiter and header of a delimited file, found from its first rows.

The delimiter is the one that splits most rows into the same number of columns. The first row is a
header when it scores two points: known names, names above numbers, names that only tools give.
Anything less is data: a headerless file must never lose its first answer. Before the first row may
stand `sep=;`, comments (#) that do not split like the rows, and a title above a sure header. Rows
one cell longer than the header have a name of their own, as R writes it, or an empty last cell.
"""

from __future__ import annotations

import csv
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import Any

import numpy as np
import numpy.typing as npt

from misc_cli.errors import ConfigError, InputError
from misc_cli.readers.source import Buffer, count
from misc_cli.readers.values import is_number
from misc_cli.readers.vocabulary import find_roles, names_of_tools, normalise

MOST_BREAKS = 1000  # line breaks within one cell; --quotes-span-lines allows any number
CHUNK = 1 << 24
QUOTE = ord('"')

Positions = npt.NDArray[np.int64]
Span = tuple[Positions, Positions]  # first and last byte of every quoted cell


def check_quotes(
    name: str, body: Buffer, delimiter: str, first_line: int, width: int, *, spanning: bool
) -> None:
    """Raise an InputError with the line of the first quote that cannot be meant.

    `first_line` is the number of the body's first line, `width` how many columns its rows have,
    `spanning` that the user knows of cells with many lines.
    """
    data = np.frombuffer(body, dtype=np.uint8)
    quotes = _positions(data, QUOTE)
    ends = np.frombuffer(f"{delimiter}\r\n".encode(), dtype=np.uint8)
    cells = _paired(data, quotes, ends)
    if cells is None:
        cells = _scanned(name, body, ends, first_line)
    if not spanning:
        _refuse_swallowed(name, data, cells, ord(delimiter), first_line, width)


def _positions(data: Any, byte: int) -> Positions:
    found = [
        np.flatnonzero(data[start : start + CHUNK] == byte) + start
        for start in range(0, len(data), CHUNK)
    ]
    return np.concatenate(found) if found else np.array([], dtype=np.int64)


def _paired(data: Any, quotes: Positions, ends: Any) -> Span | None:
    """Return quoted cells if every quote opens or closes one, or is doubled within; else None."""
    if len(quotes) % 2:
        return None
    opening, closing = quotes[::2], quotes[1::2]
    doubled = closing[:-1] + 1 == opening[1:]  # closes and opens again: a quote within the cell
    starts = opening[np.append(True, ~doubled)]
    stops = closing[np.append(~doubled, True)]
    starts_well = (starts == 0) | np.isin(data[starts - 1], ends)
    stops_well = (stops == len(data) - 1) | np.isin(data[(stops + 1) % len(data)], ends)
    return (starts, stops) if starts_well.all() and stops_well.all() else None


def _scanned(name: str, body: Buffer, ends: Any, first_line: int) -> Span:
    """Return quoted cells where a quote may also stand within plain text (5" wide): one by one."""
    text = memoryview(body)
    boundary = re.escape(bytes(ends))
    opening = re.compile(rb"(?:\A|(?<=[" + boundary + rb']))"')
    cell = re.compile(rb'"[^"]*(?:""[^"]*)*"')
    starts, stops, at = [], [], 0
    while found := opening.search(text, at):
        whole = cell.match(text, found.start())
        line = first_line + bytes(text[: found.start()]).count(b"\n")
        if whole is None:
            raise InputError(
                f"{name}, line {line}: a quote opens in this row and does not close; "
                'close it, or double quotes within a cell ("")'
            )
        at = whole.end()
        if at < len(text) and text[at] not in ends:
            line += bytes(text[found.start() : at]).count(b"\n")
            raise InputError(
                f"{name}, line {line}: a quote closes in this row and text follows it; a stray "
                'quote? Remove it, or double quotes within a cell ("")'
            )
        starts.append(found.start())
        stops.append(at - 1)
    return np.array(starts, dtype=np.int64), np.array(stops, dtype=np.int64)


def _refuse_swallowed(
    name: str, data: Any, cells: Span, delimiter: int, first_line: int, width: int
) -> None:
    starts, stops = cells
    breaks = _positions(data, ord("\n"))
    before = np.searchsorted(breaks, starts)
    n_breaks = np.searchsorted(breaks, stops) - before
    spanning = np.flatnonzero(n_breaks)
    if not len(spanning):
        return
    many = spanning[n_breaks[spanning] > MOST_BREAKS]
    if len(many):
        raise _swallowed(name, first_line + int(before[many[0]]), int(n_breaks[many[0]]))
    delimiters = _positions(data, delimiter)
    edges = np.concatenate([[-1], breaks, [len(data)]])
    whole_rows = np.diff(np.searchsorted(delimiters, edges)) == width - 1  # by line of the body
    n_quotes = np.diff(np.searchsorted(_positions(data, QUOTE), edges))
    suspicious = []
    for at in spanning:
        lines = slice(before[at], before[at] + n_breaks[at] + 1)
        if whole_rows[lines].all() and n_quotes[lines].sum() == 2:
            suspicious.append(at)
    # Texts of several lines look like rows now and then; stray quotes do so each time.
    if 2 * len(suspicious) > len(spanning):
        at = suspicious[0]
        raise _swallowed(name, first_line + int(before[at]), int(n_breaks[at]))


def _swallowed(name: str, line: int, n_breaks: int) -> InputError:
    rows = "a row" if n_breaks == 1 else f"{n_breaks:,} rows"
    return InputError(
        f"{name}, line {line}: a quote opens here and closes {n_breaks:,} "
        f"{'line' if n_breaks == 1 else 'lines'} below, which would swallow {rows}; remove the "
        "stray quotes, or say --quotes-span-lines if this is one cell"
    )


SAMPLE_BYTES = 1 << 19
SAMPLE_ROWS = 1000
MOST_TITLES = 20  # lines above a header
SPACE = " "
DELIMITERS = {"comma": ",", "tab": "\t", "semicolon": ";", "pipe": "|", "space": SPACE}

_WITHOUT_CELLS = ("approve", "reject", "")  # named by Mechanical Turk, and left out of rows
_SAID = re.compile(r'"?sep=([^\r\n])"?\s*', re.IGNORECASE)

Row = list[str]


@dataclass(frozen=True)
class Dialect:
    """The layout of a delimited file.

    first_row  its first record
    start      where the rows of data begin, in bytes from the file's start
    doubtful   no header was recognised, but the first row looks like one
    sample     the first rows of data
    n_without_cells  names at the header's end that a tool writes no cells for
    """

    delimiter: str
    header: bool
    first_row: Row
    start: int
    doubtful: bool = False
    sample: list[Row] = field(default_factory=list)
    n_without_cells: int = 0


def delimiter_of(given: str | None) -> str | None:
    """Return the character behind --delimiter: itself or by its name."""
    if given is None:
        return None
    character = DELIMITERS.get(given.lower(), "\t" if given == "\\t" else given)
    if len(character) != 1 or character in '"\r\n' or not character.isascii():
        names = ", ".join(DELIMITERS)
        raise ConfigError(f"--delimiter {given!r}: give one character or one of {names}")
    return character


def sniff(
    content: Buffer,
    synonyms: dict[str, list[set[str]]],
    delimiter: str | None = None,
    header: bool | None = None,
) -> Dialect:
    """Return the layout of a file from its first rows; what is given is taken as it is."""
    lines = _sample_lines(content)
    n_before = 0
    said = _SAID.fullmatch(lines[0])
    if said and any(map(str.strip, lines[1:])):
        n_before, delimiter = 1, delimiter or delimiter_of(said[1])
    comments = list(takewhile(lambda line: line.startswith("#"), lines[n_before:]))
    below = lines[n_before + len(comments) :]
    if comments and any(map(str.strip, below)):
        found = delimiter or _delimiter(below, synonyms)
        n_before += _count_comments(comments, below, found, len(synonyms))
    delimiter = delimiter or _delimiter(lines[n_before:], synonyms)
    if header is not False:
        n_before += _count_titles(lines[n_before:], delimiter, synonyms)
    if header is not True:
        n_before += _is_of_sizes(content, lines[n_before:], delimiter)
    lines, before = lines[n_before:], lines[:n_before]
    rows = split_rows(lines, delimiter)
    doubtful = False
    if header is None:
        header = _is_header(rows[0], rows[1:], synonyms)
        doubtful = not header and len(rows) > 1 and _looks_like_names(rows[0], rows[1:])
    first = _first_record(lines, delimiter) if header else []
    start = sum(len(line.encode("utf-8", errors="surrogateescape")) for line in [*before, *first])
    sample = rows[1:] if header else rows
    names = _completed(rows[0], sample) if header else rows[0]
    without = list(takewhile(lambda name: normalise(name) in _WITHOUT_CELLS, reversed(names)))
    n_without = len(without) if header else 0
    return Dialect(delimiter, header, names, start, doubtful, sample, n_without)


def _is_of_sizes(content: Buffer, lines: list[str], delimiter: str) -> bool:
    """Return whether the first line says how many rows, workers and items follow (240 53 9600)."""
    first = next(records(lines[:1], delimiter), [])
    if len(first) < 2 or not all(cell.strip().isdigit() for cell in first[:4]):
        return False
    n_lines = count(content, b"\n")
    sizes = [int(cell) for cell in first if cell.strip().isdigit()]
    return n_lines > 20 and (n_lines - 1 in sizes or n_lines in sizes)


def _count_titles(lines: list[str], delimiter: str, synonyms: dict[str, list[set[str]]]) -> int:
    """Return how many lines stand above the header: a title, a date, blank ones."""
    for at, line in enumerate(lines[:MOST_TITLES]):
        row = next(records([line], delimiter), [])
        n_filled = sum(1 for cell in row if cell.strip())
        if n_filled >= len(synonyms) and len(set(row)) == len(row):
            names_roles = sum(map(bool, find_roles(row, synonyms).values())) >= 2
            is_header = names_roles or names_of_tools(row) >= 2
            return at if is_header and any(map(str.strip, lines[:at])) else 0
        if n_filled > 2 or '"' in line.replace('""', "").strip('"\r\n'):
            return 0
    return 0


def _completed(names: Row, below: list[Row]) -> Row:
    """Return the header, with a name for the one cell that every row has more than it."""
    if not below or any(len(row) != len(names) + 1 for row in below):
        return names
    if not any(row[-1].strip() for row in below):
        return [*names, ""]
    firsts = {row[0] for row in below}
    return ["", *names] if len(firsts) == len(below) else names


def _delimiter(lines: list[str], synonyms: dict[str, list[set[str]]]) -> str:
    return max(DELIMITERS.values(), key=lambda d: _fit(lines, d, synonyms))


def _count_comments(comments: list[str], below: list[str], delimiter: str, needed: int) -> int:
    """Return how many of the lines that begin with # cannot be rows of the table below."""
    width = len(next(records(below, delimiter), []))
    if width < needed:
        return 0
    widths = (len(next(records([line], delimiter), [])) for line in comments)
    return len(list(takewhile(lambda other: other != width, widths)))


def split_rows(lines: Iterable[str], delimiter: str) -> list[Row]:
    """Return the first records, blank lines left out."""
    return list(islice(records(lines, delimiter), SAMPLE_ROWS))


def records(lines: Iterable[str], delimiter: str) -> Iterator[Row]:
    if delimiter == SPACE:
        stripped = (line.strip(" \t\r\n") for line in lines)
        return (_words(line) for line in stripped if line)
    return filter(None, csv.reader(lines, delimiter=delimiter))


def _words(line: str) -> Row:
    """Return cells between runs of spaces; spaces within quotes are text, as R writes it."""
    if line.startswith('"') or ' "' in line:
        quoted = re.findall(r'"(?:[^"]|"")*"(?=[ \t]|$)|[^ \t]+', line)
        return [_unquoted(cell) for cell in quoted]
    return re.split(r"[ \t]+", line)


def _unquoted(cell: str) -> str:
    whole = len(cell) > 1 and cell[0] == cell[-1] == '"'
    return cell[1:-1].replace('""', '"') if whole else cell


def _sample_lines(content: Buffer) -> list[str]:
    """Return whole lines from the file's start, two or more where it has them, however long."""
    csv.field_size_limit(sys.maxsize)  # the default refuses cells above 128 KiB
    size = SAMPLE_BYTES
    sample = bytes(memoryview(content)[:size])
    while size < len(memoryview(content)) and b"\n" not in sample.strip():
        size *= 4
        sample = bytes(memoryview(content)[:size])
    lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", sample.decode("utf-8", errors="surrogateescape"))
    if size < len(memoryview(content)) and len(lines) > 1:
        lines.pop()  # cut in the middle
    return [line for line in lines if line]


def _fit(
    lines: list[str], delimiter: str, synonyms: dict[str, list[set[str]]]
) -> tuple[bool, float, int, int]:
    """Return how well a delimiter splits the sample: comparable, larger is better."""
    rows = split_rows(lines, delimiter)
    width, n_agreeing = Counter(map(len, rows)).most_common(1)[0]
    named = sum(map(bool, find_roles(rows[0], synonyms).values()))
    # Words within text agree by chance, so spaces count only where nothing else splits at all.
    enough = width >= len(synonyms)
    if delimiter == SPACE and enough:
        return True, 0.0, named, width
    return enough, n_agreeing / len(rows), named, width


def _is_header(first: Row, below: list[Row], synonyms: dict[str, list[set[str]]]) -> bool:
    if _is_nameless_index(first, below):
        return True
    points = sum(map(bool, find_roles(first, synonyms).values()))
    if points < 2 and _is_above_numbers(first, below):
        return True
    if points < 2 and below and _looks_like_names(first, below):
        for at in range(len(first)):
            cells = [row[at].strip() for row in below if at < len(row)]
            if cells and all(map(is_number, cells)):
                points += 2
            elif cells and all(re.search(r"\d", cell) for cell in cells):
                points += 1
    if points < 2:
        points += min(2, names_of_tools(first))
    return points >= 2 or (len(below) >= 5 and _is_new(first, below))


def _is_above_numbers(first: Row, below: list[Row]) -> bool:
    """Return whether the first row alone holds no numbers where most columns hold nothing else."""
    names = [cell.strip() for cell in first]
    if any(map(is_number, names)) or 2 * len(set(filter(None, names))) < len(first):
        return False
    columns = list(zip(*(row for row in below if len(row) == len(first)), strict=True))
    cells = [[cell for cell in column if cell.strip() not in ("", "NA")] for column in columns]
    return sum(bool(own) and all(map(is_number, own)) for own in cells) >= max(2, len(first) / 2)


def _is_nameless_index(first: Row, below: list[Row]) -> bool:
    """Return whether the first column, nameless, tells rows apart: a data frame's index."""
    names = [cell.strip() for cell in first]
    if len(names) < 3 or names[0] or not all(names[1:]) or any(map(is_number, names[1:2])):
        return False
    index = [row[0].strip() for row in below if row]
    return len(index) > 1 and all(index) and len(set(index)) == len(index)


def _is_new(first: Row, below: list[Row]) -> bool:
    """Return whether the first row comes back nowhere above columns that repeat a few values."""
    cells = [cell.strip() for cell in first]
    if len(set(cells)) < len(cells) or any(not cell or is_number(cell) for cell in cells):
        return False
    n_few = 0
    for at, cell in enumerate(cells):
        values = [row[at].strip() for row in below if at < len(row)]
        if cell in values:
            return False
        n_few += 2 * len(set(values)) <= len(values)
    return n_few >= 2


def _looks_like_names(first: Row, below: list[Row]) -> bool:
    names = [cell.strip() for cell in first]
    if len(set(names)) < len(names):
        return False
    if not all(re.search(r"[^\W\d]", name) and not re.search(r"\d", name) for name in names):
        return False
    return not any(
        name == row[at].strip() for row in below for at, name in enumerate(names) if at < len(row)
    )


def _first_record(lines: list[str], delimiter: str) -> list[str]:
    """Return the lines of the first record, blank lines before it included."""
    consumed: list[str] = []

    def watched() -> Iterator[str]:
        for line in lines:
            consumed.append(line)
            yield line

    next(records(watched(), delimiter), None)
    return consumed
