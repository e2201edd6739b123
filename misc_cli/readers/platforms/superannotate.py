"""SuperAnnotate, JSON of one item or a list of them.

https://doc.superannotate.com/docs/vector-json: `metadata` names the item, its annotator and status,
`instances` are what was drawn or, of type tag, said of the whole; an instance has its class, its
attributes (groupName and name) and who created it.
"""

from __future__ import annotations

from misc_cli.readers.document import Document, Record, text
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.common import Answers, mapping, objects, objects_at
from misc_cli.readers.reading import CERTAIN, Match, Reader, Reading
from misc_cli.readers.values import BOXES, SPANS

LOOKED_AT = 20


def detect(document: Document) -> Match | None:
    for record in (document.records or [])[:LOOKED_AT]:
        metadata = mapping(record.get("metadata"))
        if isinstance(record.get("instances"), list) and "name" in metadata:
            return Match(CERTAIN, "metadata and instances")
    return None


def read(document: Document, options: ReadOptions) -> Reading:
    found = Answers(document.name)
    for row, record in enumerate(document.records or []):
        metadata = mapping(record.get("metadata"))
        if text(metadata.get("status")).lower() in ("skipped", "notstarted", "not started"):
            found.aside(text(metadata["status"]).lower(), row)
            continue
        instances = objects_at(document, row, record.get("instances"), "instances")
        people = [text(mapping(one.get("createdBy")).get("email")) for one in instances]
        if not instances:
            found.aside("empty", row)
        item = metadata.get("name") or metadata.get("id")
        for who in dict.fromkeys(people):
            own = [one for one, by in zip(instances, people, strict=True) if by == who]
            _person(found, row, item, who or text(metadata.get("annotatorEmail")), own)
    return found.reading()


def _person(found: Answers, row: int, item: object, who: str, instances: list[Record]) -> None:
    said: dict[str, list[str]] = {}
    for one in instances:
        if text(one.get("creationType")).lower() in ("prediction", "preannotation"):
            found.aside("predicted", row)
        elif text(one.get("type")).lower() != "tag":
            kind = SPANS if text(one.get("type")).lower() == "entity" else BOXES
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
        columns = {"worker": "createdBy.email", "item": "metadata.name", "label": question}
        found.said(question, who, item, labels, row, columns)


READER = Reader(
    name="superannotate",
    title="SuperAnnotate, JSON",
    explain="worker is createdBy.email, item metadata.name, a question the classes of tags or a "
    "group of their attributes; predictions and skipped items are left out",
    detect=detect,
    read=read,
    page="https://doc.superannotate.com/docs/vector-json",
)
