"""Mechanical Turk, CSV of a batch: HITId, WorkerId, Input.x and Answer.x columns.

An answer of a batch is a column of its own (Answer.animal), a true/false column for each radio
button (Answer.animal.cat, Answer.animal.dog), or within the JSON of Answer.taskAnswers. Several
items on one page are Input.image1, Input.image2 beside Answer.animal1, Answer.animal2.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from misc_cli.errors import InputError
from misc_cli.readers.columns import listing
from misc_cli.readers.document import Document, is_one_of, objects, text, text_array
from misc_cli.readers.layouts.melt import cells_as_answers
from misc_cli.readers.layouts.wide import Several, are_answers, matched
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.export import (
    as_label,
    certain,
    form_fields,
    where_said,
    with_columns,
)
from misc_cli.readers.reading import MOST_QUESTIONS, Reading, from_columns
from misc_cli.readers.values import CHOICE, CHOICES, TEXT, parsed
from misc_cli.readers.vocabulary import is_remark

_PREFIX, _JSON = "Answer.", "Answer.taskAnswers"


def _read(document: Document, options: ReadOptions) -> Reading:
    """Read columns of answers but for the assignments that were rejected."""
    if "WorkerId" not in document.names and options.worker_col is None:
        raise InputError(
            f"{document.name}: a batch of Mechanical Turk without its WorkerId column; download "
            "the results again, or name the worker's column with --worker-col"
        )
    names = [name for name in document.names if name.startswith(_PREFIX)]
    is_open = options.item_col is None and options.label_col is None
    pairs = _pairs(document, names) if is_open else None
    derived = {}
    if options.label_col is None:
        derived = _forms(document) if _JSON in names else _options(document, names)
        names = [name for name in names if name != _JSON and not _is_part(name, derived)]
    is_told = "AssignmentStatus" in document.names
    status = ("AssignmentStatus", "rejected") if is_told else ("RejectionTime",)
    rejected = where_said(document, {"rejected": status, "rejected by hand": ("Reject",)})

    def read(columns: Iterable[str]) -> Reading:
        ends = (".label", ".*")
        return from_columns(
            with_columns(document, derived),
            worker="WorkerId",
            item="HITId",
            questions={reduce(str.removesuffix, ends, c.removeprefix(_PREFIX)): c for c in columns},
            options=options,
            aside=rejected,
        )

    reading = read(names)
    if pairs is not None:
        return _several_items(document, options, reading, pairs)
    folded = (
        list(derived)[at : at + MOST_QUESTIONS] for at in range(0, len(derived), MOST_QUESTIONS)
    )
    found = [*(one for own in folded for one in read(own).questions), *reading.questions]
    questions = [
        replace(one, kind=TEXT) if one.kind == CHOICE and is_remark(one.name) else one
        for one in found
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


def _is_part(name: str, derived: dict[str, Any]) -> bool:
    return f"{name.rpartition('.')[0]}.*" in derived


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
        said_in = (field for form in forms for field in form_fields(form))
        fields.append({name: text(as_label(value)[1]) for name, value in said_in})
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


def _several_items(
    document: Document, options: ReadOptions, reading: Reading, pairs: Several
) -> Reading:
    n_rows = len(document.columns([pairs.taken[0]])[0])
    out = np.isin(np.arange(n_rows), np.concatenate([[-1], *reading.aside.values()]))
    found = cells_as_answers(document, pairs, (options.worker_col or "WorkerId",), out)
    shown = listing(pairs.people, 4), listing(pairs.taken, 4)
    note = f"{document.name}: {shown[0]} are items, answered by {shown[1]}"
    return replace(found, aside=reading.aside, notes=[note], layout=None)


MTURK = certain("mturk", "Mechanical Turk, CSV of a batch", _read)
