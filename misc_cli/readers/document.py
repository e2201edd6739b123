"""An opened file before anybody knows what it means: columns of text, or JSON objects.

Both kinds have both views. Delimited text, Parquet and a NumPy matrix are columns, parsed only when
a reader asks for them; JSON is `records`, and its columns are made by flattening when somebody
wants them. Numbers keep the spelling they have in the file (`1.0` and `1` are different labels).
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.errors import InputError
from misc_cli.readers.source import Source, empty, one_line, refuse_odd_bytes, refuse_undecodable
from misc_cli.readers.table import SAMPLE_ROWS, Row, Synonyms, Table, open_table
from misc_cli.readers.vocabulary import SYNONYMS

Record = dict[str, Any]

# How files of a format begin; all others are delimited text.
_BEGINS = {
    "parquet": rb"PAR1",
    "npy": rb"\x93NUMPY",
    "xml": rb"\s*<[?!a-zA-Z]",
    "jsonl": rb"\s*\{",
    "json": rb'\s*\[\s*[\[{"\]]',
}
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=lambda _: None)
# Characters beyond the first 65,536 are written as two of these; one alone is no text.
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


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

    def columns(self, names: Sequence[str]) -> list[Any]:
        """Return columns by name, parsed together: arrow arrays of text, dictionary-encoded."""
        every = self.names
        for name in names:
            if name not in every:
                raise InputError(f"{self.name}: no column called {name!r}; rename the columns")
        return self.table.fetch([every.index(name) for name in names])

    def sampled(self, name: str) -> Row:
        """Return the first cells of a column, those that are not empty."""
        at = self.names.index(name)
        cells = (row[at].strip() for row in self.table.sample if at < len(row))
        return [cell for cell in cells if cell]


def table_of(records: Sequence[Record]) -> Table:
    """Return JSON objects as columns, nested names dotted; what one lacks is an empty cell."""
    rows = [flat(record) for record in records]
    names = list(dict.fromkeys(name for row in rows for name in row))

    def fetch(positions: Sequence[int]) -> list[Any]:
        return [text_array(row.get(names[at], "") for row in rows) for at in positions]

    sample = [[row.get(name, "") for name in names] for row in rows[:SAMPLE_ROWS]]
    return Table(names, sample, fetch)


def text_array(values: Iterable[str]) -> Any:
    """Return texts as a dictionary column; a file's name that is not UTF-8 is spelt out."""
    spelt = [value.encode("utf-8", "backslashreplace") for value in values]
    return pa.array(spelt, pa.binary()).cast(pa.string()).dictionary_encode()


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


def damaged_json(name: str) -> InputError:
    """Return what is said of a RecursionError or UnicodeEncodeError, in a file or a cell."""
    return InputError(
        f"{name}: objects within objects, too deep to read, or half a character (\\ud800 to "
        "\\udfff); give a flat export in UTF-8"
    )


def open_document(
    source: Source,
    format_name: str | None = None,
    *,
    delimiter: str | None = None,
    header: bool | None = None,
    synonyms: Synonyms = SYNONYMS,
    bad_rows: Callable[[int], int] | None = None,
) -> Document:
    """Return a file, opened; nothing but its first rows is parsed if it is a table.

    Parquet with lists or objects in it counts as JSON. `bad_rows` says how many of so many rows
    may be set aside because their form is broken.
    """
    if source.is_rows:
        format_name, delimiter, header = "csv", ",", True
    if format_name is None:
        start = memoryview(source.content)
        found = (name for name, begin in _BEGINS.items() if re.match(begin, start))
        format_name = next(found, "csv")
    if format_name in ("csv", "tsv"):
        table = open_table(source, synonyms, delimiter, header, bad_rows)
        return Document(source.name, format_name, lambda: table)
    if format_name == "xml":
        raise InputError(f"{source.name}: XML or HTML; export the answers as CSV or JSON")
    if format_name == "npy":
        return _matrix(source)
    if format_name == "parquet":
        return _parquet(source)
    refuse_odd_bytes(source, is_table=False)
    refuse_undecodable(source)
    try:
        format_name, records = _records(source)
        if _are_rows(records):
            stream = io.StringIO(newline="")
            csv.writer(stream).writerows(map(text, row) for row in records)
            rows = replace(source, content=pa.py_buffer(stream.getvalue().encode()))
            return open_document(rows, "csv", delimiter=",", header=header, synonyms=synonyms)
    except (RecursionError, UnicodeEncodeError):
        raise damaged_json(source.name) from None
    return Document(source.name, format_name, lambda: table_of(records), records)


