"""Mechanical Turk, CSV of a batch: HITId, WorkerId, AssignmentStatus, Input.x and Answer.x columns.

An answer is a column of its own (Answer.animal), a true/false column for each radio button
(Answer.animal.cat, Answer.animal.dog), or within the JSON of Answer.taskAnswers. Several items on
one page are Input.image1, Input.image2 beside Answer.animal1, Answer.animal2. A batch that was
posted again has several HITs for one input: then the input is the item.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.errors import InputError
from misc_cli.readers.columns import listing
from misc_cli.readers.document import Document, Record, is_one_of, mapping, objects, text
from misc_cli.readers.layouts.melt import melt, share_values
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.common import (
    Answers,
    Field,
    choice,
    form_answers,
    is_flag,
    narrowed,
    of_names,
    with_inferred_kinds,
)
from misc_cli.readers.reading import CERTAIN, Match, Question, Reader, Reading, from_columns, take
from misc_cli.readers.values import CHOICE, CHOICES, parsed

# Found by pattern, not by a parser of XML: entities that a document defines are never expanded.
_ANSWER = re.compile(r"<Answer>(.*?)</Answer>", re.DOTALL)
_NAME = re.compile(r"<QuestionIdentifier>(.*?)</QuestionIdentifier>", re.DOTALL)
_VALUE = re.compile(r"<(FreeText|SelectionIdentifier|OtherSelectionText)>(.*?)</\1>", re.DOTALL)
_FORM = "QuestionFormAnswers"


def detect_api(document: Document) -> Match | None:
    first = next(iter(_assignments(document)), None)
    known = first is not None and {"WorkerId", "HITId"} <= set(first)
    if first is not None and known and _FORM in text(first.get("Answer")):
        return Match(CERTAIN, "assignments with QuestionFormAnswers")
    return None


def _assignments(document: Document) -> list[Record]:
    records = document.records or []
    if len(records) == 1 and isinstance(records[0].get("Assignments"), list):
        return objects(records[0]["Assignments"])
    return records


def read_api(document: Document, options: ReadOptions) -> Reading:
    found = Answers(document, "WorkerId", "HITId", "Answer: {}")
    for row, assignment in enumerate(_assignments(document)):
        if text(assignment.get("AssignmentStatus")).lower() == "rejected":
            found.aside("rejected", row)
            continue
        answers = _answers(document, row, assignment)
        found.fields(answers, assignment.get("WorkerId"), assignment.get("HITId"), row)
    return found.inferred()


def _answers(document: Document, row: int, assignment: Record) -> Iterator[Field]:
    content = text(assignment.get("Answer"))
    if _FORM not in content:
        raise InputError(f"{document.name}, assignment {row + 1}: Answer holds no {_FORM}")
    for answer in _ANSWER.findall(content):
        name = _NAME.search(answer)
        values = [_plain_api(value) for _, value in _VALUE.findall(answer)]
        if name is None or not values:
            continue
        question = _plain_api(name[1])
        if question == "taskAnswers":
            forms = parsed(values[0])
            for form in forms if isinstance(forms, list) else [forms]:
                yield from form_answers(mapping(form))
        else:
            yield choice(question, values)


def _plain_api(content: str) -> str:
    """Return the text of an XML element."""
    inner = content.strip()
    if inner.startswith("<![CDATA[") and inner.endswith("]]>"):
        return inner[9:-3].strip()
    return html.unescape(inner)


API_READER = Reader(
    name="mturk-api",
    title="Mechanical Turk, JSON of assignments",
    explain="worker is WorkerId, item HITId, a question a QuestionIdentifier of the answer's XML; "
    "rejected assignments are left out",
    detect=detect_api,
    read=read_api,
)


_PREFIX = "Answer."
_JSON = "Answer.taskAnswers"


@of_names
def detect(names: set[str]) -> str | None:
    known = "HITId" in names and any(name.startswith(_PREFIX) for name in names)
    return "HITId and Answer. columns" if known else None


def read(document: Document, options: ReadOptions) -> Reading:
    if "WorkerId" not in document.names and options.worker_col is None:
        raise InputError(
            f"{document.name}: a batch of Mechanical Turk without its WorkerId column; download "
            "the results again, or name the worker's column with --worker-col"
        )
    aside = _aside(set(document.names))
    names = [name for name in document.names if name.startswith(_PREFIX)]
    is_json = _JSON in names and options.label_col is None
    pairs = _pairs(document, names) if options.item_col is None is options.label_col else None
    if pairs is not None and not is_json:
        return _several_items(document, options, aside, *pairs)
    again = _input_posted_again(document) if options.item_col is None else None
    reader = _task_answers if is_json else _plain
    if again is None:
        return reader(document, options, aside)
    reading = reader(document, replace(options, item_col=again), aside)
    note = f"{document.name}: one input in several HITs, so items are {again}, not HITId"
    return replace(reading, notes=[*reading.notes, note])


def _plain(document: Document, options: ReadOptions, aside: dict[str, Any]) -> Reading:
    """Read answers in columns of their own."""
    names = [name for name in document.names if name.startswith(_PREFIX)]
    groups = _groups(document, names)
    grouped = {column for columns in groups.values() for column in columns}
    plain = {_question(name): name for name in names if name not in grouped}
    reading = _read_columns(document, narrowed(document.name, plain, options), options, aside)
    if options.label_col is not None:
        return reading
    kept = _kept(document, reading)
    found = [_group(document, name, columns, options, kept) for name, columns in groups.items()]
    questions = [*found, *(q for q in reading.questions if _is_filled(q.label))]
    return with_inferred_kinds(Reading(questions, reading.aside, reading.notes))


def _read_columns(
    document: Document, questions: dict[str, str], options: ReadOptions, aside: dict[str, Any]
) -> Reading:
    return from_columns(
        document, worker="WorkerId", item="HITId", questions=questions, options=options, aside=aside
    )


def _input_posted_again(document: Document) -> str | None:
    """Return the input that is the item where a batch was posted again: HITs are more than items.

    It is filled everywhere, never differs within a HIT, comes in several HITs and tells as many
    tasks apart as all inputs together do.
    """
    inputs = [n for n in document.names if n.startswith("Input.") and document.names.count(n) == 1]
    if not inputs:
        return None
    hits, *columns = document.columns(["HITId", *inputs])
    table = pa.table([hits.indices, *(c.indices for c in columns)], ["hit", *inputs])
    n_tasks = _n_distinct(table, inputs)
    n_hits = _n_distinct(table, ["hit"])
    if n_tasks >= n_hits or _n_distinct(table, ["hit", *inputs]) > n_hits:
        return None
    (workers,) = document.columns(["WorkerId"]) if "WorkerId" in document.names else (hits,)
    table = table.append_column("worker", workers.indices)
    for name, column in zip(inputs, columns, strict=True):
        if _n_distinct(table, ["worker", name]) < 0.9 * _n_distinct(table, ["worker", "hit"]):
            continue  # a worker has it again and again, so it tells tasks not apart
        is_full = pc.all(pc.not_equal(pc.utf8_trim_whitespace(column.dictionary), "")).as_py()
        if is_full and _n_distinct(table, [name]) == n_tasks:
            return name
    return None


def _n_distinct(table: Any, names: list[str]) -> int:
    return int(table.group_by(names, use_threads=False).aggregate([]).num_rows)


def _pairs(
    document: Document, names: list[str]
) -> tuple[str, dict[str, str], dict[str, str]] | None:
    """Return question, inputs and answers by number, where Answer.mood1 is about Input.image1."""
    inputs = _by_number([name for name in document.names if name.startswith("Input.")])
    answers = _by_number(names)
    if len(inputs) != 1 or len(answers) != 1:
        return None
    ((_, items),), ((question, said),) = inputs.items(), answers.items()
    if len(items) < 2 or set(items) != set(said) or not share_values(document, said):
        return None
    return _question(question), items, said


def _by_number(names: list[str]) -> dict[str, dict[str, str]]:
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
    aside: dict[str, Any],
    question: str,
    items: dict[str, str],
    said: dict[str, str],
) -> Reading:
    first = next(iter(said.values()))
    reading = _read_columns(document, {question: first}, options, aside)
    kept = np.zeros(len(document.columns([first])[0]), dtype=bool)
    kept[_kept(document, reading)] = True
    worker = options.worker_col or "WorkerId"
    cells = melt(document, document.columns([worker])[0], said)
    inputs = [column.cast(pa.string()) for column in document.columns([items[n] for n in said])]
    places = np.asarray(cells.by_column.indices) * len(kept) + cells.rows
    what = pa.concat_arrays(inputs).take(places).dictionary_encode()
    roles = {"worker": worker, "item": listing(list(items.values()), 4)}
    roles["label"] = listing(list(said.values()), 4)
    every = Question(question, CHOICE, cells.by_row, what, cells.label, cells.rows, columns=roles)
    note = f"{document.name}: {roles['item']} are items, answered by {roles['label']}"
    answered = take(every, np.flatnonzero(kept[cells.rows]))
    return with_inferred_kinds(Reading([answered], reading.aside, [*reading.notes, note]))


def _aside(names: set[str]) -> dict[str, Any]:
    """Return the rules of rejection: by status, else by the time of rejection, or by hand."""
    rules: dict[str, Any] = {}
    if "AssignmentStatus" in names:
        rules["rejected"] = lambda column: is_one_of(column("AssignmentStatus"), "rejected")
    elif "RejectionTime" in names:
        rules["rejected"] = lambda column: _is_said(column("RejectionTime"))
    if "Reject" in names:
        rules["rejected by hand"] = lambda column: _is_said(column("Reject"))
    return rules


def _is_said(column: Any) -> Any:
    """Return the cells that hold something; a missing time is nothing, NULL or NaN."""
    return pc.invert(is_one_of(column, "", "null", "nan", "none", "{}"))


def _question(column: str) -> str:
    """Return the question of a column: crowd-classifier writes Answer.animal.label."""
    return column.removeprefix(_PREFIX).removesuffix(".label")


def _groups(document: Document, names: list[str]) -> dict[str, list[str]]:
    """Return the questions of radio buttons and checkboxes, with their true/false columns."""
    groups: dict[str, list[str]] = {}
    for name in names:
        question, dot, _ = name.removeprefix(_PREFIX).rpartition(".")
        if dot:
            groups.setdefault(question, []).append(name)
    return {
        question: columns
        for question, columns in groups.items()
        if len(columns) > 1 and is_flag(c for name in columns for c in document.sampled(name))
    }


def _kept(document: Document, reading: Reading) -> Any:
    """Return the rows that were not set aside."""
    (workers,) = document.columns([document.names[0]])
    left = np.ones(len(workers), dtype=bool)
    for rows in reading.aside.values():
        left[rows] = False
    return np.flatnonzero(left)


def _group(
    document: Document, name: str, columns: list[str], options: ReadOptions, kept: Any
) -> Question:
    """Return a question with a column per option: the options whose column is true."""
    worker, item = options.worker_col or "WorkerId", options.item_col or "HITId"
    who, what, *flags = document.columns([worker, item, *columns])
    on = np.column_stack([np.asarray(is_one_of(flag, "true")) for flag in flags])[kept]
    words = np.array([column.rpartition(".")[2] for column in columns], dtype=object)
    if np.all(on.sum(axis=1) <= 1):
        labels = np.where(on.any(axis=1), words[on.argmax(axis=1)], "")
        kind, said = CHOICE, pa.array(labels, pa.string()).dictionary_encode()
    else:
        kind = CHOICES
        said = pa.array([sorted(words[row]) for row in on], pa.list_(pa.string()))
    roles = {"worker": worker, "item": item, "label": f"{_PREFIX}{name}.*"}
    return Question(name, kind, who.take(kept), what.take(kept), said, kept, None, roles)


def _is_filled(labels: Any) -> bool:
    if pa.types.is_list(labels.type):
        return True
    return any(value.strip() for value in labels.dictionary.to_pylist() if value)


def _task_answers(document: Document, options: ReadOptions, aside: dict[str, Any]) -> Reading:
    """Read answers within JSON: a list of one object, a field per question."""
    reading = _read_columns(document, {"taskAnswers": _JSON}, options, aside)
    (cells,) = document.columns([_JSON])
    kept = _kept(document, reading).tolist()
    (question,) = reading.questions
    found = Answers(document, **{**question.columns, "label": f"{_JSON}: {{}}"})
    contents = [parsed(cell) for cell in cells.dictionary.to_pylist()]
    codes = cells.indices.to_pylist()
    rows = zip(kept, question.worker.to_pylist(), question.item.to_pylist(), strict=True)
    for row, who, what in rows:
        content = contents[codes[row]]
        forms = content if isinstance(content, list) else [content]
        if not all(isinstance(form, dict) for form in forms):
            raise InputError(
                f"{document.name}, line {document.table.line(row)}: {_JSON} is not a list of "
                "objects in JSON; download the results again"
            )
        found.fields((f for form in forms for f in form_answers(form)), who, what, row)
    inner = found.inferred()
    return Reading(inner.questions, {**reading.aside, **inner.aside}, has_workers=inner.has_workers)


READER = Reader(
    name="mturk",
    title="Mechanical Turk, CSV of a batch",
    explain="worker is WorkerId, item HITId (the input, if it was posted again), a question an "
    "Answer. column, a group of true/false columns or a field of taskAnswers; rejected "
    "assignments are left out",
    detect=detect,
    read=read,
)
