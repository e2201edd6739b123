"""Zooniverse, CSV of classifications: the answers are JSON in the column `annotations`.

A task's value is an answer, a list of answers, a list of marks with x and y, or in a survey a list
of {"choice"}; gold_standard marks an expert's classification.
"""

from __future__ import annotations

from collections.abc import Iterator

from misc_cli.errors import InputError
from misc_cli.readers.document import Document, Record, objects, text
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.export import PLAIN, Export, Field, kind_of_region, of_names
from misc_cli.readers.reading import Reader, Reading
from misc_cli.readers.values import BOXES, CHOICE, CHOICES, OTHER, parsed

_NEEDED = {"classification_id", "annotations", "subject_ids"}


@of_names
def detect(names: set[str]) -> str | None:
    return "classification_id, annotations and subject_ids" if names >= _NEEDED else None


def read(document: Document, options: ReadOptions) -> Reading:
    worker = next((n for n in ("user_name", "user_id", "user_ip") if n in document.names), None)
    if worker is None:
        raise InputError(f"{document.name}: no user_name column; export the classifications again")
    extra = [name for name in ("workflow_id", "gold_standard") if name in document.names]
    wanted = [worker, "subject_ids", "annotations", *extra]
    columns = [column.to_pylist() for column in document.columns(wanted)]
    rows = [dict(zip(wanted, row, strict=True)) for row in zip(*columns, strict=True)]
    n_workflows = len({row.get("workflow_id") for row in rows})
    export = Export(document, options, worker, "subject_ids", "annotations[task={}]")
    for row in export.records(rows):
        tasks = export.objects(parsed(row["annotations"]) or row["annotations"], "annotations")
        prefix = f"{row['workflow_id']}." if n_workflows > 1 else ""
        answers = [(prefix + q, *answer) for task in tasks for q, *answer in _answers(task)]
        gold = "gold standard" if row.get("gold_standard", "").lower() == "true" else ""
        export.fields(answers, row[worker], row["subject_ids"], gold)
    return export.reading()


def _answers(task: Record) -> Iterator[Field]:
    """Yield the answer of a task, and of those that it combines."""
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
            yield from _answers(one)
    elif all("choice" in one for one in inner):  # a survey
        yield question, CHOICE, [one["choice"] for one in inner]
    elif not any(map(kind_of_region, inner)) and all("value" in one for one in inner):
        for at, one in enumerate(inner):  # drop-down menus
            name = question if len(inner) == 1 else f"{question}.{one.get('select_label') or at}"
            yield name, PLAIN, text(one.get("label") or one["value"])
    else:
        yield question, BOXES if any(map(kind_of_region, inner)) else OTHER, text(value)


READER = Reader("zooniverse", "Zooniverse, CSV of classifications", detect, read)
