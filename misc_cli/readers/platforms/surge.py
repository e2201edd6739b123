"""Surge AI, JSON of tasks with the responses of several workers.

https://app.surgehq.ai/docs/api: a task has `fields` (its data), `responses` with worker_id and
`data`, {question: answer}, and `gold_standard_data` where it is a test.
"""

from __future__ import annotations

from misc_cli.readers.document import Document
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.base import CERTAIN, Match, Reader, Reading
from misc_cli.readers.platforms.common import (
    Answers,
    form_answers,
    mapping,
    objects,
    objects_at,
    with_inferred_kinds,
)

LOOKED_AT = 20


def detect(document: Document) -> Match | None:
    for record in (document.records or [])[:LOOKED_AT]:
        responses = objects(record.get("responses"))
        if any({"worker_id", "data"} <= set(response) for response in responses):
            return Match(CERTAIN, "responses with worker_id and data")
    return None


def read(document: Document, options: ReadOptions) -> Reading:
    found = Answers(document.name)
    for row, task in enumerate(document.records or []):
        responses = objects_at(document, row, task.get("responses"), "responses")
        if not responses:
            found.aside("not annotated", row)
        for response in responses:
            for question, kind, label in form_answers(response.get("data")):
                columns = {"worker": "worker_id", "item": "id", "label": f"data.{question}"}
                who, item = response.get("worker_id"), task.get("id")
                found.answer(question, who, item, label, row, kind, columns)
        for question, _, label in form_answers(mapping(task.get("gold_standard_data"))):
            found.gold(question, task.get("id"), label)
    return with_inferred_kinds(found.reading())


READER = Reader(
    name="surge",
    title="Surge AI, JSON",
    explain="worker is worker_id, item the task's id, a question a field of data; "
    "gold_standard_data is gold",
    detect=detect,
    read=read,
    page="https://app.surgehq.ai/docs/api",
)
