"""Open a file by its format: delimited text, Parquet, JSON, JSON lines, a NumPy matrix.

Numbers keep the spelling they have in the file (`1.0` and `1` are different labels).
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from misc_cli.errors import InputError
from misc_cli.readers.dialect import Synonyms
from misc_cli.readers.document import (
    SAMPLE_ROWS,
    Document,
    Record,
    Table,
    encoded,
    flat_table,
    text,
)
from misc_cli.readers.source import (
    Source,
    empty,
    one_line,
    refuse_odd_bytes,
    refuse_undecodable,
)
from misc_cli.readers.table import open_table
from misc_cli.readers.vocabulary import SYNONYMS, find_roles

DELIMITED = ("csv", "tsv")
_BY_SUFFIX = {f".{name}": name for name in ("tsv", "json", "jsonl", "parquet")}
_BY_SUFFIX[".ndjson"] = "jsonl"
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=lambda _: None)
# Characters beyond the first 65,536 are written as two of these; one alone is no text.
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Turn what JSON of nobody's making raises, in a file or a cell, into one line."""
    try:
        yield
    except RecursionError:
        raise InputError(
            f"{name}: objects within objects, too deep to read; give a flat export"
        ) from None
    except UnicodeEncodeError:
        raise InputError(
            f"{name}: half a character (\\ud800 to \\udfff) that stands for none; export it again"
        ) from None


def detect(source: Source) -> str:
    """Return the format by the first bytes where they tell, else by the extension, else CSV."""
    start = bytes(memoryview(source.content)[: 1 << 16])
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith(b"\x93NUMPY"):
        return "npy"
    start = start.lstrip()
    if start.startswith(b"[") and start[1:].lstrip().startswith((b"{", b"]")):
        return "json"
    if start.startswith((b"<?xml", b"<annotation", b"<!DOCTYPE")):
        raise InputError(
            f"{source.name}: XML, as CVAT and others write it, names no annotators; export each "
            "annotator's own answers as CSV or JSON"
        )
    if start.startswith(b"{"):
        return "json" if _BY_SUFFIX.get(source.suffix) == "json" else "jsonl"
    return _BY_SUFFIX.get(source.suffix, "csv")


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

    `bad_rows` says how many of so many rows may be set aside because their form is broken.
    """
    if source.is_rows:
        return open_table(source, "csv", synonyms, ",", True)
    format_name = format_name or detect(source)
    if format_name in DELIMITED:
        return open_table(source, format_name, synonyms, delimiter, header, bad_rows)
    return open_records(source, format_name)


def open_records(source: Source, format_name: str) -> Document:
    """Return any other file; Parquet with lists or objects in it counts as JSON."""
    if format_name == "npy":
        return _matrix(source)
    if format_name == "parquet":
        return _parquet(source)
    refuse_odd_bytes(source, is_table=False)
    refuse_undecodable(source)
    with readable(source.name):
        records = _records(source, format_name)
    return Document(source.name, format_name, lambda: flat_table(records), records)


def _parquet(source: Source) -> Document:
    import pyarrow.parquet as parquet

    name = source.name
    try:
        file = parquet.ParquetFile(pa.BufferReader(source.content))
        schema = file.schema_arrow
        if any(pa.types.is_nested(column.type) for column in schema):
            records = [_spelled(record) for record in file.read().to_pylist()]
            return Document(name, "parquet", lambda: flat_table(records), records)
        first = next(file.iter_batches(batch_size=SAMPLE_ROWS), None)
        cells = [] if first is None else [encoded(column).to_pylist() for column in first.columns]
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
        raise InputError(
            f"{source.name}: not a whole NumPy array of numbers or text ({one_line(error)}); "
            "save it again"
        ) from None
    if matrix.ndim != 2 or not matrix.size or matrix.dtype.kind not in "biufUS":
        shape = " × ".join(map(str, matrix.shape)) or "a single number"
        raise InputError(
            f"{source.name}: {shape} of {matrix.dtype}, where labels, items × workers, were "
            "expected; reshape it"
        )

    def column(cells: Any) -> Any:
        values, codes = np.unique(cells, return_inverse=True)
        if values.dtype.kind == "f":
            texts = ["" if value != value else f"{value:.10g}" for value in values.tolist()]
        else:
            texts = [text(value) for value in values.tolist()]
        return pa.array(texts, pa.string()).take(pa.array(codes.ravel())).dictionary_encode()

    columns = [column(cells).to_pylist() for cells in matrix[:SAMPLE_ROWS].T]
    table = Table(
        [str(at + 1) for at in range(matrix.shape[1])],
        [list(row) for row in zip(*columns, strict=True)],
        lambda positions: [column(matrix[:, at]) for at in positions],
        list,
        header=False,
    )
    return Document(source.name, "npy", lambda: table)


def _spelled(value: Any) -> Any:
    """Return values of Parquet as JSON gives them: numbers and dates as text."""
    if isinstance(value, dict):
        return {name: _spelled(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_spelled(inner) for inner in value]
    return value if value is None or isinstance(value, bool | str) else str(value)


def _records(source: Source, format_name: str) -> list[Record]:
    """Return the objects of JSON lines, also if called .json, or of one value over many lines."""
    content = bytes(memoryview(source.content))
    first, _, rest = content.lstrip().partition(b"\n")
    is_lines = first.strip() != b"{"
    if format_name == "json":
        is_lines = rest.lstrip().startswith(b"{")
        try:
            is_lines = is_lines and isinstance(json.loads(first), dict)
        except (ValueError, RecursionError):
            is_lines = False
    if is_lines:
        numbered = enumerate(content.splitlines(), start=1)
        found = [(_loads(source, line, n), f"line {n}") for n, line in numbered if line.strip()]
    else:
        whole = _with_header(_loads(source, content, None))
        values = whole if isinstance(whole, list) else [whole]
        found = [(value, f"record {n}") for n, value in enumerate(values, start=1)]
    for value, where in found:
        if not isinstance(value, dict):
            raise InputError(
                f"{source.name}, {where}: expected an object with worker, item and label"
            )
    if not found:
        raise empty(source.name)
    return [value for value, _ in found]


def _with_header(whole: Any) -> Any:
    """Return a list of lists, the first of them names, as objects; anything else as it is."""
    if not isinstance(whole, list) or len(whole) < 2 or not isinstance(whole[0], list):
        return whole
    names, *rows = whole
    square = all(isinstance(row, list) and len(row) == len(names) for row in rows)
    if not square or not all(isinstance(name, str) for name in names):
        return whole
    if len(set(names)) < len(names) or sum(map(bool, find_roles(names).values())) < 2:
        return whole
    return [dict(zip(names, row, strict=True)) for row in rows]


def _loads(source: Source, content: bytes, line: int | None) -> Any:
    try:
        value = _DECODER.decode(content.decode())
    except json.JSONDecodeError as error:
        raise InputError(
            f"{source.name}, line {line or error.lineno}: not JSON ({error.msg}); "
            "set --format if it is something else"
        ) from None
    if _HALF.search(content):
        json.dumps(value, ensure_ascii=False).encode()
    return value
