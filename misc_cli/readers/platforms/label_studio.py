"""Label Studio, JSON: one record per task, one annotation per worker, one result per region.

https://labelstud.io/guide/task_format and https://labelstud.io/guide/export: `completed_by` is the
worker (an id or an object with id and email), `from_name` the question, `ground_truth` marks an
annotation as right, `was_cancelled` a skipped one; `predictions` are a model's and no answers.
Versions before 1.0 say `completions` and `skipped`. Storages are fed one annotation per record,
with its `task` inside.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from misc_cli.errors import InputError
from misc_cli.readers.document import Document, Record, text
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.common import (
    Answers,
    as_choices,
    kind_of_region,
    loads,
    mapping,
    narrowed,
    objects_at,
    varying,
)
from misc_cli.readers.reading import CERTAIN, Match, Question, Reader, Reading, from_columns
from misc_cli.readers.values import BOXES, CHOICE, CHOICES, NUMBER, OTHER, SPANS, TEXT
from misc_cli.readers.vocabulary import SYNONYMS, find_roles

_OWN = {
    *("annotation_id", "annotator", "id", "created_at", "updated_at", "lead_time", "agreement"),
    *("inner_id", "updated_by", "project", "file_upload", "comment_count", "was_cancelled"),
}
_NEEDED = {"annotation_id", "annotator"}
_COLUMNS = {"worker": "annotator", "item": "id"}


def detect_table(document: Document) -> Match | None:
    names = set(document.records[0]) if document.records else set(document.names)
    if names >= _NEEDED and "result" not in names and "id" in names:
        return Match(CERTAIN, "columns annotation_id, annotator and id")
    return None


def read_table(document: Document, options: ReadOptions) -> Reading:
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


TABLE_READER = Reader(
    name="label-studio-table",
    title="Label Studio, CSV or JSON-MIN",
    explain="worker is annotator, item is id, a question is a column of its own",
    detect=detect_table,
    read=read_table,
    page="https://labelstud.io/guide/export",
)


_LISTS = ("annotations", "completions")
# What a result's value is, by its key there.
_PLAIN = {"rating": NUMBER, "number": NUMBER, "selected": CHOICE, "text": TEXT, "datetime": OTHER}
LOOKED_AT = 20


def detect(document: Document) -> Match | None:
    for record in (document.records or [])[:LOOKED_AT]:
        if isinstance(record.get("data"), dict):
            for key in _LISTS:
                if isinstance(record.get(key), list):
                    return Match(CERTAIN, f"tasks with data and {key}")
        task = record.get("task")
        if isinstance(task, dict) and isinstance(task.get("data"), dict) and "result" in record:
            return Match(CERTAIN, "annotations with their result and task")
    return None


def read(document: Document, options: ReadOptions) -> Reading:
    found = Answers(document.name)
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
    if not answers:
        found.aside("empty", row)
        return
    item, who = _item(document, row, task), _who(annotation)
    for question, (kind, value) in answers.items():
        if annotation.get("ground_truth"):
            found.gold(question, item, value)
            continue
        path = f"result[from_name={question}].value"
        columns = {"worker": "completed_by", "item": "id", "label": path}
        found.answer(question, who, item, value, row, kind, columns)
    if annotation.get("ground_truth"):
        found.aside("ground truth", row)


def _answers(document: Document, row: int, results: list[Record]) -> dict[str, tuple[str, Any]]:
    """Kind and value of each question; what marks several regions is no single answer."""
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
    """Kind and label of a result's value: {"choices": ["cat"]}, {"rating": 4}, a box, a span."""
    region = kind_of_region(value)
    if region:
        return region, text(value)
    if "choices" in value:
        return chosen(value["choices"])
    if "taxonomy" in value:
        paths = value["taxonomy"] if isinstance(value["taxonomy"], list) else []
        return chosen(["/".join(map(text, p)) if isinstance(p, list) else p for p in paths])
    for key, kind in _PLAIN.items():
        if key in value:
            return kind, text(value[key])
    return OTHER, text(value)


def chosen(options: Any) -> tuple[str, Any]:
    """One option is a choice, several are choices; options within options are neither."""
    if isinstance(options, str):
        return CHOICE, options
    if not isinstance(options, list) or any(isinstance(one, dict | list) for one in options):
        return OTHER, text(options)
    if len(options) > 1:
        return CHOICES, [text(one) for one in options]
    return CHOICE, text(options[0]) if options else ""


def _item(document: Document, row: int, task: Record) -> str:
    if task.get("id") is not None:
        return text(task["id"])
    data = list(mapping(task.get("data")).values())
    if len(data) == 1 and isinstance(data[0], str):
        return data[0]
    raise InputError(f"{document.name}, record {row + 1}: a task without its id")


def _who(annotation: Record) -> str:
    who = annotation.get("completed_by")
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
    page="https://labelstud.io/guide/task_format",
)
