"""Google Forms, CSV of responses: a row per respondent, a column per question.

https://support.google.com/docs/answer/2917686: the first column is the time of the response, then
comes the e-mail address or user name if it was collected, then each question under its title.
Questions that are answered in the same words are the items. (A grid's columns, "Question [Row]",
are those of any form: io/forms.py.)
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from misc_cli.io import forms
from misc_cli.io.columns import SYNONYMS, find_roles, listing, normalise
from misc_cli.io.document import Document, text_array
from misc_cli.io.kinds import CHOICE, CHOICES, NUMBER, kind_of_values
from misc_cli.io.languages import EMAILS, TIMES
from misc_cli.io.melt import LABEL, is_unique, melt
from misc_cli.io.options import ReadOptions
from misc_cli.io.readers.base import CERTAIN, Match, Question, Reader, Reading, by_kind
from misc_cli.io.readers.common import is_remark

_PEOPLE = re.compile(r"(?i)e-?mail|user ?name|nutzername|your (full )?name|^name$|correo")
_WHEN = re.compile(r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}[ T,]+\d{1,2}[:.]\d{2}.*")
_OWN = {"score", "punkte", "punktzahl"}


def detect(document: Document) -> Match | None:
    names = document.names
    if document.table.header is False or normalise(names[0]) not in TIMES:
        return None
    times = document.sampled(names[0])
    if not times or not all(map(_WHEN.fullmatch, times)) or forms.item_columns(document):
        return None
    if find_roles(names, {"item": SYNONYMS["item"]})["item"] or not _groups(document):
        return None
    return Match(CERTAIN, f"{names[0]!r} first, then questions answered in the same words")


def _groups(document: Document) -> list[list[str]]:
    """Columns that are answered in the same few words, group by group."""
    groups: list[tuple[set[str], list[str]]] = []
    for name in document.names[1:]:
        values = set(document.sampled(name))
        if not values or not _is_asked(document, name):
            continue
        joined = [group for group in groups if group[0] & values]
        groups = [group for group in groups if group not in joined]
        words = values.union(*(group[0] for group in joined))
        groups.append((words, [*(one for group in joined for one in group[1]), name]))
    return [columns for _, columns in groups if len(columns) > 1]


def _is_asked(document: Document, name: str) -> bool:
    if _is_people(name) or is_remark(name) or normalise(name) in _OWN:
        return False
    cells = document.sampled(name)
    return kind_of_values(sorted(set(cells)), len(cells)).name in (CHOICE, CHOICES, NUMBER)


def read(document: Document, options: ReadOptions) -> Reading:
    groups = _groups(document)
    taken = [name for group in groups for name in group]
    worker = options.worker_col and forms.worker_column(document, options, taken)
    worker = worker or _respondent(document, taken)
    n_rows = len(document.columns([document.names[0]])[0])
    people = text_array(f"row {row + 1}" for row in range(n_rows))
    if worker is not None:
        (people,) = document.columns([worker])
    questions = []
    for group in groups:
        cells = melt(document, people, {name: name for name in group})
        kind, labels = by_kind(cells.label)
        roles = {
            "worker": worker or "the row's number",
            "item": "a column for each",
            "label": listing(group, 4),
        }
        title = LABEL if len(groups) == 1 else group[0]
        questions.append(
            Question(title, kind, cells.by_row, cells.by_column, labels, cells.rows, columns=roles)
        )
    notes = [] if worker else [f"{document.name}: nobody is named, so each row is a worker"]
    return Reading(questions, notes=notes)


def _is_people(name: str) -> bool:
    return normalise(name) in EMAILS or bool(_PEOPLE.search(name))


def _respondent(document: Document, taken: Sequence[str]) -> str | None:
    """The column that names whoever answered, if it names everybody and nobody twice."""
    for name in document.names[1:]:
        full = len(document.sampled(name)) == len(document.table.sample)
        if name not in taken and _is_people(name) and full and is_unique(document, name):
            return name
    return None


READER = Reader(
    name="google-forms",
    title="Google Forms, CSV of responses",
    explain="worker is the e-mail address or name, else the row; an item is a column, where "
    "several are answered in the same words",
    detect=detect,
    read=read,
    page="https://support.google.com/docs/answer/2917686",
)
