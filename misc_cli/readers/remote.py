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
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import pairwise
from queue import Empty, Queue
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from misc_cli.errors import ConfigError, InputError, needs_extra

WEB = ("http", "https")
STORES = ("s3", "gs", "gcs")
DATABASES = ("sqlite", "postgresql", "postgres")
GIBIBYTE = 1 << 30
T = TypeVar("T")
Cancel = list[Callable[[], Any]]  # how to end a call that is under way
_CANCEL_SECONDS = 0.8  # that a database may take to give up a query

_SCHEME = re.compile(r"(?<![a-z0-9+.-])([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
# Names of parameters that carry a secret: tokens, keys, signatures of signed links, passwords.
_SECRET_NAME = re.compile(
    r"token|secret|pass|pwd|key|sig|auth|cred|session|jwt|bearer|code|sas|ticket", re.IGNORECASE
)
# A long run of letters and digits is more likely a secret than a name.
_SECRET_VALUE = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9+/=_.-]{20,}")
HIDDEN = "***"


@dataclass(frozen=True)
class Access:
    """Ways to read inputs that are no plain local file.

    query      for a database: what to select
    sheet      for a spreadsheet: which of its sheets
    max_bytes  the most that one download, query or unpacked spreadsheet may bring
    timeout    seconds a connection may stall; a whole download may take 60 times that
    retries    how often a download is tried again after a passing fault
    max_input  the most bytes that a pipe or a packed file may bring
    quotes_span_lines  cells with many lines are meant
    """

    query: str | None = None
    sheet: str | None = None
    max_bytes: int = GIBIBYTE
    timeout: float = 30.0
    retries: int = 3
    max_input: int = 2 * GIBIBYTE
    quotes_span_lines: bool = False

    @property
    def deadline(self) -> float:
        """Return the seconds that a whole download or query may take."""
        return 60 * self.timeout


def scheme_of(path: str) -> str | None:
    """Return `https` of https://…, in lower case; None for a local path."""
    match = _SCHEME.match(path)
    return match[1].lower() if match else None


def is_address(path: str) -> bool:
    """Return whether the input is no local file, so that no path rule applies."""
    return scheme_of(path) is not None


def database_kind(path: str) -> str | None:
    """Return sqlite or postgresql, also of postgres:// and SQLAlchemy's postgresql+driver://."""
    scheme = (scheme_of(path) or "").partition("+")[0]
    if scheme not in DATABASES:
        return None
    return "postgresql" if scheme == "postgres" else scheme


def is_database(path: str) -> bool:
    return database_kind(path) is not None


_secrets: set[str] = set()  # that were hidden so far, and parts of them


def redact(text: str) -> str:
    """Return the text with passwords and tokens of every address in it replaced by ***.

    Anything else comes back as it is, so it can be asked of every word of a command line.
    """
    starts = [match.start() for match in _SCHEME.finditer(text)]
    pieces = [_redact_address(text[at:end]) for at, end in pairwise([*starts, len(text)])]
    return "".join([text[: starts[0]], *pieces]) if starts else text


def redact_all(value: Any) -> Any:
    """Return lists, mappings and texts with every text in them redacted."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list | tuple):
        return [redact_all(entry) for entry in value]
    if isinstance(value, dict):
        return {name: redact_all(entry) for name, entry in value.items()}
    return value


def without_secrets(message: str, address: str) -> str:
    """Return a library's message about an address in one line, without what that hides."""
    return " ".join(hide_secrets(message, [address]).split())


def hide_secrets(text: str, addresses: Sequence[str]) -> str:
    """Return a text without what these addresses and earlier ones hide.

    A library may show a part of a password that it took for a host or a path.
    """
    for address in addresses:
        redact(address)  # learns its secrets
    shown = redact(text)
    for secret in sorted(_secrets, key=len, reverse=True):
        shown = shown.replace(secret, HIDDEN)
    return shown


def _redact_address(address: str) -> str:
    scheme, _, rest = address.partition("://")
    netloc = re.split("[/?#]", rest, maxsplit=1)[0]
    at = re.split(r"[\s'\"]", rest, maxsplit=1)[0].rfind("@")
    at = max(at, netloc.rfind("@"))
    if at >= 0 and ("@" in netloc or not _is_host(netloc)):
        login, rest = rest[:at], rest[at:]
        name, colon, password = login.partition(":")
        public = scheme not in STORES and password not in ("", "x-oauth-basic")
        public = (public or database_kind(address) is not None) and not _is_random(name)
        _learn(login, password, *([] if public else [name]), *re.split("[/@#?:&=]", password))
        rest = f"{name if public else HIDDEN}{colon}{HIDDEN if colon else ''}{rest}"
    rest, sharp, fragment = rest.partition("#")
    path, mark, query = rest.partition("?")
    return f"{scheme}://{path}{mark}{_redact_query(query)}{sharp}{_redact_query(fragment)}"


