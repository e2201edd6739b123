"""Rows of a SQLite database, as CSV text, read as any table.

The database is opened read-only, runs one select statement and reaches no other file; the call runs
in a thread of its own, so that a signal or a deadline ends it.
"""

from __future__ import annotations

import csv
import io
import re
import sqlite3
import threading
from contextlib import closing
from urllib.parse import quote, unquote, urlsplit

from misc_cli.errors import ConfigError, InputError
from misc_cli.readers.options import GIBIBYTE, ReadOptions
from misc_cli.readers.remote import TIMEOUT, in_time
from misc_cli.readers.source import one_line
from misc_cli.redaction import hide_secrets, redact

BATCH_ROWS = 50_000
STEPS = 10_000  # of SQLite's machine between two looks whether anybody still waits
# Actions that SQLite asks about and a select needs: to select, read, call a function, recur.
_READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, 33}
_SELECT = re.compile(r"(\s|\(|--[^\n]*\n|/\*.*?\*/)*(select|with|values)\b", re.I | re.DOTALL)
_TABLES = (
    "select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%'"
)


def run_query(path: str, options: ReadOptions) -> bytes:
    """Return the rows that `options.query` selects, as CSV; without it those of the only table.

    The path is a file's, or sqlite:///relative.db or sqlite:////absolute.db, as SQLAlchemy has it.
    """
    shown, file = redact(path), path
    if "://" in path:
        parts = urlsplit(path)
        file = unquote(parts.path)[1:]
        if parts.netloc or not file:
            raise ConfigError(
                f"{shown}: write three slashes and the file, as in sqlite:///answers.db"
            )
    if options.query is not None and not _SELECT.match(options.query):
        raise ConfigError("--query: databases are read-only here; give one select statement")
    try:
        return in_time(lambda over: _selected(file, shown, options, over), shown, options)
    except (sqlite3.Error, sqlite3.Warning, UnicodeError) as error:
        reason = one_line(hide_secrets(str(error), [path]))
        raise InputError(
            f"{shown}: {reason}; check the path, and that --query is one select statement"
        ) from None


def _selected(file: str, shown: str, options: ReadOptions, over: threading.Event) -> bytes:
    opened = sqlite3.connect(
        f"file:{quote(file)}?mode=ro", uri=True, timeout=options.net_timeout or TIMEOUT
    )
    with closing(opened) as connection:
        connection.set_progress_handler(over.is_set, STEPS)
        connection.set_authorizer(
            lambda action, _, name, *__: int(action not in _READING or name == "load_extension")
        )
        query = options.query
        if query is None:
            tables = sorted(name for (name,) in connection.execute(_TABLES))
            if len(tables) != 1:
                listed = ", ".join(tables[:12]) or "none"
                raise ConfigError(
                    f"{shown}: {len(tables)} tables ({listed}); "
                    'say what to read: --query "select worker, item, label from …"'
                )
            query = 'select * from "{}"'.format(tables[0].replace('"', '""'))
        cursor = connection.execute(query)
        stream = io.StringIO(newline="")
        writer = csv.writer(stream)
        writer.writerow(column[0] for column in cursor.description)
        while rows := cursor.fetchmany(BATCH_ROWS):
            writer.writerows(
                [cell.decode() if isinstance(cell, bytes) else cell for cell in row] for row in rows
            )
            if stream.tell() > (options.max_download or GIBIBYTE):
                raise InputError(f"{shown}: too many rows; raise --max-download, or select fewer")
        return stream.getvalue().encode()
