"""Toloka, JSON of the API: assignments with their tasks and, in the same order, solutions.

https://github.com/Toloka/toloka-kit/blob/v1.2.1/src/client/assignment.py: user_id is who answered,
status ACCEPTED, SUBMITTED, REJECTED, …; tasks[n].input_values was asked, solutions[n].output_values
is the answer; tasks[n].known_solutions holds the right answers of a control task.
"""

from __future__ import annotations

from typing import Any

from misc_cli.errors import InputError
from misc_cli.io.document import Document, Record, text
from misc_cli.io.options import ReadOptions
from misc_cli.io.readers.base import CERTAIN, Match, Reader, Reading
from misc_cli.io.readers.common import (
    Answers,
    form_answers,
    mapping,
    objects,
    with_inferred_kinds,
)
from misc_cli.io.unwrap import unwrapped

_LEFT_OUT = ("rejected", "skipped", "expired", "active")


def detect(document: Document) -> Match | None:
    for record in _assignments(document)[:20]:
        solutions = objects(record.get("solutions"))
        if "user_id" in record and any("output_values" in one for one in solutions):
            return Match(CERTAIN, "tasks and solutions with output_values")
    return None


def _assignments(document: Document) -> list[Record]:
    return unwrapped(document.records or [])


def read(document: Document, options: ReadOptions) -> Reading:
    found = Answers(document.name)
    for row, record in enumerate(_assignments(document)):
        tasks, solutions = objects(record.get("tasks")), objects(record.get("solutions"))
        status = text(record.get("status")).lower()
        if status in _LEFT_OUT:
            found.aside(status, row)
            continue
        if len(tasks) != len(solutions):
            raise InputError(
                f"{document.name}, record {row + 1}: {len(tasks)} tasks and {len(solutions)} "
                "solutions; nobody knows which answers which, fetch the assignments again"
            )
        for task, solution in zip(tasks, solutions, strict=True):
            for question, kind, label in form_answers(solution.get("output_values")):
                columns = {"worker": "user_id", "item": "the task's input"}
                columns["label"] = f"output_values.{question}"
                found.answer(
                    question, record.get("user_id"), _item(task), label, row, kind, columns
                )
            for known in objects(task.get("known_solutions"))[:1]:
                for question, _, right in form_answers(known.get("output_values")):
                    found.gold(question, _item(task), right)
    return with_inferred_kinds(found.reading())


def _item(task: Record) -> Any:
    """Its only input, as in the TSV of a pool, else the task's id."""
    inputs = list(mapping(task.get("input_values")).values())
    return inputs[0] if len(inputs) == 1 and text(inputs[0]) else task.get("id")


READER = Reader(
    name="toloka-api",
    title="Toloka, JSON of the API",
    explain="worker is user_id, item the task's input if there is one, else its id; a question is "
    "a field of output_values; rejected, skipped and expired assignments are left out",
    detect=detect,
    read=read,
    page="https://github.com/Toloka/toloka-kit/blob/v1.2.1/src/client/assignment.py",
)
