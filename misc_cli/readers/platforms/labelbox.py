"""Labelbox, NDJSON of a project's data rows (export v2), and the JSON of export v1.

https://docs.labelbox.com/reference/export-text-annotations and
https://docs.labelbox.com/reference/export-quick-reference: a data row has projects, a project
labels, a label its `label_details.created_by` and its annotations: `classifications` are
radio_answer, checklist_answers or text_answer, `objects` are regions. A skipped label has no
annotations; `benchmark_reference_label` names the label that others are compared with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from misc_cli.readers.document import Document, Record, text
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.common import Answers, mapping, objects, objects_at
from misc_cli.readers.reading import CERTAIN, Match, Reader, Reading
from misc_cli.readers.values import BOXES, CHOICE, CHOICES, SPANS, TEXT

LOOKED_AT = 20
Classified = tuple[str, str, Any]


def detect(document: Document) -> Match | None:
    for record in (document.records or [])[:LOOKED_AT]:
        if isinstance(record.get("data_row"), dict) and isinstance(record.get("projects"), dict):
            return Match(CERTAIN, "data_row and projects")
        if {"Label", "Created By"} <= set(record) and ("DataRow ID" in record or "ID" in record):
            return Match(CERTAIN, "Label, Created By and DataRow ID")
    return None


def read(document: Document, options: ReadOptions) -> Reading:
    found = Answers(document.name)
    projects = {key for record in document.records or [] for key in mapping(record.get("projects"))}
    for row, record in enumerate(document.records or []):
        if "Label" in record:
            _version_1(found, row, record)
            continue
        data = mapping(record.get("data_row"))
        item = data.get("global_key") or data.get("external_id") or data.get("id")
        for project in mapping(record.get("projects")).values():
            title = text(mapping(project).get("name")) if len(projects) > 1 else ""
            labels = objects_at(document, row, mapping(project).get("labels"), "labels")
            if not labels:
                found.aside("not annotated", row)
            for label in labels:
                _label(found, row, item, label, f"{title}: " if title else "", labels)
    return found.reading()


def _label(
    found: Answers, row: int, item: Any, label: Record, prefix: str, all_labels: list[Record]
) -> None:
    details = mapping(label.get("label_details"))
    performance = mapping(label.get("performance_details"))
    if any(part.get("skipped") is True for part in (label, details, performance)):
        found.aside("skipped", row)
        return
    annotations = mapping(label.get("annotations"))
    answers = list(_answers(annotations))
    if not answers:
        found.aside("empty", row)
        return
    references = {
        text(mapping(one.get("performance_details")).get("benchmark_reference_label"))
        for one in all_labels
    } - {""}
    if text(label.get("id")) in references or text(label.get("label_kind")) == "Benchmark":
        for question, _, value in answers:
            found.gold(prefix + question, item, value)
        found.aside("benchmark", row)
        return
    for question, kind, value in answers:
        columns = {
            "worker": "label_details.created_by",
            "item": "data_row",
            "label": f"classifications[name={question}]",
        }
        found.answer(prefix + question, details.get("created_by"), item, value, row, kind, columns)


def _answers(annotations: Record) -> Iterator[Classified]:
    for one in objects(annotations.get("classifications")):
        yield from _classification(one, "")
    regions = objects(annotations.get("objects"))
    if regions:
        spans = any(
            "location" in one or "TextEntity" in text(one.get("annotation_kind")) for one in regions
        )
        yield "objects", SPANS if spans else BOXES, text(regions)


def _classification(one: Record, prefix: str) -> Iterator[Classified]:
    """A question, and those that its answer opens."""
    question = prefix + text(one.get("name") or one.get("title") or one.get("value"))
    radio = one.get("radio_answer", one.get("answer"))
    several = one.get("checklist_answers", one.get("checklist_answer", one.get("answers")))
    free = one.get("text_answer")
    if isinstance(radio, dict):
        yield question, CHOICE, _name(radio)
        for inner in objects(radio.get("classifications")):
            yield from _classification(inner, f"{question}/")
    elif isinstance(several, list):
        names = [_name(answer) for answer in objects(several)]
        yield question, CHOICES, names
        for answer in objects(several):
            for inner in objects(answer.get("classifications")):
                yield from _classification(inner, f"{question}/{_name(answer)}/")
    elif free is not None or isinstance(radio, str):
        content = mapping(free).get("content") if isinstance(free, dict) else free or radio
        yield question, TEXT, text(content)


def _name(answer: Record) -> str:
    return text(answer.get("name") or answer.get("title") or answer.get("value"))


def _version_1(found: Answers, row: int, record: Record) -> None:
    label = record["Label"]
    if record.get("Skipped") in (True, "true") or label in ("Skip", None, {}):
        found.aside("skipped", row)
        return
    item = record.get("External ID") or record.get("DataRow ID") or record.get("ID")
    answers = list(_answers(mapping(label)))
    if not answers and isinstance(label, dict):  # the oldest: {"question": "answer"}
        answers = [(q, CHOICE, a) for q, a in label.items() if isinstance(a, str)]
    if not answers:
        found.aside("empty", row)
    for question, kind, value in answers:
        columns = {"worker": "Created By", "item": "DataRow ID", "label": f"Label: {question}"}
        found.answer(question, record["Created By"], item, value, row, kind, columns)


READER = Reader(
    name="labelbox",
    title="Labelbox, NDJSON",
    explain="worker is label_details.created_by, item the data row (its global_key where it has "
    "one), a question a classification; skipped labels are left out, benchmarks are gold",
    detect=detect,
    read=read,
    page="https://docs.labelbox.com/reference/export-text-annotations",
)
