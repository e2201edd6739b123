"""Mechanical Turk, JSON of assignments as the API lists them: answers are XML within JSON.

https://docs.aws.amazon.com/AWSMechTurk/latest/AWSMturkAPI/ApiReference_AssignmentDataStructureArticle.html
and ApiReference_QuestionFormAnswersDataStructureArticle.html: each Answer of the XML has its
QuestionIdentifier and a FreeText or SelectionIdentifiers; AssignmentStatus is Submitted, Approved
or Rejected.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

from misc_cli.errors import InputError
from misc_cli.io.document import Document, Record, text
from misc_cli.io.options import ReadOptions
from misc_cli.io.readers.base import CERTAIN, CHOICE, CHOICES, Match, Reader, Reading
from misc_cli.io.readers.common import (
    Answers,
    form_answers,
    loads,
    mapping,
    objects,
    with_inferred_kinds,
)

# Found by pattern, not by a parser of XML: entities that a document defines are never expanded.
_ANSWER = re.compile(r"<Answer>(.*?)</Answer>", re.DOTALL)
_NAME = re.compile(r"<QuestionIdentifier>(.*?)</QuestionIdentifier>", re.DOTALL)
_VALUE = re.compile(r"<(FreeText|SelectionIdentifier|OtherSelectionText)>(.*?)</\1>", re.DOTALL)
_FORM = "QuestionFormAnswers"


def detect(document: Document) -> Match | None:
    first = next(iter(_assignments(document)), None)
    if (
        first is not None
        and {"WorkerId", "HITId"} <= set(first)
        and _FORM in text(first.get("Answer"))
    ):
        return Match(CERTAIN, "assignments with QuestionFormAnswers")
    return None


def _assignments(document: Document) -> list[Record]:
    records = document.records or []
    if len(records) == 1 and isinstance(records[0].get("Assignments"), list):
        return objects(records[0]["Assignments"])
    return records


def read(document: Document, options: ReadOptions) -> Reading:
    found = Answers(document.name)
    for row, assignment in enumerate(_assignments(document)):
        if text(assignment.get("AssignmentStatus")).lower() == "rejected":
            found.aside("rejected", row)
            continue
        answers = list(_answers(document, row, assignment))
        if not answers:
            found.aside("empty", row)
        for question, kind, label in answers:
            columns = {"worker": "WorkerId", "item": "HITId", "label": f"Answer: {question}"}
            who, item = assignment.get("WorkerId"), assignment.get("HITId")
            found.answer(question, who, item, label, row, kind, columns)
    return with_inferred_kinds(found.reading())


def _answers(document: Document, row: int, assignment: Record) -> Iterator[tuple[str, str, Any]]:
    content = text(assignment.get("Answer"))
    if _FORM not in content:
        raise InputError(f"{document.name}, assignment {row + 1}: Answer holds no {_FORM}")
    for answer in _ANSWER.findall(content):
        name = _NAME.search(answer)
        values = [_plain(value) for _, value in _VALUE.findall(answer)]
        if name is None or not values:
            continue
        question = _plain(name[1])
        if question == "taskAnswers":
            forms = loads(values[0])
            for form in forms if isinstance(forms, list) else [forms]:
                yield from form_answers(mapping(form))
        else:
            several = len(values) > 1
            yield question, CHOICES if several else CHOICE, values if several else values[0]


def _plain(content: str) -> str:
    """Text of an XML element."""
    inner = content.strip()
    if inner.startswith("<![CDATA[") and inner.endswith("]]>"):
        return inner[9:-3].strip()
    return html.unescape(inner)


READER = Reader(
    name="mturk-api",
    title="Mechanical Turk, JSON of assignments",
    explain="worker is WorkerId, item HITId, a question a QuestionIdentifier of the answer's XML; "
    "rejected assignments are left out",
    detect=detect,
    read=read,
    page="https://docs.aws.amazon.com/AWSMechTurk/latest/AWSMturkAPI/"
    "ApiReference_AssignmentDataStructureArticle.html",
)
