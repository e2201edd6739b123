"""Answers of platforms' exports, gathered record by record into columns.

A platform's reader yields who said what about which item, the value as the export has it;
`as_label` tells for all of them what kind of label that is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from misc_cli.errors import InputError
from misc_cli.readers.document import Document, Record, text, text_array
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.reading import Question, Reading
from misc_cli.readers.values import (
    CHOICE,
    CHOICES,
    OTHER,
    REGIONS,
    TEXT,
    WITH_CLASSES,
    kind_of,
    mark_region,
    parsed,
)
from misc_cli.readers.vocabulary import ROLES, is_remark

PLAIN = ""  # the kind of a plain field: its values tell
_STRENGTH = {PLAIN: 0, CHOICE: 1, CHOICES: 2}  # one answer of a stronger kind decides for all
_AROUND = ("choices", "selected", "rating", "number", "datetime")  # keys of an object's only value
_ALONE = ("label", "labels", "on")  # in the same way, where there is no other key

Field = tuple[str, Any]  # a question's name, the value
Read = Callable[[Document, ReadOptions], Reading]
Detect = Callable[[Document], str | None]


class Reader(NamedTuple):
    """One platform: its title for people, what in a file tells it, how it is read."""

    title: str
    detect: Detect
    read: Read
    name: str = ""  # its key in the table of platforms


class Answer(NamedTuple):
    """One answer of an export; the value is any JSON.

    right  it is known to be right: gold, and nobody's vote
    scope  what goes before the question's name where a file has several scopes
    """

    question: str
    worker: Any
    item: Any
    value: Any
    right: bool = False
    seconds: Any = None
    scope: str = ""


Found = Iterator[Answer | str]  # of a record; a text is the reason to set it aside


class Damaged(Exception):
    """A record that no file of the platform holds; the message says what is wrong with it."""


def as_label(value: Any) -> tuple[str, Any]:
    """Return kind and label of a value: text, options, an object around them, or a region.

    {"choices": ["cat"]}, {"label": "cat"}, {"cat": true, "dog": false} and "cat" say the same.
    """
    if isinstance(value, list):
        inner = [as_label(one)[0] for one in value if isinstance(one, dict)]
        if len(value) == 1 and inner:
            return as_label(value[0])
        if REGIONS in inner or any(isinstance(one, list) for one in value):
            return REGIONS, text(value)
        return (OTHER, text(value)) if inner else (CHOICES if len(value) > 1 else CHOICE, value)
    if not isinstance(value, dict):
        return PLAIN, text(value)
    if mark_region(map(str, value)):
        return REGIONS, text(value)
    if isinstance(value.get("taxonomy"), list):
        paths = value["taxonomy"]
        return as_label(["/".join(map(text, p)) if isinstance(p, list) else p for p in paths])
    if "text" in value:
        return TEXT, text(value["text"])
    around = [key for key in value if key in _AROUND or (key in _ALONE and len(value) == 1)]
    if around and not isinstance(value[around[0]], dict):
        return as_label(value[around[0]])
    if value and all(isinstance(on, bool) for on in value.values()):
        return as_label([option for option, on in value.items() if on])
    return OTHER, text(value)


def platform(
    title: str, detect: Detect = lambda _: "keys that only it writes"
) -> Callable[[Read], Reader]:
    """Return what makes a function the reader of a platform; mostly its keys give it away."""
    return lambda read: Reader(title, detect, read)


def export(title: str, *roles: str) -> Callable[[Callable[[Record, Document], Found]], Reader]:
    """Return what makes a function that yields the answers of a JSON object a platform's reader."""

    def reader(answers_in: Callable[[Record, Document], Found]) -> Reader:
        def read(document: Document, options: ReadOptions) -> Reading:
            if document.records is None:
                raise InputError(f"{document.name}: a table, and not {title}; export that")
            found = (answers_in(record, document) for record in document.records)
            return gather(document, options, found, *roles)

        return platform(title)(read)

    return reader


