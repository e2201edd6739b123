"""Zooniverse, CSV of classifications: the answers are JSON in the column `annotations`.

https://help.zooniverse.org/next-steps/data-exports: user_name is the volunteer (not logged in: a
name from the hashed address), subject_ids the subject, annotations a list of {"task", "value"};
gold_standard marks an expert's classification. A task's value is an answer, a list of answers,
a list of marks with x and y, or in a survey a list of {"choice"}.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from misc_cli.errors import InputError
from misc_cli.readers.document import Document, text
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.common import (
    Answers,
    kind_of_region,
    loads,
    objects,
    with_inferred_kinds,
)
from misc_cli.readers.reading import CERTAIN, Match, Reader, Reading
from misc_cli.readers.values import BOXES, CHOICE, CHOICES, OTHER

_NEEDED = {"classification_id", "annotations", "subject_ids"}
_COLUMNS = {"worker": "user_name", "item": "subject_ids"}


def detect(document: Document) -> Match | None:
    if document.records is None and set(document.names) >= _NEEDED:
        return Match(CERTAIN, "classification_id, annotations and subject_ids")
    return None


def read(document: Document, options: ReadOptions) -> Reading:
    names = set(document.names)
    worker = next((n for n in ("user_name", "user_id", "user_ip") if n in names), None)
    if worker is None:
        raise InputError(f"{document.name}: no user_name column; export the classifications again")
    extra = [name for name in ("workflow_id", "gold_standard") if name in names]
    wanted = [worker, "subject_ids", "annotations", *extra]
    cells = dict(zip(wanted, (c.to_pylist() for c in document.columns(wanted)), strict=True))
    workflows = set(cells.get("workflow_id", []))
    found = Answers(document.name)
    for row, cell in enumerate(cells["annotations"]):
        tasks = loads(cell)
        if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
            raise InputError(
                f"{document.name}, line {document.table.line(row)}: annotations is not a list of "
                "objects in JSON; export it again"
            )
        who, item = cells[worker][row], cells["subject_ids"][row]
        prefix = f"{cells['workflow_id'][row]}." if len(workflows) > 1 else ""
        is_gold = cells.get("gold_standard", [""] * (row + 1))[row].lower() == "true"
        answers = [answer for task in tasks for answer in _answers(task)]
        if is_gold:
            found.aside("gold standard", row)
        elif not answers:
            found.aside("empty", row)
        for question, kind, value in answers:
            if is_gold:
                found.gold(prefix + question, item, value)
            else:
                columns = {**_COLUMNS, "worker": worker, "label": f"annotations[task={question}]"}
                found.answer(prefix + question, who, item, value, row, kind, columns)
    return with_inferred_kinds(found.reading())


def _answers(task: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Question, kind and answer of a task, and of those that it combines."""
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
        choices = [text(one["choice"]) for one in inner]
        yield (
            question,
            CHOICES if len(choices) > 1 else CHOICE,
            choices if len(choices) > 1 else choices[0],
        )
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
    page="https://help.zooniverse.org/next-steps/data-exports",
)
