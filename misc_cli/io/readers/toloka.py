"""Toloka, TSV of assignments: INPUT:, OUTPUT:, GOLDEN: and ASSIGNMENT: columns.

https://toloka.ai/docs/guide/result-of-eval: ASSIGNMENT:status is APPROVED, REJECTED, SUBMITTED, …;
GOLDEN:x is the right answer of a control task for OUTPUT:x.
"""

from __future__ import annotations

from misc_cli.io.document import Document
from misc_cli.io.options import ReadOptions
from misc_cli.io.readers.base import CERTAIN, Match, Reader, Reading, from_columns, is_one_of

_WORKERS = ("ASSIGNMENT:worker_id", "ASSIGNMENT:user_id")
_TASK = "ASSIGNMENT:task_id"
_STATUS = "ASSIGNMENT:status"


def detect(document: Document) -> Match | None:
    outputs = [name for name in document.names if name.startswith("OUTPUT:")]
    if outputs and any(name in document.names for name in _WORKERS):
        return Match(CERTAIN, "ASSIGNMENT: and OUTPUT: columns")
    return None


def read(document: Document, options: ReadOptions) -> Reading:
    inputs = [name for name in document.names if name.startswith("INPUT:")]
    prefix = "OUTPUT:"
    questions = {n.removeprefix(prefix): n for n in document.names if n.startswith(prefix)}
    golden = {question: f"GOLDEN:{question}" for question in questions}
    aside = {
        status: lambda column, status=status: is_one_of(column(_STATUS), status)
        for status in ("rejected", "skipped", "expired", "active")
    }
    return from_columns(
        document,
        worker=next(name for name in _WORKERS if name in document.names),
        item=inputs[0] if len(inputs) == 1 or _TASK not in document.names else _TASK,
        questions=questions,
        options=options,
        aside=aside if _STATUS in document.names else None,
        gold={q: column for q, column in golden.items() if column in document.names},
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
