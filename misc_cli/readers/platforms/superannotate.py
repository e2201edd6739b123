"""SuperAnnotate, JSON of one item or a list of them: instances of type tag are about the whole."""

from __future__ import annotations

from misc_cli.readers.document import Document, Record, mapping, objects, text
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.export import Export, of_records
from misc_cli.readers.reading import Reader, Reading
from misc_cli.readers.values import BOXES, SPANS


@of_records
def detect(record: Record) -> str | None:
    known = isinstance(record.get("instances"), list) and "name" in mapping(record.get("metadata"))
    return "metadata and instances" if known else None


def read(document: Document, options: ReadOptions) -> Reading:
    export = Export(document, options, "createdBy.email", "metadata.name")
    for record in export.records():
        metadata = mapping(record.get("metadata"))
        status = text(metadata.get("status")).lower()
        if status in ("skipped", "notstarted", "not started"):
            export.aside(status)
            continue
        by_person: dict[str, list[Record]] = {}
        for one in export.objects(record.get("instances"), "instances"):
            who = text(mapping(one.get("createdBy")).get("email"))
            by_person.setdefault(who or text(metadata.get("annotatorEmail")), []).append(one)
        if not by_person:
            export.aside("empty")
        for who, own in by_person.items():
            _person(export, metadata.get("name") or metadata.get("id"), who, own)
    return export.reading()


def _person(export: Export, item: object, who: str, instances: list[Record]) -> None:
    said: dict[str, list[str]] = {}
    for one in instances:
        type_ = text(one.get("type")).lower()
        name = text(one.get("className"))
        attributes = objects(one.get("attributes"))
        if text(one.get("creationType")).lower() in ("prediction", "preannotation"):
            export.aside("predicted")
        elif type_ != "tag":
            kind = SPANS if type_ == "entity" else BOXES
            export.answer("instances", who, item, text(instances), kind)
        elif attributes:
            for attribute in attributes:
                question = f"{name}.{text(attribute.get('groupName'))}"
                said.setdefault(question, []).append(text(attribute.get("name")))
        else:
            said.setdefault("class", []).append(name)
    for question, labels in said.items():
        export.answer(question, who, item, labels)


READER = Reader("superannotate", "SuperAnnotate, JSON", detect, read)
