"""Answers from a database: one query, read in batches into CSV in memory.

| address | by | credentials |
|---|---|---|
| sqlite:///x.db, or a SQLite file by its path | the standard library | none |
| postgresql://user@host/db | ADBC (extra `sql`) | libpq's: ~/.pgpass, PGPASSWORD |

ADBC hands over Arrow batches, so no Python object is made per value; SQLAlchemy would make three
per answer. Every connection is read-only, takes one select statement and reaches no other file.
The call runs in a thread of its own, so that a signal or a deadline ends it. What is hashed is the
rows, as CSV text in the order in which they came.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import pyarrow as pa
import pyarrow.csv as arrow_csv

from misc_cli.errors import ConfigError, InputError, needs_extra
from misc_cli.readers.addresses import Access, database_kind, redact, without_secrets
from misc_cli.readers.remote import Cancel, in_thread

BATCH_ROWS = 50_000
# Actions that SQLite asks about and a select needs: to select, read, call a function, recur.
_READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, 33}
_TABLES = (
    "select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%'"
)
Batches = Iterator[pa.RecordBatch]


def run_query(address: str, access: Access) -> pa.Buffer:
    """Return the rows that `access.query` selects, as CSV; without it those of the only table."""
    read = _sqlite if database_kind(address) == "sqlite" else _postgresql
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
    if len(statements) != 1 or not re.match(r"\s*\(*\s*(select|with|values)\b", plain, re.I):
        raise ConfigError("--query: databases are read-only here; give one select statement")


def _sqlite(address: str, access: Access, cancel: Cancel) -> Batches:
    """Yield the rows of sqlite:///relative.db or sqlite:////absolute.db, as SQLAlchemy has it."""
    parts = urlsplit(address)
    path = unquote(parts.path)[1:]
    if parts.netloc or not path:
        raise ConfigError(
            f"{redact(address)}: write three slashes and the file, as in sqlite:///answers.db"
        )
    try:
        opened = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, timeout=access.timeout)
    except sqlite3.OperationalError:
        raise InputError(f"{redact(address)}: cannot be opened; check the path") from None
    with closing(opened) as connection:
        cancel.append(connection.interrupt)
        connection.set_authorizer(
            lambda action, _, name, *__: int(action not in _READING or name == "load_extension")
        )
        query = access.query
        if query is None:
            tables = sorted(name for (name,) in connection.execute(_TABLES))
            if len(tables) != 1:
                listed = ", ".join(tables[:12]) or "none"
                raise ConfigError(
                    f"{redact(address)}: {len(tables)} tables ({listed}); "
                    'say what to read: --query "select worker, item, label from …"'
                )
            query = 'select * from "{}"'.format(tables[0].replace('"', '""'))
        cursor = connection.execute(query)
        names = [column[0] for column in cursor.description]
        while rows := cursor.fetchmany(BATCH_ROWS):
            columns = [pa.array(map(_text, one), pa.string()) for one in zip(*rows, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, names)


def _postgresql(address: str, access: Access, cancel: Cancel) -> Batches:
    if access.query is None:
        raise ConfigError(f'{redact(address)}: say what to read: --query "select …"')
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError:
        raise needs_extra(f"{redact(address)}: reading this", "sql") from None
    # the driver wraps the query in a COPY, so that no semicolon may end it
    query = access.query.rstrip().rstrip(";")
    with dbapi.connect(_libpq(address, access)) as connection, connection.cursor() as cursor:
        cancel.append(cursor.adbc_cancel)
        cursor.execute(query)
        yield from cursor.fetch_record_batch()


def _libpq(address: str, access: Access) -> str:
    """Return the address with a limit to waiting, and read-only."""
    parts = urlsplit(address)
    asked = dict(parse_qsl(parts.query, keep_blank_values=True))
    limits = "-c default_transaction_read_only=on -c statement_timeout="
    asked["options"] = f"{asked.get('options', '')} {limits}{access.deadline:.0f}s"  # the last win
    asked.setdefault("connect_timeout", str(max(2, round(access.timeout))))
    # not urlunsplit, which drops the slashes of postgresql:///db?host=/socket
    return f"postgresql://{parts.netloc}{parts.path}?{urlencode(asked, quote_via=quote)}"


def _collect(batches: Batches, shown: str, access: Access) -> pa.Buffer:
    buffer = pa.BufferOutputStream()
    writer: arrow_csv.CSVWriter | None = None
    n_bytes = 0
    for batch in batches:
        names = batch.schema.names
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InputError(
                f"{shown}: two columns are called {twice!r}; name them apart in --query, with AS"
            )
        table = pa.table([_as_text(column) for column in batch.columns], names)
        n_bytes += table.nbytes
        access.refuse_large(shown, n_bytes, told=False)
        writer = writer or arrow_csv.CSVWriter(buffer, table.schema)
        writer.write_table(table)
    if writer is None or not n_bytes:
        raise InputError(f"{shown}: the query gives no rows; check --query")
    writer.close()
    return buffer.getvalue()


def _as_text(column: pa.Array) -> pa.Array:
    """Return a column as text, types that only the database knows included; lists as JSON."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.cast(column.type.storage_type)
    if not pa.types.is_nested(column.type):
        try:
            return column.cast(pa.string())
        except pa.ArrowException:  # bytes that are no UTF-8
            pass
    return pa.array(map(_text, column.to_pylist()), pa.string())


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list | dict):
        return json.dumps(value, default=str, ensure_ascii=False)
    return value.decode() if isinstance(value, bytes) else str(value)
