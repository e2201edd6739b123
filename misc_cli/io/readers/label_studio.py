"""Label Studio, JSON: one record per task, one annotation per worker, one result per region.

https://labelstud.io/guide/export: `completed_by` is the worker (an id or an object), `from_name`
the question, `ground_truth` marks an annotation as right, `was_cancelled` a skipped one;
`predictions` are a model's and no answers.
"""

from __future__ import annotations

from typing import Any

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
    Collector,
    Match,
    Reader,
    Reading,
)

# A result's type → its kind. What draws a region has no classes per item.
_KINDS = {"rating": NUMBER, "number": NUMBER, "textarea": TEXT, "labels": SPANS}
_REGIONS = ("labels", "rectangle", "polygon", "brush", "keypoint", "ellipse", "video", "timeseries")


def detect(document: Document) -> Match | None:
    if not document.records:
        return None
    first = document.records[0]
    of_task = next((key for key in ("annotations", "completions") if key in first), None)
    if of_task is None or "data" not in first or not isinstance(first[of_task], list):
        return None
    return Match(CERTAIN, f"tasks with data and {of_task}")


def read(document: Document, options: ReadOptions) -> Reading:
    found = Collector()
    for row, task in enumerate(document.records or []):
        for annotation in task.get("annotations") or task.get("completions") or []:
            if isinstance(annotation, dict):
                _annotation(found, row, task, annotation)
    return found.reading()


def _annotation(found: Collector, row: int, task: Record, annotation: Record) -> None:
    if annotation.get("was_cancelled") or annotation.get("skipped"):
        found.aside("cancelled", row)
        return
    results = [result for result in annotation.get("result") or [] if isinstance(result, dict)]
    if not results:
        found.aside("empty", row)
        return
    item, who = task.get("id"), _who(annotation.get("completed_by"))
    for question, kind, value in _answers(results):
        if annotation.get("ground_truth"):
            found.gold(question, item, value)
        else:
            path = f"result[from_name={question}].value"
            columns = {"worker": "completed_by", "item": "id", "label": path}
            found.answer(question, who, item, value, row, kind, columns)
    if annotation.get("ground_truth"):
        found.aside("ground truth", row)


def _answers(results: list[Record]) -> list[tuple[str, str, Any]]:
    """Question, kind and value of each result; several regions of one question are one answer."""
    answers: dict[str, tuple[str, Any]] = {}
    for result in results:
        value = result.get("value")
        if not isinstance(value, dict):
            continue  # a relation between regions
        type_name = text(result.get("type")).lower()
        content = value.get(type_name, value.get("choices", next(iter(value.values()), "")))
        kind = _kind(type_name, value, content)
        question = text(result.get("from_name")) or "label"
        if kind == CHOICE and isinstance(content, list):
            content = content[0] if content else ""
        if question in answers:  # a second region, or the same question about a region
            answers[question] = (kind if kind not in (CHOICE, CHOICES) else OTHER, results)
        else:
            answers[question] = (kind, content)
    return [(question, kind, value) for question, (kind, value) in answers.items()]


def _kind(type_name: str, value: Record, content: Any) -> str:
    if {"x", "y", "width", "height", "points", "rle"} & set(value):
        return BOXES
    if {"start", "end"} & set(value) or type_name in ("labels", "hypertextlabels"):
        return SPANS
    if type_name.startswith(_REGIONS):
        return BOXES
    if type_name in ("choices", "") and isinstance(content, list):
        return CHOICES if len(content) > 1 else CHOICE
    if type_name == "taxonomy":
        return OTHER
    return _KINDS.get(type_name, CHOICE)


def _who(completed_by: Any) -> str:
    if isinstance(completed_by, dict):
        return text(completed_by.get("email") or completed_by.get("id"))
    return text(completed_by)


READER = Reader(
    name="label-studio",
    title="Label Studio, JSON",
    explain="worker is completed_by, item the task's id, a question its from_name; cancelled and "
    "empty annotations are left out, ground truth is gold, predictions are no answers",
    detect=detect,
    read=read,
    page="https://labelstud.io/guide/export",
)
