"""Delimiter and header of a delimited file, found from its first rows.

Delimiter: comma, tab, semicolon, pipe or runs of spaces, whichever splits most rows into the same
number of columns, at least as many as are needed; of equals the one whose first row names more of
the columns sought, then the one with more columns.

Header: the first row is a header when it scores two points. A cell that is a known name of a
column sought scores one. If besides the row looks like names (every cell has letters and no digit,
all differ, none comes again below it), a column in which every row below holds a digit scores one,
and one in which every row below is a number scores two. Names that only tools give (`timestamp`,
`rater_1`, `rater_2`) score, too; and a first row that comes back nowhere, above two or more columns
that repeat a few values, is a header. Anything less is data: a headerless file must never lose its
first answer.

Before the first row: `sep=;`, as spreadsheets write it, names the delimiter; lines that begin with
# and do not split into as many columns as the row after them are comments; lines with one or two
filled cells above a row that is surely a header are its title. No file that could be read
otherwise begins like that.

Rows that are all one cell longer than the header: the first cell is the row's name, as R writes it,
or the last one is empty, because each row ends in a delimiter.
"""

from __future__ import annotations

import csv
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile

from misc_cli.errors import ConfigError
from misc_cli.io.source import Buffer
from misc_cli.io.vocabulary import find_roles, names_of_tools

SAMPLE_BYTES = 1 << 18
SAMPLE_ROWS = 200
MOST_TITLES = 20  # lines above a header
SPACE = " "
DELIMITERS = {"comma": ",", "tab": "\t", "semicolon": ";", "pipe": "|", "space": SPACE}

_SAID = re.compile(r'"?sep=([^\r\n])"?\s*', re.IGNORECASE)

Row = list[str]


@dataclass(frozen=True)
class Dialect:
    """How a file is laid out.

    first_row  its first record
    start      where the rows of data begin, in bytes from the file's start
    doubtful   no header was recognised, but the first row looks like one
    sample     the first rows of data
    """

    delimiter: str
    header: bool
    first_row: Row
    start: int
    doubtful: bool = False
    sample: list[Row] = field(default_factory=list)


def delimiter_of(given: str | None) -> str | None:
    """The character behind --delimiter: itself or its name."""
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
    """Layout of the file from its first rows; what is given is taken as it is."""
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
    return Dialect(delimiter, header, names, start, doubtful, sample)


def _count_titles(lines: list[str], delimiter: str, synonyms: dict[str, list[set[str]]]) -> int:
    """How many lines stand above the header: a title, a date, blank ones."""
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
    """The header, with a name for the one cell that every row has more than it."""
    if not below or any(len(row) != len(names) + 1 for row in below):
        return names
    if not any(row[-1].strip() for row in below):
        return [*names, ""]
    firsts = {row[0] for row in below}
    return ["", *names] if len(firsts) == len(below) else names


def _delimiter(lines: list[str], synonyms: dict[str, list[set[str]]]) -> str:
    return max(DELIMITERS.values(), key=lambda d: _fit(lines, d, synonyms))


def _count_comments(comments: list[str], below: list[str], delimiter: str, needed: int) -> int:
    """How many of the lines that begin with # cannot be rows of the table below them."""
    width = len(next(records(below, delimiter), []))
    if width < needed:
        return 0
    widths = (len(next(records([line], delimiter), [])) for line in comments)
    return len(list(takewhile(lambda other: other != width, widths)))


def split_rows(lines: Iterable[str], delimiter: str) -> list[Row]:
    """The first records, blank lines left out."""
    rows: list[Row] = []
    for row in records(lines, delimiter):
        rows.append(row)
        if len(rows) == SAMPLE_ROWS:
            break
    return rows


def records(lines: Iterable[str], delimiter: str) -> Iterator[Row]:
    if delimiter == SPACE:
        stripped = (line.strip(" \t\r\n") for line in lines)
        return (_words(line) for line in stripped if line)
    return filter(None, csv.reader(lines, delimiter=delimiter))


def _words(line: str) -> Row:
    """Cells between runs of spaces; spaces within quotes count as text, as R writes it."""
    if line.startswith('"') or ' "' in line:
        quoted = re.findall(r'"(?:[^"]|"")*"(?=[ \t]|$)|[^ \t]+', line)
        return [_unquoted(cell) for cell in quoted]
    return re.split(r"[ \t]+", line)


def _unquoted(cell: str) -> str:
    whole = len(cell) > 1 and cell[0] == cell[-1] == '"'
    return cell[1:-1].replace('""', '"') if whole else cell


def _sample_lines(content: Buffer) -> list[str]:
    """Whole lines from the start of the file, two or more where it has them, however long."""
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
    """How well a delimiter splits the sample: comparable, larger is better."""
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
    if points < 2 and below and _looks_like_names(first, below):
        for at in range(len(first)):
            cells = [row[at].strip() for row in below if at < len(row)]
            if cells and all(map(_is_number, cells)):
                points += 2
            elif cells and all(re.search(r"\d", cell) for cell in cells):
                points += 1
    if points < 2:
        points += min(2, names_of_tools(first))
    return points >= 2 or (len(below) >= 5 and _is_new(first, below))


def _is_nameless_index(first: Row, below: list[Row]) -> bool:
    """Names but for the first column, which counts the rows or names each: a data frame's index."""
    names = [cell.strip() for cell in first]
    if len(names) < 3 or names[0] or not all(names[1:]) or len(set(names)) < len(names):
        return False
    index = [row[0].strip() for row in below if row]
    return len(index) > 1 and all(index) and len(set(index)) == len(index)


def _is_new(first: Row, below: list[Row]) -> bool:
    """Whether the first row has nothing to do with columns that repeat a few values below it."""
    cells = [cell.strip() for cell in first]
    if len(set(cells)) < len(cells) or any(not cell or _is_number(cell) for cell in cells):
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


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _first_record(lines: list[str], delimiter: str) -> list[str]:
    """The lines of the first record, blank lines before it included."""
    consumed: list[str] = []

    def watched() -> Iterator[str]:
        for line in lines:
            consumed.append(line)
            yield line

    next(records(watched(), delimiter), None)
    return consumed
