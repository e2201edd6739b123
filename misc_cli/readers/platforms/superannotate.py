"""SuperAnnotate, JSON of one item or a list of them: instances of type tag are about the whole."""

from __future__ import annotations

from misc_cli.readers.document import Document, Record, mapping, objects, text
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.common import Answers, objects_at, of_records
from misc_cli.readers.reading import Reader, Reading
from misc_cli.readers.values import BOXES, SPANS


@of_records
def detect(record: Record) -> str | None:
    known = isinstance(record.get("instances"), list) and "name" in mapping(record.get("metadata"))
    return "metadata and instances" if known else None


def read(document: Document, options: ReadOptions) -> Reading:
    found = Answers(document, "createdBy.email", "metadata.name")
    for row, record in enumerate(document.records or []):
        metadata = mapping(record.get("metadata"))
        status = text(metadata.get("status")).lower()
        if status in ("skipped", "notstarted", "not started"):
            found.aside(status, row)
            continue
        by_person: dict[str, list[Record]] = {}
        for one in objects_at(document, row, record.get("instances"), "instances"):
            by_person.setdefault(text(mapping(one.get("createdBy")).get("email")), []).append(one)
        if not by_person:
            found.aside("empty", row)
        item = metadata.get("name") or metadata.get("id")
        for who, own in by_person.items():
            _person(found, row, item, who or text(metadata.get("annotatorEmail")), own)
    return found.reading()


def _person(found: Answers, row: int, item: object, who: str, instances: list[Record]) -> None:
    said: dict[str, list[str]] = {}
    for one in instances:
        type_ = text(one.get("type")).lower()
        if text(one.get("creationType")).lower() in ("prediction", "preannotation"):
            found.aside("predicted", row)
        elif type_ != "tag":
            kind = SPANS if type_ == "entity" else BOXES
            found.answer("instances", who, item, text(instances), row, kind)
        else:
            name = text(one.get("className"))
            attributes = objects(one.get("attributes"))
            for attribute in attributes:
                question = f"{name}.{text(attribute.get('groupName'))}"
                said.setdefault(question, []).append(text(attribute.get("name")))
            if not attributes:
                said.setdefault("class", []).append(name)
    for question, labels in said.items():
        found.said(question, who, item, labels, row)


READER = Reader(
    name="superannotate",
    title="SuperAnnotate, JSON",
    explain="worker is createdBy.email, item metadata.name, a question the classes of tags or a "
    "group of their attributes; predictions and skipped items are left out",
    detect=detect,
    read=read,
)
