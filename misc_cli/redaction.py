"""Secrets in addresses: logins and tokens are hidden wherever an address is shown or stored.

This module is loaded by every command, so it imports little.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any
from urllib.parse import quote, unquote

SCHEME = re.compile(r"(?<![a-z0-9+.-])([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
# Names of parameters that carry a secret: tokens, keys, signatures of signed links, passwords.
_SECRET_NAME = re.compile(
    r"token|secret|pass|pwd|key|sig|auth|cred|session|jwt|bearer|code|sas|ticket", re.IGNORECASE
)
# A long run of letters and digits is more likely a secret than a name.
_SECRET_VALUE = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9+/=_.-]{20,}")
# A host, perhaps with a port, and not a login with an odd password.
_HOST = re.compile(r"[^:]*|(localhost|.*[.\]].*):\d+")
HIDDEN = "***"
_secrets: set[str] = set()  # that were hidden so far, and parts of them


def redact(text: str) -> str:
    """Return the text with logins and tokens of every address in it replaced by ***.

    Anything else comes back as it is, so it can be asked of every word of a command line.
    """
    starts = [match.start() for match in SCHEME.finditer(text)]
    pieces = [_redact_address(text[at:end]) for at, end in pairwise([*starts, len(text)])]
    return "".join([text[: starts[0]], *pieces]) if starts else text


def redact_all(value: Any) -> Any:
    """Return lists, mappings and texts with every text in them redacted."""
    if isinstance(value, str):
        return redact(value) if "://" in value else value
    if isinstance(value, list | tuple):
        return [redact_all(entry) for entry in value]
    if isinstance(value, dict):
        return {name: redact_all(entry) for name, entry in value.items()}
    return value


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
    at = max(re.split(r"[\s'\"]", rest, maxsplit=1)[0].rfind("@"), netloc.rfind("@"))
    if at >= 0 and ("@" in netloc or not _HOST.fullmatch(netloc)):
        name, _, password = rest[:at].partition(":")
        # some services take a token as the name, with nothing or anything as the password
        is_token = password in ("", "x-oauth-basic") or _SECRET_VALUE.fullmatch(name)
        _learn(rest[:at], password, *[name] * bool(is_token), *re.split("[/@#?:&=]", password))
        rest = HIDDEN + rest[at:]
    place = re.split("[?#]", rest, maxsplit=1)[0]
    return f"{scheme}://{place}" + re.sub("[^?&#]+", _redact_pair, rest[len(place) :])


def _redact_pair(pair: re.Match[str]) -> str:
    """Return name=value of a query or a fragment, or a value alone, without a secret."""
    name, equals, value = pair[0].rpartition("=") if "=" not in pair[0] else pair[0].partition("=")
    told = _SECRET_NAME.search(unquote(name)) or _SECRET_VALUE.fullmatch(unquote(value))
    if not value or not told:
        return pair[0]
    _learn(value)
    return f"{name}{equals}{HIDDEN}"


def _learn(*secrets: str) -> None:
    for secret in secrets:
        spellings = (secret, unquote(secret), quote(secret), quote(secret, safe=""))
        _secrets.update(one for one in spellings if len(one) > 3 and HIDDEN not in one)
