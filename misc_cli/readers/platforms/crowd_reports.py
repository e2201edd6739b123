"""Results of crowd markets: Toloka, Appen, SageMaker Ground Truth and Zooniverse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from misc_cli.errors import InputError
from misc_cli.readers.document import (
    Document,
    Record,
    is_one_of,
    mapping,
    objects,
    text,
    text_array,
)
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.export import (
    PLAIN,
    Damaged,
    Field,
    Found,
    certain,
    export,
    fields_of,
    first_of,
    form_fields,
    kind_of_region,
    no_question,
    objects_in,
    rows_as_records,
    varying,
)
from misc_cli.readers.reading import Question, Reading, from_columns
from misc_cli.readers.values import BOXES, CHOICE, CHOICES, OTHER, parsed

_TASK, _STATUS = "ASSIGNMENT:task_id", "ASSIGNMENT:status"
_OUTPUT = "OUTPUT:"
_GOLD = "_gold"
_MOST_COLUMNS = 500


def _by_status(column: Callable[[str], Any]) -> dict[str, Any]:
    words = ("rejected", "skipped", "expired", "active")
    return {status: is_one_of(column(_STATUS), status) for status in words}


def _read_toloka(document: Document, options: ReadOptions) -> Reading:
    """Read a row per assignment and task; the input is the item if there is one input only."""
    names = document.names
    people = [n for n in ("ASSIGNMENT:worker_id", "ASSIGNMENT:user_id") if n in names]
    inputs = [name for name in names if name.startswith("INPUT:")]
    things = inputs if len(inputs) == 1 else [name for name in names if name == _TASK]
    if not people and options.worker_col is None:
        raise InputError(
            f"{document.name}: no ASSIGNMENT:worker_id column, so this may be Toloka's aggregated "
            "result; download the assignments, with all columns"
        )
    if not things and options.item_col is None:
        raise InputError(
            f"{document.name}: no {_TASK} column to tell the items by; download the assignments "
            "with it, or name an item column with --item-col"
        )
    questions = {name.removeprefix(_OUTPUT): name for name in names if name.startswith(_OUTPUT)}
    return from_columns(
        document,
        worker=people[:1],
        item=things,
        questions=questions,
        options=options,
        aside=_by_status if _STATUS in names else None,
        gold={q: f"GOLDEN:{q}" for q in questions if f"GOLDEN:{q}" in names},
    )


TOLOKA = certain("toloka", "Toloka, TSV of assignments", _read_toloka)


def _by_taint(column: Callable[[str], Any]) -> dict[str, Any]:
    return {"tainted": is_one_of(column("_tainted"), "true", "1")}


def _read_appen(document: Document, options: ReadOptions) -> Reading:
    """Read a full report; contributors who failed the test questions are _tainted."""
    names = document.names
    if "_worker_id" not in names:
        raise InputError(
            f"{document.name}: Appen's aggregated report, which names no contributors; download "
            "the full report"
        )
    known = set(names)
    gold = {name: f"{name}{_GOLD}" for name in names if f"{name}{_GOLD}" in known}
    questions = list(gold)
    if not questions and options.label_col is None:  # they differ within a unit
        other = (_GOLD, "_gold_reason", ":confidence")
        others = [n for n in names if n and not n.startswith("_") and not n.endswith(other)]
        questions = varying(document, "_unit_id", others[:_MOST_COLUMNS])
        if not questions:
            raise no_question(document, others)
    reading = from_columns(
        document,
        worker="_worker_id",
        item="_unit_id",
        questions={name: name for name in questions},
        options=options,
        aside=_by_taint if "_tainted" in known else None,
        gold=gold,
    )
    return replace(reading, questions=[_certain_gold(question) for question in reading.questions])


def _certain_gold(question: Question) -> Question:
    """Drop the right answers of items that accept several, one per line: no one knows which."""
    if question.gold is None or not hasattr(question.gold[1], "dictionary"):
        return question
    labels: dict[str, set[str]] = {}
    for item, label in zip(*(column.to_pylist() for column in question.gold), strict=True):
        labels.setdefault(item, set()).update(label.split("\n"))
    sure = {item: min(known) for item, known in labels.items() if len(known) == 1}
    return replace(question, gold=(text_array(sure), text_array(sure.values())) if sure else None)


APPEN = certain("appen", "Appen, full CSV report", _read_appen)


def _sagemaker(record: Record, document: Document) -> Found:
    """Yield workers' answers to a data object before they are consolidated.

    A post-annotation function gets `annotations`, JSON within JSON; files of worker responses hold
    `answers` (A2I: humanAnswers). An output manifest has one consolidated label, but for custom
    jobs whose function passes all answers on as annotationsFromAllWorkers.
    """
    passed_on = [
        one
        for value in record.values()
        for one in objects(mapping(value).get("annotationsFromAllWorkers"))
    ]
    answers: list[tuple[Any, Any]] = []
    for one in [*objects_in(record, "annotations"), *passed_on]:
        content = mapping(one.get("annotationData")).get("content", one.get("content"))
        content = parsed(content) if isinstance(content, str) else content
        if not isinstance(content, dict):
            raise Damaged("annotationData.content is not JSON")
        answers.append((one.get("workerId"), content))
    for key in ("answers", "humanAnswers"):
        given = objects_in(record, key)
        answers.extend((one.get("workerId"), one.get("answerContent")) for one in given)
    if not answers and any(key.endswith("-metadata") for key in record):
        raise Damaged(
            "Ground Truth's output manifest holds consolidated labels and no workers; read the "
            "job's annotations/worker-response files"
        )
    item = first_of(record, "datasetObjectId", "humanLoopName", "source-ref", "source")
    if item is None:  # a file of responses lies in a folder of its own
        path = PurePath(document.name)
        item = path.parent.name if path.parent.name.isdigit() else path.stem
    if not answers:
        yield "not annotated"
    for who, content in answers:
        yield from fields_of(form_fields(content), who, item)


SAGEMAKER = export(
    "sagemaker",
    "SageMaker Ground Truth, workers' answers",
    _sagemaker,
    ("workerId", "datasetObjectId", "{}"),
)


def _zooniverse(row: Record, document: Document) -> Found:
    """Yield the tasks of one classification, which are JSON; an expert's are the right answers."""
    tasks = {"annotations": parsed(row["annotations"]) or row["annotations"]}
    answers = [one for task in objects_in(tasks, "annotations") for one in _task_fields(task)]
    who = first_of(row, "user_name", "user_id", "user_ip")
    gold = "gold standard" if row.get("gold_standard", "").lower() == "true" else ""
    prefix = row["prefix"]
    fields = ((f"{prefix}{question}", kind, label) for question, kind, label in answers)
    yield from fields_of(fields, who, row["subject_ids"], gold)


