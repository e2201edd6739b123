"""Results of crowd markets: Toloka, Appen, SageMaker Ground Truth and Zooniverse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePath

from misc_cli.errors import InputError
from misc_cli.readers.document import Document, Record, mapping, objects, text, text_array
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.export import (
    Damaged,
    Field,
    Found,
    certain,
    export,
    fields_of,
    first_of,
    form_fields,
    objects_in,
    questions_within,
    rows_as_records,
    where_said,
)
from misc_cli.readers.reading import Question, Reading, from_columns
from misc_cli.readers.values import parsed

_TASK, _OUTPUT, _GOLD = "ASSIGNMENT:task_id", "OUTPUT:", "_gold"


def _read_toloka(document: Document, options: ReadOptions) -> Reading:
    """Read a row per assignment and task; the input is the item if there is one input only."""
    names = document.names
    people = [n for n in ("ASSIGNMENT:worker_id", "ASSIGNMENT:user_id") if n in names]
    inputs = [name for name in names if name.startswith("INPUT:")]
    things = inputs if len(inputs) == 1 else [name for name in names if name == _TASK]
    for role, found in (("worker", people), ("item", things)):
        if not found and options.columns[role] is None:
            raise InputError(
                f"{document.name}: no column of the {role}, so this may be Toloka's aggregated "
                f"result; download the assignments, with all columns, or name it: --{role}-col"
            )
    questions = {name.removeprefix(_OUTPUT): name for name in names if name.startswith(_OUTPUT)}
    statuses = ("rejected", "skipped", "expired", "active")
    return from_columns(
        document,
        worker=people[:1],
        item=things,
        questions=questions,
        options=options,
        aside=where_said(document, {s: ("ASSIGNMENT:status", s) for s in statuses}),
        gold={q: f"GOLDEN:{q}" for q in questions if f"GOLDEN:{q}" in names},
    )


TOLOKA = certain("toloka", "Toloka, TSV of assignments", _read_toloka)


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
        questions = questions_within(document, "_unit_id", others)
    reading = from_columns(
        document,
        worker="_worker_id",
        item="_unit_id",
        questions={name: name for name in questions},
        options=options,
        aside=where_said(document, {"tainted": ("_tainted", "true", "1")}),
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
    jobs = [mapping(value).get("annotationsFromAllWorkers") for value in record.values()]
    given = [
        one for key in ("annotations", "answers", "humanAnswers") for one in objects_in(record, key)
    ]
    given += [one for job in jobs for one in objects(job)]
    if not given and any(key.endswith("-metadata") for key in record):
        raise Damaged(
            "Ground Truth's output manifest holds consolidated labels and no workers; read the "
            "job's annotations/worker-response files"
        )
    item = first_of(record, "datasetObjectId", "humanLoopName", "source-ref", "source")
    if item is None:  # a file of responses lies in a folder of its own
        path = PurePath(document.name)
        item = path.parent.name if path.parent.name.isdigit() else path.stem
    if not given:
        yield "not annotated"
    for one in given:
        content = first_of(
            {**one, **mapping(one.get("annotationData"))}, "content", "answerContent"
        )
        content = parsed(content) if isinstance(content, str) else content
        if not isinstance(content, dict):
            raise Damaged("a worker's content is not JSON")
        yield from fields_of(form_fields(content), one.get("workerId"), item)


SAGEMAKER = export(
    "sagemaker",
    "SageMaker Ground Truth, workers' answers",
    _sagemaker,
    ("workerId", "datasetObjectId", "{}"),
)


def _zooniverse(row: Record, _: Document) -> Found:
    """Yield the tasks of one classification, which are JSON; an expert's are the right answers."""
    tasks = {"annotations": parsed(row["annotations"]) or row["annotations"]}
    answers = [one for task in objects_in(tasks, "annotations") for one in _task_fields(task)]
    who = first_of(row, "user_name", "user_id", "user_ip")
    gold = "gold standard" if row.get("gold_standard", "").lower() == "true" else ""
    fields = ((f"{row['prefix']}{question}", value) for question, value in answers)
    yield from fields_of(fields, who, row["subject_ids"], gold)


def _task_fields(task: Record) -> Iterator[Field]:
    """Yield the answer of a task, and of those that it combines; a survey's are {"choice"}."""
    question, value = text(task.get("task")) or "task", task.get("value")
    inner = objects(value)
    if inner and all("task" in one and "value" in one for one in inner):
        for one in inner:
            yield from _task_fields(one)
    elif inner and all("choice" in one for one in inner):
        yield question, [one["choice"] for one in inner]
    elif len(inner) == 1 and "value" in inner[0]:  # a drop-down menu
        yield question, text(inner[0].get("label") or inner[0]["value"])
    else:
        yield question, value


def _classifications(document: Document) -> list[Record]:
    """Return the rows of the table; questions are called by their workflow if there are several."""
    rows = rows_as_records(document)
    several = len({row.get("workflow_id") for row in rows}) > 1
    return [{**row, "prefix": f"{row['workflow_id']}." if several else ""} for row in rows]


ZOONIVERSE = export(
    "zooniverse",
    "Zooniverse, CSV of classifications",
    _zooniverse,
    ("user_name", "subject_ids", "annotations[task={}]"),
    _classifications,
)
