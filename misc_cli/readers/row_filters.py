"""Choose the rows that count and rename their labels: --where, --since, --no-answer, --rename …

The grammar of --where is tiny, and nothing in it is ever run:

    COLUMN OP VALUE      OP is = != < <= > >= ~ (contains) or in (a, b, c)

Several conditions all hold. Text is compared without case; < and > need numbers or dates. Every
test is made once for each distinct value of a column.
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.errors import ConfigError, InputError
from misc_cli.readers.checks import nothing, share_of_conflicts
from misc_cli.readers.columns import listing, named
from misc_cli.readers.document import Document
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.reading import Question, RowNumbers, rows_of, take
from misc_cli.readers.values import is_number
from misc_cli.readers.vocabulary import normalise

Numbers = npt.NDArray[np.float64]
Test = Callable[[Sequence[str]], Any]  # distinct values → which of them pass

_CONDITION = re.compile(
    r"\s*(?:\"(?P<quoted>[^\"]+)\"|(?P<name>[^=!<>~]+?))\s*"
    r"(?P<symbol>!=|<=|>=|==|=|<|>|~|\bnot in\b|\bin\b)\s*(?P<value>.*?)\s*",
    re.IGNORECASE,
)
_ORDER: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TIMES = re.compile(
    r".*(timestamp|submittime|submittedat|submitted|createdat|updatedat|completedat|time|date)"
)
# As Mechanical Turk, Appen and Google Forms write times.
_FORMATS = (
    *("%m/%d/%Y %H:%M:%S", "%m/%d/%Y %H:%M", "%m/%d/%Y", "%a %b %d %H:%M:%S %Y"),
    *("%Y/%m/%d %I:%M:%S %p", "%Y/%m/%d %H:%M:%S", "%Y/%m/%d"),
)
# The best first: what says how often an answer was changed, when it was changed, when it was given.
_VERSIONS = ("revision", "revisionnumber", "rev", "version", "versionnumber", "attempt")
_LAST_TIMES = (
    *("updatedat", "updated", "modifiedat", "lastmodified", "lastupdated", "submittedat"),
    *("submitted", "submittime", "submissiontime", "completedat", "completiontime", "finishedat"),
    *("answeredat", "annotatedat", "labeledat", "judgedat", "createdat", "created", "timestamp"),
    *("endtime", "enddate", "datetime", "time", "date", "ts", "createdatutc"),
)
# Seconds that an answer took, the surest name first; and a number of them.
_SECONDS = (
    *("worktimeinseconds", "leadtime", "durationseconds", "durationinseconds", "duration"),
    *("seconds", "timespent", "elapsedseconds", "elapsedtime", "elapsed", "timetaken", "worktime"),
)
_AMOUNT = r"^(\d{1,15}\.?\d*|\.\d+)([eE][+-]?\d{1,2})?$"
_OLDEST = 1e8  # seconds since 1970: less is how long it took
NO_ANSWER = "no answer"


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
    if options.no_answer is None:
        blank = nothing(question.label)
    else:
        words = {word.strip().casefold() for word in options.no_answer.split(",")}
        hits = [word.strip().casefold() in words for word in question.label.dictionary.to_pylist()]
        blank = np.asarray(hits)[np.asarray(question.label.indices)] if any(hits) else None
    if blank is not None:
        aside[NO_ANSWER] = rows_of(question)[blank]
        question = take(question, np.flatnonzero(~blank))
    return question, aside


def filter_columns(document: Document, options: ReadOptions) -> list[int]:
    """Return the positions of the columns that filters look at."""
    at = [_where_column(document, text) for text in options.where or ()]
    return [*at, _time_column(document, options)] if options.since or options.until else at


def _where_column(document: Document, text: str) -> int:
    name, _ = parse_condition(text)
    for key in (str, normalise):
        found = [at for at, other in enumerate(document.names) if key(other) == key(name)]
        if len(found) == 1:
            return found[0]
    raise InputError(
        f"{document.name}: --where {text!r}: no column {name!r} among {listing(document.names, 30)}"
    )


def _filtered_out(document: Document, rows: Any, options: ReadOptions) -> dict[str, Any]:
    """Return reason → boolean mask of those among these rows that a filter takes out."""
    aside: dict[str, Any] = {}
    for text in options.where or ():
        at, (_, test) = _where_column(document, text), parse_condition(text)
        aside[f"not {text}"] = ~_mask(document, at, test, rows)
    bounds = [("since", ">=", options.since, "before"), ("until", "<=", options.until, "after")]
    for flag, symbol, bound, side in bounds:
        if bound is not None:
            (limit,) = times_of([bound])
            if np.isnan(limit):
                raise ConfigError(f"--{flag} {bound}: write a date such as 2026-11-16T09:30")
            at = _time_column(document, options)

            def test(cells: Sequence[str], symbol: str = symbol, limit: Any = limit) -> Any:
                times = times_of(cells, numbers=True)
                for cell, time in zip(cells, times, strict=True):
                    if np.isnan(time) and cell.strip():
                        raise InputError(
                            f"{document.name}: {cell!r} is not a time that can be read; name "
                            "another --time-col"
                        )
                return _ORDER[symbol](times, limit)

            aside[f"{side} --{flag}"] = ~_mask(document, at, test, rows)
    return aside


def parse_condition(text: str) -> tuple[str, Test]:
    """Return the column of one --where, and its test."""
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"--where {text!r}: write COLUMN OP VALUE, such as 'status != rejected'; OP is "
            "= != < <= > >= ~ or in (a, b)"
        )
    symbol, value = match["symbol"].lower(), match["value"]
    given = value.strip("() ").split(",") if symbol in ("in", "not in") else [value]
    values = [re.sub(r"(?s)^(['\"])(.*)\1$", r"\2", one.strip()) for one in given]
    words = [one.casefold() for one in values]

    def is_ordered(cells: Sequence[str]) -> Any:
        numbers = [float(cell) if is_number(cell) else np.nan for cell in cells]
        left = np.array(numbers) if is_number(values[0]) else times_of(cells)
        return _ORDER[symbol](left, limit)

    def is_among(cells: Sequence[str]) -> Any:
        told = [cell.strip().casefold() for cell in cells]
        if symbol == "~":
            return np.array([words[0] in cell for cell in told], dtype=bool)
        among = np.array([cell in words for cell in told], dtype=bool)
        return among if symbol in ("=", "==", "in") else ~among

    limit = float(values[0]) if is_number(values[0]) else times_of(values)[0]
    if symbol in _ORDER and np.isnan(limit):
        raise ConfigError(f"--where {text!r}: {symbol} needs a number or a date, not {value!r}")
    return match["quoted"] or match["name"].strip(), is_ordered if symbol in _ORDER else is_among


def _mask(document: Document, at: int, test: Test, rows: Any) -> Any:
    """Return the rows that pass a test, which is made once for each distinct value."""
    (column,) = document.table.fetch([at])
    codes = np.asarray(column.indices)[rows]
    used = np.unique(codes)
    passed = np.zeros(len(column.dictionary), dtype=bool)
    passed[used] = test(column.dictionary.take(pa.array(used)).to_pylist())
    return passed[codes]


def times_of(texts: Sequence[str], numbers: bool = False) -> Numbers:
    """Return seconds since 1970, NaN for what is no time; with `numbers` also of plain numbers.

    Times are in ISO 8601, or as platforms write them; zones that have only a name do not count.
    Each format is tried on all that is left at once.
    """
    seconds = np.full(len(texts), np.nan)
    left: dict[int, str] = {}
    for at, text in enumerate(texts):
        plain = re.sub(r"(?<= [AP]M) .*$| (P[DS]T|GMT|UTC)\b", "", text.strip())
        try:
            found = datetime.fromisoformat(plain)
            seconds[at] = (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
        except ValueError:
            if numbers and plain.replace(".", "", 1).isdigit() and len(plain) < 20:
                seconds[at] = float(plain) / (1000 if float(plain) > 1e11 else 1)
            elif "/" in plain or ":" in plain:
                left[at] = plain
    for layout in _FORMATS if left else ():
        places = np.fromiter(left, np.int64)
        told = pc.strptime(pa.array(left.values()), format=layout, unit="s", error_is_null=True)
        known = np.asarray(told.is_valid())
        seconds[places[known]] = told.drop_null().cast(pa.int64()).to_numpy()
        left = {at: left[at] for at in places[~known].tolist()}
        if not left:
            break
    return seconds


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


def answer_seconds(view: Document, question: Question, options: ReadOptions) -> Numbers | None:
    """Return the seconds that each answer took, NaN where the cell is empty; None if nothing tells.

    A column that is only named so does not count if its rows hold several answers or no numbers.
    """
    asked, rows, column = options.seconds_col, rows_of(question), question.seconds
    if asked is not None or column is None:
        taken, names = question.columns.values(), view.names
        free = {normalise(name): at for at, name in enumerate(names) if name not in taken}
        known = [free[name] for name in _SECONDS if name in free]
        if asked is None and (not known or len(np.unique(rows)) < len(rows)):
            return None
        at = known[0] if asked is None else named(view.name, names, "seconds", asked)
        if names[at] in taken:
            raise InputError(f"{view.name}: --seconds-col {asked} is read as worker, item or label")
        column = view.table.fetch([at])[0].take(pa.array(rows))
    cells = pc.utf8_trim_whitespace(column.dictionary.cast(pa.string()))
    numbers = pc.if_else(pc.match_substring_regex(cells, _AMOUNT), cells, None).cast(pa.float64())
    values = numbers.to_numpy(zero_copy_only=False)
    strange = ~np.isfinite(values) & np.asarray(pc.not_equal(cells, ""))
    seconds = _by_row(column, np.where(strange, -1.0, values))
    wrong = np.flatnonzero(seconds < 0)
    if len(wrong) and asked is not None:
        told = f"line {view.table.line(rows[wrong[0]])}: {column[wrong[0]].as_py()!r}"
        raise InputError(f"{view.name}, {told} is no number of seconds; name another --seconds-col")
    return None if len(wrong) or np.isnan(seconds).all() else seconds


def _by_row(column: Any, values: Numbers) -> Numbers:
    """Return the values of distinct cells for each row; a missing cell has the NaN behind them."""
    codes = np.asarray(column.indices.fill_null(len(values)))
    return np.asarray(np.append(values, np.nan)[codes])


def newest_last(question: Question, document: Document) -> Question:
    """Return the answers with a worker's later ones to an item behind the earlier ones."""
    names = {normalise(name): name for name in document.names if document.names.count(name) == 1}
    taken = {*question.columns.values()}
    known = [n for n in (*_VERSIONS, *_LAST_TIMES) if n in names and names[n] not in taken]
    if not known or not share_of_conflicts(question.worker, question.item, question.label)[1]:
        return question
    for name in known:
        (column,) = document.columns([names[name]])
        cells = column.dictionary.to_pylist()
        if name in _VERSIONS:
            values = np.array([float(cell) if is_number(cell) else np.nan for cell in cells])
        else:
            values = times_of(cells, numbers=True)
            values[values < _OLDEST] = np.nan
        told = _by_row(column, values)
        if not np.isnan(told).any():
            told = told[rows_of(question)]
            is_sorted = not (np.diff(told) < 0).any()
            return question if is_sorted else take(question, np.argsort(told, kind="stable"))
    return question


