"""Answers of platforms' exports, gathered record by record into columns.

A platform's reader yields who said what about which item, the value as the export has it;
`as_label` tells for all of them what kind of label that is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from misc_cli.errors import InputError
from misc_cli.readers.columns import Refusal, listing
from misc_cli.readers.document import Document, Record, text, text_array
from misc_cli.readers.keys import is_person
from misc_cli.readers.options import NOBODY, ReadOptions
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
)
from misc_cli.readers.vocabulary import ROLES, find_roles, is_remark

MOST_COLUMNS = 500
PLAIN = ""  # the kind of a plain field: its values tell
_AROUND = ("choices", "selected", "rating", "number", "datetime")  # keys of an object's only value
_ALONE = ("label", "labels", "on")  # in the same way, where there is no other key

Field = tuple[str, Any]  # a question's name, the value
Read = Callable[[Document, ReadOptions], Reading]
Detect = Callable[[Document], str | None]


class Reader(NamedTuple):
    """One platform: its title for people, what in a file tells it, how it is read."""

    name: str
    title: str
    detect: Detect
    read: Read


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
        return CHOICE, [option for option, on in value.items() if on]
    return OTHER, text(value)


def platform(
    name: str, title: str, detect: Detect = lambda _: "keys that only it writes"
) -> Callable[[Read], Reader]:
    """Return what makes a function the reader of a platform; mostly its keys give it away."""
    return lambda read: Reader(name, title, detect, read)


def export(
    name: str, title: str, *roles: str, is_table: bool = False
) -> Callable[[Callable[[Record, Document], Found]], Reader]:
    """Return what makes a function that yields the answers of a record a platform's reader.

    roles     the fields of worker, item and label, for people; {} is the question's name
    is_table  whether the rows of a table are the records, not JSON objects
    """

    def reader(read: Callable[[Record, Document], Found]) -> Reader:
        def read_all(document: Document, options: ReadOptions) -> Reading:
            rows = document.records
            if is_table:
                names = document.names
                cells = zip(*(own.to_pylist() for own in document.columns(names)), strict=True)
                rows = [dict(zip(names, row, strict=True)) for row in cells]
            if rows is None:
                raise InputError(f"{document.name}: a table, and not {title}; export that")
            reading = gather(document, (read(row, document) for row in rows), roles)
            asked = [q for q in reading.questions if q.kind in WITH_CLASSES]
            is_alone = asked and all(len(q) == len(q.item.dictionary) for q in asked)
            if is_alone and not reading.has_workers and options.worker_from is None:
                raise InputError(
                    f"{document.name}: no worker is named, and each item has one answer; if each "
                    "file is one worker's, give them all, with --worker-from"
                )
            return reading

        return platform(name, title)(read_all)

    return reader


def gather(document: Document, found: Iterable[Found], roles: Sequence[str]) -> Reading:
    """Return answers by question, given those of each row.

    A question is one of several choices if some list has more than one, and what is a region once
    is no class anywhere. If no answer of the file has a worker, only a majority vote is possible;
    if some have, the others are set aside.
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
                if not item.strip():
                    raise Damaged("an answer without its item's id")
                asked = one.scope, one.question
                if one.right:
                    gold.setdefault(asked, {})[item] = label
                    continue
                said = (row, text(one.worker), item, label, kind, text(one.seconds))
                answers.setdefault(asked, []).append(said)
        except Damaged as error:
            is_table = document.records is None
            where = f"line {document.table.line(row)}" if is_table else f"record {row + 1}"
            raise InputError(f"{document.name}, {where}: {error}") from None
    named = [one[1].strip() != "" for own in answers.values() for one in own]
    if any(named) and not all(named):
        nobody = [one[0] for own in answers.values() for one in own if not one[1].strip()]
        aside["without a worker"] = nobody
        answers = {q: [one for one in own if one[1].strip()] for q, own in answers.items()}
    is_scoped = len({scope for scope, _ in answers}) > 1
    questions = []
    for asked, own in answers.items():
        if own:
            name = "".join(asked) if is_scoped else asked[1]
            rows, workers, items, labels, kinds, seconds = zip(*own, strict=True)
            kind = _kind(name, kinds, labels)
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
    return Reading(questions, aside, has_workers=any(named) or not named)


def _kind(name: str, kinds: Sequence[str], labels: Sequence[Any]) -> str:
    """Return the kind of a question from those of its answers, and from their values."""
    regions = [kind for kind in kinds if kind not in (*WITH_CLASSES, PLAIN)]
    if regions:
        return regions[-1]
    if any(isinstance(label, list) and len(label) > 1 for label in labels):
        return CHOICES
    plain = TEXT if is_remark(name) else kind_of(_column(labels, CHOICE)).name
    return next(filter(None, kinds), None) or (CHOICE if plain == CHOICES else plain)


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
    """Return a list of objects, or nothing; anything else is no file of the platform."""
    value = [] if record.get(name) is None else record[name]
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise Damaged(f"{name!r} should be a list of objects; export the file again")
    return value


def first_of(record: Mapping[str, Any], *keys: str) -> Any:
    """Return the first of these fields that is filled; None if none is."""
    return next((record[key] for key in keys if record.get(key) not in (None, "")), None)


def with_columns(document: Document, derived: Mapping[str, Any]) -> Document:
    """Return a table with more columns; one of a name that it has stands in for its own."""
    table, more = document.table, dict(derived)
    names = [*table.names, *(name for name in derived if name not in table.names)]

    def fetch(places: Sequence[int]) -> list[Any]:
        own = iter(table.fetch([at for at in places if names[at] not in more]))
        return [more[names[at]] if names[at] in more else next(own) for at in places]

    whole = replace(table, names=names, fetch=fetch)
    return Document(document.name, document.format, lambda: whole)


def column_among(
    document: Document, options: ReadOptions, role: str, *names: str, item: str = ""
) -> tuple[str, ...]:
    """Return the first of these columns that there is; none if the user names the role's.

    item  the column whose values come again where rows are answers, be they nobody's
    """
    known = [document.names[at] for at in find_roles(document.names)[role]] if item else []
    if item and role == "worker":
        known += [name for name in document.names if is_person(name)]
    found = tuple(name for name in (*names, *known) if name in document.names)[:1]
    if found or options.columns[role] is not None:
        return found
    told = f"{document.name}: no column {names[0]}, "
    if item and len((column := document.columns([item])[0]).dictionary) < len(column):
        remedies = [{"worker_col": NOBODY}]
        raise Refusal(f"{told}so nobody knows who answered; --worker-col none says so", remedies)
    raise InputError(
        f"{told}so an aggregated report perhaps; download all answers with their {role}s, or name "
        f"the column with --{role}-col"
    )


def questions_within(document: Document, item: str, names: Sequence[str]) -> list[str]:
    """Return the columns that differ within some item, as its data does not; else by their names.

    Of many columns only the first are looked at.
    """
    names = names[:MOST_COLUMNS]
    items, *columns = document.columns([item, *names])
    n_items = len(items.dictionary.take(items.indices.unique()))
    found = []
    for name, column in zip(names, columns, strict=True):
        filled = pa.table({"item": items.indices, "value": column.indices})
        if filled.group_by(["item", "value"], use_threads=False).aggregate([]).num_rows > n_items:
            found.append(name)
    found = found or [names[at] for at in find_roles(names)["label"]]
    if not found:
        raise InputError(
            f"{document.name}: no column is surely a question among {listing(names)}; name it "
            "with --label-col"
        )
    return found
