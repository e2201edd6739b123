"""Answers from a database: one query, read in batches into a Parquet buffer in memory.

| address | by | credentials |
|---|---|---|
| sqlite:///x.db, or a SQLite file by its path | the standard library | none |
| duckdb:///x.duckdb, or a DuckDB file by its path | duckdb (extra `sql`) | none |
| postgresql://user@host/db | ADBC (extra `sql`) | libpq's: ~/.pgpass, PGPASSWORD |

ADBC and DuckDB hand over Arrow batches, so no Python object is made per value; SQLAlchemy would
make three per answer. Every connection is read-only, takes one select statement and reaches no
other file. The call runs in a thread of its own, so that a signal or a deadline ends it. What is
hashed is the rows, as CSV text in the order in which they came.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

from misc_cli.errors import ConfigError, InputError
from misc_cli.readers.remote import (
    Access,
    Cancel,
    database_kind,
    in_thread,
    needs_extra,
    redact,
    too_large,
    without_secrets,
)

BATCH_ROWS = 50_000
NO_SELECT = ConfigError("--query: databases are read-only here; give one select statement")
# Actions that SQLite asks about and a select needs: to select, read, call a function, recur.
_READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, 33}
Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class QueryResult:
    """A query's rows as a Parquet file in memory, and the SHA-256 of the rows."""

    content: Any
    digest: str


def run_query(address: str, access: Access) -> QueryResult:
    """Return the rows that `access.query` selects; without one, those of the only table."""
    drivers = {"sqlite": _sqlite, "duckdb": _duckdb, "postgresql": _postgresql}
    read = drivers[database_kind(address) or "sqlite"]
    if access.query is not None:
        _refuse_other_statements(access.query)
    try:
        with closing(in_thread(lambda cancel: read(address, access, cancel), access)) as batches:
            return _collect(batches, redact(address), access)
    except (InputError, ConfigError):
        raise
    except Exception as error:  # every driver has its own family of errors
        message = without_secrets(str(error) or type(error).__name__, address)
        raise InputError(f"{redact(address)}: {message}; check the address and --query") from None


def _refuse_other_statements(query: str) -> None:
    """Refuse what is not one select: a query reads, and reads what it names only."""
    plain = re.sub(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/", " ", query, flags=re.S)
    statements = [part for part in plain.split(";") if part.strip()]
    if len(statements) != 1 or not re.match(r"\s*\(*\s*(select|with|values|from)\b", plain, re.I):
        raise NO_SELECT


def _file_of(address: str) -> str:
    """The file of sqlite:///relative.db or sqlite:////absolute.db, as SQLAlchemy has it."""
    parts = urlsplit(address)
    path = unquote(parts.path)
    if parts.netloc or len(path) < 2:
        raise ConfigError(
            f"{redact(address)}: write three slashes and the file, as in sqlite:///answers.db"
        )
    return path[1:]


def _sqlite(address: str, access: Access, cancel: Cancel) -> Batches:
    path = _file_of(address)
    try:
        opened = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, timeout=access.timeout)
    except sqlite3.OperationalError:
        raise InputError(f"{redact(address)}: cannot be opened; check the path") from None
    with closing(opened) as connection:
        cancel.append(connection.interrupt)
        connection.set_authorizer(
            lambda action, _, name, *__: int(action not in _READING or name == "load_extension")
        )
        tables = "select name from sqlite_master where type in ('table', 'view') "
        tables += "and name not like 'sqlite_%'"
        query = access.query or _only_table(
            address, [name for (name,) in connection.execute(tables)]
        )
        cursor = connection.execute(query)
        names = [column[0] for column in cursor.description]
        yield _text_batch(names, [])
        while rows := cursor.fetchmany(BATCH_ROWS):
            yield _text_batch(names, rows)


def _text_batch(names: list[str], rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    arrays = [pa.array(map(_text, column), pa.string()) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, names)


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return value.decode() if isinstance(value, bytes) else str(value)


# An extension, a view or a statement must reach no file and no host but the database itself.
_ALONE = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "lock_configuration": "true",
}


def _duckdb(address: str, access: Access, cancel: Cancel) -> Batches:
    try:
        import duckdb
    except ImportError:
        raise needs_extra(redact(address), "sql") from None
    with duckdb.connect(_file_of(address), read_only=True, config=_ALONE) as connection:
        cancel.append(connection.interrupt)
        tables = "select table_name from information_schema.tables"
        query = access.query or _only_table(
            address, [name for (name,) in connection.execute(tables).fetchall()]
        )
        statements = connection.extract_statements(query)
        if [one.type for one in statements] != [duckdb.StatementType.SELECT]:
            raise NO_SELECT
        relation = connection.sql(query)
        # before version 2 the method had another name
        batches = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
        yield from _with_schema(batches(BATCH_ROWS))