def gather(
    document: Document, options: ReadOptions, found: Iterable[Found], *roles: str
) -> Reading:
    """Return answers by question, given those of each row.

    A question is one of several choices if some list has more than one, and what is a region once
    is no class anywhere. If no answer of the file has a worker, only a majority vote is possible;
    if some have, the others are set aside.

    roles  the fields of worker, item and label, for people; {} is the question's name
    """
    aside: dict[str, list[int]] = {}
    answers: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    gold: dict[tuple[str, str], dict[str, Any]] = {}
    for row, of_record in enumerate(found):
        try:
            for one in of_record:
                if isinstance(one, str):
                    aside.setdefault(one, []).append(row)
                    continue
                item, (kind, label) = text(one.item), as_label(one.value)
                asked = one.scope, one.question
                if not item.strip():
                    raise Damaged("an answer without its item's id")
                if one.right:
                    gold.setdefault(asked, {})[item] = label
                else:
                    said = (row, text(one.worker), item, label, kind, text(one.seconds))
                    answers.setdefault(asked, []).append(said)
        except Damaged as error:
            is_table = document.records is None
            where = f"line {document.table.line(row)}" if is_table else f"record {row + 1}"
            raise InputError(f"{document.name}, {where}: {error}") from None
    nobody = [one[0] for own in answers.values() for one in own if not one[1].strip()]
    has_workers = len(nobody) < sum(map(len, answers.values())) or not answers
    if nobody and has_workers:
        aside["without a worker"] = nobody
    is_scoped = len({scope for scope, _ in answers}) > 1
    questions = []
    for asked, own in answers.items():
        kept = [one for one in own if one[1].strip() or not has_workers]
        if not kept:
            continue
        name = "".join(asked) if is_scoped else asked[1]
        rows, workers, items, labels, kinds, seconds = zip(*kept, strict=True)
        kind = max(kinds, key=lambda kind: _STRENGTH.get(kind, 3))
        if kind == PLAIN:
            kind = TEXT if is_remark(name) else kind_of(_column(labels, CHOICE)).name
            kind = CHOICE if kind == CHOICES else kind
        known = gold.get(asked)
        told = (role.replace("{}", name) for role in roles)
        questions.append(
            Question(
                name,
                kind,
                text_array(workers),
                text_array(items),
                _column(labels, kind),
                rows=np.array(rows, dtype=np.int64),
                gold=(text_array(known), _column(known.values(), kind)) if known else None,
                columns=dict(zip(ROLES, told, strict=True)),
                seconds=text_array(seconds) if any(seconds) else None,
            )
        )
    votable = [one for one in questions if one.kind in WITH_CLASSES]
    is_alone = votable and all(len(one) == len(one.item.dictionary) for one in votable)
    if is_alone and not has_workers and options.worker_from is None:
        raise InputError(
            f"{document.name}: no worker is named, and each item has one answer; if each file is "
            "one worker's, give them all, with --worker-from"
        )
    return Reading(questions, aside, has_workers=has_workers)


def _column(values: Iterable[Any], kind: str) -> Any:
    """Return labels as a column: of sorted lists for several choices, else of text."""
    if kind not in WITH_CLASSES:
        return text_array(map(text, values))
    lists = (value if isinstance(value, list) else [value] for value in values)
    chosen = [sorted({text(one) for one in own if one not in (None, "")}) for own in lists]
    if kind == CHOICES:
        return pa.array(chosen, pa.list_(pa.string()))
    return text_array(map("".join, chosen))


def fields_of(
    fields: Iterable[Field], worker: Any, item: Any, gold: str = "", **more: Any
) -> Found:
    """Yield each field of a form as an answer; the record is set aside as empty if there is none.

    gold  the reason to set the record aside for, where its answers are the right ones
    more  seconds and scope of the answers
    """
    found = [field for field in fields if field[1] not in (None, "", [], {})]
    if gold or not found:
        yield gold if found else "empty"
    for question, value in found:
        yield Answer(question, worker, item, value, bool(gold), **more)


def objects_in(record: Mapping[str, Any], name: str) -> list[Record]:
    """Return a list of objects, or JSON of it, or nothing; else it is no file of the platform."""
    value = [] if record.get(name) is None else record[name]
    value = parsed(value) if isinstance(value, str) else value
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise Damaged(f"{name!r} should be a list of objects; export the file again")
    return value


def first_of(record: Mapping[str, Any], *keys: str) -> Any:
    """Return the first of these fields that is filled; None if none is."""
    return next((record[key] for key in keys if record.get(key) not in (None, "")), None)
