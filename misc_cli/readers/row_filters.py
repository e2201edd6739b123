"""Choose the rows that count and rename their labels: --where, --since, --no-answer, --rename …

The grammar of --where is tiny, and nothing in it is ever run:

    COLUMN OP VALUE      OP is = != < <= > >= ~ (contains) or in (a, b, c)

Several conditions all hold. Text is compared without case; < and > need numbers or dates.
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from misc_cli.errors import ConfigError, InputError
from misc_cli.readers.checks import nothing, share_of_conflicts
from misc_cli.readers.columns import listing, named
from misc_cli.readers.document import Document
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.reading import Question, RowNumbers, rows_of, take
from misc_cli.readers.values import is_number
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


NO_ANSWER = "no answer"


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
    """Return whether a number or a date stands so to another; what is neither does not."""
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
    """Return a time in ISO 8601 or as Mechanical Turk and Appen write it; else None."""
    stripped = re.sub(r" (P[DS]T|GMT|UTC)\b", "", text.strip())
    stripped = re.sub(r" ([AP]M) .*$", r" \1", stripped)
    try:
        found = datetime.fromisoformat(stripped)
    except ValueError:
        written = "/" in stripped or ":" in stripped  # a plain number costs seven tries else
        for layout in _FORMATS if written else ():
            try:
                found = datetime.strptime(stripped, layout.replace(" %Z", ""))
                break
            except ValueError:
                continue
        else:
            return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def counting_rows(
    view: Document, question: Question, options: ReadOptions
) -> tuple[Question, dict[str, Any]]:
    """Return the question without the rows that filters take out, relabelled; reason → rows."""
    aside: dict[str, Any] = {}
    if options.has_filters:
        rows = rows_of(question)
        left = np.zeros(len(rows), dtype=bool)
        for reason, out in _filtered_out(view, rows, options).items():
            if (out & ~left).any():
                aside[reason] = rows[out & ~left]
                left |= out
        question = take(question, np.flatnonzero(~left)) if left.any() else question
        question, strange = _relabelled(view.name, question, options)
        if len(strange):
            aside["unknown label"] = strange
    blank = _unanswered(question.label, options)
    if blank is None and options.no_answer is None:
        blank = nothing(question.label)
    if blank is not None:
        aside[NO_ANSWER] = rows_of(question)[blank]
        question = take(question, np.flatnonzero(~blank))
    return question, aside


def filter_columns(document: Document, options: ReadOptions) -> list[int]:
    """Return the positions of the columns that filters look at."""
    names = [parse_condition(text).column for text in options.where or ()]
    at = [_column(document, name, "--where") for name in names]
    return [*at, _time_column(document, options)] if options.since or options.until else at


def _filtered_out(document: Document, rows: Any, options: ReadOptions) -> dict[str, Any]:
    """Return reason → boolean mask of those among these rows that a filter takes out."""
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


def answer_times(view: Document, question: Question, options: ReadOptions) -> Any:
    """Return when each answer was given, seconds since 1970; NaN where no column says so."""
    try:
        at = _time_column(view, options)
    except InputError:  # nothing that is merely shown is worth an error
        return np.full(len(question), np.nan)
    (column,) = view.table.fetch([at])
    told = [time_of(cell) for cell in column.dictionary.to_pylist()]
    seconds = np.array([np.nan if one is None else one.timestamp() for one in told])
    # a missing cell has the NaN behind the others
    by_row = np.append(seconds, np.nan)[np.asarray(column.indices.fill_null(len(seconds)))]
    return by_row[rows_of(question)]


def time_of(cell: str) -> datetime | None:
    """Return a cell as a time; numbers are seconds, or thousandths, since 1970."""
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
    """Return the rows that pass a test, which is made once for each distinct value."""
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


def _relabelled(
    where: str, question: Question, options: ReadOptions
) -> tuple[Question, RowNumbers]:
    """Return labels under their new names, and the rows of labels that --labels does not know.

    --extract takes a part of the text, --rename old=new and --fold-case change names.
    """
    pairs = dict(_pair(text) for text in options.rename or ())
    nobody = np.array([], dtype=np.int64)
    if not (pairs or options.fold_case or options.extract or options.labels):
        return question, nobody
    if not pa.types.is_dictionary(question.label.type):
        return question, nobody
    words = question.label.dictionary.to_pylist()
    if options.extract is not None:
        words = [_extracted(options.extract, word) for word in words]
    words = [pairs.get(word.strip(), word) for word in words]
    if options.fold_case:
        counts = np.bincount(np.asarray(question.label.indices), minlength=len(words))
        words = folded(words, counts)
    question = with_words(question, words)
    return (question, nobody) if options.labels is None else _known_only(where, question, options)


def _extracted(pattern: str, text: str) -> str:
    """Return the first group of a pattern that is found, the whole without groups, else ''."""
    found = re.search(pattern, text)
    if found is None:
        return ""
    return next((group for group in found.groups() if group is not None), found[0])


def with_words(question: Question, words: list[str]) -> Question:
    """Return the question with other words for those of its labels' dictionary."""
    vocabulary = pa.array(words, pa.string()).dictionary_encode()
    indices = vocabulary.indices.take(question.label.indices)
    label = pa.DictionaryArray.from_arrays(indices, vocabulary.dictionary)
    return replace(question, label=label)


