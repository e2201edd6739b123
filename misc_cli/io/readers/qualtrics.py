"""Qualtrics, CSV of responses: three header rows, a row per respondent, a column per question.

https://www.qualtrics.com/support/survey-platform/data-and-analysis-module/data/download-data/
understanding-your-dataset/: the names, the questions' texts, the import ids; then the responses.
Status tells previews, tests and spam from responses.
"""

from __future__ import annotations

import re
from typing import Any

from misc_cli.io.document import Document
from misc_cli.io.options import ReadOptions
from misc_cli.io.readers.base import CERTAIN, Match, Reader, Reading, is_one_of
from misc_cli.io.readers.survey import read_below
from misc_cli.io.vocabulary import normalise

_OWN = {
    *("startdate", "enddate", "status", "ipaddress", "progress", "duration(inseconds)", "finished"),
    *("recordeddate", "responseid", "recipientlastname", "recipientfirstname", "recipientemail"),
    *("externalreference", "locationlatitude", "locationlongitude", "distributionchannel"),
    *("userlanguage", "qrecaptchascore", "qrelevantidduplicate", "qballotboxstuffing"),
}
_BESIDE = re.compile(r"(?i).*(_first click|_last click|_page submit|_click count|_text|_do|_do_.*)")
_PEOPLE = ("prolificpid", "prolificid", "workerid", "participantid", "mturkid", "subjectid", "pid")
_PREVIEWS = ("survey preview", "survey test", "spam", "1", "2", "8", "9", "12")


def detect(document: Document) -> Match | None:
    if document.records is not None or document.table.header is False:
        return None
    first = [row for row in document.table.sample[:2] if any("ImportId" in cell for cell in row)]
    if "ResponseId" not in document.names or not first:
        return None
    return Match(CERTAIN, "ResponseId, and a row of ImportIds below the names")


def read(document: Document, options: ReadOptions) -> Reading:
    sample = document.table.sample
    at = next(at for at, row in enumerate(sample[:2]) if any("ImportId" in c for c in row))
    texts = sample[0] if at else document.names
    asked = {
        name: text
        for name, text in zip(document.names, texts, strict=False)
        if normalise(name) not in (*_OWN, *_PEOPLE) and not _BESIDE.fullmatch(name)
    }
    people = [name for name in document.names if normalise(name) in _PEOPLE]
    return read_below(
        document,
        options,
        n_headers=at + 1,
        names=asked,
        people=[*people, "ResponseId"],
        aside={"preview, test or spam": _is_no_response} if "Status" in document.names else {},
    )


def _is_no_response(document: Document) -> Any:
    return is_one_of(document.columns(["Status"])[0], *_PREVIEWS)


READER = Reader(
    name="qualtrics",
    title="Qualtrics, CSV of responses",
    explain="worker is an id that was passed in (PROLIFIC_PID), else ResponseId; an item is a "
    "column, where several are answered in the same words; previews and spam are left out",
    detect=detect,
    read=read,
    page="https://www.qualtrics.com/support/survey-platform/data-and-analysis-module/data/"
    "download-data/understanding-your-dataset/",
)
