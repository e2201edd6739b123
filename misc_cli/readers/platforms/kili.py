"""Kili, JSON of assets with their labels.

https://docs.kili-technology.com/docs/data-format: an asset has `labels`, each with its author,
its labelType (DEFAULT, REVIEW, PREDICTION, INFERENCE, AUTOSAVE) and a jsonResponse with a job
per question, whose `categories` are the choice and whose `annotations` are regions.
"""

from __future__ import annotations

from misc_cli.readers.document import Document, text
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.base import BOXES, CERTAIN, SPANS, TEXT, Match, Reader, Reading
from misc_cli.readers.platforms.common import Answers, kind_of_region, mapping, objects, objects_at

LOOKED_AT = 20
_NOT_ANSWERS = {"PREDICTION": "predicted", "INFERENCE": "predicted", "AUTOSAVE": "autosaved"}


def detect(document: Document) -> Match | None:
    for record in (document.records or [])[:LOOKED_AT]:
        if any("jsonResponse" in label for label in objects(record.get("labels"))):
            return Match(CERTAIN, "labels with jsonResponse")
    return None


def read(document: Document, options: ReadOptions) -> Reading:
    found = Answers(document.name)
    for row, asset in enumerate(document.records or []):
        item = asset.get("externalId") or asset.get("id")
        labels = objects_at(document, row, asset.get("labels"), "labels")
        if not labels:
            found.aside("not annotated", row)
        for label in labels:
            kind = text(label.get("labelType")).upper()
            if kind in _NOT_ANSWERS or kind == "REVIEW":
                found.aside(_NOT_ANSWERS.get(kind, "review"), row)
                continue
            if label.get("isLatestLabelForUser") is False:
                found.aside("revised later", row)
                continue
            author = mapping(label.get("author"))
            who = author.get("email") or author.get("id")
            for job, response in mapping(label.get("jsonResponse")).items():
                _job(found, row, who, item, job, mapping(response))
    return found.reading()


def _job(
    found: Answers, row: int, who: object, item: object, job: str, response: dict[str, object]
) -> None:
    columns = {"worker": "author.email", "item": "externalId", "label": f"jsonResponse.{job}"}
    if "categories" in response:
        names = [text(one.get("name")) for one in objects(response["categories"])]
        found.said(job, who, item, names, row, columns)
    elif "annotations" in response:
        marks = objects(response["annotations"])
        spans = any("beginOffset" in one or kind_of_region(one) == SPANS for one in marks)
        found.answer(job, who, item, text(marks), row, SPANS if spans else BOXES, columns)
    elif "text" in response:
        found.answer(job, who, item, text(response["text"]), row, TEXT, columns)


READER = Reader(
    name="kili",
    title="Kili, JSON",
    explain="worker is the author's email, item externalId, a question a job; predictions, reviews "
    "and autosaved labels are left out",
    detect=detect,
    read=read,
    page="https://docs.kili-technology.com/docs/data-format",
)
