"""Mechanical Turk, CSV of a batch: HITId, WorkerId, Input.x and Answer.x columns.

An answer of a batch is a column of its own (Answer.animal), a true/false column for each radio
button (Answer.animal.cat, Answer.animal.dog), or within the JSON of Answer.taskAnswers. Several
items on one page are Input.image1, Input.image2 beside Answer.animal1, Answer.animal2. A batch
that was posted again has several HITs for one input: then the input is the item.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.errors import InputError
from misc_cli.readers.columns import listing
from misc_cli.readers.document import Document, is_one_of
from misc_cli.readers.layouts.wide import melt, share_values
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.export import (
    certain,
    fields_of,
    form_fields,
    gather,
    inferred,
    labels_of,
    objects_in,
)
from misc_cli.readers.reading import Question, Reading, from_columns, rows_of, take
from misc_cli.readers.values import CHOICE, CHOICES, parsed

_PREFIX = "Answer."
_JSON = "Answer.taskAnswers"
_NOTHING = ("", "null", "nan", "none", "{}")


def _read(document: Document, options: ReadOptions) -> Reading:
    if "WorkerId" not in document.names and options.worker_col is None:
        raise InputError(
            f"{document.name}: a batch of Mechanical Turk without its WorkerId column; download "
            "the results again, or name the worker's column with --worker-col"
        )
    names = [name for name in document.names if name.startswith(_PREFIX)]
    again = _input_posted_again(document) if options.item_col is None else None
    if options.label_col is not None:
        reading = _columns(document, {_question(name): name for name in names}, options, again)
    elif _JSON in names:
        reading = _task_answers(document, options, again)
    elif options.item_col is None and (pairs := _pairs(document, names)) is not None:
        return _several_items(document, options, *pairs)
    else:
        reading = _answer_columns(document, names, options, again)
    if again is None:
        return reading
    note = f"{document.name}: one input in several HITs, so items are {again}, not HITId"
    return replace(reading, notes=[*reading.notes, note])


def _columns(
    document: Document, questions: dict[str, str], options: ReadOptions, item: str | None = None
) -> Reading:
    """Read columns of answers but for the assignments that were rejected."""
    names = document.names

    def rejected(column: Callable[[str], Any]) -> dict[str, Any]:
        out = {}
        if "AssignmentStatus" in names:
            out["rejected"] = is_one_of(column("AssignmentStatus"), "rejected")
        elif "RejectionTime" in names:
            out["rejected"] = pc.invert(is_one_of(column("RejectionTime"), *_NOTHING))
        if "Reject" in names:
            out["rejected by hand"] = pc.invert(is_one_of(column("Reject"), *_NOTHING))
        return out

    return from_columns(
        document,
        worker="WorkerId",
        item=item or "HITId",
        questions=questions,
        options=options,
        aside=rejected,
    )


def _question(column: str) -> str:
    """Return the question of a column: crowd-classifier writes Answer.animal.label."""
    return column.removeprefix(_PREFIX).removesuffix(".label")


def _answer_columns(
    document: Document, names: list[str], options: ReadOptions, item: str | None
) -> Reading:
    """Read answers in columns of their own, or with a true/false column for each option."""
    groups: dict[str, list[str]] = {}
    for name in names:
        question, dot, _ = name.removeprefix(_PREFIX).rpartition(".")
        if dot:
            groups.setdefault(question, []).append(name)
    for question, columns in list(groups.items()):
        cells = {cell.lower() for name in columns for cell in document.sampled(name)}
        if len(columns) == 1 or not cells or not cells <= {"true", "false"}:
            del groups[question]
    grouped = {column for columns in groups.values() for column in columns}
    plain = {_question(name): name for name in names if name not in grouped}
    reading = _columns(document, plain, options, item)
    first = _columns(document, {names[0]: names[0]}, options, item) if groups else reading
    found = [_chosen(document, first.questions[0], *group) for group in groups.items()]
    filled = (
        one
        for one in reading.questions
        if one.kind == CHOICES or "".join(one.label.dictionary.to_pylist()).strip()
    )
    return Reading([*found, *map(_with_kind, filled)], first.aside, reading.notes)


def _with_kind(question: Question) -> Question:
    if question.kind != CHOICE:
        return question
    return replace(question, kind=inferred(question.name, question.label))


def _chosen(document: Document, base: Question, name: str, columns: list[str]) -> Question:
    """Return a question with a column per option: the options whose column is true."""
    flags = [np.asarray(is_one_of(flag, "true")) for flag in document.columns(columns)]
    on = np.column_stack(flags)[rows_of(base)]
    words = np.array([column.rpartition(".")[2] for column in columns], dtype=object)
    kind = CHOICES if np.any(on.sum(axis=1) > 1) else CHOICE
    labels = labels_of([words[row].tolist() for row in on], kind)
    roles = {**base.columns, "label": f"{_PREFIX}{name}.*"}
    return replace(base, name=name, kind=kind, label=labels, columns=roles)


def _input_posted_again(document: Document) -> str | None:
    """Return the input that is the item where a batch was posted again: HITs are more than items.

    It is filled everywhere, never differs within a HIT, comes in several HITs and tells as many
    tasks apart as all inputs together do.
    """
    inputs = [n for n in document.names if n.startswith("Input.") and document.names.count(n) == 1]
    if not inputs:
        return None
    workers = [name for name in ("WorkerId",) if name in document.names]
    hits, *columns = document.columns(["HITId", *inputs, *workers])
    table = pa.table([hits.indices, *(c.indices for c in columns)], ["HITId", *inputs, *workers])

    def n_distinct(*names: str) -> int:
        return int(table.group_by(list(names), use_threads=False).aggregate([]).num_rows)

    n_tasks, n_hits = n_distinct(*inputs), n_distinct("HITId")
    if n_tasks >= n_hits or n_distinct("HITId", *inputs) > n_hits:
        return None
    for name, column in zip(inputs, columns, strict=False):
        if n_distinct(*workers, name) < 0.9 * n_distinct(*workers, "HITId"):
            continue  # a worker has it again and again, so it tells tasks not apart
        is_full = pc.all(pc.not_equal(pc.utf8_trim_whitespace(column.dictionary), "")).as_py()
        if is_full and n_distinct(name) == n_tasks:
            return name
    return None


def _pairs(
    document: Document, names: list[str]
) -> tuple[str, dict[str, str], dict[str, str]] | None:
    """Return question, inputs and answers by number, where Answer.mood1 is about Input.image1."""
    inputs = _by_number(name for name in document.names if name.startswith("Input."))
    answers = _by_number(names)
    if len(inputs) != 1 or len(answers) != 1:
        return None
    ((_, items),), ((question, said),) = inputs.items(), answers.items()
    if len(items) < 2 or set(items) != set(said) or not share_values(document, said):
        return None
    return _question(question), items, said


def _by_number(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return stem → number → column: Answer.mood1.label is number 1 of Answer.mood."""
    found: dict[str, dict[str, str]] = {}
    for name in names:
        match = re.fullmatch(r"(.*\D)(\d+)", name.removesuffix(".label"))
        if match is not None:
            found.setdefault(match[1].rstrip("_-. "), {})[match[2]] = name
    return found


