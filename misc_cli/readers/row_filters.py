"""Rows that count and why others do not: by their status, by --where, by their label.

The grammar of --where is tiny, and nothing in it is ever run:

    COLUMN OP VALUE      OP is = != < <= > >= ~ (contains) or in (a, b, c)

Several conditions all hold. Text is compared without case; < and > need numbers or dates. Every
test is made once for each distinct value of a column.
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from misc_cli.errors import ConfigError, InputError
from misc_cli.readers.columns import named
from misc_cli.readers.document import Document, is_one_of, plain_words
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.reading import Question, first_reasons, rows_of, share_of_conflicts, take
from misc_cli.readers.values import MISSING, is_number
from misc_cli.readers.vocabulary import TRUE_LABELS, names_in, normalise

Numbers = npt.NDArray[np.float64]

# Words that take a row out: as a status, behind is_ or was_ as a flag, before _at as a time.
_BAD = names_in("rejected cancelled canceled skipped tainted deleted discarded ignored invalid")
_STATUSES = {"timed out", *_BAD} | names_in("""
reject skip ignore expired abandoned returned draft spam failed timed-out
""")
_STATUS = re.compile(r".*status|(review)?state")
_BAD_FLAG = re.compile(
    rf"(is|was)?({'|'.join(_BAD)}|superseded|excluded?)|is(spam|training|practice|draft)"
)
_GOOD_FLAG = re.compile(r"(is)?(valid|latest|approved|accepted)|iscurrent")
_REJECTED = re.compile(r"reject(iontime)?")  # of Mechanical Turk
_BAD_TIME = re.compile(rf"({'|'.join(_BAD)})at|{_REJECTED.pattern}")
_YES, _NO = names_in("true 1 yes t y 1.0"), names_in("false 0 no f n 0.0")
_NEVER = {"", "nat", "none", *map(str.lower, MISSING)}
# What kind of row it is: such words count only where other rows have other ones.
_KIND = re.compile(r"phase|stage|kind|block|part|mode|(label|annotation)?type")
_OF_OTHERS = names_in("consensus majority aggregated adjudicated")
_BAD_KINDS = _OF_OTHERS | names_in("""
adjudication curation curated prediction predicted pre-annotation preannotation
training practice tutorial warmup warm-up qualification onboarding
""")
# Who is called so is nobody: a label made of the others' answers, or known before.
_NOBODY = _OF_OTHERS | {"majority vote", "gold standard", "ground truth", "final label"}
_NOBODY |= names_in("majority_vote majorityvote aggregate gold gold_standard truth final_label")
_NOBODY |= names_in("ground_truth groundtruth")
_GOLD = TRUE_LABELS - {"correct"}  # which may tell whether the answer is right

_CONDITION = re.compile(
    r"\s*(?:\"(?P<quoted>[^\"]+)\"|(?P<name>[^=!<>~]+?))\s*"
    r"(?P<symbol>!=|<=|>=|==|=|<|>|~|\bnot in\b|\bin\b)\s*(?P<value>.*?)\s*",
    re.IGNORECASE,
)
_ORDER = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
# The best first: what says how often an answer was changed, when it was changed, when it was given.
_VERSIONS = ("revision", "version", "attempt")
_TIMES = (
    *("updatedat", "modifiedat", "submittedat", "submittime", "completedat", "finishedat"),
    *("annotatedat", "createdat", "timestamp", "endtime", "enddate", "datetime", "time", "date"),
)
_OLDEST = 1e8  # seconds since 1970: less is how long it took
# Seconds that an answer took, the surest name first.
_SECONDS = (
    *("worktimeinseconds", "leadtime", "durationseconds", "durationinseconds", "duration"),
    *("seconds", "timespent", "elapsedseconds", "elapsedtime", "elapsed", "timetaken", "worktime"),
)
# What programs write into a cell that holds nothing; no person chooses such a label.
_NOTHING = "nan,<na>,nat,#n/a"


def is_standing(name: str) -> bool:
    """Return whether a column says if an answer counts, by its name: a status, a flag, a time."""
    plain, patterns = normalise(name), (_STATUS, _BAD_FLAG, _GOOD_FLAG, _BAD_TIME)
    return any(pattern.fullmatch(plain) for pattern in patterns)


def rows_out(
    document: Document,
    column: Callable[[str], Any],
    roles: Sequence[str],
    taken: Sequence[str],
    *,
    worker: str | None,
) -> dict[str, Any]:
    """Return reason → mask of the rows that are no answers by what stands in or beside them.

    roles   the columns of worker and item: the header may come again in files put together
    taken   columns that are answers, not about them
    worker  the column in which a consensus is nobody; None if it is not looked for
    """
    found: dict[str, Any] = {}
    places = [column(name).dictionary.index(name).as_py() for name in roles]
    if document.table.header and roles and min(places) >= 0:
        pairs = zip(roles, places, strict=True)
        hits = [np.asarray(column(name).indices) == code for name, code in pairs]
        found["repeated header"] = np.all(hits, axis=0)
    for name in document.names:
        plain = normalise(name)
        said = "rejected" if _REJECTED.fullmatch(plain) else name.strip(" _").lower()
        is_about = is_standing(name) or _KIND.fullmatch(plain)
        if not is_about or name in (*roles, *taken):
            continue
        words = set(plain_words(column(name)).to_pylist())
        if _BAD_FLAG.fullmatch(plain):
            out = {said: _YES}
        elif _GOOD_FLAG.fullmatch(plain):  # if nobody said yes, nobody has looked yet
            out = {f"not {said}": _NO} if words & _YES else {}
        elif _BAD_TIME.fullmatch(plain):
            out = {said: words - _NEVER - _NO}
        elif _KIND.fullmatch(plain):
            out = {} if words <= {"", *_BAD_KINDS} else {k: {k} for k in words & _BAD_KINDS}
        else:
            out = {status: {status} for status in sorted(words & _STATUSES)}
        for reason in (reason for reason, own in out.items() if own & words):
            mask = np.asarray(is_one_of(column(name), *out[reason]))
            found[reason] = found[reason] | mask if reason in found else mask
    if worker is not None:
        nobodys = np.asarray(is_one_of(column(worker), *_NOBODY))
        if nobodys.any() and not nobodys.all():
            found["consensus or gold"] = nobodys
    return found


def gold_of(document: Document, taken: Sequence[str], answers: Sequence[str]) -> dict[str, str]:
    """Return the one answer's column → the column of right answers beside it, if there is one."""
    known = [n for n in document.names if normalise(n) in _GOLD and n not in (*taken, *answers)]
    return {answers[0]: known[0]} if len(known) == len(answers) == 1 else {}


