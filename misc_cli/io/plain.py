"""One row per answer: which column is the worker, the item, and which hold what was answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from misc_cli.errors import ConfigError, InputError
from misc_cli.io.columns import (
    ABOUT,
    SYNONYMS,
    find_roles,
    listing,
    missing_columns,
    normalise,
    rivals,
    words_of,
)
from misc_cli.io.document import Document
from misc_cli.io.headerless import positions
from misc_cli.io.kinds import kind_of_values
from misc_cli.io.long import refuse_nameless
from misc_cli.io.options import ReadOptions
from misc_cli.io.readers.base import (
    LIKELY,
    Match,
    Question,
    Reader,
    Reading,
    from_columns,
    is_one_of,
    split_by,
    user_column,
)
from misc_cli.io.repeats import always_same, tells_apart

NOBODY = "none"  # --worker-col none: nobody knows who answered
_GROUPS = {
    *("question", "questionid", "questionname", "attribute", "aspect", "criterion", "dimension"),
    *("property", "field", "variable", "key", "metric", "taskname", "tasktype", "labeltype"),
    *("annotationtype", "type", "category", "facet", "scale", "fromname", "prompt", "task"),
}
_BAD_STATUSES = (
    *("rejected", "reject", "cancelled", "canceled", "skipped", "skip", "tainted", "expired"),
    *("abandoned", "returned", "deleted", "draft", "invalid", "ignored", "ignore", "discarded"),
    *("spam", "failed", "timed-out", "timed out"),
)
_BAD_FLAGS = (
    *("rejected", "cancelled", "canceled", "wascancelled", "skipped", "tainted", "deleted"),
    *("isdeleted", "discarded", "isspam", "ignored", "isskipped", "isrejected", "iscancelled"),
)
# Ids of the answer, the worker or the tool, not of what is judged.
_NOT_ITEMS = {
    *("annotation", "assignment", "answer", "response", "label", "class", "category", "session"),
    *(
        "batch",
        "job",
        "project",
        "worker",
        "user",
        "annotator",
        "rater",
        "team",
        "group",
        "country",
    ),
    *("campaign", "account", "device", "record", "row", "submission", "judgment", "vote", "rating"),
}
_GOLD = {"gold", "goldlabel", "truth", "groundtruth", "truelabel", "goldanswer", "correctlabel"}


def read(document: Document, options: ReadOptions, *, anonymous: bool = False) -> Reading:
    """The questions of a table with one row per answer."""
    if document.table.header is False:
        return _headerless(document, options)
    roles, answers = _roles(document, options)
    asked = replace(options, worker_col=None, item_col=None, label_col=None)
    worker = roles.get("worker")
    reading = from_columns(
        document,
        worker=worker or roles["item"],  # a stand-in, replaced below
        item=roles["item"],
        questions={name: name for name in answers},
        options=asked,
        aside={**_header_again(document, roles), **_statuses(document)},
        gold=_gold(document, roles, answers),
    )
    refuse_nameless(document, reading.questions, roles)
    if worker is not None and len(answers) == 1 and options.group_by is None:
        reading = replace(reading, questions=_by_question(document, roles, reading.questions[0]))
    if worker is None:
        reading = without_workers(document, options, reading)
    elif anonymous:
        reading = replace(reading, has_workers=False)
    return reading


def _by_question(document: Document, roles: Mapping[str, str], only: Question) -> list[Question]:
    """A question for each value of a column `question` or the like, if it tells answers apart."""
    taken = [*roles.values(), *only.columns.values()]
    for name in document.names:
        if normalise(name) in _GROUPS and name not in taken and document.names.count(name) == 1:
            values = set(document.sampled(name))
            key = (roles["worker"], roles["item"])
            if 2 <= len(values) <= 50 and tells_apart(document, key, name):
                return split_by(only, document.columns([name])[0])
    return [only]


def _roles(document: Document, options: ReadOptions) -> tuple[dict[str, str], list[str]]:
    """The worker's and the item's column, and those of the questions."""
    names = document.names
    found = {role: [names[at] for at in places] for role, places in find_roles(names).items()}
    for role, asked in options.columns.items():
        if asked is not None and not (role == "worker" and asked.lower() == NOBODY):
            found[role] = [user_column(document, role, asked)]
    nobody = options.worker_from is not None or (options.worker_col or "").lower() == NOBODY
    if nobody:
        found["worker"] = []
    if not found["item"]:
        found["item"] = _bare_id(document) or _other_id(document, found["worker"])
    if options.item_col is None:
        found["item"] = _not_the_question(document, found)
    rest = [n for n in names if n not in found["worker"] and n not in found["item"]]
    knows_rest = found["item"] and (found["worker"] or nobody)
    if not found["label"] and knows_rest:
        found["label"] = _said(document, found, _answers(document, rest))
    if options.label_col is None and knows_rest:
        _refuse_consensus(document, found)
    missing = [role for role, columns in found.items() if not columns]
    if missing == ["worker"] and (nobody or _surely_nobody(document, found)):
        missing = []
    if missing:
        raise missing_columns(document.name, names, missing, _hint(document, options, missing))
    roles = {role: columns[0] for role, columns in found.items() if columns and role != "label"}
    for role in roles:
        if len(found[role]) > 1:
            raise rivals(document.name, role, found[role])
    taken = [*roles.values(), *found["label"]]
    if len(set(taken)) < len(taken):
        twice = next(name for name in taken if taken.count(name) > 1)
        raise InputError(
            f"{document.name}: column {twice} would be two of worker, item and label; "
            "set --worker-col, --item-col and --label-col"
        )
    return roles, found["label"]


def _hint(document: Document, options: ReadOptions, missing: Sequence[str]) -> str:
    hint = ""
    if "worker" in missing and len(_alike(document)) > 1:
        hint = f"; if {listing(_alike(document), 4)} are a worker's each, say --wide"
    elif "item" in missing and "worker" not in missing and len(_alike(document)) > 1:
        hint = f"; if {listing(_alike(document), 4)} are an item each, say --item-cols"
    elif missing == ["worker"]:
        hint = " (none if nobody knows who answered), or --worker-from filename"
    if document.table.header and options.header is None and not any(options.columns.values()):
        hint += ", or say --no-header if the first row is data"
    return hint


def _alike(document: Document) -> list[str]:
    """Columns that choose from the same few values, as those of several workers do."""
    values = {name: set(document.sampled(name)) for name in dict.fromkeys(document.names)}
    few = [n for n, own in values.items() if 1 < len(own) <= len(document.table.sample) / 2 + 1]
    return [n for n in few if any(values[n] & values[other] for other in few if other != n)]


def _bare_id(document: Document) -> list[str]:
    """A column `id`, if it is the item's: it comes again, so it does not count the answers."""
    names = [name for name in document.names if normalise(name) in ("id", "uid", "key")]
    return [n for n in names if len(set(document.sampled(n))) < len(document.sampled(n))][:1]