def _several_items(
    document: Document,
    options: ReadOptions,
    question: str,
    items: Mapping[str, str],
    said: Mapping[str, str],
) -> Reading:
    reading = _columns(document, {question: next(iter(said.values()))}, options)
    worker = options.worker_col or "WorkerId"
    (workers,) = document.columns([worker])
    cells = melt(document, workers, said)
    inputs = [column.cast(pa.string()) for column in document.columns([items[n] for n in said])]
    places = np.asarray(cells.by_column.indices) * len(workers) + cells.rows
    what = pa.concat_arrays(inputs).take(places).dictionary_encode()
    roles = {"worker": worker, "item": listing(list(items.values()), 4)}
    roles["label"] = listing(list(said.values()), 4)
    every = Question(question, CHOICE, cells.by_row, what, cells.label, cells.rows, columns=roles)
    note = f"{document.name}: {roles['item']} are items, answered by {roles['label']}"
    kept = take(every, np.flatnonzero(np.isin(cells.rows, rows_of(reading.questions[0]))))
    return Reading([_with_kind(kept)], reading.aside, [note])


def _task_answers(document: Document, options: ReadOptions, item: str | None) -> Reading:
    """Read answers within JSON: a list of one object, a field per question."""
    reading = _columns(document, {"taskAnswers": _JSON}, options, item)
    (base,) = reading.questions
    (cells,) = document.columns([_JSON])
    contents = [parsed(cell) for cell in cells.dictionary.to_pylist()]
    codes = np.asarray(cells.indices)[rows_of(base)].tolist()

    def answers(who: str, what: str, code: int) -> Any:
        content = contents[code]
        forms = {_JSON: content if isinstance(content, list) else [content]}
        fields = (field for form in objects_in(forms, _JSON) for field in form_fields(form))
        yield from fields_of(fields, who, what)

    found = map(answers, base.worker.to_pylist(), base.item.to_pylist(), codes)
    roles = (base.columns["worker"], base.columns["item"], f"{_JSON}: {{}}")
    inner = gather(document, zip(rows_of(base).tolist(), found, strict=True), roles)
    return replace(inner, aside={**reading.aside, **inner.aside})


MTURK = certain("mturk", "Mechanical Turk, CSV of a batch", _read)