def counting_rows(
    view: Document, question: Question, options: ReadOptions
) -> tuple[Question, dict[str, Any]]:
    """Return the question without the rows that filters take out, relabelled; reason → rows."""
    masks = {f"not {text}": ~_passing(view, text, question) for text in options.where or ()}
    question, aside = _without(question, masks)
    if options.has_filters:
        question = _relabelled(question, options)
    masks = {}
    if options.labels is not None:
        masks["unknown label"] = _unknown(view.name, question, options)
    nothing = {word.strip().casefold() for word in (options.no_answer or _NOTHING).split(",")}
    masks["no answer"] = _labelled(question, lambda word: word.casefold() in nothing)
    question, blank = _without(question, masks)
    return question, {**aside, **blank}


def _without(question: Question, masks: Mapping[str, Any]) -> tuple[Question, dict[str, Any]]:
    """Return the answers that no mask has, and reason → the source's rows of the others."""
    found, kept = first_reasons(masks, len(question))
    if kept is None:
        return question, {}
    rows = rows_of(question)
    return take(question, kept), {reason: rows[own] for reason, own in found.items()}


def _labelled(question: Question, test: Callable[[str], bool]) -> Any:
    """Return a mask of the answers whose label, without spaces around it, passes a test."""
    hits = np.array([test(word.strip()) for word in question.label.dictionary.to_pylist()], bool)
    return hits[np.asarray(question.label.indices)] if hits.any() else np.zeros(len(question), bool)


