"""Tables as text: aligned columns for a terminal or a pipe, Markdown for a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from misc_cli.errors import printable

Row = Sequence[str]


@dataclass(frozen=True)
class Table:
    """Cells as text; the first `left` columns are names and go to the left, numbers to the right.

    The columns of `texts` go to the left too. Lines of `notes` follow the table. A table without
    rows is its title and notes, one without a header a list of facts: `left` covers its columns.
    """

    title: str
    header: Row = ()
    rows: Sequence[Row] = ()
    left: int = 1
    notes: Sequence[str] = ()
    texts: Sequence[str] = ()

    def is_left(self, at: int) -> bool:
        return at < self.left or self.header[at] in self.texts


def plain(tables: Sequence[Table]) -> str:
    """Tables one below the other, columns padded to their widest cell."""
    blocks = []
    for table in tables:
        lines = [table.title] if table.title else []
        if table.rows:
            rows = [[printable(cell) for cell in row] for row in (table.header, *table.rows) if row]
            lines += _aligned(rows, table.is_left)
        blocks.append("\n".join([*lines, *map(printable, table.notes)]))
    return "\n\n".join(blocks) + "\n"


def markdown(tables: Sequence[Table]) -> str:
    """The same in Markdown; a bar inside a cell is escaped."""
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


def _aligned(rows: Sequence[Row], is_left: Callable[[int], bool]) -> list[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [
        "  ".join(
            f"{cell:<{width}}" if is_left(at) else f"{cell:>{width}}"
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
