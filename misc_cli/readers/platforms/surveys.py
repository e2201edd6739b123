"""Surveys: a row per respondent, a column per question; those answered in the same words are items.

A grid's columns, "Question [Row]", are those of any form: layouts/wide.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from misc_cli.errors import InputError
from misc_cli.readers.columns import listing
from misc_cli.readers.document import Document, encoded, is_one_of
from misc_cli.readers.keys import KNOWN
from misc_cli.readers.layouts.wide import LABEL, Several, cells_as_answers, find_form, worker_column
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms import platform
from misc_cli.readers.reading import Reading
from misc_cli.readers.values import have_classes, is_number
from misc_cli.readers.vocabulary import ABOUT, is_remark, names_in, normalise, undoubled, words_of

MOST = 0.8  # of the questions have one scale: the others are left out, with a word
_OF_ITEM = re.compile(r"(?<![.\d])\d+|[:(\[].*")  # what differs between columns called alike


def _groups(document: Document, names: Sequence[str]) -> list[list[str]]:
    """Return the questions of a form, those that are answered in the same few words together.

    Numbers mean the same only in columns that are called alike: Q3.2_1, Q4.2_1, "Fun: a", "Fun: b".
    """
    found: list[tuple[set[str], list[str]]] = []
    for name, bare in zip(names, undoubled(names), strict=True):
        cells = document.sampled(name)
        if not cells or is_remark(name) or not have_classes(cells):
            continue
        called = _OF_ITEM.sub("#", bare)
        values = {f"{cell} {called}" if is_number(cell) else cell for cell in cells}
        joined = [group for group in found if group[0] & values]
        found = [group for group in found if group not in joined]
        words = values.union(*(group[0] for group in joined))
        found.append((words, [*(one for group in joined for one in group[1]), name]))
    return [columns for _, columns in found]


def _read(document: Document, options: ReadOptions, asked: Sequence[str]) -> Reading:
    """Return each filled cell of each group of the columns that are `asked` as an answer."""
    groups = _groups(document, asked)
    most = max(groups, key=len, default=[])
    rest = [name for group in groups for name in group if group is not most]
    rest = [name for name in rest if not words_of(name) & (ABOUT | _PERSONAL)]
    is_one = len(most) >= MOST * (len(most) + len(rest))
    found = [group for group in groups if len(group) > 1 and (group is most or not is_one)]
    if len(found) < 2 - is_one:
        raise InputError(
            f"{document.name}: a survey whose questions are answered in words of their own; name "
            "those that judge items of one kind, --layout form --item-col"
        )
    several = {group[0]: {name: name for name in group} for group in found}
    form = Several("form", several if len(found) > 1 else {LABEL: several[found[0][0]]})
    out, aside = None, {}
    if {"Status", "ResponseId"} <= set(document.names):  # only Qualtrics tells previews
        out = np.asarray(is_one_of(document.columns(["Status"])[0], *_PREVIEWS))
        aside = {"preview, test or spam": np.flatnonzero(out)} if out.any() else {}
    named = worker_column(document, options, form.taken)
    reading = cells_as_answers(document, form, named, out)
    left = f"{document.name}: {listing(rest, 4)} have other answers and are left out"
    notes = [*reading.notes, *([left] if rest and is_one else [])]
    return replace(reading, aside=aside, notes=notes, view=document, layout=None)


_PREVIEWS = ("survey preview", "survey test", "spam", "1", "2", "8", "9", "12")
# Words of questions about the respondent, not about what is judged.
_PERSONAL = names_in("""
consent participate participation age old gender sex education nationality occupation prolific
captcha robot
""")
_QUALTRICS_COLUMNS = names_in("""
startdate enddate status ipaddress progress duration(inseconds) finished recordeddate responseid
recipientlastname recipientfirstname recipientemail externalreference locationlatitude
locationlongitude distributionchannel userlanguage
""")
# How long a page was shown, words beside a choice, the order of options, Qualtrics' own marks.
_BESIDE = re.compile(r"(?i)Q_.*|.*_(.* click|page submit|click count|text|do(_.*)?)(_\d+)?")


def _n_titles(document: Document) -> int:
    """Return how many rows of titles stand below the names, up to that of Qualtrics' ids."""
    first = enumerate(document.table.sample[:2], 1)
    return next((n for n, row in first if any("ImportId" in cell for cell in row)), 0)


def _has_own_columns(document: Document) -> str | None:
    known = _QUALTRICS_COLUMNS & set(map(normalise, document.names))
    is_told = document.records is None and (len(known) > 4 or _n_titles(document))
    return "a row of ImportIds, or the columns of every response" if is_told else None


@platform("Qualtrics, CSV of responses", _has_own_columns)
def qualtrics(document: Document, options: ReadOptions) -> Reading:
    """Read the responses below the rows of headers."""
    table, n_rows = document.table, _n_titles(document)
    texts = table.sample[0] if n_rows > 1 else document.names
    asked = [
        name
        for name, text in zip(document.names, texts, strict=False)
        if normalise(name) not in _QUALTRICS_COLUMNS
        and not _BESIDE.fullmatch(name)
        and not words_of(f"{name} {text}") & _PERSONAL
    ]
    below = replace(
        table,
        sample=table.sample[n_rows:],
        fetch=lambda places: [encoded(column.slice(n_rows)) for column in table.fetch(places)],
        lines_of=lambda rows: table.lines_of([row + n_rows for row in rows]),
    )
    return _read(Document(document.name, document.format, lambda: below), options, asked)


_WHEN = re.compile(r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}[ T,]+\d{1,2}[:.]\d{2}.*")
# A quiz has a score, and two more columns for each question.
_QUIZ = re.compile(r"(?i).*\[(score|feedback|punkte|punktzahl)\]\s*(_\d+)?|(total )?score|punkte")


def _form_questions(document: Document) -> list[str]:
    return [name for name in document.names[1:] if not _QUIZ.fullmatch(name)]


def _has_times_and_groups(document: Document) -> str | None:
    names = document.names
    times = document.sampled(names[0]) if normalise(names[0]) == "timestamp" else []
    is_form = (
        times
        and all(map(_WHEN.fullmatch, times))
        and not KNOWN["item"] & set(map(normalise, names))
        and (any(map(_QUIZ.fullmatch, names)) or not find_form(document))
        and any(len(group) > 1 for group in _groups(document, _form_questions(document)))
    )
    return f"{names[0]!r} first, then questions answered in the same words" if is_form else None


@platform("Google Forms, CSV of responses", _has_times_and_groups)
def google_forms(document: Document, options: ReadOptions) -> Reading:
    return _read(document, options, _form_questions(document))
