"""Zooniverse, CSV of classifications: the answers are JSON in the column `annotations`.

A task's value is an answer, a list of answers, a list of marks with x and y, or in a survey a list
of {"choice"}; gold_standard marks an expert's classification.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from misc_cli.errors import InputError
from misc_cli.readers.document import Document, objects, text
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.common import Answers, Field, choice, kind_of_region, of_names
from misc_cli.readers.reading import Reader, Reading
from misc_cli.readers.values import BOXES, CHOICE, CHOICES, OTHER, parsed

_NEEDED = {"classification_id", "annotations", "subject_ids"}


@of_names
def detect(names: set[str]) -> str | None:
    return "classification_id, annotations and subject_ids" if names >= _NEEDED else None


def read(document: Document, options: ReadOptions) -> Reading:
    names = set(document.names)
    worker = next((n for n in ("user_name", "user_id", "user_ip") if n in names), None)
    if worker is None:
        raise InputError(f"{document.name}: no user_name column; export the classifications again")
    extra = [name for name in ("workflow_id", "gold_standard") if name in names]
    wanted = [worker, "subject_ids", "annotations", *extra]
    cells = dict(zip(wanted, (c.to_pylist() for c in document.columns(wanted)), strict=True))
    workflows = set(cells.get("workflow_id", []))
    found = Answers(document, worker, "subject_ids", "annotations[task={}]")
    for row, cell in enumerate(cells["annotations"]):
        tasks = parsed(cell)
        if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
            raise InputError(
                f"{document.name}, line {document.table.line(row)}: annotations is not a list of "
                "objects in JSON; export it again"
            )
        who, item = cells[worker][row], cells["subject_ids"][row]
        prefix = f"{cells['workflow_id'][row]}." if len(workflows) > 1 else ""
        is_gold = cells.get("gold_standard", [""] * (row + 1))[row].lower() == "true"
        answers = [(prefix + q, *answer) for task in tasks for q, *answer in _answers(task)]
        found.fields(answers, who, item, row, gold="gold standard" if is_gold else "")
    return found.inferred()


def _answers(task: dict[str, Any]) -> Iterator[Field]:
    """Yield the answer of a task, and of those that it combines."""
    question, value = text(task.get("task")) or "task", task.get("value")
    if value is None or value in ("", []):
        return
    if not isinstance(value, list):
        region = kind_of_region(value)
        kind = region or (OTHER if isinstance(value, dict) else CHOICE)
        yield question, kind, text(value)
        return
    inner = objects(value)
    if not inner:
        plain = all(not isinstance(one, list) for one in value)
        yield question, CHOICES if plain else OTHER, value if plain else text(value)
    elif all("task" in one and "value" in one for one in inner):  # tasks on one page
        for one in inner:
            yield from _answers(one)
    elif all("choice" in one for one in inner):  # a survey
        yield choice(question, [one["choice"] for one in inner])
    elif any(map(kind_of_region, inner)):
        yield question, BOXES, text(value)
    elif all("value" in one for one in inner):  # drop-down menus
        for at, one in enumerate(inner):
            name = question if len(inner) == 1 else f"{question}.{one.get('select_label') or at}"
            yield name, CHOICE, text(one.get("label") or one["value"])
    else:
        yield question, OTHER, text(value)


READER = Reader(
    name="zooniverse",
    title="Zooniverse, CSV of classifications",
    explain="worker is user_name, item subject_ids, a question a task of annotations; gold "
    "standard classifications are gold",
    detect=detect,
    read=read,
)