def _is_host(netloc: str) -> bool:
    """Tell whether this is a host, perhaps with a port, and not a login with an odd password."""
    host, colon, port = netloc.rpartition(":")
    return not colon or (port.isdigit() and (host == "localhost" or "." in host or "]" in host))


def _is_random(text: str) -> bool:
    return _SECRET_VALUE.fullmatch(text) is not None


def _redact_query(query: str) -> str:
    if "=" in query:
        return "&".join(map(_redact_pair, query.split("&")))
    if _is_random(query):
        _learn(query)
        return HIDDEN
    return query


def _redact_pair(pair: str) -> str:
    name, equals, value = pair.partition("=")
    if not value or not (_SECRET_NAME.search(unquote(name)) or _is_random(unquote(value))):
        return pair
    _learn(value)
    return f"{name}{equals}{HIDDEN}"


def _learn(*secrets: str) -> None:
    for secret in secrets:
        _secrets.update(
            spelling
            for spelling in (secret, unquote(secret), quote(secret), quote(secret, safe=""))
            if len(spelling) > 3 and HIDDEN not in spelling
        )


CHUNK = 1 << 20
_PASSING = {408, 425, 429, 500, 502, 503, 504}
_HINTS = {
    401: "put the name and password into ~/.netrc",
    403: "check that you may read it; a signed link may have run out",
}
_LONGEST_PAUSE = 20.0


class _PassingFault(Exception):
    """A fault worth another try; `pause` is what the server asked for, in seconds."""

    def __init__(self, reason: str, pause: str | None = None) -> None:
        super().__init__(reason)
        self.pause = float(pause) if pause and pause.isascii() and pause.isdigit() else None


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


def _from_web(address: str, access: Access) -> bytes:
    tries = access.retries + 1
    for attempt in range(1, tries + 1):
        try:
            return _get(address, access)
        except _PassingFault as fault:
            reason, pause = without_secrets(str(fault), address), fault.pause
            if attempt < tries:
                time.sleep(min(pause or 0.5 * 2**attempt, _LONGEST_PAUSE))
    times = "once" if tries == 1 else f"{tries} times"
    raise InputError(
        f"{redact(address)}: {reason} (tried {times}); try again later, or download it and name "
        "the file"
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
            data = _collect(lambda: response.read1(CHUNK), size, shown, access.max_bytes)
    except urllib.error.HTTPError as error:
        with error:
            if error.code in _PASSING:
                asked = error.headers.get("Retry-After") if error.headers else None
                raise _PassingFault(f"HTTP {error.code}", asked) from None
            hint = _HINTS.get(error.code, "check the address")
            raise InputError(f"{shown}: HTTP {error.code}; {hint}") from None
    except (http.client.InvalidURL, ValueError):  # whose text may quote a piece of a password
        raise InputError(f"{shown}: not a web address; check the spelling") from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise _PassingFault(str(reason) or type(error).__name__) from None
    if size is not None and len(data) != size:
        raise _PassingFault(f"only {len(data):,} of {size:,} bytes came")
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


def _collect(read: Callable[[], bytes], size: int | None, shown: str, max_bytes: int) -> bytes:
    data = io.BytesIO()
    if size is not None and size > max_bytes:
        raise too_large(shown, size, max_bytes)
    while chunk := read():
        if data.tell() + len(chunk) > max_bytes:
            raise too_large(shown, None, max_bytes)
        data.write(chunk)
    return data.getvalue()  # shares the bytes, copies nothing


def too_large(shown: str, n_bytes: int | None, max_bytes: int) -> InputError:
    size = f"{n_bytes:,} bytes are" if n_bytes is not None else "it is"
    return InputError(
        f"{shown}: {size} more than the limit of {max_bytes:,} bytes; raise it with --max-download"
    )


def _from_store(address: str, access: Access) -> bytes:
    """Return what is in s3 or gs; fsspec finds the credentials where aws and gcloud keep them."""
    shown = redact(address)
    try:
        import fsspec

        with fsspec.open(address, "rb") as file:
            size = getattr(file, "size", None)
            return _collect(lambda: file.read(CHUNK), size, shown, access.max_bytes)
    except InputError:
        raise
    except ImportError:
        raise needs_extra(f"{shown}: reading this", "remote") from None
    except Exception as error:  # every store's client has its own family of errors
        if isinstance(error, FileNotFoundError):
            raise InputError(f"{shown}: no such object; check the address") from None
        message = without_secrets(str(error) or type(error).__name__, address)
        s3 = scheme_of(address) == "s3"
        login = "aws configure" if s3 else "gcloud auth application-default login"
        raise InputError(
            f"{shown}: cannot be read ({message}); check the address and the credentials ({login})"
        ) from None