def _other_id(document: Document, workers: Sequence[str]) -> list[str]:
    """The only column left that is called some id (site_id), if workers share its values.

    It is the item's if at least half its values come from several workers, no worker repeats one
    in more than a fifth of the rows, and it is not about the worker.
    """
    if len(workers) != 1:
        return []
    found = [n for n in document.names if "id" in words_of(n) and not words_of(n) & _NOT_ITEMS]
    if len(found) != 1 or found[0] in workers or document.names.count(found[0]) > 1:
        return []
    places = document.position(workers[0]), document.position(found[0])
    pairs = [
        tuple(row[at] for at in places) for row in document.table.sample if len(row) > max(places)
    ]
    shared = Counter(what for _, what in set(pairs))
    is_shared = 2 * sum(n > 1 for n in shared.values()) >= len(shared) > 1
    is_once = len(set(pairs)) >= 0.8 * len(pairs)
    return found if is_shared and is_once else []


def _not_the_question(document: Document, found: dict[str, list[str]]) -> list[str]:
    """The item's column, where `question` or the like tells a worker's answers to it apart."""
    items = found["item"]
    if len(found["worker"]) != 1 or not any(normalise(name) in _GROUPS for name in items):
        return items
    every = {word for tier in SYNONYMS["item"] for word in tier}
    others = [n for n in document.names if normalise(n) in every and normalise(n) not in _GROUPS]
    for question in (name for name in items if normalise(name) in _GROUPS):
        for other in others:
            if tells_apart(document, (found["worker"][0], question), other):
                return [other]
    plain = [name for name in items if normalise(name) not in _GROUPS]
    return plain if len(items) > 1 and plain else items


def _answers(document: Document, rest: Sequence[str]) -> list[str]:
    """Columns that may hold answers: few values that come again and again."""
    if len(rest) == 1:
        return [name for name in rest if not words_of(name) & ABOUT]
    n_rows = len(document.table.sample)
    found = []
    for name in rest:
        values = document.sampled(name)
        distinct = list(dict.fromkeys(values))
        if words_of(name) & ABOUT or not words_of(name) or len(distinct) < 2:
            continue
        kind = kind_of_values(distinct, len(values))
        is_few = len(distinct) <= max(5, min(50, n_rows / 2))
        if is_few or not kind.has_classes:
            found.append(name)
    every = {word for tier in SYNONYMS["item"] for word in tier}
    return [name for name in found if normalise(name) not in every]


def _said(document: Document, found: Mapping[str, list[str]], names: Sequence[str]) -> list[str]:
    """What may be answers, where nothing but its place says so.

    One column alone must differ within items and within workers: what is always the same for a
    worker is about the worker, for an item about the item. Several are for the user to tell apart.
    """
    if len(names) > 1:
        return list(names)
    owners = [*found["worker"], *found["item"]]
    return [n for n in names if not any(always_same(document, owner, n) for owner in owners)]


