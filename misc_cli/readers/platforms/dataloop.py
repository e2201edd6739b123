"""Dataloop, JSON of items with their annotations: classifications with their creator."""

from __future__ import annotations

from misc_cli.readers.document import Document, Record, mapping, objects
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.common import Answers, of_records
from misc_cli.readers.reading import Reader, Reading
from misc_cli.readers.values import BOXES, CHOICE


@of_records
def detect(record: Record) -> str | None:
    for one in objects(record.get("annotations")):
        if {"creator", "label", "type"} <= set(one) and {"itemId", "datasetId"} & set(one):
            return "annotations with creator, label and itemId"
    return None


def read(document: Document, options: ReadOptions) -> Reading:
    found = Answers(document, "creator", "filename", "label")
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
            kind = CHOICE if one.get("type") == "class" else BOXES
            name = "label" if kind == CHOICE else str(one.get("type"))
            found.answer(name, one.get("creator"), item, one.get("label"), row, kind)
    return found.inferred()


READER = Reader(
    name="dataloop",
    title="Dataloop, JSON of items",
    explain="worker is an annotation's creator, item the filename, label an annotation of type "
    "class; automated annotations are left out",
    detect=detect,
    read=read,
)
