"""Tables as text: one renderer for every command.

On a terminal a row is one line: columns that a table can spare give way where the screen is too
narrow, and no cell is ever cut. Elsewhere every column is shown.
"""

from __future__ import annotations

import os
import re
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

    def lines(self, width: int | None, styled: bool) -> list[str]:
        """Return the table as lines of text, fitted to a width."""
        bold = (lambda text: f"{BOLD}{text}{PLAIN}") if styled else str
        lines = [bold(printable(self.title))] if self.title else []
        if self.rows:
            shown = [[printable(cell) for cell in row] for row in self.rows]
            table = replace(self, header=list(map(printable, self.header)), rows=shown)
            table = table.fitted(width)
            widths = table.widths()
            if table.header:
                lines += [bold(table._line(table.header, widths))]
                lines += [table._line(row, widths) for row in table.rows]
            for row in table.rows if not table.header else ():
                start = sum(widths[:-1]) + len(GAP) * (len(widths) - 1)
                lines += below(table._line(row[:-1], widths[:-1]), row[-1], start, width)
        for note in self.notes:
            lines += wrapped(printable(note), width)
        return lines

    def _line(self, row: Cells, widths: Sequence[int]) -> str:
        cells = []
        for at, (cell, size) in enumerate(zip(row, widths, strict=True)):
            room = " " * (size - columns_of(cell))
            cells.append(cell + room if self.is_left(at) else room + cell)
        return GAP.join(cells).rstrip()


def columns_of(text: str) -> int:
    """Return the columns that a text takes on a terminal: two for a Chinese sign, say."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(sign) in "WF" for sign in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def below(name: str, value: str, start: int, width: int | None) -> list[str]:
    """Return the lines of a name and its value, which begins at `start` and goes on below."""
    rest = wrapped(value, None if width is None else max(width - start, 20)) or [""]
    before = name + " " * (start - columns_of(name))
    return [f"{before}{rest[0]}".rstrip(), *(" " * start + line for line in rest[1:])]


def wrapped(text: str, width: int | None) -> list[str]:
    """Return a text in lines of whole words; a longer word is a line of its own."""
    if width is None or columns_of(text) <= width:
        return [text]
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def plain(tables: Sequence[Table], width: int | None = None, *, styled: bool = False) -> str:
    """Return tables as text, one below the other, each fitted to the width of a screen."""
    return "\n\n".join("\n".join(table.lines(width, styled)) for table in tables) + "\n"


def markdown(tables: Sequence[Table]) -> str:
    """Return tables as Markdown; a bar inside a cell is escaped."""
    blocks = []
    for table in tables:
        if table.title:
            blocks.append(f"### {table.title}" if table.rows else table.title)
        if table.rows:
            header = table.header or [""] * len(table.rows[0])
            rule = ["---" if table.is_left(at) else "---:" for at in range(len(header))]
            cells = [
                [printable(cell).replace("|", "\\|") for cell in row]
                for row in (header, rule, *table.rows)
            ]
            blocks.append("\n".join(f"| {' | '.join(row)} |" for row in cells))
        blocks += table.notes
    return "\n\n".join(blocks) + "\n"


_SPECIAL = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    **{"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "–": "--", "±": r"$\pm$", "×": r"$\times$"},
}


def latex(tables: Sequence[Table]) -> str:
    """Return tables for LaTeX, which need no package."""
    lines = []
    for table in tables:
        rows = [
            [re.sub(r".", lambda sign: _SPECIAL.get(sign[0], sign[0]), cell) for cell in row]
            for row in (table.header, *table.rows)
        ]
        body = [" & ".join(row).replace(" *", "$^{*}$") + r" \\" for row in rows]
        columns = "l" + "r" * (len(table.header) - 1)
        lines += [f"% {table.title}", f"\\begin{{tabular}}{{{columns}}}", "\\hline"]
        lines += [body[0], "\\hline", *body[1:], "\\hline", "\\end{tabular}"]
        lines += [f"% {note}" for note in table.notes]
    return "\n".join([*lines, ""])


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
    """Print tables on stdout, if there is one: fitted to a terminal, whole anywhere else."""
    if sys.stdout is None:  # closed by the caller, who wants only the file
        return
    from misc_cli.writers.output_set import to_stdout

    clear_line[0]()
    styled = is_terminal() and os.environ.get("TERM") != "dumb"
    text = plain(tables, screen_width(), styled=styled)
    to_stdout(lambda stream: print(text, end=""))  # flushed, before stderr says more of it
