"""Tables that a SQLite database or an .xlsx workbook stores, as CSV text, read as any table.

A database is opened read-only, runs one select statement and reaches no other file; the call runs
in a thread of its own, so that a signal or a deadline ends it. What is hashed is the rows, as text
in the order in which they came. Workbooks are read by openpyxl (extra `excel`), which streams rows.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import re
import sqlite3
import threading
import warnings
import zipfile
from contextlib import closing
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from misc_cli.errors import ConfigError, InputError, MiscError, needs_extra
from misc_cli.readers.addresses import hide_secrets, redact
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.remote import in_time
from misc_cli.readers.source import one_line

BATCH_ROWS = 50_000
MOST_CELLS = 50_000_000
STEPS = 10_000  # of SQLite's machine between two looks whether anybody still waits
# Actions that SQLite asks about and a select needs: to select, read, call a function, recur.
_READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, 33}
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
    if options.query is not None:
        comments = r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/"
        plain = re.sub(comments, " ", options.query, flags=re.DOTALL)
        statements = [part for part in plain.split(";") if part.strip()]
        if len(statements) != 1 or not re.match(r"\s*\(*\s*(select|with|values)\b", plain, re.I):
            raise ConfigError("--query: databases are read-only here; give one select statement")
    try:
        return in_time(lambda over: _selected(file, shown, options, over), shown, options)
    except (sqlite3.Error, UnicodeError) as error:
        reason = one_line(hide_secrets(str(error), [path]))
        raise InputError(f"{shown}: {reason}; check the path and --query") from None


def _selected(file: str, shown: str, options: ReadOptions, over: threading.Event) -> bytes:
    opened = sqlite3.connect(f"file:{quote(file)}?mode=ro", uri=True, timeout=options.timeout)
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
        names = [column[0] for column in cursor.description]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InputError(
                f"{shown}: two columns are called {twice!r}; name them apart in --query, with AS"
            )
        stream = io.StringIO(newline="")
        writer = csv.writer(stream)
        writer.writerow(names)
        n_bytes = stream.tell()
        while rows := cursor.fetchmany(BATCH_ROWS):
            writer.writerows(
                [cell.decode() if isinstance(cell, bytes) else cell for cell in row] for row in rows
            )
            options.refuse_large(shown, stream.tell())
        if stream.tell() == n_bytes:
            raise InputError(f"{shown}: the query gives no rows; check --query")
        return stream.getvalue().encode()


def sheet_as_csv(name: str, archive: zipfile.ZipFile, options: ReadOptions) -> bytes:
    """Return the only sheet with anything in it, or the one that `options.sheet` names."""
    try:
        import openpyxl
    except ImportError:
        raise needs_extra(f"{name}: reading this", "excel") from None
    options.refuse_large(name, sum(member.file_size for member in archive.infolist()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on styles and extensions, which do not matter here
        try:
            book = openpyxl.load_workbook(archive.fp, read_only=True, data_only=True)
            sheets = {title: text for title in book.sheetnames if (text := _csv(name, book[title]))}
        except MiscError:
            raise
        except Exception as error:  # openpyxl lets those of zip, XML and its own checks through
            raise InputError(
                f"{name}: not a whole Excel workbook ({one_line(error)}); save it again, or as CSV"
            ) from None
    if not sheets:
        raise InputError(f"{name}: the workbook is empty; give a file with answers in it")
    listed = ", ".join(sheets)
    if options.sheet is None and len(sheets) > 1:
        raise InputError(f"{name}: {len(sheets)} sheets ({listed}); pick one with --sheet")
    if options.sheet is not None and options.sheet not in sheets:
        raise ConfigError(f"--sheet {options.sheet}: {name} has {listed}")
    return sheets[options.sheet or listed]


def _csv(name: str, sheet: Any) -> bytes:
    """Return the sheet's rows, without the empty rows and columns around them."""
    rows, n_cells, width = [], 0, 0
    for values in sheet.iter_rows(values_only=True):
        n_cells += len(values)
        if n_cells > MOST_CELLS:  # one cell in the last row and column makes all others
            raise InputError(
                f"{name}: more than {MOST_CELLS:,} cells, most of them empty? Delete what lies "
                "beside the table, or save it as CSV"
            )
        row = [] if values.count(None) == len(values) else list(map(_text, values))
        while row and not row[-1]:
            row.pop()
        if row:
            rows.append(row)
            width = max(width, len(row))
    stream = io.StringIO(newline="")
    csv.writer(stream).writerows(row + [""] * (width - len(row)) for row in rows)
    return stream.getvalue().encode("utf-8", "replace")


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # Excel knows no integers: 3 is stored as 3.0
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return str(value).strip()