def _refuse_consensus(document: Document, found: Mapping[str, list[str]]) -> None:
    """A label that never differs within an item, beside another that does, is nobody's answer."""
    if len(found["label"]) != 1 or len(found["item"]) != 1 or len(found["worker"]) != 1:
        return
    (label,), (item,) = found["label"], found["item"]
    others = [n for tier in SYNONYMS["label"] for n in document.names if normalise(n) in tier]
    others = [n for n in others if n != label and n not in (*found["worker"], item)]
    names = document.names
    others = [n for n in others if names.count(n) == names.count(label) == names.count(item) == 1]
    if not others or not always_same(document, item, label):
        return
    free = [n for n in others if not always_same(document, item, n)]
    if free:
        raise InputError(
            f"{document.name}: {label!r} is the same for all answers to an item and {free[0]!r} is "
            f"not: which one did the workers give? Say --label-col {free[0]} or {label}"
        )


def _surely_nobody(document: Document, found: Mapping[str, list[str]]) -> bool:
    """Items come again and no other column could be the worker."""
    if len(found["item"]) != 1 or len(found["label"]) != 1:
        return False
    items = document.sampled(found["item"][0])
    rest = [n for n in document.names if n not in (*found["item"], *found["label"])]
    return not rest and len(set(items)) < len(items)


def _statuses(document: Document) -> dict[str, Callable[[Any], Any]]:
    """Rows that a status or a flag takes out, by reason."""
    aside: dict[str, Callable[[Any], Any]] = {}
    for name in document.names:
        if document.names.count(name) > 1:
            continue
        if normalise(name).endswith("status") or normalise(name) == "state":
            seen = {value.lower() for value in document.sampled(name)} & set(_BAD_STATUSES)
            for status in sorted(seen):
                aside[status] = _is(name, status)
        elif normalise(name) in _BAD_FLAGS:
            aside[name.strip().lower()] = _is(name, "true", "1", "yes")
    return aside


def _header_again(document: Document, roles: Mapping[str, str]) -> dict[str, Callable[[Any], Any]]:
    """Rows that are the header once more, as files have that were put together from several."""
    names = list(roles.values())
    if not document.table.header or not names:
        return {}

    def condition(column: Any) -> Any:
        places = [(column(name), column(name).dictionary.index(name).as_py()) for name in names]
        if any(place < 0 for _, place in places):
            return None
        return np.all([np.asarray(values.indices) == place for values, place in places], axis=0)

    return {"repeated header": condition}


def _is(name: str, *values: str) -> Callable[[Any], Any]:
    return lambda column: is_one_of(column(name), *values)


def _gold(document: Document, roles: Mapping[str, str], answers: Sequence[str]) -> dict[str, str]:
    known = [n for n in document.names if normalise(n) in _GOLD and n not in roles.values()]
    return {answers[0]: known[0]} if len(known) == len(answers) == 1 else {}


def without_workers(document: Document, options: ReadOptions, reading: Reading) -> Reading:
    """Answers of nobody: of the file's name if --worker-from says so, else of an unknown each."""
    if options.worker_from is not None:
        name = worker_of_file(document.name, options.worker_from)
        questions = [replace(q, worker=_constant(name, len(q))) for q in reading.questions]
        return replace(reading, questions=questions, has_workers=True)
    questions = [replace(q, worker=nth_of_item(q.item)) for q in reading.questions]
    return replace(reading, questions=questions, has_workers=False)


def worker_of_file(path: str, source: str) -> str:
    """The file's name without folders and suffixes, or the name of the folder that it is in."""
    if source == "folder":
        return Path(path).absolute().parent.name
    return Path(path).name.split(".")[0]


def _constant(value: str, length: int) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(length, np.int32)), pa.array([value]))


def nth_of_item(items: Any) -> Any:
    """Workers that nobody knows: the first answer to an item, the second, and so on."""
    codes = items.indices.to_numpy(zero_copy_only=False)
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    nth = np.empty(len(codes), np.int32)
    sizes = np.diff(np.r_[starts, len(codes)])
    nth[order] = np.arange(len(codes)) - np.repeat(starts, sizes)
    names = pa.array([f"answer {n + 1}" for n in range(int(nth.max(initial=0)) + 1)])
    return pa.DictionaryArray.from_arrays(pa.array(nth), names)


def _headerless(document: Document, options: ReadOptions) -> Reading:
    """Columns by position."""
    if options.worker_from is not None:
        raise ConfigError("--worker-from needs a header that names item and label")
    chosen, why = positions(document, options)
    names = [document.names[at] for at in (chosen["worker"], chosen["item"], chosen["label"])]
    worker, item, label = names
    asked = replace(options, worker_col=None, item_col=None, label_col=None)
    reading = from_columns(
        document, worker=worker, item=item, questions={label: label}, options=asked
    )
    refuse_nameless(document, reading.questions, {"worker": worker, "item": item})
    return replace(reading, notes=[f"{document.name}: {why}"] if why else [])


def detect(document: Document) -> Match | None:
    return Match(LIKELY, "one row per answer")


READER = Reader(
    name="long",
    title="a table with one row per answer",
    explain="columns of worker, item and label",
    detect=detect,
    read=read,
)