def _task_fields(task: Record) -> Iterator[Field]:
    """Yield the answer of a task, and of those that it combines.

    The value is an answer, a list of answers, a list of marks with x and y, or in a survey a list
    of {"choice"}.
    """
    question, value = text(task.get("task")) or "task", task.get("value")
    inner = objects(value)
    if value in (None, "", []):
        return
    if not isinstance(value, list):
        kind = OTHER if isinstance(value, dict) else PLAIN
        yield question, kind_of_region(value) or kind, text(value)
    elif not inner:
        nested = any(isinstance(one, list) for one in value)
        yield question, OTHER if nested else CHOICES, value
    elif all("task" in one and "value" in one for one in inner):  # tasks on one page
        for one in inner:
            yield from _task_fields(one)
    elif all("choice" in one for one in inner):  # a survey
        yield question, CHOICE, [one["choice"] for one in inner]
    elif not any(map(kind_of_region, inner)) and all("value" in one for one in inner):
        for at, one in enumerate(inner):  # drop-down menus
            name = question if len(inner) == 1 else f"{question}.{one.get('select_label') or at}"
            yield name, PLAIN, text(one.get("label") or one["value"])
    else:
        yield question, BOXES if any(map(kind_of_region, inner)) else OTHER, text(value)


def _classifications(document: Document) -> list[Record]:
    """Return the rows of the table; questions are called by their workflow if there are several."""
    extra = ("workflow_id", "gold_standard", "user_name", "user_id", "user_ip")
    names = ["subject_ids", "annotations", *(name for name in extra if name in document.names)]
    rows = rows_as_records(document, names)
    several = len({row.get("workflow_id") for row in rows}) > 1
    return [{**row, "prefix": f"{row['workflow_id']}." if several else ""} for row in rows]


ZOONIVERSE = export(
    "zooniverse",
    "Zooniverse, CSV of classifications",
    _zooniverse,
    ("user_name", "subject_ids", "annotations[task={}]"),
    records=_classifications,
)
