"""Answers of platforms' exports, gathered record by record into columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from misc_cli.errors import InputError
from misc_cli.readers.document import Document, Record, mapping, text, text_array
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.reading import Question, Reader, Reading
from misc_cli.readers.values import (
    BOXES,
    CHOICE,
    CHOICES,
    OTHER,
    SPANS,
    TEXT,
    WITH_CLASSES,
    kind_of,
    kind_of_keys,
)
from misc_cli.readers.vocabulary import is_remark

PLAIN = ""  # the kind of a plain field: its values tell

Field = tuple[str, str, Any]  # a question's name, its kind, the label
_REGIONS = {"boundingboxes": BOXES, "polygons": BOXES, "keypoints": BOXES, "entities": SPANS}


class Answer(NamedTuple):
    """One answer of an export; the label is text or a list of options.

    right  it is known to be right: gold, and nobody's vote
    """

    question: str
    worker: Any
    item: Any
    label: Any
    kind: str = CHOICE
    right: bool = False
    seconds: Any = None


Found = Iterator[Answer | str]  # of a record; a text is the reason to set it aside


class Damaged(Exception):
    """A record that no file of the platform holds; the message says what is wrong with it."""


def export(
    name: str,
    title: str,
    read: Callable[[Record, Document], Found],
    roles: tuple[str, str, str],
    *,
    records: Callable[[Document], Iterable[Record]] = lambda document: document.records or [],
    file_per_worker: bool = False,
) -> Reader:
    """Return the reader of a platform whose records `read` turns into answers one by one.

    roles            the fields of worker, item and label, for people; {} is the question's name
    records          the records of a file; by default its JSON objects
    file_per_worker  the platform may write a file for each worker, without their names
    """

    def read_all(document: Document, options: ReadOptions) -> Reading:
        found = ((row, read(one, document)) for row, one in enumerate(records(document)))
        reading = gather(document, found, roles)
        alone = [
            len(q) == len(q.item.dictionary) for q in reading.questions if q.kind in WITH_CLASSES
        ]
        nobody = not reading.has_workers and options.worker_from is None
        if file_per_worker and nobody and alone and all(alone):
            raise InputError(
                f"{document.name}: no worker is named, and each item has one answer; if each "
                "file is one worker's, give them all, with --worker-from"
            )
        return reading

    return certain(name, title, read_all)


def certain(name: str, title: str, read: Callable[[Document, ReadOptions], Reading]) -> Reader:
    """Return the reader of a platform that its keys give away."""
    return Reader(name, title, lambda _: "keys that only it writes", read)


def gather(
    document: Document, found: Iterable[tuple[int, Found]], roles: tuple[str, str, str]
) -> Reading:
    """Return answers by question, given those of each row.

    A question is one of several choices if some list has more than one, and what is a region once
    is no class anywhere. If no answer of the file has a worker, only a majority vote is possible;
    if some have, the others are set aside.
    """
    aside: dict[str, list[int]] = {}
    answers: dict[str, list[tuple[Any, ...]]] = {}
    gold: dict[str, dict[str, Any]] = {}
    for row, of_record in found:
        try:
            for one in of_record:
                if isinstance(one, str):
                    aside.setdefault(one, []).append(row)
                    continue
                item = text(one.item)
                if not item.strip():
                    raise Damaged("an answer without its item's id")
                if one.right:
                    gold.setdefault(one.question, {})[item] = one.label
                    continue
                own = answers.setdefault(one.question, [])
                own.append((row, text(one.worker), item, one.label, one.kind, text(one.seconds)))
        except Damaged as error:
            is_table = document.records is None
            where = f"line {document.table.line(row)}" if is_table else f"record {row + 1}"
            raise InputError(f"{document.name}, {where}: {error}") from None
    named = [one[1].strip() != "" for own in answers.values() for one in own]
    if any(named) and not all(named):
        nobody = [one[0] for own in answers.values() for one in own if not one[1].strip()]
        aside["without a worker"] = nobody
        answers = {q: [one for one in own if one[1].strip()] for q, own in answers.items()}
    questions = []
    for name, own in answers.items():
        if own:
            rows, workers, items, labels, kinds, seconds = zip(*own, strict=True)
            kind = _kind(name, kinds, labels)
            known = gold.get(name)
            told = (role.replace("{}", name) for role in roles)
            questions.append(
                Question(
                    name,
                    kind,
                    text_array(workers),
                    text_array(items),
                    labels_of(labels, kind),
                    rows=np.array(rows, dtype=np.int64),
                    gold=(text_array(known), labels_of(known.values(), kind)) if known else None,
                    columns=dict(zip(("worker", "item", "label"), told, strict=True)),
                    seconds=text_array(seconds) if any(seconds) else None,
                )
            )
    return Reading(questions, aside, has_workers=any(named) or not named)


def fields_of(
    fields: Iterable[Field], worker: Any, item: Any, gold: str = "", seconds: Any = None
) -> Found:
    """Yield each field of a form as an answer; the record is set aside as empty if there is none.

    gold  the reason to set the record aside for, where its answers are the right ones
    """
    found = list(fields)
    if gold or not found:
        yield gold if found else "empty"
    for question, kind, label in found:
        yield Answer(question, worker, item, label, kind, bool(gold), seconds)


def objects_in(record: Mapping[str, Any], name: str) -> list[Record]:
    """Return a list of objects, or nothing; anything else is no file of the platform."""
    value = record.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise Damaged(f"{name!r} should be a list of objects; export the file again")
    return value


def first_of(record: Mapping[str, Any], *keys: str) -> Any:
    """Return the first of these fields that is filled; None if none is."""
    return next((record[key] for key in keys if record.get(key) not in (None, "")), None)


def rows_as_records(document: Document, names: Sequence[str] | None = None) -> list[Record]:
    """Return the rows of a table as objects; columns of the same name are left out."""
    names = names or [name for name in document.names if document.names.count(name) == 1]
    columns = [column.to_pylist() for column in document.columns(names)]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _kind(name: str, kinds: Sequence[str], labels: Sequence[Any]) -> str:
    """Return the kind of a question from those of its answers, and from their values."""
    regions = [kind for kind in kinds if kind not in (*WITH_CLASSES, PLAIN)]
    if regions:
        return regions[-1]
    if CHOICES in kinds or any(isinstance(label, list) and len(label) > 1 for label in labels):
        return CHOICES
    return next(filter(None, kinds), None) or inferred(name, labels_of(labels, CHOICE))


def inferred(name: str, labels: Any) -> str:
    """Return the kind of a plain field: a remark by its name, anything else by its values."""
    found = TEXT if is_remark(name) else kind_of(labels).name
    return CHOICE if found == CHOICES else found


def labels_of(values: Iterable[Any], kind: str) -> Any:
    """Return labels as a column: of sorted lists for several choices, else of text."""
    if kind not in WITH_CLASSES:
        return text_array(map(text, values))
    lists = (value if isinstance(value, list) else [value] for value in values)
    chosen = [sorted({text(one) for one in own if one not in (None, "")}) for own in lists]
    if kind == CHOICES:
        return pa.array(chosen, pa.list_(pa.string()))
    return text_array(map("".join, chosen))


def kind_of_region(value: Any) -> str | None:
    """Return BOXES or SPANS for what marks a part of the item; None for what is about all of it."""
    return kind_of_keys(map(str, mapping(value)))


def form_fields(content: Any, prefix: str = "") -> Iterator[Field]:
    """Yield each field of a form, as Amazon's workers' pages send it.

    {"animal": {"label": "cat"}} by crowd-classifier, {"labels": [...]} by its multi-select,
    {"animal": {"cat": true, "dog": false}} by radio buttons, {"animal": "cat"} by a plain field.
    """
    for name, value in mapping(content).items():
        question = f"{prefix}{name}"
        if isinstance(value, list):
            region = next(filter(None, map(kind_of_region, value)), None)
            plain = all(isinstance(one, str | bool) for one in value)
            yield question, region or (CHOICES if plain else OTHER), value if plain else text(value)
        elif not isinstance(value, dict):
            if value is not None:
                yield question, PLAIN, text(value)
        elif len(value) == 1 and isinstance(value.get("label", value.get("on")), str | bool):
            yield question, CHOICE, text(*value.values())
        elif len(value) == 1 and isinstance(value.get("labels"), list):
            yield question, CHOICES, value["labels"]
        elif value and all(isinstance(on, bool) for on in value.values()):
            yield question, CHOICE, [option for option, on in value.items() if on]
        else:
            marked = (_REGIONS[key.lower()] for key in map(str, value) if key.lower() in _REGIONS)
            region = kind_of_region(value) or next(marked, None)
            if region:
                yield question, region, text(value)
            else:
                yield from form_fields(value, f"{question}.")


def varying(document: Document, item: str, names: Sequence[str]) -> list[str]:
    """Return the columns that differ within some item: answers do, an item's data does not."""
    items, *columns = document.columns([item, *names])
    n_items = len(items.dictionary.take(items.indices.unique()))
    found = []
    for name, column in zip(names, columns, strict=True):
        filled = pa.table({"item": items.indices, "value": column.indices})
        if filled.group_by(["item", "value"], use_threads=False).aggregate([]).num_rows > n_items:
            found.append(name)
    return found


def no_question(document: Document, names: Sequence[str]) -> InputError:
    return InputError(
        f"{document.name}: no column is surely a question among {', '.join(names[:12])}; "
        "name it with --label-col"
    )