def _relabelled(
    where: str, question: Question, options: ReadOptions
) -> tuple[Question, RowNumbers]:
    """Return labels under their new names, and the rows of labels that --labels does not know.

    --extract takes a part of the text, --rename old=new and --fold-case change names.
    """
    pairs = {}
    for text in options.rename or ():
        old, equals, new = text.partition("=")
        if not equals or not old.strip():
            raise ConfigError(f"--rename {text!r}: write old=new")
        pairs[old.strip()] = new.strip()
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
    total: Counter[str] = Counter()
    plain = [" ".join(word.split()) for word in words]
    for word, n in zip(plain, counts.tolist(), strict=True):
        total[word] += n
    for word, n in total.items():
        folded = word.casefold()
        best[folded] = max(best.get(folded, (-1, False, "")), (n, word == folded, word))
    return [best[word.casefold()][2] for word in plain]


def _known_only(
    where: str, question: Question, options: ReadOptions
) -> tuple[Question, RowNumbers]:
    """Refuse labels that --labels leaves out, or set them aside within --max-bad-rows."""
    known = {word.strip() for word in (options.labels or "").split(",")}
    words = [word.strip() for word in question.label.dictionary.to_pylist()]
    strange = np.array([bool(word) and word not in known for word in words], dtype=bool)
    out = strange[np.asarray(question.label.indices)]
    if out.sum() > options.bad_rows_allowed(len(question)):
        others = sorted({word for word, new in zip(words, strange, strict=True) if new})
        raise InputError(
            f"{where}: {int(out.sum()):,} answers are none of --labels {options.labels}: "
            f"{', '.join(map(repr, others[:3]))}{', …' if len(others) > 3 else ''}; add them, "
            "--rename them, or set such rows aside with --max-bad-rows"
        )
    if not out.any():
        return question, np.array([], dtype=np.int64)
    return take(question, np.flatnonzero(~out)), np.asarray(rows_of(question))[out]
