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
    EACH_COLUMN,
    Match,
    Question,
    Reader,
    Reading,
    by_kind,
    roles_of,
    rows_of,
    take,
)
from misc_cli.readers.values import CHOICE, have_classes
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
_NUMBER = re.compile(r"(?P<before>\D*)(?P<number>\d+)(?P<after>.*)")
# Words before a number that name a thing to be judged, never a person or a property.
_THINGS = names_in("""
q question item image img picture photo text task tweet post sentence comment doc document review
clip video audio stimulus i example sample case statement trial unit object article frage bild
""")
_WORKERS = EMAILS | names_in("""
name yourname fullname responseid respondentid prolificpid prolificid yourid participantnumber
nickname initials id # idresponseid responseidresponseid
""")
_TIMES = TIMES | names_in("""
submittedat startdate enddate starttime completiontime date submitdate(utc) submitdate
submitdatedatesubmitted
""")


def item_columns(document: Document) -> Columns:
    """Return the columns that are surely items, by question; empty if there are none."""
    for find in (_in_brackets, _files, _numbered):
        found = {q: own for q, own in find(document.names).items() if len(own) >= 2}
        if found:
            return {q: own for q, own in found.items() if _are_alike(document, own)}
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
    """Return names that differ only in a number: q1, q2; image_1_mood, image_1_spam, image_2_mood.

    What follows the number is the question, if every item has each.
    """
    alike: dict[str, Columns] = {}
    for name in names:
        match = _NUMBER.fullmatch(name)
        if match is not None and NUMBERED_WORKER.fullmatch(name.strip()) is None:
            of_thing = alike.setdefault(match["before"], {})
            of_thing.setdefault(match["after"], {})[match["before"] + match["number"]] = name
    sizes = {before: sum(map(len, own.values())) for before, own in alike.items()}
    things = [before for before, own in alike.items() if _names_a_thing(before, own)]
    best = max(things, key=lambda before: sizes[before], default="")
    # item_1, answer_1, item_2, answer_2: which are items is anybody's guess
    if not things or sum(size == sizes[best] for size in sizes.values()) > 1:
        return {}
    questions = {after: own for after, own in alike[best].items() if len(own) >= 2}
    if len(questions) == 1:
        return {LABEL: {name: name for name in next(iter(questions.values())).values()}}
    if len({frozenset(own) for own in questions.values()}) != 1:
        return {}
    return {after.strip(" _.-:") or LABEL: own for after, own in questions.items()}


def _names_a_thing(before: str, questions: Columns) -> bool:
    """Return whether a word for what is judged stands before the number, or a whole question."""
    words = set(re.split(r"[\W_\d]+", before.lower()))
    asked = all(after.strip().endswith("?") and " " in before + after for after in questions)
    return bool(words & _THINGS) or asked


def _are_alike(document: Document, columns: Mapping[str, str]) -> bool:
    """Return whether columns are judged in the same few words, as items of one question are."""
    cells = [cell for column in columns.values() for cell in document.sampled(column)]
    is_few = len(set(cells)) <= max(7, len(cells) / 2)
    return share_values(document, columns) and is_few and have_classes(cells)


def worker_column(document: Document, options: ReadOptions, items: Sequence[str]) -> str | None:
    """Return the column of workers; None if there is none, and rows are counted instead."""
    if options.worker_col is not None:
        return next(iter(select(document, "worker", options.worker_col)), None)
    rest = [name for name in document.names if name not in items]
    for tiers in (SYNONYMS["worker"], [_WORKERS]):
        found = [rest[at] for at in find_roles(rest, {"worker": tiers})["worker"]]
        # "anonymous" in every row names nobody
        found = [name for name in found if len(set(document.sampled(name))) > 1]
        unique = [name for name in found if is_unique(document, name)]
        if unique:
            return unique[0]
        if found:
            raise InputError(
                f"{document.name}: {found[0]!r} answers more than once, and no column names "
                "the items; pick with --item-col, or name the workers with --worker-col"
            )
    return None


def detect(document: Document) -> Match | None:
    """Rows per worker: no column names the items, and some columns are items by their names."""
    found = {} if document.table.header is False else item_columns(document)
    names = [column for columns in found.values() for column in columns.values()]
    rest = [name for name in document.names if name not in names]
    has_worker = any(find_roles(rest, {"worker": [*SYNONYMS["worker"], _WORKERS]}).values())
    has_time = any(normalise(name) in _TIMES for name in rest)
    if not names or not (has_worker or has_time):
        return None
    return Match(CERTAIN, f"a row for each worker, a column for each item: {listing(names, 4)}")


def read(document: Document, options: ReadOptions) -> Reading:
    given = options.item_col or options.label_col
    columns = {LABEL: {name: name for name in select(document, "item", given)}} if given else {}
    columns = columns or item_columns(document)
    if not columns:
        raise InputError(f"{document.name}: which columns are items? Name them with --item-col")
    taken = [column for of_question in columns.values() for column in of_question.values()]
    worker = worker_column(document, options, taken)
    people = () if worker is None else (worker,)
    layout = Layout("form", worker=people, item=tuple(taken)) if len(columns) == 1 else None
    return replace(cells_as_answers(document, columns, worker), layout=layout)


def cells_as_answers(
    document: Document, columns: Columns, worker: str | None, out: Any = None
) -> Reading:
    """Return each filled cell of the questions' columns as an answer.

    worker  the column that names whoever answered; None if nobody is named
    out     a mask of the rows that are left out
    """
    first = next(column for own in columns.values() for column in own.values())
    people = document.columns([worker or first])[0]
    if worker is None:
        people = text_array(f"row {row + 1}" for row in range(len(people)))
    questions = []
    for question, of_item in columns.items():
        cells = melt(document, people, of_item)
        roles = roles_of(worker=worker or (), item=EACH_COLUMN, label=list(of_item.values()))
        who, what, rows = cells.by_row, cells.by_column, cells.rows
        found = Question(question, CHOICE, who, what, cells.label, rows, columns=roles)
        if out is not None:
            found = take(found, np.flatnonzero(~out[rows]))
        _refuse_nameless(document, found)
        kind, labels = by_kind(found.label)
        questions.append(replace(found, kind=kind, label=labels))
    notes = [] if worker else [f"{document.name}: nobody is named, so each row is a worker"]
    return Reading(questions, notes=notes)


def _refuse_nameless(document: Document, question: Question) -> None:
    """Refuse answers of nobody: a second header row, or somebody who left the name out."""
    blank = pc.equal(pc.utf8_trim_whitespace(question.worker.cast(pa.string())), "")
    if pc.any(blank).as_py():
        row = rows_of(question)[np.flatnonzero(np.asarray(blank))[0]]
        raise InputError(
            f"{document.name}, line {document.table.line(int(row))}: answers without their worker "
            "(a second header?); drop the row, fill it in, or name another column with --worker-col"
        )


READER = Reader(
    name="form",
    title="a table with a row per worker and a column per item",
    detect=detect,
    read=read,
)
