"""Which rows count and what their labels are called: --where, --since, --no-answer, --rename …

The grammar of --where is tiny, and nothing in it is ever run:

    COLUMN OP VALUE      OP is = != < <= > >= ~ (contains) or in (a, b, c)

Several conditions all hold. Text is compared without case; < and > need numbers or dates.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from misc_cli.errors import ConfigError, InputError
from misc_cli.readers.columns import listing, named
from misc_cli.readers.document import Document
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.vocabulary import normalise

_CONDITION = re.compile(
    r"\s*(?:\"(?P<quoted>[^\"]+)\"|(?P<name>[^=!<>~]+?))\s*"
    r"(?P<symbol>!=|<=|>=|==|=|<|>|~|\bnot in\b|\bin\b)\s*(?P<value>.*?)\s*",
    re.IGNORECASE,
)
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TIMES = re.compile(
    r".*(timestamp|submittime|submittedat|submitted|createdat|updatedat|completedat|time|date)"
)


@dataclass(frozen=True)
class Condition:
    """One parsed --where."""

    text: str
    column: str
    symbol: str
    values: tuple[str, ...]

    def holds(self, cell: str) -> bool:
        told = cell.strip()
        if self.symbol in _ORDER:
            return compare(told, self.symbol, self.values[0])
        words = [value.casefold() for value in self.values]
        if self.symbol == "~":
            return words[0] in told.casefold()
        is_in = told.casefold() in words
        return is_in if self.symbol in ("=", "in") else not is_in


def parse_condition(text: str) -> Condition:
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"--where {text!r}: write COLUMN OP VALUE, such as 'status != rejected'; OP is "
            "= != < <= > >= ~ or in (a, b)"
        )
    symbol = {"==": "="}.get(match["symbol"].lower(), match["symbol"].lower())
    value = match["value"]
    values = [value]
    if symbol in ("in", "not in"):
        values = [one.strip() for one in value.strip("() ").split(",")]
    unquoted = tuple(map(_unquoted, values))
    if symbol in _ORDER and as_ordered(unquoted[0]) is None:
        raise ConfigError(f"--where {text!r}: {symbol} needs a number or a date, not {value!r}")
    return Condition(text, match["quoted"] or match["name"].strip(), symbol, unquoted)


def _unquoted(text: str) -> str:
    is_quoted = len(text) > 1 and text[0] in "'\"" and text[-1] == text[0]
    return text[1:-1] if is_quoted else text


def compare(cell: str, symbol: str, value: str) -> bool:
    """Whether a number or a date stands so to another; what is neither does not."""
    left, right = as_ordered(cell), as_ordered(value)
    if left is None or right is None or isinstance(left, float) != isinstance(right, float):
        return False
    return _ORDER[symbol](left, right)


def as_ordered(text: str) -> float | datetime | None:
    try:
        return float(text)
    except ValueError:
        return as_time(text)


_FORMATS = (
    "%m/%d/%Y %H:%M:%S",
    "%m/%d/%Y %H:%M",
    "%m/%d/%Y",
    "%a %b %d %H:%M:%S %Z %Y",
    "%Y/%m/%d %I:%M:%S %p",
    "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d",
)


def as_time(text: str) -> datetime | None:
    """ISO 8601, what Mechanical Turk and Appen write, or seconds since 1970."""
    stripped = re.sub(r" (P[DS]T|GMT|UTC)\b", "", text.strip())
    stripped = re.sub(r" ([AP]M) .*$", r" \1", stripped)
    try:
        found = datetime.fromisoformat(stripped)
    except ValueError:
        for layout in _FORMATS:
            try:
                found = datetime.strptime(stripped, layout.replace(" %Z", ""))
                break
            except ValueError:
                continue
        else:
            return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def filtered_out(document: Document, rows: Any, options: ReadOptions) -> dict[str, Any]:
    """Reason → boolean mask of those among these rows that a filter takes out."""
    aside: dict[str, Any] = {}
    for text in options.where or ():
        condition = parse_condition(text)
        at = _column(document, condition.column, f"--where {text!r}")
        aside[f"not {text}"] = ~_mask(document, at, condition.holds, rows)
    bounds = [("since", ">=", options.since, "before"), ("until", "<=", options.until, "after")]
    for flag, symbol, bound, side in bounds:
        if bound is not None:
            limit = as_time(bound)
            if limit is None:
                raise ConfigError(f"--{flag} {bound}: write a date such as 2026-11-16T09:30")
            test = partial(_in_time, document, symbol, limit)
            at = _time_column(document, options)
            aside[f"{side} --{flag}"] = ~_mask(document, at, test, rows)
    return aside


def times(document: Document, options: ReadOptions) -> Any:
    """When each row was answered, seconds since 1970 (NaN: not told); None without such a column.

    Nothing that is merely shown is worth an error: a column that holds no times is none.
    """
    try:
        at = _time_column(document, options)
    except InputError:
        return None
    (column,) = document.table.fetch([at])
    told = [time_of(cell) for cell in column.dictionary.to_pylist()]
    seconds = np.array([np.nan if one is None else one.timestamp() for one in told])
    if not np.isfinite(seconds).any():
        return None
    # a missing cell has code -1: the NaN behind the others
    return np.append(seconds, np.nan)[np.asarray(column.indices.fill_null(len(seconds)))]


def time_of(cell: str) -> datetime | None:
    """A cell as a time; numbers are seconds, or thousandths, since 1970."""
    told = as_time(cell)
    if told is None and cell.strip().replace(".", "", 1).isdigit():
        seconds = float(cell)
        with suppress(ValueError, OverflowError, OSError):  # a number of no year
            told = datetime.fromtimestamp(seconds / 1000 if seconds > 1e11 else seconds, UTC)
    return told


def _in_time(document: Document, symbol: str, limit: datetime, cell: str) -> bool:
    if not cell.strip():
        return False
    told = time_of(cell)
    if told is None:
        raise InputError(
            f"{document.name}: {cell!r} is not a time that can be read; name another --time-col"
        )
    return _ORDER[symbol](told, limit)


def _mask(document: Document, at: int, test: Callable[[str], bool], rows: Any) -> Any:
    """The test is made once for each distinct value of these rows."""
    (column,) = document.table.fetch([at])
    codes = np.asarray(column.indices)[rows]
    used = np.unique(codes)
    passed = np.zeros(len(column.dictionary), dtype=bool)
    passed[used] = [test(word) for word in column.dictionary.take(pa.array(used)).to_pylist()]
    return passed[codes]


def _column(document: Document, name: str, flag: str) -> int:
    for key in (str, normalise):
        found = [at for at, other in enumerate(document.names) if key(other) == key(name)]
        if len(found) == 1:
            return found[0]
    raise InputError(
        f"{document.name}: {flag}: no column {name!r} among {listing(document.names, 30)}"
    )


def _time_column(document: Document, options: ReadOptions) -> int:
    if options.time_col is not None:
        return named(document.name, document.names, "time", options.time_col)
    found = [at for at, name in enumerate(document.names) if _TIMES.fullmatch(normalise(name))]
    if len(found) == 1:
        return found[0]
    which = "none" if not found else " and ".join(repr(document.names[at]) for at in found)
    raise InputError(
        f"{document.name}: --since and --until need the column of times ({which} may be it); "
        "name it with --time-col"
    )


def renamed(label: Any, options: ReadOptions) -> Any:
    """Labels under their new names: --rename old=new and --fold-case, by vocabulary."""
    pairs = dict(_pair(text) for text in options.rename or ())
    if not pairs and not options.fold_case:
        return label
    spelled: dict[str, str] = {}
    words = []
    for word in label.dictionary.to_pylist():
        new = pairs.get(word.strip(), word)
        if options.fold_case:
            folded = " ".join(new.split())
            new = spelled.setdefault(folded.casefold(), folded.lower())
        words.append(new)
    vocabulary = pa.array(words, pa.string()).dictionary_encode()
    indices = vocabulary.indices.take(label.indices)
    return pa.DictionaryArray.from_arrays(indices, vocabulary.dictionary)


def _pair(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not equals or not old.strip():
        raise ConfigError(f"--rename {text!r}: write old=new")
    return old.strip(), new.strip()


def unanswered(label: Any, options: ReadOptions) -> Any | None:
    """A boolean mask of the labels that --no-answer names; None if it names none."""
    if options.no_answer is None:
        return None
    words = {word.strip().casefold() for word in options.no_answer.split(",")}
    hits = [word.strip().casefold() in words for word in label.dictionary.to_pylist()]
    if not any(hits):
        return None
    return np.asarray(hits)[np.asarray(label.indices)]
