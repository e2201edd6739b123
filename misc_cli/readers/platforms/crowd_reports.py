"""Reports of crowd markets with a row per answer: Toloka's assignments and Appen's judgments."""

from __future__ import annotations

from dataclasses import replace

from misc_cli.errors import InputError
from misc_cli.readers.document import Document, is_one_of, text_array
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.export import narrowed, no_question, of_names, varying
from misc_cli.readers.reading import Question, Reader, Reading, from_columns

_WORKERS = ("ASSIGNMENT:worker_id", "ASSIGNMENT:user_id")
_TASK = "ASSIGNMENT:task_id"
_STATUS = "ASSIGNMENT:status"
_OUTPUT = "OUTPUT:"
_GOLD = "_gold"
_MOST_COLUMNS = 500


@of_names
def detect_toloka(names: set[str]) -> str | None:
    beside = ("ASSIGNMENT:", "INPUT:", "CONFIDENCE:")
    asked = any(name.startswith(_OUTPUT) for name in names)
    known = asked and any(name.startswith(beside) for name in names)
    return "INPUT:, OUTPUT: and ASSIGNMENT: columns" if known else None


def read_toloka(document: Document, options: ReadOptions) -> Reading:
    names = document.names
    worker = next((name for name in _WORKERS if name in names), "")
    if not worker and options.worker_col is None:
        raise InputError(
            f"{document.name}: no {_WORKERS[0]} column, so this may be Toloka's aggregated result; "
            "download the assignments, with all columns"
        )
    inputs = [name for name in names if name.startswith("INPUT:")]
    item = inputs[0] if len(inputs) == 1 else _TASK if _TASK in names else ""
    if not item and options.item_col is None:
        raise InputError(
            f"{document.name}: no {_TASK} column to tell the items by; download the assignments "
            "with it, or name an item column with --item-col"
        )
    questions = {name.removeprefix(_OUTPUT): name for name in names if name.startswith(_OUTPUT)}
    aside = {
        status: lambda column, status=status: is_one_of(column(_STATUS), status)
        for status in ("rejected", "skipped", "expired", "active")
    }
    return from_columns(
        document,
        worker=worker,
        item=item,
        questions=narrowed(document.name, questions, options),
        options=options,
        aside=aside if _STATUS in names else None,
        gold={q: f"GOLDEN:{q}" for q in questions if f"GOLDEN:{q}" in names},
    )


TOLOKA = Reader("toloka", "Toloka, TSV of assignments", detect_toloka, read_toloka)


@of_names
def detect_appen(names: set[str]) -> str | None:
    known = names & {"_worker_id", "_trusted_judgments", "_unit_state"}
    return "_unit_id and _worker_id" if "_unit_id" in names and known else None


def read_appen(document: Document, options: ReadOptions) -> Reading:
    """Read a full report; contributors who failed the test questions are _tainted."""
    names = set(document.names)
    if "_worker_id" not in names:
        raise InputError(
            f"{document.name}: Appen's aggregated report, which names no contributors; download "
            "the full report"
        )
    gold = {name: f"{name}{_GOLD}" for name in document.names if f"{name}{_GOLD}" in names}
    questions = list(gold)
    if not questions and options.label_col is None:
        questions = _judged(document)
    tainted = {"tainted": lambda column: is_one_of(column("_tainted"), "true", "1")}
    reading = from_columns(
        document,
        worker="_worker_id",
        item="_unit_id",
        questions=narrowed(document.name, {name: name for name in questions}, options),
        options=options,
        aside=tainted if "_tainted" in names else None,
        gold=gold,
    )
    return replace(reading, questions=[_certain_gold(question) for question in reading.questions])


def _judged(document: Document) -> list[str]:
    """Return the questions of a report without test questions: they differ within a unit."""
    other = (_GOLD, "_gold_reason", ":confidence")
    others = [n for n in document.names if n and not n.startswith("_") and not n.endswith(other)]
    found = varying(document, "_unit_id", others[:_MOST_COLUMNS])
    if not found:
        raise no_question(document, others)
    return found


def _certain_gold(question: Question) -> Question:
    """Drop the right answers of items that accept several, one per line: no one knows which."""
    if question.gold is None or not hasattr(question.gold[1], "dictionary"):
        return question
    labels: dict[str, set[str]] = {}
    for item, label in zip(*(column.to_pylist() for column in question.gold), strict=True):
        labels.setdefault(item, set()).update(label.split("\n"))
    sure = {item: min(known) for item, known in labels.items() if len(known) == 1}
    return replace(question, gold=(text_array(sure), text_array(sure.values())) if sure else None)


APPEN = Reader("appen", "Appen, full CSV report", detect_appen, read_appen)
