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
from misc_cli.io.document import Document
from misc_cli.io.languages import EMAILS, TIMES
from misc_cli.io.melt import is_unique
from misc_cli.io.options import ReadOptions
from misc_cli.io.readers.base import CERTAIN, Match, Reader, Reading
from misc_cli.io.readers.survey import groups, reading
from misc_cli.io.vocabulary import SYNONYMS, find_roles, normalise

_PEOPLE = re.compile(r"(?i)e-?mail|user ?name|nutzername|your (full )?name|^name$|correo")
_WHEN = re.compile(r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}[ T,]+\d{1,2}[:.]\d{2}.*")
_OWN = {"score", "totalscore", "punkte", "punktzahl"}
# A quiz has two more columns for each question.
_QUIZ = re.compile(r"(?i).*\[(score|feedback|punkte|punktzahl)\]\s*")


def detect(document: Document) -> Match | None:
    names = document.names
    if document.table.header is False or normalise(names[0]) not in TIMES:
        return None
    times = document.sampled(names[0])
    is_quiz = any(map(_QUIZ.fullmatch, names))
    if not times or not all(map(_WHEN.fullmatch, times)):
        return None
    if not is_quiz and forms.item_columns(document):
        return None
    if find_roles(names, {"item": SYNONYMS["item"]})["item"] or not _groups(document):
        return None
    return Match(CERTAIN, f"{names[0]!r} first, then questions answered in the same words")


def _groups(document: Document) -> list[list[str]]:
    names = [n for n in document.names[1:] if not _is_people(n) and normalise(n) not in _OWN]
    return groups(document, [name for name in names if not _QUIZ.fullmatch(name)])


def read(document: Document, options: ReadOptions) -> Reading:
    found = _groups(document)
    taken = [name for group in found for name in group]
    worker = options.worker_col and forms.worker_column(document, options, taken)
    worker = worker or _respondent(document, taken)
    return reading(document, found, worker)


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
