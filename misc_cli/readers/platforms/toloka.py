"""Toloka, TSV of assignments: INPUT:, OUTPUT:, GOLDEN: and ASSIGNMENT: columns.

https://toloka.ai/docs/guide/result-of-eval: ASSIGNMENT:status is APPROVED, REJECTED, SUBMITTED, …;
GOLDEN:x is the right answer of a control task for OUTPUT:x. Aggregated results have CONFIDENCE:
columns and no worker.
"""

from __future__ import annotations

from typing import Any

from misc_cli.errors import InputError
from misc_cli.readers.document import Document, Record, is_one_of, text
from misc_cli.readers.layouts.nested import unwrapped
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.common import (
    Answers,
    form_answers,
    mapping,
    narrowed,
    objects,
    with_inferred_kinds,
)
from misc_cli.readers.reading import CERTAIN, Match, Reader, Reading, from_columns

_LEFT_OUT = ("rejected", "skipped", "expired", "active")


def detect_api(document: Document) -> Match | None:
    for record in _assignments(document)[:20]:
        solutions = objects(record.get("solutions"))
        if "user_id" in record and any("output_values" in one for one in solutions):
            return Match(CERTAIN, "tasks and solutions with output_values")
    return None


def _assignments(document: Document) -> list[Record]:
    return unwrapped(document.records or [])


def read_api(document: Document, options: ReadOptions) -> Reading:
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


API_READER = Reader(
    name="toloka-api",
    title="Toloka, JSON of the API",
    explain="worker is user_id, item the task's input if there is one, else its id; a question is "
    "a field of output_values; rejected, skipped and expired assignments are left out",
    detect=detect_api,
    read=read_api,
    page="https://github.com/Toloka/toloka-kit/blob/v1.2.1/src/client/assignment.py",
)


_WORKERS = ("ASSIGNMENT:worker_id", "ASSIGNMENT:user_id")
_TASK = "ASSIGNMENT:task_id"
_STATUS = "ASSIGNMENT:status"
_OUTPUT = "OUTPUT:"


def detect(document: Document) -> Match | None:
    names = document.names
    if any(name.startswith(_OUTPUT) for name in names) and any(
        name.startswith(("ASSIGNMENT:", "INPUT:", "CONFIDENCE:")) for name in names
    ):
        return Match(CERTAIN, "INPUT:, OUTPUT: and ASSIGNMENT: columns")
    return None


def read(document: Document, options: ReadOptions) -> Reading:
    names = set(document.names)
    worker = next((name for name in _WORKERS if name in names), None)
    if worker is None and options.worker_col is None:
        raise InputError(
            f"{document.name}: no {_WORKERS[0]} column, so this may be Toloka's aggregated result; "
            "download the assignments, with all columns"
        )
    inputs = [name for name in document.names if name.startswith("INPUT:")]
    if len(inputs) == 1 or _TASK not in names:
        item = inputs[0] if len(inputs) == 1 else None
    else:
        item = _TASK
    if item is None and options.item_col is None:
        raise InputError(
            f"{document.name}: no {_TASK} column to tell the items by; download the assignments "
            "with it, or name an item column with --item-col"
        )
    questions = {n.removeprefix(_OUTPUT): n for n in document.names if n.startswith(_OUTPUT)}
    golden = {question: f"GOLDEN:{question}" for question in questions}
    aside = {
        status: lambda column, status=status: is_one_of(column(_STATUS), status)
        for status in ("rejected", "skipped", "expired", "active")
    }
    return from_columns(
        document,
        worker=worker or "",
        item=item or "",
        questions=narrowed(document.name, questions, options),
        options=options,
        aside=aside if _STATUS in names else None,
        gold={q: column for q, column in golden.items() if column in names},
    )


READER = Reader(
    name="toloka",
    title="Toloka, TSV of assignments",
    explain="worker is ASSIGNMENT:worker_id, item the INPUT: if there is one, else the task's id; "
    "a question is an OUTPUT: column, GOLDEN: is gold; rejected assignments are left out",
    detect=detect,
    read=read,
    page="https://toloka.ai/docs/guide/result-of-eval",
)
