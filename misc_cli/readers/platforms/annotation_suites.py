"""Suites for teams of annotators: Labelbox's NDJSON of data rows, SuperAnnotate's JSON of items.

Labelbox's `benchmark_reference_label` names the label that others are compared with. Instances of
type tag are about the whole item in SuperAnnotate.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from misc_cli.readers.document import Document, Record, mapping, objects, text
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.export import Export, Field, of_records
from misc_cli.readers.reading import Reader, Reading
from misc_cli.readers.values import BOXES, CHOICE, CHOICES, SPANS, TEXT


@of_records
def detect_labelbox(record: Record) -> str | None:
    known = isinstance(record.get("data_row"), dict) and isinstance(record.get("projects"), dict)
    return "data_row and projects" if known else None


def read_labelbox(document: Document, options: ReadOptions) -> Reading:
    fields = ("label_details.created_by", "data_row", "classifications[name={}]")
    export = Export(document, options, *fields)
    projects = {key for record in document.records or [] for key in mapping(record.get("projects"))}
    for record in export.records():
        data = mapping(record.get("data_row"))
        item = data.get("global_key") or data.get("external_id") or data.get("id")
        for project in map(mapping, mapping(record.get("projects")).values()):
            title = text(project.get("name")) if len(projects) > 1 else ""
            _project(export, item, project, f"{title}: " if title else "")
    return export.reading()


def _project(export: Export, item: Any, project: Record, prefix: str) -> None:
    labels = export.objects(project.get("labels"), "labels")
    if not labels:
        export.aside("not annotated")
    compared = [mapping(one.get("performance_details")) for one in labels]
    references = {text(one.get("benchmark_reference_label")) for one in compared} - {""}
    for label, performance in zip(labels, compared, strict=True):
        details = mapping(label.get("label_details"))
        if any(part.get("skipped") is True for part in (label, details, performance)):
            export.aside("skipped")
            continue
        right = text(label.get("id")) in references or text(label.get("label_kind")) == "Benchmark"
        answers = _answers(mapping(label.get("annotations")), prefix)
        export.fields(answers, details.get("created_by"), item, "benchmark" if right else "")


def _answers(annotations: Record, prefix: str) -> Iterator[Field]:
    for one in objects(annotations.get("classifications")):
        yield from _classification(one, prefix)
    regions = objects(annotations.get("objects"))
    if regions:
        kinds = [text(one.get("annotation_kind")) for one in regions]
        spans = any("TextEntity" in kind for kind in kinds) or any("location" in r for r in regions)
        yield f"{prefix}objects", SPANS if spans else BOXES, text(regions)


def _classification(one: Record, prefix: str) -> Iterator[Field]:
    """Yield a question's answer, and those of the questions that it opens."""
    question = prefix + _name(one)
    radio, several, free = (
        one.get(key) for key in ("radio_answer", "checklist_answers", "text_answer")
    )
    if isinstance(radio, dict):
        yield question, CHOICE, _name(radio)
        for inner in objects(radio.get("classifications")):
            yield from _classification(inner, f"{question}/")
    elif isinstance(several, list):
        yield question, CHOICES, [_name(answer) for answer in objects(several)]
        for answer in objects(several):
            for inner in objects(answer.get("classifications")):
                yield from _classification(inner, f"{question}/{_name(answer)}/")
    elif free is not None:
        yield question, TEXT, text(mapping(free).get("content") if isinstance(free, dict) else free)


def _name(answer: Record) -> str:
    return text(answer.get("name") or answer.get("value"))


LABELBOX = Reader("labelbox", "Labelbox, NDJSON", detect_labelbox, read_labelbox)


@of_records
def detect_superannotate(record: Record) -> str | None:
    known = isinstance(record.get("instances"), list) and "name" in mapping(record.get("metadata"))
    return "metadata and instances" if known else None


def read_superannotate(document: Document, options: ReadOptions) -> Reading:
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


SUPERANNOTATE = Reader(
    "superannotate", "SuperAnnotate, JSON", detect_superannotate, read_superannotate
)