def _postgresql(address: str, access: Access, cancel: Cancel) -> Batches:
    if access.query is None:
        raise ConfigError(f'{redact(address)}: say what to read: --query "select …"')
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError:
        raise needs_extra(redact(address), "sql") from None
    # the driver wraps the query in a COPY, so that no semicolon may end it
    query = access.query.rstrip().rstrip(";")
    with dbapi.connect(_libpq(address, access)) as connection, connection.cursor() as cursor:
        cancel.append(cursor.adbc_cancel)
        cursor.execute(query)
        yield from _with_schema(cursor.fetch_record_batch())


def _libpq(address: str, access: Access) -> str:
    """Return the address with a limit to waiting, and read-only."""
    parts = urlsplit(address)
    asked = dict(parse_qsl(parts.query, keep_blank_values=True))
    limits = "-c default_transaction_read_only=on -c statement_timeout="
    asked["options"] = f"{asked.get('options', '')} {limits}{access.deadline:.0f}s"  # the last win
    asked.setdefault("connect_timeout", str(max(2, round(access.timeout))))
    # not urlunsplit, which drops the slashes of postgresql:///db?host=/socket
    return f"postgresql://{parts.netloc}{parts.path}?{urlencode(asked, quote_via=quote)}"


def _only_table(address: str, tables: list[str]) -> str:
    if len(tables) != 1:
        listed = ", ".join(sorted(tables)[:12]) or "none"
        raise ConfigError(
            f"{redact(address)}: {len(tables)} tables ({listed}); "
            'say what to read: --query "select worker, item, label from …"'
        )
    return 'select * from "{}"'.format(tables[0].replace('"', '""'))


def _with_schema(reader: Any) -> Iterator[pa.RecordBatch]:
    """An empty batch first, so that the columns are known even if no row comes."""
    nothing = reader.schema.empty_table().to_batches(max_chunksize=None)
    first = nothing or [pa.RecordBatch.from_pylist([], schema=reader.schema)]
    yield from chain(first[:1], reader)


def _collect(batches: Iterator[pa.RecordBatch], shown: str, access: Access) -> QueryResult:
    buffer = pa.BufferOutputStream()
    digest = hashlib.sha256()
    writer: parquet.ParquetWriter | None = None
    n_rows = n_bytes = 0
    for batch in batches:
        _refuse_same_names(batch.schema.names, shown)
        table = _plain(pa.Table.from_batches([batch]))
        if writer is None:
            writer = parquet.ParquetWriter(buffer, table.schema)
            digest.update(",".join(map(json.dumps, table.column_names)).encode())
        n_rows += table.num_rows
        n_bytes += table.nbytes
        if n_bytes > access.max_bytes:
            raise too_large(shown, None, access.max_bytes)
        if table.num_rows:
            writer.write_table(table)
            digest.update(_csv(table))
    if writer is None or not n_rows:
        raise InputError(f"{shown}: the query gives no rows; check --query")
    writer.close()
    return QueryResult(buffer.getvalue(), digest.hexdigest())


def _refuse_same_names(names: list[str], shown: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise InputError(
                f"{shown}: two columns are called {name!r}; name them apart in --query, with AS"
            )


def _plain(table: pa.Table) -> pa.Table:
    """Columns of types that only the database knows (enum, uuid, json, numeric) as text."""
    for at, field in enumerate(table.schema):
        column = table.column(at)
        if isinstance(field.type, pa.BaseExtensionType):
            column = column.cast(field.type.storage_type)
        if not _is_kept(column.type):
            column = _as_text(column)
        if column is not table.column(at):
            table = table.set_column(at, field.name, column)
    return table.replace_schema_metadata(None)


def _is_kept(kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_list(kind) or types.is_large_list(kind):
        return _is_kept(kind.value_type)
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
    )


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return column.cast(pa.string())
    except pa.ArrowException:
        texts = [None if value is None else str(value) for value in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.string())])


def _csv(table: pa.Table) -> bytes:
    for at, field in enumerate(table.schema):
        if pa.types.is_nested(field.type):
            texts = [json.dumps(value) for value in table.column(at).to_pylist()]
            table = table.set_column(at, field.name, pa.array(texts))
    stream = io.BytesIO()
    arrow_csv.write_csv(table, stream, arrow_csv.WriteOptions(include_header=False))
    return stream.getvalue()