def _unknown(where: str, question: Question, options: ReadOptions) -> Any:
    """Return a mask of the answers that --labels leaves out; no more than --max-bad-rows may be."""
    known = {"", *map(str.strip, (options.labels or "").split(","))}
    strange = _labelled(question, lambda word: word not in known)
    n_strange = int(strange.sum())
    if n_strange > options.bad_rows_allowed(len(question)):
        others = sorted({*map(str.strip, question.label.dictionary.to_pylist())} - known)
        raise InputError(
            f"{where}: {n_strange:,} answers are none of --labels {options.labels}: "
            f"{', '.join(map(repr, others[:3]))}{', …' if len(others) > 3 else ''}; add them, "
            "--rename them, or set such rows aside with --max-bad-rows"
        )
    return strange


def where_column(document: Document, text: str) -> tuple[int, str, str]:
    """Return the position of the column that a condition looks at, its operator and its value."""
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"--where {text!r}: write COLUMN OP VALUE, such as 'status != rejected'; OP is "
            "= != < <= > >= ~ or in (a, b)"
        )
    name = match["quoted"] or match["name"].strip()
    at = named(document.name, document.names, "where", name)
    return at, match["symbol"].lower(), match["value"]


def _passing(document: Document, text: str, question: Question) -> Any:
    """Return a mask of the answers for whose rows a condition holds."""
    at, symbol, value = where_column(document, text)
    given = value.strip("() ").split(",") if symbol in ("in", "not in") else [value]
    values = [re.sub(r"(?s)^(['\"])(.*)\1$", r"\2", one.strip()) for one in given]
    (column,) = document.table.fetch([at])
    cells = [cell.strip() for cell in column.dictionary.to_pylist()]
    if symbol in _ORDER:
        measured = _numbers_of if is_number(values[0]) else times_of
        (limit,) = measured(values)
        if np.isnan(limit):
            raise ConfigError(f"--where {text!r}: {symbol} needs a number or a date, not {value!r}")
        passed = _ORDER[symbol](measured(cells), limit)
    else:
        words = [one.casefold() for one in values]
        told = [cell.casefold() for cell in cells]
        among = [words[0] in cell if symbol == "~" else cell in words for cell in told]
        passed = np.array(among, dtype=bool) ^ (symbol in ("!=", "not in"))
    return passed[np.asarray(column.indices)[rows_of(question)]]


def _numbers_of(cells: Sequence[str]) -> Numbers:
    return np.array([float(cell) if is_number(cell) else np.nan for cell in cells], np.float64)


