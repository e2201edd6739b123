"""Results of crowd markets: Mechanical Turk, Toloka, Appen, SageMaker Ground Truth, Zooniverse."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

import numpy as np

from misc_cli.errors import InputError
from misc_cli.readers.columns import listing
from misc_cli.readers.document import (
    Document,
    Record,
    is_one_of,
    mapping,
    objects,
    text,
    text_array,
)
from misc_cli.readers.layouts.wide import Several, are_answers, cells_as_answers, matched
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.export import (
    Damaged,
    Field,
    Found,
    as_label,
    column_among,
    export,
    fields_of,
    first_of,
    objects_in,
    platform,
    questions_within,
    with_columns,
)
from misc_cli.readers.reading import Reading, from_columns
from misc_cli.readers.row_filters import rows_out
from misc_cli.readers.values import CHOICE, CHOICES, TEXT, parsed
from misc_cli.readers.vocabulary import is_remark

_PREFIX, _JSON = "Answer.", "Answer.taskAnswers"


@platform("mturk", "Mechanical Turk, CSV of a batch")
def mturk(document: Document, options: ReadOptions) -> Reading:
    """Read columns of answers but for the assignments that were rejected.

    An answer of a batch is a column of its own (Answer.animal), a true/false column for each radio
    button (Answer.animal.cat, Answer.animal.dog), or within the JSON of Answer.taskAnswers. Several
    items on one page are Input.image1, Input.image2 beside Answer.animal1, Answer.animal2.
    """
    names = [name for name in document.names if name.startswith(_PREFIX)]
    derived = {}
    if options.label_col is None:
        derived = _forms(document) if _JSON in names else _options(document, names)
        parts = {_JSON, *(n for n in names if f"{n.rpartition('.')[0]}.*" in derived)}
        names = [name for name in names if name not in parts]
    asked = {c.removeprefix(_PREFIX).removesuffix(".label"): c for c in (*derived, *names)}
    # who was rejected may have been approved since
    past = ["RejectionTime"] if "AssignmentStatus" in document.names else []
    reading = from_columns(
        with_columns(document, derived),
        worker=column_among(document, options, "worker", "WorkerId", item="HITId"),
        item="HITId",
        questions={name.removesuffix(".*"): column for name, column in asked.items()},
        options=options,
        aside=lambda column: rows_out(document, column, [], [*names, *past], worker=None),
    )
    is_open = options.item_col is None and options.label_col is None
    if is_open and (pairs := _pairs(document, names)) is not None:
        n_rows = len(document.columns([pairs.taken[0]])[0])
        out = np.isin(np.arange(n_rows), np.concatenate([[-1], *reading.aside.values()]))
        found = cells_as_answers(document, pairs, (options.worker_col or "WorkerId",), out)
        shown = listing(pairs.people, 4), listing(pairs.taken, 4)
        note = f"{document.name}: {shown[0]} are items, answered by {shown[1]}"
        return replace(found, aside=reading.aside, notes=[note], layout=None)
    questions = [
        replace(one, kind=TEXT) if one.kind == CHOICE and is_remark(one.name) else one
        for one in reading.questions
        if one.kind == CHOICES or "".join(one.label.dictionary.to_pylist()).strip()
    ]
    return replace(reading, questions=questions)


def _options(document: Document, names: Sequence[str]) -> dict[str, Any]:
    """Return a column for each question with a true/false column per option: those chosen."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(name.rpartition(".")[0], []).append(name)
    groups.pop(_PREFIX[:-1], None)  # Answer.animal has no options
    found = {}
    for question, columns in groups.items():
        cells = {cell.lower() for name in columns for cell in document.sampled(name)}
        if len(columns) > 1 and cells and cells <= {"true", "false"}:
            flags = [np.asarray(is_one_of(flag, "true")) for flag in document.columns(columns)]
            words = np.array([column.rpartition(".")[2] for column in columns], dtype=object)
            lists = (words[row].tolist() for row in np.column_stack(flags))
            found[f"{question}.*"] = text_array(map(json.dumps, lists))
    return found


def _forms(document: Document) -> dict[str, Any]:
    """Return a column for each field within JSON: a list of one object, a field per question."""
    (cells,) = document.columns([_JSON])
    codes, fields = np.asarray(cells.indices), []
    for code, cell in enumerate(cells.dictionary.to_pylist()):
        content = parsed(cell)
        forms = objects(content if isinstance(content, list) else [content])
        if cell.strip() and not forms:
            line = document.table.line(int(np.argmax(codes == code)))
            raise InputError(f"{document.name}, line {line}: {_JSON!r} is not a list of objects")
        fields.append({q: text(as_label(v)[1]) for form in forms for q, v in form.items()})
    names = dict.fromkeys(name for own in fields for name in own)
    return {
        f"{_PREFIX}{name}": text_array([own.get(name, "") for own in fields]).take(codes)
        for name in names
    }


