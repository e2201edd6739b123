"""Toloka, TSV of a pool's assignments and JSON of the API's."""

from __future__ import annotations

from typing import Any

from misc_cli.errors import InputError
from misc_cli.readers.document import Document, Record, is_one_of, mapping, objects, text
from misc_cli.readers.layouts.nested import unwrapped
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.common import LOOKED_AT, Answers, form_answers, narrowed
from misc_cli.readers.reading import CERTAIN, Match, Reader, Reading, from_columns

_LEFT_OUT = ("rejected", "skipped", "expired", "active")


def detect_api(document: Document) -> Match | None:
    for record in unwrapped(document.records or [])[:LOOKED_AT]:
        solutions = objects(record.get("solutions"))
        if "user_id" in record and any("output_values" in one for one in solutions):
            return Match(CERTAIN, "tasks and solutions with output_values")
    return None


def read_api(document: Document, options: ReadOptions) -> Reading:
    found = Answers(document, "user_id", "the task's input", "output_values.{}")
    for row, record in enumerate(unwrapped(document.records or [])):
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
                found.answer(question, record.get("user_id"), _item(task), label, row, kind)
            for known in objects(task.get("known_solutions"))[:1]:
                for question, _, right in form_answers(known.get("output_values")):
                    found.gold(question, _item(task), right)
    return found.inferred()


def _item(task: Record) -> Any:
    """Return a task's only input, as in the TSV of a pool, else its id."""
    inputs = list(mapping(task.get("input_values")).values())
    return inputs[0] if len(inputs) == 1 and text(inputs[0]) else task.get("id")


API_READER = Reader(
    name="toloka-api",
    title="Toloka, JSON of the API",
    explain="worker is user_id, item the task's input if there is one, else its id; a question is "
    "a field of output_values; rejected, skipped and expired assignments are left out",
    detect=detect_api,
    read=read_api,
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
    item = inputs[0] if len(inputs) == 1 else _TASK if _TASK in names else None
    if item is None and options.item_col is None:
        raise InputError(
            f"{document.name}: no {_TASK} column to tell the items by; download the assignments "
            "with it, or name an item column with --item-col"
        )
    questions = {n.removeprefix(_OUTPUT): n for n in document.names if n.startswith(_OUTPUT)}
    golden = {q: f"GOLDEN:{q}" for q in questions if f"GOLDEN:{q}" in names}
    aside = {
        status: lambda column, status=status: is_one_of(column(_STATUS), status)
        for status in _LEFT_OUT
    }
    return from_columns(
        document,
        worker=worker or "",
        item=item or "",
        questions=narrowed(document.name, questions, options),
        options=options,
        aside=aside if _STATUS in names else None,
        gold=golden,
    )


READER = Reader(
    name="toloka",
    title="Toloka, TSV of assignments",
    explain="worker is ASSIGNMENT:worker_id, item the INPUT: if there is one, else the task's id; "
    "a question is an OUTPUT: column, GOLDEN: is gold; rejected assignments are left out",
    detect=detect,
    read=read,
)
