"""Tables with a row per worker and a column per item: what forms and surveys export.

A column is an item where its name says so: [in brackets], as grids of forms have it, a file's name,
or a number after a word that others share. Then the columns must also share their values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.errors import InputError
from misc_cli.readers.columns import Layout, is_unique, listing, select
from misc_cli.readers.document import Document, text_array
from misc_cli.readers.layouts.melt import LABEL, Columns, melt, share_values
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.reading import (
    CERTAIN,
    Match,
    Question,
    Reader,
    Reading,
    by_kind,
    rows_of,
    take,
)
from misc_cli.readers.values import CHOICE, NUMBER, is_scale, kind_of_values
from misc_cli.readers.vocabulary import (
    EMAILS,
    NUMBERED_WORKER,
    SYNONYMS,
    TIMES,
    find_roles,
    names_in,
    normalise,
)

_BRACKETS = re.compile(r"(?P<question>.*?)\s*\[(?P<item>[^\[\]]+)\]\s*")
_FILE = re.compile(r"\S+\.(jpe?g|png|gif|webp|bmp|tiff?|wav|mp3|mp4|txt|pdf)", re.IGNORECASE)
# Words before a number that name a thing to be judged, never a person or a property.
_THINGS = names_in("""
q question item image img picture photo text task tweet post sentence comment doc document review
clip video audio stimulus i example sample case statement trial unit object article frage bild
""")
_WORKERS = {
    *EMAILS,
    *("name", "yourname", "fullname", "responseid", "respondentid"),
    *("prolificpid", "prolificid", "yourid", "participantnumber", "nickname", "initials", "id"),
    *("#", "idresponseid", "responseidresponseid"),  # Typeform, LimeSurvey
}
_TIMES = {
    *TIMES,
    *("submittedat", "startdate", "enddate", "starttime", "completiontime", "date"),
    *("submitdate(utc)", "submitdate", "submitdatedatesubmitted"),
}


def item_columns(document: Document) -> Columns:
    """The columns that are surely items, by question; empty if there are none."""
    for find in (_in_brackets, _files, _numbered):
        found = find(document.names)
        found = {q: columns for q, columns in found.items() if len(columns) >= 2}
        if found:
            alike = {q: c for q, c in found.items() if _are_alike(document, c)}
            return alike
    return {}


def _in_brackets(names: Sequence[str]) -> Columns:
    found: Columns = {}
    for name in names:
        match = _BRACKETS.fullmatch(name)
        if match is not None:
            found.setdefault(match["question"] or LABEL, {})[match["item"].strip()] = name
    return found


def _files(names: Sequence[str]) -> Columns:
    return {LABEL: {name: name for name in names if _FILE.fullmatch(name)}}


def _numbered(names: Sequence[str]) -> Columns:
    """Names that differ only in a number: q1, q2; Is image 1 a cat?, Is image 2 a cat?"""
    alike: dict[str, dict[str, str]] = {}
    for name in names:
        if re.search(r"\d", name) and NUMBERED_WORKER.fullmatch(name.strip()) is None:
            alike.setdefault(re.sub(r"\d+", "#", name), {})[name] = name
    found = [columns for pattern, columns in alike.items() if _names_a_thing(pattern)]
    largest = max(found, key=len, default={})
    rivals = [columns for columns in alike.values() if len(columns) == len(largest) > 0]
    # item_1, answer_1, item_2, answer_2: which are items is anybody's guess
    return {LABEL: largest} if len(rivals) == 1 else {}


def _names_a_thing(pattern: str) -> bool:
    """A word for what is judged, or a whole question."""
    words = set(re.split(r"[\W_\d]+", pattern.lower()))
    return bool(words & _THINGS) or (pattern.strip().endswith("?") and len(words) > 2)


def _are_alike(document: Document, columns: Mapping[str, str]) -> bool:
    """Items of one question are judged in the same few words."""
    if not share_values(document, columns):
        return False
    cells = [cell for column in columns.values() for cell in document.sampled(column)]
    together = sorted(set(cells))
    is_few = len(together) <= max(7, len(cells) / 2)
    kind = kind_of_values(together, len(cells))
    return is_few and kind.has_classes and (kind.name != NUMBER or is_scale(together))


def worker_column(document: Document, options: ReadOptions, items: Sequence[str]) -> str | None:
    """Return the column of workers; None if there is none, and rows are counted instead."""
    if options.worker_col is not None:
        return next(iter(select(document, "worker", options.worker_col)), None)
    rest = [name for name in document.names if name not in items]
    for tiers in (SYNONYMS["worker"], [_WORKERS]):
        found = find_roles(rest, {"worker": tiers})["worker"]
        # "anonymous" in every row names nobody
        found = [at for at in found if len(set(document.sampled(rest[at]))) > 1]
        unique = [at for at in found if is_unique(document, rest[at])]
        if unique:
            return rest[unique[0]]
        if found:
            raise InputError(
                f"{document.name}: {rest[found[0]]!r} answers more than once, and no column names "
                "the items; pick with --item-col, or name the workers with --worker-col"
            )
    return None


def detect(document: Document) -> Match | None:
    """Rows per worker: no column names the items, and some columns are items by their names."""
    if document.table.header is False:
        return None
    found = item_columns(document)
    if not found:
        return None
    names = [column for columns in found.values() for column in columns.values()]
    rest = [name for name in document.names if name not in names]
    has_worker = any(find_roles(rest, {"worker": [*SYNONYMS["worker"], _WORKERS]}).values())
    has_time = any(normalise(name) in _TIMES for name in rest)
    if not has_worker and not has_time:
        return None
    return Match(CERTAIN, f"a row for each worker, a column for each item: {listing(names, 4)}")


def read(document: Document, options: ReadOptions) -> Reading:
    given = options.item_col or options.label_col
    if given is not None:
        columns: Columns = {LABEL: {name: name for name in select(document, "item", given)}}
    else:
        columns = item_columns(document)
    if not columns:
        raise InputError(
            f"{document.name}: which columns are items? Name them, --item-col 'q*' for instance"
        )
    taken = [column for of_question in columns.values() for column in of_question.values()]
    worker = worker_column(document, options, taken)
    reading = cells_as_answers(document, columns, worker)
    people = () if worker is None else (worker,)
    layout = Layout("form", worker=people, item=tuple(taken)) if len(columns) == 1 else None
    return replace(reading, layout=layout)


def cells_as_answers(
    document: Document, columns: Columns, worker: str | None, out: Any = None
) -> Reading:
    """Return each filled cell of the questions' columns as an answer.

    worker  the column that names whoever answered; None if nobody is named
    out     a mask of the rows that are left out
    """
    first = next(column for own in columns.values() for column in own.values())
    n_rows = len(document.columns([first])[0])
    people = text_array(f"row {row + 1}" for row in range(n_rows))
    if worker is not None:
        (people,) = document.columns([worker])
    questions = []
    for question, of_item in columns.items():
        cells = melt(document, people, of_item)
        roles = {"worker": worker or "the row's number", "item": "a column for each"}
        roles["label"] = listing(list(of_item.values()), 4)
        who, what, rows = cells.by_row, cells.by_column, cells.rows
        found = Question(question, CHOICE, who, what, cells.label, rows, columns=roles)
        if out is not None:
            found = take(found, np.flatnonzero(~out[rows]))
        refuse_nameless(document, found.worker, rows_of(found))
        kind, labels = by_kind(found.label)
        questions.append(replace(found, kind=kind, label=labels))
    notes = [] if worker else [f"{document.name}: nobody is named, so each row is a worker"]
    return Reading(questions, notes=notes)


def refuse_nameless(document: Document, workers: Any, rows: Any) -> None:
    """Answers of nobody: a second header row, or somebody who left the name out."""
    blank = np.asarray(pc.equal(pc.utf8_trim_whitespace(workers.cast(pa.string())), ""))
    if blank.any():
        line = document.table.line(int(rows[np.flatnonzero(blank)[0]]))
        raise InputError(
            f"{document.name}, line {line}: answers without their worker (a second header?); drop "
            "the row, fill it in, or name another column with --worker-col"
        )


READER = Reader(
    name="form",
    title="a table with a row per worker and a column per item",
    explain="each filled cell is one answer: the row is the worker, the column the item",
    detect=detect,
    read=read,
)
