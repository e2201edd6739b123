"""Label Studio, JSON: one record per task, one annotation per worker, one result per region.

https://labelstud.io/guide/task_format and https://labelstud.io/guide/export: `completed_by` is the
worker (an id or an object with id and email), `from_name` the question, `ground_truth` marks an
annotation as right, `was_cancelled` a skipped one; `predictions` are a model's and no answers.
Versions before 1.0 say `completions` and `skipped`. Storages are fed one annotation per record,
with its `task` inside.
"""

from __future__ import annotations

from typing import Any

from misc_cli.errors import InputError
from misc_cli.io.document import Document, Record, text
from misc_cli.io.options import ReadOptions
from misc_cli.io.readers.base import (
    BOXES,
    CERTAIN,
    CHOICE,
    CHOICES,
    NUMBER,
    OTHER,
    SPANS,
    TEXT,
    Match,
    Reader,
    Reading,
)
from misc_cli.io.readers.common import Answers, kind_of_region, mapping, objects_at

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
