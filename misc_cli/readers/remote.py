"""Inputs behind an address: http, https and SQLite by the standard library, s3 and gs by Arrow.

A download is tried again after passing faults (no connection, 429, 5xx, a body cut short), may
stall for `net_timeout` seconds, take 60 times that and bring `max_download` bytes. Credentials come
from the usual places: the address itself, ~/.netrc (or $NETRC) for http; what aws and gcloud read
for s3 and gs. A database is opened read-only, runs one select and reaches no other file.
"""

from __future__ import annotations

import base64
import csv
import http.client
import io
import netrc
import os
import re
import sqlite3
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing, suppress
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlsplit

from misc_cli.errors import ConfigError, InputError
from misc_cli.readers.addresses import STORES, WEB, scheme_of
from misc_cli.readers.options import GIBIBYTE, ReadOptions
from misc_cli.readers.source import limited, one_line
from misc_cli.redaction import hide_secrets, redact

T = TypeVar("T")
TRIES = 4
TIMEOUT = 30.0
_PASSING = {408, 425, 429, 500, 502, 503, 504}
BATCH_ROWS = 50_000
STEPS = 10_000  # of SQLite's machine between two looks whether anybody still waits
# Actions that SQLite asks about and a select needs: to select, read, call a function, recur.
_READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, 33}
_SELECT = re.compile(r"(\s|\(|--[^\n]*\n|/\*.*?\*/)*(select|with|values)\b", re.I | re.DOTALL)
_TABLES = (
    "select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%'"
)


def in_time(call: Callable[[threading.Event], T], shown: str, options: ReadOptions) -> T:
    """Return what a call in a thread returns; a signal or the deadline ends the wait for it.

    The call is given an event that is set when nobody waits any more.
    """
    future: Future[T] = Future()
    over, seconds = threading.Event(), 60 * (options.net_timeout or TIMEOUT)

    def work() -> None:
        try:
            future.set_result(call(over))
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=work, name="misc-reader", daemon=True).start()
    try:
        return future.result(seconds)
    except TimeoutError:
        raise InputError(
            f"{shown}: too slow, not done after {seconds:.0f} s (see --net-timeout); try later"
        ) from None
    finally:
        over.set()


def fetch(address: str, options: ReadOptions) -> bytes:
    """Return all bytes behind a web or store address."""
    scheme, shown = scheme_of(address), redact(address)
    if scheme not in (*WEB, *STORES):
        known = ", ".join(f"{name}://" for name in (*WEB, *STORES, "sqlite"))
        raise ConfigError(f"{shown}: no way to read {scheme}://; use {known} or a file")
    read = _from_web if scheme in WEB else _from_store
    return in_time(lambda _: read(address, shown, options), shown, options)


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, never from https to http, and keeps the login on the same host only."""

    def redirect_request(self, req: Any, *details: Any) -> Any:
        target = details[-1]
        secure = urlsplit(req.full_url).scheme == "https"
        if urlsplit(target).scheme not in (("https",) if secure else WEB):
            raise InputError(
                f"{redact(req.full_url)}: redirects to {redact(target)}; https only is followed"
            )
        new = super().redirect_request(req, *details)
        login = req.get_header("Authorization")
        if new is not None and login and urlsplit(target)[:2] == urlsplit(req.full_url)[:2]:
            new.add_unredirected_header("Authorization", login)
        return new


def _from_web(address: str, shown: str, options: ReadOptions) -> bytes:
    limit = options.max_download or GIBIBYTE
    for attempt in range(TRIES):
        if attempt:
            time.sleep(2**attempt / 2)
        try:
            opener = urllib.request.build_opener(_SafeRedirects)
            with opener.open(_request(address), timeout=options.net_timeout or TIMEOUT) as response:
                data = limited(shown, response, limit, "--max-download")
            length = response.headers.get("Content-Length")
            if length in (None, str(len(data))):
                return data
            reason = f"only {len(data)} of {length} bytes came"
        except urllib.error.HTTPError as error:
            error.close()
            reason = f"HTTP {error.code}"
            if error.code not in _PASSING:
                raise InputError(
                    f"{shown}: {reason}; check the address, that you may read it, and the name "
                    "and password in ~/.netrc"
                ) from None
        except (http.client.InvalidURL, ValueError):  # whose text may quote a piece of a password
            raise InputError(f"{shown}: not a web address; check the spelling") from None
        except (OSError, http.client.HTTPException) as error:
            reason = one_line(getattr(error, "reason", None) or error)
    raise InputError(
        f"{shown}: {hide_secrets(reason, [address])} (tried {TRIES} times); try again later, or "
        "download it and name the file"
    )


def _request(address: str) -> urllib.request.Request:
    parts = urlsplit(address)
    plain = parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="").geturl()
    request = urllib.request.Request(plain, headers={"User-Agent": "misc-cli", "Accept": "*/*"})
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if not user:
        path = os.environ.get("NETRC") or os.path.expanduser("~/.netrc")
        # a broken file is not ours to judge; the server says if it wants a login
        with suppress(OSError, netrc.NetrcParseError, UnicodeDecodeError):
            user, _, password = netrc.netrc(path).authenticators(parts.hostname or "") or ("",) * 3
    if user or password:
        coded = base64.b64encode(f"{user}:{password}".encode()).decode()
        # unredirected: another server that we are sent to must not see it
        request.add_unredirected_header("Authorization", f"Basic {coded}")
    return request


def open_store(path: str) -> tuple[Any, str]:
    """Return Arrow's file system of a path or an address, and the path within it."""
    import pyarrow as pa
    import pyarrow.fs as arrow_fs

    if "://" not in path:
        return arrow_fs.LocalFileSystem(), os.path.abspath(path)
    try:
        filesystem, inner = arrow_fs.FileSystem.from_uri(path)
    except (pa.ArrowException, ValueError, OSError) as error:
        reason = one_line(hide_secrets(str(error), [path]))
        raise InputError(f"{redact(path)}: {reason}; check the address") from None
    return filesystem, inner


def _from_store(address: str, shown: str, options: ReadOptions) -> bytes:
    filesystem, inner = open_store(address)
    try:
        with filesystem.open_input_stream(inner, compression=None) as stream:
            return limited(shown, stream, options.max_download or GIBIBYTE, "--max-download")
    except OSError as error:
        reason = one_line(hide_secrets(str(error), [address]))
        raise InputError(
            f"{shown}: cannot be read ({reason}); check the address and the credentials "
            "(aws configure, gcloud auth application-default login)"
        ) from None


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