def folded(words: list[str], counts: Any) -> list[str]:
    """Return words that differ in case and spaces under their most frequent spelling."""
    best: dict[str, tuple[int, bool, str]] = {}  # of equals the one in lower case
    total: Counter[tuple[str, str]] = Counter()
    for word, n in zip(words, counts.tolist(), strict=True):
        plain = " ".join(word.split())
        total[plain.casefold(), plain] += n
    for (folded, plain), n in total.items():
        best[folded] = max(best.get(folded, (-1, False, "")), (n, plain == folded, plain))
    return [best[" ".join(word.split()).casefold()][2] for word in words]


def _known_only(
    where: str, question: Question, options: ReadOptions
) -> tuple[Question, RowNumbers]:
    """Refuse labels that --labels leaves out, or set them aside within --max-bad-rows."""
    known = {word.strip() for word in (options.labels or "").split(",")}
    words = [word.strip() for word in question.label.dictionary.to_pylist()]
    strange = np.array([bool(word) and word not in known for word in words], dtype=bool)
    out = strange[np.asarray(question.label.indices)]
    if not out.any():
        return question, np.array([], dtype=np.int64)
    if out.sum() > options.bad_rows_allowed(len(question)):
        others = sorted({word for word, new in zip(words, strange, strict=True) if new})
        raise InputError(
            f"{where}: {int(out.sum()):,} answers are none of --labels {options.labels}: "
            f"{', '.join(map(repr, others[:3]))}{', …' if len(others) > 3 else ''}; add them, "
            "--rename them, or set such rows aside with --max-bad-rows"
        )
    return take(question, np.flatnonzero(~out)), np.asarray(rows_of(question))[out]


def _pair(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not equals or not old.strip():
        raise ConfigError(f"--rename {text!r}: write old=new")
    return old.strip(), new.strip()


def _unanswered(label: Any, options: ReadOptions) -> Any | None:
    """Return a mask of the labels that --no-answer names; None if it names none."""
    if options.no_answer is None:
        return None
    words = {word.strip().casefold() for word in options.no_answer.split(",")}
    hits = [word.strip().casefold() in words for word in label.dictionary.to_pylist()]
    if not any(hits):
        return None
    return np.asarray(hits)[np.asarray(label.indices)]


# The best first: what says how often an answer was changed, when it was changed, when it was given.
_VERSIONS = ("revision", "revisionnumber", "rev", "version", "versionnumber", "attempt")
_LAST_TIMES = (
    *("updatedat", "updated", "modifiedat", "lastmodified", "lastupdated", "submittedat"),
    *("submitted", "submittime", "submissiontime", "completedat", "completiontime", "finishedat"),
    *("answeredat", "annotatedat", "labeledat", "judgedat", "createdat", "created", "timestamp"),
    *("endtime", "enddate", "datetime", "time", "date", "ts", "createdatutc"),
)
_OLDEST = 1e8  # seconds since 1970: less is how long it took


def newest_last(question: Question, document: Document) -> Question:
    """Return the answers with a worker's later ones to an item behind the earlier ones."""
    names = {normalise(name): name for name in document.names if document.names.count(name) == 1}
    taken = {*question.columns.values()}
    known = [names[n] for n in (*_VERSIONS, *_LAST_TIMES) if n in names and names[n] not in taken]
    if not known or not share_of_conflicts(question.worker, question.item, question.label)[1]:
        return question
    for name in known:
        told = _values(document, name)
        if told is not None:
            told = told if question.rows is None else told[question.rows]
            if not (np.diff(told) < 0).any():
                return question
            return take(question, np.argsort(told, kind="stable"))
    return question


def _values(document: Document, name: str) -> Any | None:
    """Return a number for each row; None if the column holds something else or has gaps."""
    (column,) = document.columns([name])
    cells = [cell.strip() for cell in column.dictionary.to_pylist()]
    if normalise(name) in _VERSIONS:
        if not all(map(is_number, cells)):
            return None
        seconds = np.array([float(cell) for cell in cells])
    else:
        told = [time_of(cell) for cell in cells]
        if any(one is None for one in told):
            return None
        seconds = np.array([one.timestamp() for one in told if one is not None])
        if seconds.min(initial=np.inf) < _OLDEST:
            return None
    return None if column.null_count else seconds[np.asarray(column.indices)]
