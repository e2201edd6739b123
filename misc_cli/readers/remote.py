"""Inputs behind an address: http and https with the standard library, s3 and gs with fsspec.

A download is tried again after passing faults (no connection, 429, 5xx, a body cut short), may
stall for `timeout` seconds, take 60 times that and bring `max_bytes`. Credentials come from the
usual places: the address itself, ~/.netrc (or $NETRC) for http; what boto and gcloud read for s3
and gs.
"""

from __future__ import annotations

import base64
import http.client
import io
import netrc
import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from queue import Empty, Queue
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

from misc_cli.errors import ConfigError, InputError, needs_extra
from misc_cli.readers.addresses import (
    DATABASES,
    STORES,
    WEB,
    Access,
    redact,
    scheme_of,
    without_secrets,
)

T = TypeVar("T")
Cancel = list[Callable[[], Any]]  # how to end a call that is under way
CHUNK = 1 << 20
_CANCEL_SECONDS = 0.8  # that a database may take to give up a query
_PASSING = {408, 425, 429, 500, 502, 503, 504}
_HINTS = {
    401: "put the name and password into ~/.netrc",
    403: "check that you may read it; a signed link may have run out",
}
_LONGEST_PAUSE = 20.0


def in_thread(read: Callable[[Cancel], Iterator[T]], access: Access) -> Generator[T, None, None]:
    """Yield what a thread reads; cancel its call at a signal, an error or the deadline."""
    found: Queue[T | Exception | None] = Queue(2)
    cancel: Cancel = []
    over = threading.Event()

    def work() -> None:
        last = None
        try:
            for piece in read(cancel):
                found.put(piece)
                if over.is_set():
                    break
        except Exception as error:
            last = error
        cancel.clear()
        found.put(last)

    thread = threading.Thread(target=work, name="misc-reader", daemon=True)
    thread.start()
    give_up = time.monotonic() + access.deadline
    try:
        while (one := found.get(timeout=max(0.0, give_up - time.monotonic()))) is not None:
            if isinstance(one, Exception):
                raise one
            yield one
    except Empty:
        raise TimeoutError(f"not done after {access.deadline:.0f} s (see --net-timeout)") from None
    finally:
        over.set()
        give_up = time.monotonic() + _CANCEL_SECONDS
        while thread.is_alive() and time.monotonic() < give_up:
            for stop in cancel.copy():
                with suppress(Exception):
                    stop()
            with suppress(Empty):
                found.get(timeout=0.02)


def fetch(address: str, access: Access) -> bytes:
    """Return all bytes behind a web or store address."""
    scheme = scheme_of(address)
    if scheme not in (*WEB, *STORES):
        known = ", ".join(f"{name}://" for name in (*WEB, *STORES, *DATABASES))
        raise ConfigError(f"{redact(address)}: no way to read {scheme}://; use {known} or a file")
    read = _from_web if scheme in WEB else _from_store
    with closing(in_thread(lambda _: iter([read(address, access)]), access)) as whole:
        try:
            return next(whole)
        except TimeoutError as error:
            raise InputError(f"{redact(address)}: too slow, {error}; try later") from None


class _PassingFault(Exception):
    """A fault worth another try: why, and the seconds that the server asks to wait."""


def _from_web(address: str, access: Access) -> bytes:
    tries = access.retries + 1
    for attempt in range(1, tries + 1):
        try:
            return _get(address, access)
        except _PassingFault as fault:
            reason, asked = fault.args
            if attempt < tries:
                pause = float(asked) if asked.isascii() and asked.isdigit() else 0.5 * 2**attempt
                time.sleep(min(pause, _LONGEST_PAUSE))
    times = "once" if tries == 1 else f"{tries} times"
    raise InputError(
        f"{redact(address)}: {without_secrets(reason, address)} (tried {times}); try again later, "
        "or download it and name the file"
    )


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, never from https to http, and keeps the login on the same host only."""

    def redirect_request(
        self, req: urllib.request.Request, *details: Any
    ) -> urllib.request.Request | None:
        target = details[-1]
        secure = scheme_of(req.full_url) == "https"
        if scheme_of(target) not in (WEB[1:] if secure else WEB):
            raise InputError(
                f"{redact(req.full_url)}: redirected to {redact(target)}, not to "
                + ("https" if secure else "http")
            )
        new = super().redirect_request(req, *details)
        login = req.get_header("Authorization")
        if new is not None and login and urlsplit(target)[:2] == urlsplit(req.full_url)[:2]:
            new.add_unredirected_header("Authorization", login)
        return new


def _get(address: str, access: Access) -> bytes:
    shown = redact(address)
    try:
        opener = urllib.request.build_opener(_SafeRedirects)
        with opener.open(_request(address), timeout=access.timeout) as response:
            length = response.headers.get("Content-Length") or ""
            size = int(length) if length.isascii() and length.isdigit() else None
            data = _collect(lambda: response.read1(CHUNK), size, shown, access)
    except urllib.error.HTTPError as error:
        with error:
            if error.code in _PASSING:
                asked = error.headers.get("Retry-After") if error.headers else None
                raise _PassingFault(f"HTTP {error.code}", asked or "") from None
            hint = _HINTS.get(error.code, "check the address")
            raise InputError(f"{shown}: HTTP {error.code}; {hint}") from None
    except (http.client.InvalidURL, ValueError):  # whose text may quote a piece of a password
        raise InputError(f"{shown}: not a web address; check the spelling") from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise _PassingFault(str(reason) or type(error).__name__, "") from None
    if size is not None and len(data) != size:
        raise _PassingFault(f"only {len(data):,} of {size:,} bytes came", "")
    return data


def _request(address: str) -> urllib.request.Request:
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2]
    plain = urlunsplit((parts.scheme, host, parts.path or "/", parts.query, ""))
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


def _collect(read: Callable[[], bytes], size: int | None, shown: str, access: Access) -> bytes:
    data = io.BytesIO()
    access.refuse_large(shown, size or 0)
    while chunk := read():
        access.refuse_large(shown, data.tell() + len(chunk), told=False)
        data.write(chunk)
    return data.getvalue()  # shares the bytes, copies nothing


def _from_store(address: str, access: Access) -> bytes:
    """Return what is in s3 or gs; fsspec finds the credentials where aws and gcloud keep them."""
    shown = redact(address)
    try:
        import fsspec

        with fsspec.open(address, "rb") as file:
            size = getattr(file, "size", None)
            return _collect(lambda: file.read(CHUNK), size, shown, access)
    except InputError:
        raise
    except ImportError:
        raise needs_extra(f"{shown}: reading this", "remote") from None
    except Exception as error:  # every store's client has its own family of errors
        reason = "no such object" if isinstance(error, FileNotFoundError) else str(error)
        message = without_secrets(reason or type(error).__name__, address)
        s3 = scheme_of(address) == "s3"
        login = "aws configure" if s3 else "gcloud auth application-default login"
        raise InputError(
            f"{shown}: cannot be read ({message}); check the address and the credentials ({login})"
        ) from None
