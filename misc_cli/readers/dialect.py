"""Delimiter and header of a delimited file, found from its first rows.

The delimiter is the one that splits most rows into the same number of columns. The first row is a
header when it scores two points: known names, names above numbers, names that only tools give.
Anything less is data: a headerless file must never lose its first answer. Before the first row may
stand `sep=;`, comments (#) that do not split like the rows, sizes (240 53 9600) and a title above a
sure header. Rows one cell longer than the header have a name of their own, as R writes it, or an
empty last cell.
"""

from __future__ import annotations

import csv
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice, takewhile

from misc_cli.readers.options import DELIMITERS, delimiter_of
from misc_cli.readers.source import Buffer, count
from misc_cli.readers.values import is_number
from misc_cli.readers.vocabulary import find_roles, names_of_tools, normalise

SAMPLE_BYTES = 1 << 19
SAMPLE_ROWS = 1000
MOST_TITLES = 20  # lines above a header
SPACE = " "

_WITHOUT_CELLS = ("approve", "reject", "")  # named by Mechanical Turk, and left out of rows
_SAID = re.compile(r'"?sep=([^\r\n])"?\s*', re.IGNORECASE)

Row = list[str]
Synonyms = dict[str, list[set[str]]]


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


def sniff(
    content: Buffer, synonyms: Synonyms, delimiter: str | None = None, header: bool | None = None
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
        width = len(next(records(below, found), []))
        widths = (len(next(records([line], found), [])) for line in comments)
        if width >= len(synonyms):
            n_before += len(list(takewhile(lambda other: other != width, widths)))
    delimiter = delimiter or _delimiter(lines[n_before:], synonyms)
    if header is not False:
        n_before += _count_titles(lines[n_before:], delimiter, synonyms)
    if header is not True:
        n_before += _are_sizes(content, next(records(lines[n_before:], delimiter), []))
    rows = list(islice(records(lines[n_before:], delimiter), SAMPLE_ROWS))
    doubtful = False
    if header is None:
        header, doubtful = _tell_header(rows[0], rows[1:], synonyms)
    if not header:
        start, names, sample = n_before, rows[0], rows
        n_without = 0
    else:
        start = n_before + _count_first(lines[n_before:], delimiter)
        names, sample = _completed(rows[0], rows[1:]), rows[1:]
        without = takewhile(lambda name: normalise(name) in _WITHOUT_CELLS, reversed(names))
        n_without = len(list(without))
    n_bytes = len("".join(lines[:start]).encode("utf-8", errors="surrogateescape"))
    return Dialect(delimiter, header, names, n_bytes, doubtful, sample, n_without)


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


def _delimiter(lines: list[str], synonyms: Synonyms) -> str:
    """Return the delimiter that splits the lines best."""

    def fit(delimiter: str) -> tuple[bool, float, int, int]:
        rows = list(islice(records(lines, delimiter), SAMPLE_ROWS))
        width, n_agreeing = Counter(map(len, rows)).most_common(1)[0]
        named = sum(map(bool, find_roles(rows[0], synonyms).values()))
        # Words within text agree by chance: spaces count only where nothing else splits at all.
        enough = width >= len(synonyms)
        alike = 0.0 if delimiter == SPACE and enough else n_agreeing / len(rows)
        return enough, alike, named, width

    return max(DELIMITERS.values(), key=fit)


def records(lines: Iterable[str], delimiter: str) -> Iterator[Row]:
    """Yield the cells of each record, blank lines left out."""
    if delimiter == SPACE:
        stripped = (line.strip(" \t\r\n") for line in lines)
        return (_words(line) for line in stripped if line)
    return filter(None, csv.reader(lines, delimiter=delimiter))


def _words(line: str) -> Row:
    """Return cells between runs of spaces; spaces within quotes are text, as R writes it."""
    if not line.startswith('"') and ' "' not in line:
        return re.split(r"[ \t]+", line)
    cells = re.findall(r'"(?:[^"]|"")*"(?=[ \t]|$)|[^ \t]+', line)
    return [
        cell[1:-1].replace('""', '"') if len(cell) > 1 and cell[0] == cell[-1] == '"' else cell
        for cell in cells
    ]


def _count_first(lines: list[str], delimiter: str) -> int:
    """Return how many lines the first record takes, blank lines before it included."""
    if delimiter == SPACE:
        return 1 + next(at for at, line in enumerate(lines) if line.strip())
    reader = csv.reader(lines, delimiter=delimiter)
    next(filter(None, reader))
    return reader.line_num


def _are_sizes(content: Buffer, first: Row) -> bool:
    """Return whether the first line says how many rows, workers and items follow (240 53 9600)."""
    if len(first) < 2 or not all(cell.strip().isdigit() for cell in first[:4]):
        return False
    n_lines = count(content, b"\n")
    sizes = [int(cell) for cell in first if cell.strip().isdigit()]
    return n_lines > 20 and (n_lines - 1 in sizes or n_lines in sizes)


def _count_titles(lines: list[str], delimiter: str, synonyms: Synonyms) -> int:
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


def _tell_header(first: Row, below: list[Row], synonyms: Synonyms) -> tuple[bool, bool]:
    """Return whether the first row is a header, and whether it only looks like one."""
    names = [cell.strip() for cell in first]
    columns = [[row[at].strip() for row in below if at < len(row)] for at in range(len(names))]
    numbers = [
        bool(filled) and all(map(is_number, filled))
        for filled in ([c for c in column if c not in ("", "NA")] for column in columns)
    ]
    has_numbers = any(map(is_number, names))
    # distinct, and no cell comes back below
    is_new = len(set(names)) == len(names) and not any(
        name in column for name, column in zip(names, columns, strict=True)
    )
    are_words = is_new and all(re.search(r"[^\W\d]", n) and not re.search(r"\d", n) for n in names)
    doubtful = bool(below) and are_words
    points = sum(map(bool, find_roles(first, synonyms).values()))
    if points >= 2:
        return True, doubtful
    if len(names) > 2 and not names[0] and all(names[1:]) and not is_number(names[1]):
        index = columns[0]  # nameless, and tells rows apart: a data frame's index
        if len(index) > 1 and all(index) and len(set(index)) == len(index):
            return True, doubtful
    # the first row alone holds no numbers where most columns hold nothing else
    some_named = 2 * len(set(filter(None, names))) >= len(names)
    if not has_numbers and some_named and sum(numbers) >= max(2, len(names) / 2):
        return True, doubtful
    if doubtful:
        for column in columns:
            if column and all(map(is_number, column)):
                points += 2
            elif column and all(re.search(r"\d", cell) for cell in column):
                points += 1
    if points < 2:
        points += min(2, names_of_tools(first))
    # nowhere again above columns that repeat a few values
    n_few = sum(2 * len(set(column)) <= len(column) for column in columns)
    is_apart = len(below) >= 5 and is_new and all(names) and not has_numbers and n_few >= 2
    is_header = points >= 2 or is_apart
    return is_header, doubtful and not is_header
