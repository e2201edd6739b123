"""Label Studio, JSON: one record per task, one annotation per worker, one result per region.

Versions before 1.0 say `completions` and `skipped`. Storages are fed one annotation per record,
with its `task` inside. CSV and JSON-MIN have a row per annotation and a column per question.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from misc_cli.errors import InputError
from misc_cli.readers.document import Document, Record, compact, is_one_of, mapping, table_of, text
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.common import (
    Answers,
    choice,
    kind_of_region,
    labels_of,
    narrowed,
    objects_at,
    of_records,
    varying,
)
from misc_cli.readers.reading import (
    CERTAIN,
    Match,
    Question,
    Reader,
    Reading,
    from_columns,
    rows_of,
    take,
)
from misc_cli.readers.values import BOXES, CHOICE, CHOICES, NUMBER, OTHER, SPANS, TEXT, parsed
from misc_cli.readers.vocabulary import SYNONYMS, find_roles

_OWN = {
    *("annotation_id", "annotator", "id", "created_at", "updated_at", "lead_time", "agreement"),
    *("inner_id", "updated_by", "project", "file_upload", "comment_count", "was_cancelled"),
}
_NEEDED = {"annotation_id", "annotator"}


def detect_table(document: Document) -> Match | None:
    names = set(document.records[0]) if document.records else set(document.names)
    if names >= _NEEDED and "result" not in names and "id" in names:
        return Match(CERTAIN, "columns annotation_id, annotator and id")
    return None


def read_table(document: Document, options: ReadOptions) -> Reading:
    is_json = document.records is not None
    if document.records is not None:
        document = _unnested(document, document.records)
    names = document.names
    questions = {name: name for name in _questions(document, names, options)}
    reading = from_columns(
        document,
        worker="annotator",
        item="id",
        questions=narrowed(document.name, questions, options),
        options=options,
        aside={"empty": partial(_none_filled, list(questions))} if is_json and questions else None,
    )
    found = [_parsed(question) for question in reading.questions]
    if is_json:
        found = [one for question in found if len(one := _filled(document, question))]
    return Reading(found, reading.aside, reading.notes, reading.has_workers)


def _none_filled(names: list[str], column: Callable[[str], Any]) -> Any:
    return np.all([np.asarray(is_one_of(column(name), "")) for name in names], axis=0)


def _filled(document: Document, question: Question) -> Question:
    """Return a question without the records that lack its key: that is no answer."""
    empty = np.asarray(is_one_of(document.columns([question.columns["label"]])[0], ""))
    return take(question, np.flatnonzero(~empty[rows_of(question)]))


def _questions(document: Document, names: list[str], options: ReadOptions) -> list[str]:
    if options.label_col is not None:
        return []
    others = [name for name in names if name not in _OWN]
    if names != sorted(names) and names.index("id") < names.index("annotator"):
        asked = names[names.index("id") :]  # a question that came late is at the end
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
    """Return the columns that do not tell each task apart: those are what was asked about."""
    if len(names) < 2:
        return names
    items, *columns = document.columns(["id", *names])
    differ = set(varying(document, "id", names))
    n_items = len(items.dictionary)
    is_data = [
        name not in differ and len(column.dictionary) == n_items > 1
        for name, column in zip(names, columns, strict=True)
    ]
    return [name for name, data in zip(names, is_data, strict=True) if not data] or names


def _unnested(document: Document, records: list[Record]) -> Document:
    """Return JSON-MIN as the CSV of the same tasks: a column per key, JSON in its cells."""
    rows = [{key: text(value) for key, value in record.items()} for record in records]
    for row, record in zip(rows, records, strict=True):
        if isinstance(record.get("annotator"), dict):
            row["annotator"] = _who(record["annotator"])
    return Document(document.name, document.format, lambda: table_of(rows))


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
        return _chosen(value)
    return CHOICE, text(value)


def _parsed(question: Question) -> Question:
    """Return a question of CSV with the JSON of its cells read; each distinct cell once."""
    if pa.types.is_list(question.label.type):
        return question
    cells = question.label.dictionary.to_pylist()
    if not any(cell[:1] in ("[", "{") for cell in cells if cell):
        return question
    answers = [_answer(parsed(cell) if cell[:1] in ("[", "{") else cell) for cell in cells]
    kinds = {kind for (kind, _), cell in zip(answers, cells, strict=True) if cell}
    kind = CHOICES if kinds == {CHOICE, CHOICES} else min(kinds) if len(kinds) == 1 else OTHER
    labels = labels_of((label for _, label in answers), kind)
    taken = labels.take(question.label.indices)
    return replace(question, kind=kind, label=taken if kind == CHOICES else compact(taken))


TABLE_READER = Reader(
    name="label-studio-table",
    title="Label Studio, CSV or JSON-MIN",
    explain="worker is annotator, item is id, a question is a column of its own",
    detect=detect_table,
    read=read_table,
)


_LISTS = ("annotations", "completions")
# What a result's value is, by its key there.
_PLAIN = {"rating": NUMBER, "number": NUMBER, "selected": CHOICE, "text": TEXT, "datetime": OTHER}


@of_records
def detect(record: Record) -> str | None:
    if isinstance(record.get("data"), dict):
        for key in _LISTS:
            if isinstance(record.get(key), list):
                return f"tasks with data and {key}"
    if isinstance(mapping(record.get("task")).get("data"), dict) and "result" in record:
        return "annotations with their result and task"
    return None


def read(document: Document, options: ReadOptions) -> Reading:
    found = Answers(document, "completed_by", "id", "result[from_name={}].value")
    for row, record in enumerate(document.records or []):
        if isinstance(record.get("task"), dict):  # one annotation, with its task inside
            _annotation(document, found, row, record["task"], record)
            continue
        key = next((key for key in _LISTS if key in record), _LISTS[0])
        annotations = objects_at(document, row, record.get(key), key)
        if not annotations:
            found.aside("not annotated", row)
        for annotation in annotations:
            _annotation(document, found, row, record, annotation)
    return found.reading()


def _annotation(
    document: Document, found: Answers, row: int, task: Record, annotation: Record
) -> None:
    if annotation.get("was_cancelled") or annotation.get("skipped"):
        found.aside("cancelled", row)
        return
    results = objects_at(document, row, annotation.get("result"), "result")
    answers = _answers(document, row, results)
    fields = [(question, *answer) for question, answer in answers.items()]
    item = _item(document, row, task) if fields else ""
    gold = "ground truth" if annotation.get("ground_truth") else ""
    found.fields(fields, _who(annotation.get("completed_by")), item, row, gold)


def _answers(document: Document, row: int, results: list[Record]) -> dict[str, tuple[str, Any]]:
    """Return kind and value of each question; several regions are no single answer."""
    answers: dict[str, tuple[str, Any]] = {}
    for result in results:
        if "value" not in result:
            continue  # a relation between regions
        if not isinstance(result["value"], dict):
            raise InputError(
                f"{document.name}, record {row + 1}: 'value' should be an object; export it again"
            )
        question = text(result.get("from_name")) or "label"
        answer = answer_of(result["value"])
        if "item_index" in result and answer[0] not in (BOXES, SPANS):
            answer = (OTHER, text(result["value"]))  # about one page of several
        if question in answers and answers[question] != answer:
            kind = answer[0] if answer[0] in (BOXES, SPANS) else OTHER
            answer = (kind, text([answers[question][1], answer[1]]))
        answers[question] = answer
    return answers


def answer_of(value: Record) -> tuple[str, Any]:
    """Return kind and label of a result's value: {"choices": ["cat"]}, {"rating": 4}, a box."""
    region = kind_of_region(value)
    if region:
        return region, text(value)
    if "choices" in value:
        return _chosen(value["choices"])
    if "taxonomy" in value:
        paths = value["taxonomy"] if isinstance(value["taxonomy"], list) else []
        return _chosen(["/".join(map(text, p)) if isinstance(p, list) else p for p in paths])
    for key, kind in _PLAIN.items():
        if key in value:
            return kind, text(value[key])
    return OTHER, text(value)


def _chosen(options: Any) -> tuple[str, Any]:
    """Return a choice, or choices if there are several; options within options are neither."""
    if isinstance(options, str):
        return CHOICE, options
    if not isinstance(options, list) or any(isinstance(one, dict | list) for one in options):
        return OTHER, text(options)
    return choice("", options)[1:]


def _item(document: Document, row: int, task: Record) -> str:
    if task.get("id") is not None:
        return text(task["id"])
    data = list(mapping(task.get("data")).values())
    if len(data) == 1 and isinstance(data[0], str):
        return data[0]
    raise InputError(f"{document.name}, record {row + 1}: a task without its id")


def _who(who: Any) -> str:
    if isinstance(who, dict):
        return text(who.get("email") or who.get("id") or who.get("username"))
    return text(who)


READER = Reader(
    name="label-studio",
    title="Label Studio, JSON",
    explain="worker is completed_by, item the task's id, a question its from_name; cancelled and "
    "empty annotations are left out, ground truth is gold, predictions are no answers",
    detect=detect,
    read=read,
)
