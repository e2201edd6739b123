"""Addresses of inputs: which are no local files, and how one is shown without its secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

WEB = ("http", "https")
STORES = ("s3", "gs", "gcs")
DATABASES = ("sqlite", "postgresql", "postgres", "duckdb")
GIBIBYTE = 1 << 30

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
# The parts of an address, whatever is in them: also one that no parser takes is shown safely.
_ADDRESS = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*://)(?P<netloc>[^/?#]*)(?P<path>[^?#]*)"
    r"(\?(?P<query>[^#]*))?(#(?P<fragment>.*))?",
    re.IGNORECASE | re.DOTALL,
)
# Names of parameters that carry a secret: tokens, keys, signatures of signed links, passwords.
_SECRET_NAME = re.compile(
    r"token|secret|pass|pwd|key|sig|auth|cred|session|jwt|bearer|code|sas|ticket", re.IGNORECASE
)
# A long run of letters and digits is more likely a secret than a name.
_SECRET_VALUE = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9+/=_.-]{20,}")
HIDDEN = "***"


@dataclass(frozen=True)
class Access:
    """How inputs that are no plain local file are read.

    query      for a database: what to select
    sheet      for a spreadsheet: which of its sheets
    max_bytes  the most that one download, query or unpacked spreadsheet may bring
    timeout    seconds a connection may stall; a whole download may take 60 times that
    retries    how often a download is tried again after a passing fault
    max_input  the most bytes that a pipe or a packed file may bring
    quotes_span_lines  cells with many lines are meant (see quotes.py)
    """

    query: str | None = None
    sheet: str | None = None
    max_bytes: int = GIBIBYTE
    timeout: float = 30.0
    retries: int = 3
    max_input: int = 2 * GIBIBYTE
    quotes_span_lines: bool = False


def scheme_of(path: str) -> str | None:
    """`https` of https://…, in lower case; None for a local path."""
    match = _SCHEME.match(path)
    return match[1].lower() if match else None


def is_address(path: str) -> bool:
    """Whether the input is somewhere else than in a local file, so that no path rule applies."""
    return scheme_of(path) is not None


def database_kind(path: str) -> str | None:
    """sqlite, duckdb or postgresql, also of postgres:// and of SQLAlchemy's postgresql+driver://."""
    scheme = (scheme_of(path) or "").partition("+")[0]
    if scheme not in DATABASES:
        return None
    return "postgresql" if scheme == "postgres" else scheme


def is_database(path: str) -> bool:
    return database_kind(path) is not None


def redact(text: str) -> str:
    """The text with passwords and tokens of an address in it replaced by ***.

    Anything else comes back as it is, so it can be asked of every word of a command line.
    """
    match = _ADDRESS.search(text)
    if match is None:
        return text
    netloc = match["netloc"]
    if "@" in netloc:
        user, _, host = netloc.rpartition("@")
        name, colon, _ = user.partition(":")
        netloc = f"{name}{colon}{HIDDEN if colon else ''}@{host}"
    shown = match["scheme"] + netloc + match["path"]
    if match["query"] is not None:
        shown += "?" + _redact_query(match["query"])
    if match["fragment"] is not None:
        shown += "#" + _redact_query(match["fragment"])
    return text[: match.start()] + shown


def _redact_query(query: str) -> str:
    if "=" not in query:
        return HIDDEN if _SECRET_VALUE.fullmatch(query) else query
    return "&".join(map(_redact_pair, query.split("&")))


def _redact_pair(pair: str) -> str:
    name, equals, value = pair.partition("=")
    secret = _SECRET_NAME.search(unquote(name)) or _SECRET_VALUE.fullmatch(unquote(value))
    return f"{name}{equals}{HIDDEN}" if value and secret else pair


def without_secrets(message: str, address: str) -> str:
    """A library's message about an address, in one line, without what the address hides."""
    line = " ".join(message.split())
    shown = redact(address)
    line = line.replace(address, shown)
    try:
        parts = urlsplit(address)
    except ValueError:
        return redact(line)
    secrets = [parts.password or "", *(pair.partition("=")[2] for pair in parts.query.split("&"))]
    for secret in secrets:
        for spelling in {secret, unquote(secret), quote(secret)}:
            if len(spelling) > 3 and spelling not in shown:
                line = line.replace(spelling, HIDDEN)
    return redact(line)
