"""SurveyMonkey, CSV of all responses: two header rows, a row per respondent.

https://help.surveymonkey.com/en/surveymonkey/analyze/exports-csv-xls/ ("All responses data"): the
first row has the questions, the second "Response", or the row of a matrix or the option of a
checkbox; a matrix has its question above its first column only.
"""

from __future__ import annotations

from dataclasses import replace

from misc_cli.io.document import Document
from misc_cli.io.options import ReadOptions
from misc_cli.io.readers.base import CERTAIN, Match, Reader, Reading
from misc_cli.io.readers.survey import read_below
from misc_cli.io.vocabulary import normalise

_OWN = {
    *("respondentid", "collectorid", "datecreated", "datemodified", "ipaddress", "emailaddress"),
    *("firstname", "lastname", "customdata", "customdata1", "startdate", "enddate"),
}
_PLAIN = {"response", "openendedresponse", ""}


def detect(document: Document) -> Match | None:
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


def read(document: Document, options: ReadOptions) -> Reading:
    names, question = [], ""
    for name, below in zip(document.names, document.table.sample[0], strict=False):
        question = name or question
        plain = normalise(below) in _PLAIN
        names.append(question if plain else f"{question} [{below.strip()}]")
    table = replace(document.table, names=[*names, *document.names[len(names) :]])
    named = Document(document.name, document.format, lambda: table)
    asked = {name: name for name in names if normalise(name) not in _OWN}
    people = [name for name in names if normalise(name) == "respondentid"]
    return read_below(named, options, n_headers=1, names=asked, people=people)


READER = Reader(
    name="surveymonkey",
    title="SurveyMonkey, CSV of all responses",
    explain="worker is Respondent ID; an item is a column, where several are answered in the same "
    "words",
    detect=detect,
    read=read,
    page="https://help.surveymonkey.com/en/surveymonkey/analyze/exports-csv-xls/",
)
