"""Databases, workbooks and matrices, brought to text or Parquet, which is all that readers know."""

from __future__ import annotations

from urllib.parse import quote

import pyarrow as pa

from misc_cli.errors import InputError
from misc_cli.io.address import Access, is_address, redact
from misc_cli.io.source import ARROW, ARROW_STARTS, STDIN, Source, starts_with


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
    if start.startswith(ARROW_STARTS):
        return _with_content(source, _arrow_as_parquet(name, data))
    if start.startswith(b"\x93NUMPY"):
        from misc_cli.io.matrix import matrix_as_parquet

        return _with_content(source, matrix_as_parquet(name, bytes(memoryview(data))))
    kind = "sqlite" if start.startswith(b"SQLite") else "duckdb"
    if path == STDIN or is_address(path):
        raise InputError(f"{name}: a database; save it to a file and name that")
    return open_query(f"{kind}:///{quote(path)}", access)


def _with_content(source: Source, content: bytes | pa.Buffer) -> Source:
    return Source(source.name, source.stored, source.raw, pa.py_buffer(content))


def _arrow_as_parquet(name: str, data: pa.Buffer) -> pa.Buffer:
    """A file or a stream of Arrow, as pandas' Feather and Hugging Face's datasets are."""
    import pyarrow.parquet as parquet

    try:
        opened = pa.ipc.open_file(data) if starts_with(data, ARROW) else pa.ipc.open_stream(data)
        sink = pa.BufferOutputStream()
        parquet.write_table(opened.read_all(), sink)
    except (pa.ArrowException, OSError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        raise InputError(f"{name}: not a whole Arrow file ({reason}); write it again") from None
    return sink.getvalue()


def _workbook(name: str, data: bytes, access: Access) -> bytes:
    from misc_cli.io.excel import sheet_as_csv

    return sheet_as_csv(name, data, access)
