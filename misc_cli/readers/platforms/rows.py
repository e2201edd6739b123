"""Exports with a row per assignment: Mechanical Turk, Toloka, Appen, Label Studio's CSV."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from misc_cli.errors import InputError
from misc_cli.readers.columns import Refusal, listing
from misc_cli.readers.document import Document, is_one_of, objects, table_of, text, text_array
from misc_cli.readers.keys import is_person
from misc_cli.readers.layouts.wide import Several, are_answers, cells_as_answers, matched
from misc_cli.readers.options import NOBODY, ReadOptions
from misc_cli.readers.platforms import platform
from misc_cli.readers.platforms.records import as_label, name_of
from misc_cli.readers.reading import Reading, from_columns
from misc_cli.readers.row_filters import rows_out
from misc_cli.readers.values import CHOICE, TEXT, parsed
from misc_cli.readers.vocabulary import find_roles, is_remark

MOST_COLUMNS = 500
_PREFIX, _JSON = "Answer.", "Answer.taskAnswers"


@platform("Mechanical Turk, CSV of a batch")
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
    questions = {name.removesuffix(".*"): column for name, column in asked.items()}
    whole = _with_columns(document, derived)
    worker = _column(document, options, "worker", "WorkerId", item="HITId")
    reading = _assignments(whole, options, worker, ("HITId",), questions)
    is_open = options.item_col is None and options.label_col is None
    if is_open and (pairs := _pairs(document, names)) is not None:
        n_rows = len(document.columns([pairs.taken[0]])[0])
        out = np.isin(np.arange(n_rows), [row for own in reading.aside.values() for row in own])
        found = cells_as_answers(document, pairs, (options.worker_col or "WorkerId",), out)
        shown = listing(pairs.people, 4), listing(pairs.taken, 4)
        note = f"{document.name}: {shown[0]} are items, answered by {shown[1]}"
        return replace(found, aside=reading.aside, notes=[note], layout=None)
    kept = [
        replace(one, kind=TEXT) if one.kind == CHOICE and is_remark(one.name) else one
        for one in reading.questions
    ]
    return replace(reading, questions=kept)


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
    fields = []
    for code, cell in enumerate(cells.dictionary.to_pylist()):
        content = parsed(cell)
        forms = objects(content if isinstance(content, list) else [content])
        if cell.strip() and not forms:
            line = document.table.line(cells.indices.index(code).as_py())
            raise InputError(f"{document.name}, line {line}: {_JSON!r} is not a list of objects")
        fields.append({q: text(as_label(v)[1]) for form in forms for q, v in form.items()})
    return {
        f"{_PREFIX}{name}": text_array(own.get(name, "") for own in fields).take(cells.indices)
        for name in dict.fromkeys(name for own in fields for name in own)
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


@platform("Toloka, TSV of assignments")
def toloka(document: Document, options: ReadOptions) -> Reading:
    """Read a row per assignment and task; the input is the item if there is one input only."""
    names, people = document.names, ("ASSIGNMENT:worker_id", "ASSIGNMENT:user_id")
    inputs = [name for name in names if name.startswith("INPUT:")]
    worker = _column(document, options, "worker", *people)
    thing = inputs[0] if len(inputs) == 1 else "ASSIGNMENT:task_id"
    item = _column(document, options, "item", thing)
    questions = {n.removeprefix("OUTPUT:"): n for n in names if n.startswith("OUTPUT:")}
    gold = {q: f"GOLDEN:{q}" for q in questions if f"GOLDEN:{q}" in names}
    return _assignments(document, options, worker, item, questions, gold)


@platform("Appen, full CSV report")
def appen(document: Document, options: ReadOptions) -> Reading:
    """Read a full report; contributors who failed the test questions are _tainted."""
    names, known = document.names, set(document.names)
    worker = _column(document, options, "worker", "_worker_id", item="_unit_id")
    gold = {name: f"{name}_gold" for name in names if f"{name}_gold" in known}
    beside = ("_gold", "_gold_reason", ":confidence")
    others = [n for n in names if n and not n.startswith("_") and not n.endswith(beside)]
    questions = gold or _questions_within(document, options, "_unit_id", others)
    return _assignments(document, options, worker, ("_unit_id",), {q: q for q in questions}, gold)


def _assignments(
    document: Document,
    options: ReadOptions,
    worker: Sequence[str],
    item: Sequence[str],
    questions: Mapping[str, str],
    gold: Mapping[str, str] | None = None,
) -> Reading:
    """Return the rows of a batch, but for those that were rejected."""
    # who was rejected may have been approved since
    past = ["RejectionTime"] if "AssignmentStatus" in document.names else []
    taken = [*questions.values(), *past]
    return from_columns(
        document,
        worker=worker,
        item=item,
        questions=questions,
        options=options,
        aside=lambda column: rows_out(document, column, [], taken, worker=None),
        gold=gold,
    )


_OWN = {
    *("annotation_id", "annotator", "id", "created_at", "updated_at", "lead_time", "agreement"),
    *("inner_id", "updated_by", "project", "file_upload", "comment_count", "was_cancelled"),
}


@platform("Label Studio, CSV or JSON-MIN")
def label_studio_table(document: Document, options: ReadOptions) -> Reading:
    """Read a row per annotation, a column per question; JSON-MIN is the CSV of the same tasks."""
    if document.records is not None:
        who = ({**one, "annotator": name_of(one.get("annotator"))} for one in document.records)
        rows = [{name: text(value) for name, value in one.items()} for one in who]
        document = Document(document.name, document.format, lambda: table_of(rows))
    others = [name for name in document.names if name not in _OWN]
    asked, derived = _questions_within(document, options, "id", others), {}
    for name, column in zip(asked, document.columns(asked), strict=True):
        values = [as_label(parsed(cell) or cell)[1] for cell in column.dictionary.to_pylist()]
        derived[name] = text_array(map(text, values)).take(column.indices)
    return from_columns(
        _with_columns(document, derived),
        worker="annotator",
        item="id",
        questions={name: name for name in asked},
        options=options,
        aside=lambda column: {
            "empty": np.all([is_one_of(column(name), "") for name in asked or ["id"]], axis=0)
        },
    )


def _with_columns(document: Document, derived: Mapping[str, Any]) -> Document:
    """Return a table with more columns; one of a name that it has stands in for its own."""
    table = document.table
    names = [*dict.fromkeys([*table.names, *derived])]

    def fetch(places: Sequence[int]) -> list[Any]:
        own = iter(table.fetch([at for at in places if names[at] not in derived]))
        return [derived[names[at]] if names[at] in derived else next(own) for at in places]

    whole = replace(table, names=names, fetch=fetch)
    return Document(document.name, document.format, lambda: whole)


def _column(
    document: Document, options: ReadOptions, role: str, *names: str, item: str = ""
) -> tuple[str, ...]:
    """Return the first of these columns that there is; none if the user names the role's.

    item  the column whose values come again where rows are answers, be they nobody's
    """
    people = filter(is_person, document.names) if item else ()
    found = tuple(name for name in (*names, *people) if name in document.names)[:1]
    if found or options.columns[role] is not None:
        return found
    told = f"{document.name}: no column {names[0]}, "
    if item and len((column := document.columns([item])[0]).dictionary) < len(column):
        remedies = [{"worker_col": NOBODY}]
        raise Refusal(f"{told}so nobody knows who answered; --worker-col none says so", remedies)
    raise InputError(
        f"{told}so an aggregated report perhaps; download all answers with their {role}s, or name "
        f"the column with --{role}-col"
    )


def _questions_within(
    document: Document, options: ReadOptions, item: str, names: Sequence[str]
) -> list[str]:
    """Return the columns that differ within some item, as its data does not; else by their names.

    Of many columns only the first are looked at; none where the user names the label.
    """
    if options.label_col is not None:
        return []
    names = names[:MOST_COLUMNS]
    items, *columns = document.columns([item, *names])
    n_items = len(items.dictionary.take(items.indices.unique()))
    found = []
    for name, column in zip(names, columns, strict=True):
        pairs = pa.table({"item": items.indices, "value": column.indices})
        if pairs.group_by(["item", "value"], use_threads=False).aggregate([]).num_rows > n_items:
            found.append(name)
    found = found or [names[at] for at in find_roles(names)["label"]]
    if not found:
        raise InputError(
            f"{document.name}: no column is surely a question among {listing(names)}; name it "
            "with --label-col"
        )
    return found
