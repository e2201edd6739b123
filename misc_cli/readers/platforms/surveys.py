"""Surveys: a row per respondent, a column per question; those answered in the same words are items.

A grid's columns, "Question [Row]", are those of any form: layouts/form.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from misc_cli.errors import InputError
from misc_cli.readers.columns import is_unique
from misc_cli.readers.document import Document, compact, is_one_of
from misc_cli.readers.layouts import form
from misc_cli.readers.layouts.melt import LABEL
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.reading import CERTAIN, Match, Reader, Reading
from misc_cli.readers.values import CHOICE, CHOICES, NUMBER, kind_of_values
from misc_cli.readers.vocabulary import (
    EMAILS,
    SYNONYMS,
    TIMES,
    find_roles,
    is_remark,
    normalise,
    words_of,
)

# Words of questions about the respondent, not about what is judged.
_PERSONAL = {
    *("consent", "participate", "participation", "age", "old", "gender", "sex", "education"),
    *("nationality", "occupation", "prolific", "captcha", "robot"),
}


def groups(document: Document, names: Sequence[str]) -> list[list[str]]:
    """Return the columns that are answered in the same few words, group by group."""
    found: list[tuple[set[str], list[str]]] = []
    for name in names:
        values = set(document.sampled(name))
        if not values or not _is_asked(document, name):
            continue
        joined = [group for group in found if group[0] & values]
        found = [group for group in found if group not in joined]
        words = values.union(*(group[0] for group in joined))
        found.append((words, [*(one for group in joined for one in group[1]), name]))
    return [columns for _, columns in found if len(columns) > 1]


def _is_asked(document: Document, name: str) -> bool:
    if is_remark(name):
        return False
    cells = document.sampled(name)
    return kind_of_values(sorted(set(cells)), len(cells)).name in (CHOICE, CHOICES, NUMBER)


def _reading(
    document: Document,
    options: ReadOptions,
    found: Sequence[Sequence[str]],
    people: Sequence[str],
    out: Any = None,
) -> Reading:
    """Return each filled cell of each group as an answer.

    people  columns that name whoever answered, the best first; the row does where none is full
    out     a mask of the rows that are left out
    """
    taken = [name for group in found for name in group]
    worker = options.worker_col and form.worker_column(document, options, taken)
    free = [name for name in people if name not in taken]
    worker = worker or next((name for name in free if _names_all(document, name)), None)
    titles = [LABEL] if len(found) == 1 else [group[0] for group in found]
    columns = {t: {n: n for n in group} for t, group in zip(titles, found, strict=True)}
    return form.cells_as_answers(document, columns, worker, out)


def _names_all(document: Document, name: str) -> bool:
    if document.names.count(name) != 1 or not is_unique(document, name):
        return False
    return len(document.sampled(name)) == len(document.table.sample)


def read_below(
    document: Document,
    options: ReadOptions,
    *,
    n_headers: int,
    names: Mapping[str, str],
    people: Sequence[str],
) -> Reading:
    """Read a survey with more header rows below its names.

    n_headers  how many of the first rows are no answers
    names      the questions' columns → what was asked
    """
    view = without_first(document, n_headers)
    asked = [name for name, text in names.items() if not words_of(f"{name} {text}") & _PERSONAL]
    found = groups(view, [name for name in asked if document.names.count(name) == 1])
    if not found:
        raise InputError(
            f"{document.name}: a survey whose questions are each answered in words of their own, "
            "so none of them judges several items; name them, --layout form --item-col"
        )
    out = None
    if "Status" in view.names:
        out = np.asarray(is_one_of(view.columns(["Status"])[0], *_PREVIEWS))
    reading = _reading(view, options, found, people, out)
    aside = {} if out is None or not out.any() else {"preview, test or spam": np.flatnonzero(out)}
    return replace(reading, aside=aside, view=view)


def without_first(document: Document, n_rows: int) -> Document:
    """Return the file without its first rows."""
    table = document.table

    def lines(rows: Sequence[int]) -> list[int]:
        return table.lines_of([row + n_rows for row in rows])

    below = replace(
        table,
        sample=table.sample[n_rows:],
        fetch=lambda places: [compact(column.slice(n_rows)) for column in table.fetch(places)],
        line=lambda row: table.line(row + n_rows),
        lines=lines,
    )
    return Document(document.name, document.format, lambda: below)


_QUALTRICS_COLUMNS = {
    *("startdate", "enddate", "status", "ipaddress", "progress", "duration(inseconds)", "finished"),
    *("recordeddate", "responseid", "recipientlastname", "recipientfirstname", "recipientemail"),
    *("externalreference", "locationlatitude", "locationlongitude", "distributionchannel"),
    *("userlanguage", "qrecaptchascore", "qrelevantidduplicate", "qballotboxstuffing"),
}
_BESIDE = re.compile(r"(?i).*(_first click|_last click|_page submit|_click count|_text|_do|_do_.*)")
_QUALTRICS_PEOPLE = (
    *("prolificpid", "prolificid", "workerid", "participantid", "mturkid", "subjectid", "pid"),
)
_PREVIEWS = ("survey preview", "survey test", "spam", "1", "2", "8", "9", "12")


def detect_qualtrics(document: Document) -> Match | None:
    if document.records is not None or document.table.header is False:
        return None
    first = [row for row in document.table.sample[:2] if any("ImportId" in cell for cell in row)]
    if "ResponseId" not in document.names or not first:
        return None
    return Match(CERTAIN, "ResponseId, and a row of ImportIds below the names")


def read_qualtrics(document: Document, options: ReadOptions) -> Reading:
    sample = document.table.sample
    at = next(at for at, row in enumerate(sample[:2]) if any("ImportId" in c for c in row))
    texts = sample[0] if at else document.names
    asked = {
        name: text
        for name, text in zip(document.names, texts, strict=False)
        if normalise(name) not in (*_QUALTRICS_COLUMNS, *_QUALTRICS_PEOPLE)
        and not _BESIDE.fullmatch(name)
    }
    people = [name for name in document.names if normalise(name) in _QUALTRICS_PEOPLE]
    return read_below(
        document, options, n_headers=at + 1, names=asked, people=[*people, "ResponseId"]
    )


QUALTRICS = Reader(
    name="qualtrics",
    title="Qualtrics, CSV of responses",
    explain="worker is an id that was passed in (PROLIFIC_PID), else ResponseId; an item is a "
    "column, where several are answered in the same words; previews and spam are left out",
    detect=detect_qualtrics,
    read=read_qualtrics,
)


_SURVEYMONKEY_COLUMNS = {
    *("respondentid", "collectorid", "datecreated", "datemodified", "ipaddress", "emailaddress"),
    *("firstname", "lastname", "customdata", "customdata1", "startdate", "enddate"),
}
_PLAIN = {"response", "openendedresponse", ""}


def detect_surveymonkey(document: Document) -> Match | None:
    known = {normalise(name) for name in document.names}
    if document.records is not None or document.table.header is False:
        return None
    if not {"respondentid", "collectorid"} <= known or not document.table.sample:
        return None
    below = document.table.sample[0]
    at = [normalise(name) for name in document.names].index("respondentid")
    if len(below) <= at or below[at].strip() or not any(map(str.strip, below)):
        return None
    return Match(CERTAIN, "Respondent ID and Collector ID, and a second row of names")


def read_surveymonkey(document: Document, options: ReadOptions) -> Reading:
    names, question = [], ""
    for name, below in zip(document.names, document.table.sample[0], strict=False):
        question = name or question
        plain = normalise(below) in _PLAIN
        names.append(question if plain else f"{question} [{below.strip()}]")
    table = replace(document.table, names=[*names, *document.names[len(names) :]])
    named = Document(document.name, document.format, lambda: table)
    asked = {name: name for name in names if normalise(name) not in _SURVEYMONKEY_COLUMNS}
    people = [name for name in names if normalise(name) == "respondentid"]
    return read_below(named, options, n_headers=1, names=asked, people=people)


SURVEYMONKEY = Reader(
    name="surveymonkey",
    title="SurveyMonkey, CSV of all responses",
    explain="worker is Respondent ID; an item is a column, where several are answered in the same "
    "words",
    detect=detect_surveymonkey,
    read=read_surveymonkey,
)


_GOOGLE_FORMS_PEOPLE = re.compile(
    r"(?i)e-?mail|user ?name|nutzername|your (full )?name|^name$|correo"
)
_WHEN = re.compile(r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}[ T,]+\d{1,2}[:.]\d{2}.*")
_GOOGLE_FORMS_COLUMNS = {"score", "totalscore", "punkte", "punktzahl"}
# A quiz has two more columns for each question.
_QUIZ = re.compile(r"(?i).*\[(score|feedback|punkte|punktzahl)\]\s*")


def detect_google_forms(document: Document) -> Match | None:
    names = document.names
    if document.table.header is False or normalise(names[0]) not in TIMES:
        return None
    times = document.sampled(names[0])
    is_quiz = any(map(_QUIZ.fullmatch, names))
    if not times or not all(map(_WHEN.fullmatch, times)):
        return None
    if not is_quiz and form.item_columns(document):
        return None
    if find_roles(names, {"item": SYNONYMS["item"]})["item"] or not _groups(document):
        return None
    return Match(CERTAIN, f"{names[0]!r} first, then questions answered in the same words")


def _groups(document: Document) -> list[list[str]]:
    names = [
        n
        for n in document.names[1:]
        if not _is_people(n) and normalise(n) not in _GOOGLE_FORMS_COLUMNS
    ]
    return groups(document, [name for name in names if not _QUIZ.fullmatch(name)])


def read_google_forms(document: Document, options: ReadOptions) -> Reading:
    people = [name for name in document.names[1:] if _is_people(name)]
    return _reading(document, options, _groups(document), people)


def _is_people(name: str) -> bool:
    return normalise(name) in EMAILS or bool(_GOOGLE_FORMS_PEOPLE.search(name))


GOOGLE_FORMS = Reader(
    name="google-forms",
    title="Google Forms, CSV of responses",
    explain="worker is the e-mail address or name, else the row; an item is a column, where "
    "several are answered in the same words",
    detect=detect_google_forms,
    read=read_google_forms,
)
