"""Toloka, TSV of assignments: INPUT:, OUTPUT:, GOLDEN: and ASSIGNMENT: columns.

https://toloka.ai/docs/guide/result-of-eval: ASSIGNMENT:status is APPROVED, REJECTED, SUBMITTED, …;
GOLDEN:x is the right answer of a control task for OUTPUT:x. Aggregated results have CONFIDENCE:
columns and no worker.
"""

from __future__ import annotations

from misc_cli.errors import InputError
from misc_cli.io.document import Document
from misc_cli.io.options import ReadOptions
from misc_cli.io.readers.base import CERTAIN, Match, Reader, Reading, from_columns, is_one_of
from misc_cli.io.readers.common import narrowed

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