def times_of(texts: Sequence[str]) -> Numbers:
    """Return seconds since 1970 of times in ISO 8601 or seconds (or milliseconds) since then.

    What is no time, and what is so little that it says how long something took, is NaN.
    """
    seconds = np.full(len(texts), np.nan)
    for at, text in enumerate(map(str.strip, texts)):
        try:
            found = datetime.fromisoformat(text)
            seconds[at] = (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
        except ValueError:
            if text.replace(".", "", 1).isdigit() and len(text) < 20 and float(text) > _OLDEST:
                seconds[at] = float(text) / (1000 if float(text) > 1e11 else 1)
    return seconds


def newest_last(question: Question, document: Document) -> Question:
    """Return the answers with a worker's later ones to an item behind the earlier ones."""
    names = {normalise(name): name for name in document.names}
    taken = {*question.columns.values()}
    known = [n for n in (*_VERSIONS, *_TIMES) if n in names and names[n] not in taken]
    if not known or not share_of_conflicts(question.worker, question.item, question.label)[2]:
        return question
    for name in known:
        (column,) = document.columns([names[name]])
        cells = column.dictionary.to_pylist()
        values = _numbers_of(cells) if name in _VERSIONS else times_of(cells)
        told = _by_row(column, values)[rows_of(question)]
        if not np.isnan(told).any():
            is_sorted = not (np.diff(told) < 0).any()
            return question if is_sorted else take(question, np.argsort(told, kind="stable"))
    return question


def answer_seconds(view: Document, question: Question, options: ReadOptions) -> Numbers | None:
    """Return the seconds that each answer took, NaN where the cell is empty; None if nothing tells.

    A column that is only named so does not count if its rows hold several answers or no numbers.
    """
    asked, column = options.seconds_col, question.seconds
    if asked is not None or column is None:
        taken, names = question.columns.values(), view.names
        free = {normalise(name): at for at, name in enumerate(names) if name not in taken}
        known = [free[name] for name in _SECONDS if name in free]
        if asked is None and not (known and len(np.unique(rows_of(question))) == len(question)):
            return None
        at = known[0] if asked is None else named(view.name, names, "seconds", asked)
        if names[at] in taken:
            raise InputError(f"{view.name}: --seconds-col {asked} is read as worker, item or label")
        column = view.table.fetch([at])[0].take(pa.array(rows_of(question)))
    cells = [cell.strip() for cell in column.dictionary.to_pylist()]
    values = _numbers_of(cells)
    strange = ~np.isfinite(values) & np.array([bool(cell) for cell in cells], dtype=bool)
    seconds = _by_row(column, np.where(strange, -1.0, values))
    wrong = np.flatnonzero(seconds < 0)
    if len(wrong) and asked is not None:
        told = f"line {view.table.line(rows_of(question)[wrong[0]])}: {column[wrong[0]].as_py()!r}"
        raise InputError(f"{view.name}, {told} is no number of seconds; name another --seconds-col")
    return None if len(wrong) or np.isnan(seconds).all() else seconds


def _by_row(column: Any, values: Numbers) -> Numbers:
    """Return the values of distinct cells for each row; a missing cell has the NaN behind them."""
    codes = np.asarray(column.indices.fill_null(len(values)))
    return np.asarray(np.append(values, np.nan)[codes])


def _relabelled(question: Question, options: ReadOptions) -> Question:
    """Return labels under other names, by --extract, --rename and --fold-case."""
    pairs = {}
    for text in options.rename or ():
        old, equals, new = text.partition("=")
        if not equals or not old.strip():
            raise ConfigError(f"--rename {text!r}: write old=new")
        pairs[old.strip()] = new.strip()
    words = question.label.dictionary.to_pylist()
    if options.extract is not None:  # the first group that is found, the whole without groups
        found = [re.search(options.extract, word) for word in words]
        words = [next(p for p in (*m.groups(), m[0]) if p is not None) if m else "" for m in found]
    words = [pairs.get(word.strip(), word) for word in words]
    if options.fold_case:
        counts = np.bincount(np.asarray(question.label.indices), minlength=len(words))
        words = folded(words, counts)
    return with_words(question, words)


def with_words(question: Question, words: list[str]) -> Question:
    """Return the question with other words for those of its labels' dictionary."""
    vocabulary = pa.array(words, pa.string()).dictionary_encode()
    return replace(question, label=vocabulary.take(question.label.indices))


def folded(words: list[str], counts: Any) -> list[str]:
    """Return words that differ in case and spaces under their most frequent spelling."""
    total: Counter[str] = Counter()
    plain = [" ".join(word.split()) for word in words]
    for word, n in zip(plain, counts.tolist(), strict=True):
        total[word] += n
    # the last one counts; of equals that is the one in lower case
    ranked = sorted(total, key=lambda word: (total[word], word == word.casefold(), word))
    best = {word.casefold(): word for word in ranked}
    return [best[word.casefold()] for word in plain]
