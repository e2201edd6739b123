"""An opened file before anybody knows what it means: columns of text, or JSON objects.

Both kinds have both views. Delimited text and Parquet are columns, parsed only when a reader asks
for them; JSON is `records`, and its columns are made by flattening when somebody wants them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.errors import InputError

Record = dict[str, Any]
Cells = list[str]

SAMPLE_ROWS = 1000


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
    sample: list[Cells]
    fetch: Callable[[Sequence[int]], list[Any]]
    lines_of: Callable[[Sequence[int]], list[int]] = lambda rows: [row + 1 for row in rows]
    header: bool | None = None
    delimiter: str | None = None
    first_row: Cells = field(default_factory=list)
    doubtful: bool = False
    start: int = 0
    bad_lines: list[int] = field(default_factory=list)

    def line(self, row: int) -> int:
        """Return the line of a row."""
        return self.lines_of([row])[0]


@dataclass(frozen=True)
class Document:
    """One file: its `name` in messages, its `format` (csv, tsv, parquet, json or jsonl), its views.

    `records` are JSON objects, numbers spelled as in the file; None for tables.
    """

    name: str
    format: str
    open_table: Callable[[], Table] = field(repr=False)
    records: list[Record] | None = field(default=None, repr=False)

    @cached_property
    def table(self) -> Table:
        return self.open_table()

    @property
    def names(self) -> list[str]:
        return self.table.names

    def position(self, name: str) -> int:
        """Return where the column of this name is; an error if there are two."""
        if self.names.count(name) != 1:
            found = f"{self.names.count(name)} columns" if name in self.names else "no column"
            raise InputError(f"{self.name}: {found} called {name!r}; rename the columns")
        return self.names.index(name)

    def columns(self, names: Sequence[str]) -> list[Any]:
        """Return columns by name, parsed together: arrow arrays of text, dictionary-encoded."""
        return self.table.fetch([self.position(name) for name in names])

    def sampled(self, name: str) -> Cells:
        """Return the first cells of a column, those that are not empty."""
        at = self.names.index(name)
        cells = (row[at].strip() for row in self.table.sample if at < len(row))
        return [cell for cell in cells if cell]


def flat_table(records: list[Record]) -> Table:
    """Return columns of JSON objects, nested names dotted."""
    return table_of([flat(record) for record in records])


def table_of(rows: Sequence[dict[str, str]]) -> Table:
    """Return rows as columns; a name that a row lacks is an empty cell."""
    names = list(dict.fromkeys(name for row in rows for name in row))

    def fetch(positions: Sequence[int]) -> list[Any]:
        return [text_array(row.get(names[at], "") for row in rows) for at in positions]

    sample = [[row.get(name, "") for name in names] for row in islice(rows, SAMPLE_ROWS)]
    return Table(names, sample, fetch)


def text_array(values: Iterable[str]) -> Any:
    """Return texts as a dictionary column; a file's name that is not UTF-8 is spelt out."""
    texts = list(values)
    try:
        return pa.array(texts, pa.string()).dictionary_encode()
    except UnicodeEncodeError:
        spelt = [one.encode("utf-8", "backslashreplace").decode() for one in texts]
        return pa.array(spelt, pa.string()).dictionary_encode()


def flat(record: Record, prefix: str = "") -> dict[str, str]:
    """Return nested objects under dotted names: {"annotator": {"id": 3}} → annotator.id."""
    found: dict[str, str] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            found.update(flat(value, f"{prefix}{name}."))
        else:
            found[prefix + name] = text(value)
    return found


def text(value: Any) -> str:
    """Return a JSON value as the text of a cell; a list stays JSON: nobody takes it for a name."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def objects(value: Any) -> list[Record]:
    """Return the JSON objects in a list; nothing if it is no list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def mapping(value: Any) -> Record:
    """Return a JSON object; an empty one if it is something else."""
    return value if isinstance(value, dict) else {}


def plain_words(column: Any) -> Any:
    """Return what a column holds, each once, without case and spaces around it."""
    return pc.utf8_lower(pc.utf8_trim_whitespace(column.dictionary))


def is_one_of(column: Any, *values: str) -> Any:
    """Return a mask of the rows whose text, without case and spaces around, is one of these."""
    hit = pc.is_in(plain_words(column), pa.array([value.lower() for value in values]))
    if not pc.any(hit).as_py():  # no row need be looked at
        return pa.array(np.zeros(len(column), dtype=bool))
    return hit.take(column.indices)


def encoded(column: Any) -> Any:
    """Return a column as text, dictionary-encoded; a missing value is an empty one."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array.cast(pa.string()).fill_null("").dictionary_encode()


def compact(column: Any) -> Any:
    """Return a dictionary column without the words that no row uses any more."""
    if not pa.types.is_dictionary(column.type):
        return column
    return column.dictionary_decode().dictionary_encode()