def _pairs(document: Document, names: Sequence[str]) -> Several | None:
    """Return answers by number with their inputs, where Answer.mood1 is about Input.image1."""
    number = re.compile(r"(.*\D)(\d+)(?:\.label)?")
    inputs = [name for name in document.names if name.startswith("Input.")]
    items, asked = (matched(own, number, lambda m: (m[1], m[2])) for own in (inputs, names))
    if len(items) != 1 or len(asked) != 1:
        return None
    ((_, things),), ((question, said),) = items.items(), asked.items()
    if len(things) < 2 or set(things) != set(said) or not are_answers(document, said):
        return None
    people = tuple(things[at] for at in said)
    return Several("form", {question.removeprefix(_PREFIX).rstrip("_-. "): said}, people=people)


_TASK, _OUTPUT, _GOLD = "ASSIGNMENT:task_id", "OUTPUT:", "_gold"


@platform("toloka", "Toloka, TSV of assignments")
def toloka(document: Document, options: ReadOptions) -> Reading:
    """Read a row per assignment and task; the input is the item if there is one input only."""
    names = document.names
    inputs = [name for name in names if name.startswith("INPUT:")]
    things = inputs if len(inputs) == 1 else [_TASK]
    people = ("ASSIGNMENT:worker_id", "ASSIGNMENT:user_id")
    questions = {name.removeprefix(_OUTPUT): name for name in names if name.startswith(_OUTPUT)}
    return from_columns(
        document,
        worker=column_among(document, options, "worker", *people),
        item=column_among(document, options, "item", *things),
        questions=questions,
        options=options,
        aside=lambda column: rows_out(document, column, [], [*questions.values()], worker=None),
        gold={q: f"GOLDEN:{q}" for q in questions if f"GOLDEN:{q}" in names},
    )


@platform("appen", "Appen, full CSV report")
def appen(document: Document, options: ReadOptions) -> Reading:
    """Read a full report; contributors who failed the test questions are _tainted."""
    names, known = document.names, set(document.names)
    worker = column_among(document, options, "worker", "_worker_id", item="_unit_id")
    gold = {name: f"{name}{_GOLD}" for name in names if f"{name}{_GOLD}" in known}
    questions = list(gold)
    if not questions and options.label_col is None:  # they differ within a unit
        other = (_GOLD, "_gold_reason", ":confidence")
        others = [n for n in names if n and not n.startswith("_") and not n.endswith(other)]
        questions = questions_within(document, "_unit_id", others)
    return from_columns(
        document,
        worker=worker,
        item="_unit_id",
        questions={name: name for name in questions},
        options=options,
        aside=lambda column: rows_out(document, column, [], questions, worker=None),
        gold=gold,
    )


_GROUND_TRUTH = "SageMaker Ground Truth, workers' answers"


@export("sagemaker", _GROUND_TRUTH, "workerId", "datasetObjectId", "{}")
def sagemaker(record: Record, document: Document) -> Found:
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
    item = first_of(record, "datasetObjectId", "humanLoopName", "source-ref", "source")
    if item is None:  # a file of responses lies in a folder of its own
        path = PurePath(document.name)
        item = path.parent.name if path.parent.name.isdigit() else path.stem
    if not given:
        yield "no worker's answer"
    for one in given:
        content = first_of(
            {**one, **mapping(one.get("annotationData"))}, "content", "answerContent"
        )
        content = parsed(content) if isinstance(content, str) else content
        if not isinstance(content, dict):
            raise Damaged("a worker's content is not JSON")
        yield from fields_of(content.items(), one.get("workerId"), item)


_CLASSIFICATIONS = "Zooniverse, CSV of classifications"
_TASKS = "annotations[task={}]"


@export("zooniverse", _CLASSIFICATIONS, "user_name", "subject_ids", _TASKS, is_table=True)
def zooniverse(row: Record, _: Document) -> Found:
    """Yield the tasks of one classification, which are JSON; an expert's are the right answers."""
    cell = row.get("annotations", "")
    tasks = objects_in({"annotations": parsed(cell) or cell}, "annotations")
    answers = [one for task in tasks for one in _task_fields(task)]
    who = first_of(row, "user_name", "user_id", "user_ip")
    gold = "gold standard" if row.get("gold_standard", "").lower() == "true" else ""
    workflow = f"{row.get('workflow_id')}."
    yield from fields_of(answers, who, row.get("subject_ids"), gold, scope=workflow)


def _task_fields(task: Record) -> Iterator[Field]:
    """Yield the answer of a task, and of those that it combines; a survey's are {"choice"}."""
    question, value = text(task.get("task")) or "task", task.get("value")
    inner = objects(value)
    if inner and all("task" in one and "value" in one for one in inner):
        for one in inner:
            yield from _task_fields(one)
    elif inner and all("choice" in one for one in inner):
        yield question, [one["choice"] for one in inner]
    else:
        yield question, value
