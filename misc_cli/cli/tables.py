"""Results of commands: tables as text, Markdown and LaTeX, JSON, and files by their names.

On a terminal a row is one line: columns that a table can spare give way where the screen is too
narrow, and no cell is ever cut. Elsewhere every column is shown.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from misc_cli.cli.console import below, columns_of, screen_width, wrapped
from misc_cli.errors import printable
from misc_cli.version import SCHEMA

if TYPE_CHECKING:
    import pandas as pd

Cells = Sequence[str]
GAP = "  "
FEW = 12  # entries of a list that a table shows; --json has them all


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

    def lines(self, width: int | None) -> list[str]:
        """Return the table as lines of text, fitted to a width."""
        lines = [printable(self.title)] if self.title else []
        if self.rows:
            shown = [[printable(cell) for cell in row] for row in self.rows]
            table = replace(self, header=list(map(printable, self.header)), rows=shown)
            table = table.fitted(width)
            widths = table.widths()
            if table.header:
                lines += [table._line(table.header, widths)]
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


def plain(tables: Sequence[Table], width: int | None = None) -> str:
    """Return tables as text, one below the other, each fitted to the width of a screen."""
    return "\n\n".join("\n".join(table.lines(width)) for table in tables) + "\n"


def facts_of(facts: Mapping[str, Any], hidden: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Return a row of name and value in words for each fact; what is empty is left out."""

    def words(value: Any) -> str:
        if isinstance(value, dict):
            value = [f"{name}: {words(one)}" for name, one in value.items()]
        if isinstance(value, list | tuple):
            nested = any(isinstance(one, list | tuple) for one in value)
            few = ("; " if nested else ", ").join(map(words, value[:FEW]))
            return few + (f", … ({len(value):,} in all)" if len(value) > FEW else "")
        if isinstance(value, bool):
            return "yes" if value else "no"
        return f"{value:,}" if isinstance(value, int | float) else str(value)

    told = {name: value for name, value in facts.items() if name not in hidden}
    empty: tuple[Any, ...] = (None, "", [], (), {})
    kept = {name: one for name, one in told.items() if one is not False and one not in empty}
    return [(name.replace("_", " "), words(one)) for name, one in kept.items()]


def markdown(tables: Sequence[Table]) -> str:
    """Return tables as Markdown; a bar inside a cell is escaped."""
    blocks = []
    for table in tables:
        rule = ["---" if table.is_left(at) else "---:" for at in range(len(table.header))]
        rows = [
            " | ".join(printable(cell).replace("|", "\\|") for cell in row)
            for row in (table.header, rule, *table.rows)
        ]
        lines = "\n".join(f"| {row} |" for row in rows)
        blocks += [f"### {table.title}", lines, *table.notes]
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


def print_tables(tables: Sequence[Table]) -> None:
    """Print tables on stdout, if there is one: fitted to a terminal, whole anywhere else."""
    if sys.stdout is None:  # closed by the caller, who wants only the file
        return
    from misc_cli.writers.output_set import to_stdout

    text = plain(tables, screen_width())
    to_stdout(lambda stream: print(text, end=""))  # flushed, before stderr says more of it


PAGES = {".md": markdown, ".tex": latex}


def place_of(
    given: str | None, inputs: Sequence[str], *kinds: str, as_json: bool = False
) -> Path | None:
    """Return the file that -o names, None for stdout, once it is sure that it can be written.

    `kinds` are the suffixes that it may have, those of tables unless given.
    """
    from misc_cli.readers.addresses import check_stdin_once
    from misc_cli.writers.output_paths import check_writable, output_file

    check_stdin_once(list(inputs))
    place = output_file(given, *((".json",) if as_json else kinds))
    check_writable([] if place is None else [place], inputs)
    return place


def deliver(
    shown: Sequence[Table],
    place: Path | None,
    facts: Mapping[str, Any],
    columns: Mapping[str, Any] | None = None,
    *,
    as_json: bool = False,
) -> None:
    """Write a result: `facts` as JSON, `columns` as a table of data, else the tables `shown`.

    Without a file, and unless JSON is asked for, the tables go to stdout.
    """
    suffix = "" if place is None else place.suffix.lower()
    if as_json or suffix == ".json":
        write(json_bytes(**facts), place)
    elif suffix in PAGES:
        write(PAGES[suffix](shown).encode(), place)
    elif place is not None and columns is not None:
        write_columns(columns, place)
    else:
        print_tables(shown)


def write(content: Any, place: Path | None = None) -> None:
    """Write bytes, or what a function writes, to the file, whole or not at all, or to stdout."""
    from misc_cli.writers.output_set import to_stdout, write_all

    if place is not None:
        write_all({place: content})
    else:
        to_stdout(content if callable(content) else lambda stream: stream.write(content))


def write_columns(columns: Mapping[str, Any], place: Path | None) -> None:
    """Write a table in the format of the file's name; CSV on stdout."""
    from misc_cli.writers.tables import write_table

    write(partial(write_table, columns, name="" if place is None else place.name), place)


def write_frame(frame: pd.DataFrame, place: Path | None, title: str) -> None:
    """Write a data frame in the format of the file's name, an .xlsx as one sheet; CSV on stdout."""
    import pyarrow as pa

    if place is not None and place.name.lower().endswith(".xlsx"):
        from misc_cli.report.workbook import made

        write(made({title: frame}), place)
        return
    columns: dict[str, Any] = {}
    for name, column in frame.items():
        values = pa.array(column.to_numpy(), from_pandas=True)
        columns[str(name)] = values.cast(pa.int8()) if pa.types.is_boolean(values.type) else values
    write_columns(columns, place)


def json_bytes(**value: Any) -> bytes:
    """Return one JSON object with the schema version, for --json and .json files."""
    text = json.dumps({"schema": SCHEMA, **value}, indent=2, ensure_ascii=False, default=str)
    return f"{text}\n".encode(errors="backslashreplace")