def _parquet(source: Source) -> Document:
    import pyarrow.parquet as parquet

    name = source.name
    try:
        file = parquet.ParquetFile(pa.BufferReader(source.content))
        schema = file.schema_arrow
        if any(pa.types.is_nested(column.type) for column in schema):
            whole = json.dumps(file.read().to_pylist(), default=str)
            records = _DECODER.decode(whole)
            return Document(name, "parquet", lambda: table_of(records), records)
        first = next(file.iter_batches(batch_size=SAMPLE_ROWS), schema.empty_table())
        cells = [encoded(column).to_pylist() for column in first.columns]
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise InputError(
            f"{name}: not a whole Parquet file ({one_line(error)}); write it again"
        ) from None

    def fetch(positions: Sequence[int]) -> list[Any]:
        try:
            table = file.read(columns=[schema.names[at] for at in positions])
            return [encoded(table.column(schema.names[at])) for at in positions]
        except (KeyError, pa.ArrowException, OSError) as error:  # or two columns of one name
            raise InputError(f"{name}: {one_line(error)}; write it again, or as CSV") from None

    sample = [list(row) for row in zip(*cells, strict=True)]
    return Document(name, "parquet", lambda: Table(list(schema.names), sample, fetch))


def _matrix(source: Source) -> Document:
    """Return a NumPy matrix as a table without a header; NaN is an empty cell."""
    try:
        matrix = np.load(io.BytesIO(memoryview(source.content)), allow_pickle=False)
    except Exception as error:  # a damaged header ends in errors of many kinds
        reason = one_line(error)
        raise InputError(f"{source.name}: not a whole NumPy array ({reason}); save it") from None
    if matrix.ndim != 2 or not matrix.size or matrix.dtype.kind not in "biufU":
        raise InputError(
            f"{source.name}: shape {matrix.shape} of {matrix.dtype}, where items × workers "
            "were expected; reshape it"
        )

    columns = [encoded(pa.array(cells, from_pandas=True)) for cells in matrix.T]
    names = [str(at + 1) for at in range(len(columns))]
    cells = [column[:SAMPLE_ROWS].to_pylist() for column in columns]
    sample = [list(row) for row in zip(*cells, strict=True)]
    table = Table(names, sample, lambda places: [columns[at] for at in places], list, header=False)
    return Document(source.name, "npy", lambda: table)


def _records(source: Source) -> tuple[str, list[Any]]:
    """Return the objects of JSON lines, or of one value over many lines, and which it is."""
    content = source.content.to_pybytes()
    first, _, rest = content.lstrip().partition(b"\n")
    is_lines = first.rstrip()[-1:] + rest.lstrip()[:1] in (b"}{", b"][")
    found: list[Any] = []
    for n_above, line in enumerate(content.splitlines() if is_lines else [content]):
        try:
            found += [_DECODER.decode(line.decode())] if line.strip() else []
        except json.JSONDecodeError as error:
            raise InputError(
                f"{source.name}, line {n_above + error.lineno}: not JSON ({error.msg}); "
                "set --format if it is something else"
            ) from None
    if _HALF.search(content):
        json.dumps(found, ensure_ascii=False).encode()
    if not is_lines and isinstance(found[0], list):
        (found,) = found
    if not found:
        raise empty(source.name)
    if not all(isinstance(value, dict) for value in found) and not _are_rows(found):
        raise InputError(f"{source.name}: expected objects with worker, item and label")
    return "jsonl" if is_lines else "json", found


def _are_rows(values: Sequence[Any]) -> bool:
    """Return whether these are lists of plain values, a row of a table each."""
    return all(
        isinstance(row, list) and row and not any(isinstance(cell, dict | list) for cell in row)
        for row in values
    )
