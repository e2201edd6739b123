"""Tables as text: one renderer for every command.

On a terminal a row is one line: columns that a table can spare give way where the screen is too
narrow, and no cell is ever cut. Elsewhere every column is shown.
"""

from __future__ import annotations

import os
import sys
import textwrap
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TextIO

from misc_cli.errors import printable

Cells = Sequence[str]
GAP = "  "
USUAL_WIDTH = 80
clear_line: list[Callable[[], None]] = [lambda: None]  # what removes the live line of a console
BOLD, PLAIN = "\x1b[1m", "\x1b[0m"


@dataclass(frozen=True)
class Table:
    """Cells as text; the first `left` columns are names and go to the left, numbers to the right.

    The columns of `texts` go to the left too. Those of `spare` give way on a narrow screen, the
    first of them first. Lines of `notes` follow the table. A table without rows is its title and
    notes, one without a header a list of facts: a name and a value that may go on in the next line.
    """

    title: str
    header: Cells = ()
    rows: Sequence[Cells] = ()
    left: int = 1
    notes: Sequence[str] = ()
    texts: Sequence[str] = ()
    spare: Sequence[str] = ()

    def is_left(self, at: int) -> bool:
        return not self.header or at < self.left or self.header[at] in self.texts

    def widths(self) -> list[int]:
        """Return the width of each column, that of its widest cell."""
        rows = [self.header, *self.rows] if self.header else self.rows
        return [max(map(columns_of, column)) for column in zip(*rows, strict=True)]

    def fitted(self, width: int | None) -> Table:
        """Return the table without the spare columns that `width` has no room for."""
        if not self.header or width is None:
            return self
        sizes = dict(zip(self.header, self.widths(), strict=True))
        for name in self.spare:
            if sum(sizes.values()) + len(GAP) * (len(sizes) - 1) <= width:
                break
            sizes.pop(name, None)
        kept = [at for at, name in enumerate(self.header) if name in sizes]
        rows = [[row[at] for at in kept] for row in self.rows]
        left = sum(at < self.left for at in kept)
        return replace(self, header=[self.header[at] for at in kept], rows=rows, left=left)


def columns_of(text: str) -> int:
    """Return the columns that a text takes on a terminal: two for a Chinese sign, say."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(sign) in "WF" for sign in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def plain(tables: Sequence[Table], width: int | None = None, *, styled: bool = False) -> str:
    """Return tables as text, one below the other, each fitted to the width of a screen."""
    return "\n\n".join("\n".join(_lines(table, width, styled)) for table in tables) + "\n"


def _lines(table: Table, width: int | None, styled: bool) -> list[str]:
    bold = (lambda text: f"{BOLD}{text}{PLAIN}") if styled else str
    lines = [bold(printable(table.title))] if table.title else []
    if table.rows:
        shown = [[printable(cell) for cell in row] for row in table.rows]
        table = replace(table, header=list(map(printable, table.header)), rows=shown)
        table = table.fitted(width)
        widths = table.widths()
        if table.header:
            lines += [bold(_line(table, table.header, widths))]
            lines += [_line(table, row, widths) for row in table.rows]
        else:
            for row in table.rows:
                lines += facts(_line(table, row[:-1], widths[:-1]), row[-1], widths[:-1], width)
    for note in table.notes:
        lines += wrapped(printable(note), width)
    return lines


def _line(table: Table, row: Cells, widths: Sequence[int]) -> str:
    cells = []
    for at, (cell, size) in enumerate(zip(row, widths, strict=True)):
        room = " " * (size - columns_of(cell))
        cells.append(cell + room if table.is_left(at) else room + cell)
    return GAP.join(cells).rstrip()


def facts(name: str, value: str, widths: Sequence[int], width: int | None) -> list[str]:
    """Return the lines of a name and its value, which goes on below itself."""
    start = sum(widths) + len(GAP) * len(widths)
    rest = wrapped(value, None if width is None else max(width - start, 20)) or [""]
    before = name + " " * (start - columns_of(name))
    return [f"{before}{rest[0]}".rstrip(), *(" " * start + line for line in rest[1:])]


def wrapped(text: str, width: int | None) -> list[str]:
    """Return a text in lines of whole words; a longer word is a line of its own."""
    if width is None or columns_of(text) <= width:
        return [text]
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def markdown(tables: Sequence[Table]) -> str:
    """Return tables as Markdown; a bar inside a cell is escaped."""
    blocks = []
    for table in tables:
        if table.title:
            blocks.append(f"### {table.title}" if table.rows else table.title)
        if table.rows:
            header = table.header or [""] * len(table.rows[0])
            rule = ["---" if table.is_left(at) else "---:" for at in range(len(header))]
            rows = [header, rule, *table.rows]
            blocks.append(
                "\n".join(
                    "| " + " | ".join(printable(cell).replace("|", "\\|") for cell in row) + " |"
                    for row in rows
                )
            )
        blocks += table.notes
    return "\n\n".join(blocks) + "\n"


def screen_width(stream: TextIO | None = None) -> int | None:
    """Return the columns of the terminal that a stream is, stdout unless given; None if none."""
    stream = stream or sys.stdout
    if stream is None or not stream.isatty():
        return None
    given = os.environ.get("COLUMNS", "")
    if given.isdigit() and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size(stream.fileno()).columns or USUAL_WIDTH
    except (OSError, ValueError):
        return USUAL_WIDTH


def is_terminal() -> bool:
    """Tell whether stdout is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def print_tables(tables: Sequence[Table]) -> None:
    """Print tables on stdout: fitted to a terminal, whole anywhere else."""
    if sys.stdout is None:  # closed by the caller, who wants only the file
        return
    clear_line[0]()
    styled = is_terminal() and os.environ.get("TERM") != "dumb"
    sys.stdout.write(plain(tables, screen_width(), styled=styled))
    sys.stdout.flush()  # before stderr says more of it on the same screen
