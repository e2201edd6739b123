"""Label Studio, CSV and JSON-MIN: one row per annotation, one column per question.

https://labelstud.io/guide/export: a row is the task's data, `id` of the task, the questions,
then `annotator`, `annotation_id`, `created_at`, `updated_at`, `lead_time`. Some versions sort
the columns; then a question is told from data because it differs within a task. One choice is
written plainly, several as {"choices": […]}, other answers as JSON.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from misc_cli.errors import InputError
from misc_cli.io.document import Document, Record, text
from misc_cli.io.options import ReadOptions
from misc_cli.io.readers.base import (
    CERTAIN,
    CHOICE,
    CHOICES,
    OTHER,
    Match,
    Question,
    Reader,
    Reading,
    as_choices,
    from_columns,
)
from misc_cli.io.readers.common import Answers, loads, narrowed, varying
from misc_cli.io.readers.label_studio import answer_of, chosen
from misc_cli.io.vocabulary import SYNONYMS, find_roles

_OWN = {
    *("annotation_id", "annotator", "id", "created_at", "updated_at", "lead_time", "agreement"),
    *("inner_id", "updated_by", "project", "file_upload", "comment_count", "was_cancelled"),
}
_NEEDED = {"annotation_id", "annotator"}
_COLUMNS = {"worker": "annotator", "item": "id"}


def detect(document: Document) -> Match | None:
    names = set(document.records[0]) if document.records else set(document.names)
    if names >= _NEEDED and "result" not in names and "id" in names:
        return Match(CERTAIN, "columns annotation_id, annotator and id")
    return None


def read(document: Document, options: ReadOptions) -> Reading:
    if document.records is not None and not any(options.columns.values()):
        return _read_records(document, document.records)
    names = document.names
    questions = {name: name for name in _questions(document, names, options)}
    reading = from_columns(
        document,
        worker="annotator",
        item="id",
        questions=narrowed(document.name, questions, options),
        options=options,
    )
    found = [_parsed(question) for question in reading.questions]
    return Reading(found, reading.aside, reading.notes, reading.has_workers)


def _questions(document: Document, names: list[str], options: ReadOptions) -> list[str]:
    if options.label_col is not None:
        return []
    others = [name for name in names if name not in _OWN]
    if names != sorted(names) and names.index("id") < names.index("annotator"):
        at = names.index("id")
        last = max(names.index(name) for name in _OWN if name in names)
        asked = names[at:last] + names[last:]  # a question that came late is at the end
        found = _without_data(document, [name for name in asked if name in others])
    else:
        found = varying(document, "id", others) or [
            others[at] for at in find_roles(others, {"label": SYNONYMS["label"]})["label"]
        ]
    if not found:
        raise InputError(
            f"{document.name}: no column is surely a question among {', '.join(others[:12])}; "
            "name it with --label-col"
        )
    return found


def _without_data(document: Document, names: list[str]) -> list[str]:
    """Of several columns not those that tell each task apart: they are what was asked about."""
    if len(names) < 2:
        return names
    items, *columns = document.columns(["id", *names])
    differ = set(varying(document, "id", names))
    found = []
    for name, column in zip(names, columns, strict=True):
        is_data = name not in differ and len(column.dictionary) == len(items.dictionary) > 1
        if not is_data:
            found.append(name)
    return found or names


def _read_records(document: Document, records: list[Record]) -> Reading:
    """JSON-MIN: the keys between `id` and `annotator` are the questions."""
    found = Answers(document.name)
    asked = _asked(records)
    for row, record in enumerate(records):
        answered = [key for key in record if key in asked]
        if not answered:
            found.aside("empty", row)
        for question in answered:
            kind, label = _answer(record[question])
            columns = {**_COLUMNS, "label": question}
            who = record.get("annotator")
            if isinstance(who, dict):
                who = who.get("email") or who.get("id")
            found.answer(question, who, record.get("id"), label, row, kind, columns)
    return found.reading()


def _asked(records: list[Record]) -> set[str]:
    """The keys that are questions: by their place, else because they differ within a task."""
    between: set[str] = set()
    for record in records:
        keys = list(record)
        if "id" in record and "annotator" in record:
            between.update(keys[keys.index("id") + 1 : keys.index("annotator")])
    values: dict[str, dict[str, set[str]]] = {}  # key → task → what it says there
    for record in records:
        for key, value in record.items():
            if key not in _OWN and (key in between or not between):
                values.setdefault(key, {}).setdefault(text(record.get("id")), set()).add(
                    text(value)
                )
    differ = {key for key, said in values.items() if any(len(s) > 1 for s in said.values())}
    if not between:
        return differ
    apart = {k for k, said in values.items() if len(set().union(*said.values())) == len(said) > 1}
    data = apart - differ if len(values) > 1 else set()
    return set(values) - data or set(values)


def _answer(value: Any) -> tuple[str, Any]:
    if isinstance(value, dict):
        return answer_of(value)
    if isinstance(value, list):
        if len(value) == 1 and isinstance(value[0], dict):
            return answer_of(value[0])
        if any(isinstance(one, dict) for one in value):
            return _answer(next(one for one in value if isinstance(one, dict)))[0], text(value)
        if any(isinstance(one, list) for one in value):
            return answer_of({"taxonomy": value})
        return chosen(value)
    return CHOICE, text(value)


def _parsed(question: Question) -> Question:
    """A question of a CSV file, whose cells may hold JSON; only distinct cells are looked at."""
    if pa.types.is_list(question.label.type):
        return question
    cells = question.label.dictionary.to_pylist()
    if not any(cell[:1] in ("[", "{") for cell in cells if cell):
        return question
    answers = [_answer(loads(cell) if cell[:1] in ("[", "{") else cell) for cell in cells]
    kinds = {kind for (kind, _), cell in zip(answers, cells, strict=True) if cell}
    kind = (
        next(iter(kinds)) if len(kinds) == 1 else CHOICES if kinds == {CHOICE, CHOICES} else OTHER
    )
    if kind == CHOICES:
        lists = pa.array([as_choices(label) for _, label in answers], pa.list_(pa.string()))
        return replace(question, kind=kind, label=lists.take(question.label.indices))
    texts = pa.array([text(label) for _, label in answers], pa.string())
    return replace(
        question, kind=kind, label=texts.take(question.label.indices).dictionary_encode()
    )


READER = Reader(
    name="label-studio-table",
    title="Label Studio, CSV or JSON-MIN",
    explain="worker is annotator, item is id, a question is a column of its own",
    detect=detect,
    read=read,
    page="https://labelstud.io/guide/export",
)
