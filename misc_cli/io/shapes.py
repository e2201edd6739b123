"""Files of no platform in particular: which of the plain shapes are they?"""

from __future__ import annotations

from misc_cli.io.columns import SYNONYMS
from misc_cli.io.document import Document
from misc_cli.io.long import from_table
from misc_cli.io.options import ReadOptions
from misc_cli.io.readers.base import CHOICE, Match, Question, Reader, Reading


def read_shape(document: Document, options: ReadOptions) -> tuple[Reader, Match, Reading]:
    """Rows of worker, item, label under known or given names."""
    reading = _read_long(document, options)
    return LONG, Match(1, "its columns' names"), reading


def _read_long(document: Document, options: ReadOptions) -> Reading:
    table = document.table
    is_sniffed = options.header is None and not any(options.columns.values())
    hint = ", or say --no-header if the first row is data" if table.header and is_sniffed else ""
    parsed = from_table(document.name, table, options.columns, SYNONYMS, hint)
    columns = {role: str(column) for role, column in parsed.chosen.items()}
    question = Question(columns["label"], CHOICE, **parsed.columns, columns=columns)
    return Reading([question])


LONG = Reader(
    name="long",
    title="rows of worker, item and label",
    explain="one row per answer",
    detect=lambda _: None,
    read=_read_long,
)
