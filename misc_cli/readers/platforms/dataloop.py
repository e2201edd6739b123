"""Dataloop, JSON of items with their annotations: classifications with their creator.

https://github.com/dataloop-ai/dtlpy-documentation: an annotation has a type (class for the
whole item, box, polygon, …), a label, its creator's address and metadata.system.
"""

from __future__ import annotations

from misc_cli.readers.document import Document
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.common import Answers, mapping, objects, with_inferred_kinds
from misc_cli.readers.reading import CERTAIN, Match, Reader, Reading
from misc_cli.readers.values import BOXES, CHOICE

LOOKED_AT = 20
_CLASS = "class"


def detect(document: Document) -> Match | None:
    for record in (document.records or [])[:LOOKED_AT]:
        for one in objects(record.get("annotations")):
            if {"creator", "label", "type"} <= set(one) and {"itemId", "datasetId"} & set(one):
                return Match(CERTAIN, "annotations with creator, label and itemId")
    return None


def read(document: Document, options: ReadOptions) -> Reading:
    found = Answers(document.name)
    for row, record in enumerate(document.records or []):
        item = record.get("filename") or record.get("id") or record.get("_id")
        annotations = objects(record.get("annotations"))
        if not annotations:
            found.aside("not annotated", row)
        for one in annotations:
            system = mapping(mapping(one.get("metadata")).get("system"))
            if system.get("automated") is True:
                found.aside("automated", row)
                continue
            columns = {"worker": "creator", "item": "filename", "label": "label"}
            kind = CHOICE if one.get("type") == _CLASS else BOXES
            name = "label" if kind == CHOICE else str(one.get("type"))
            found.answer(name, one.get("creator"), item, one.get("label"), row, kind, columns)
    return with_inferred_kinds(found.reading())


READER = Reader(
    name="dataloop",
    title="Dataloop, JSON of items",
    explain="worker is an annotation's creator, item the filename, label an annotation of type "
    "class; automated annotations are left out",
    detect=detect,
    read=read,
    page="https://github.com/dataloop-ai/dtlpy-documentation",
)
