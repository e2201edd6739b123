"""Databases, workbooks and matrices, brought to text or Parquet, which is all that readers know."""

from __future__ import annotations

from urllib.parse import quote

import pyarrow as pa

from misc_cli.errors import InputError
from misc_cli.io.address import Access, is_address, redact
from misc_cli.io.source import STDIN, Source


def open_query(address: str, access: Access) -> Source:
    """The rows of a database, as a Parquet file in memory."""
    from misc_cli.io.sql import run_query

    result = run_query(address, access)
    return Source(redact(address), b"", result.content, result.content, result.digest)


def open_binary(path: str, source: Source, access: Access) -> Source:
    """What the first bytes say it is; the hash stays that of the file, but for a database."""
    name, data = source.name, source.content
    start = bytes(memoryview(data)[:16])
    if start.startswith(b"PK"):
        return _with_content(source, _workbook(name, bytes(memoryview(data)), access))
    if start.startswith(b"\x93NUMPY"):
        from misc_cli.io.matrix import matrix_as_parquet

        return _with_content(source, matrix_as_parquet(name, bytes(memoryview(data))))
    kind = "sqlite" if start.startswith(b"SQLite") else "duckdb"
    if path == STDIN or is_address(path):
        raise InputError(f"{name}: a database; save it to a file and name that")
    return open_query(f"{kind}:///{quote(path)}", access)


def _with_content(source: Source, content: bytes | pa.Buffer) -> Source:
    return Source(source.name, source.stored, source.raw, pa.py_buffer(content))


def _workbook(name: str, data: bytes, access: Access) -> bytes:
    from misc_cli.io.excel import is_workbook, sheet_as_csv

    if not is_workbook(data):
        raise InputError(
            f"{name}: a zip archive or a spreadsheet that is no .xlsx; unpack it and name the "
            "files (--worker-from filename if each is one worker's), or save it as CSV"
        )
    return sheet_as_csv(name, data, access)
