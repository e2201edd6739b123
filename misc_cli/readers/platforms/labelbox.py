"""Labelbox, NDJSON of a project's data rows (export v2), and the JSON of export v1.

`benchmark_reference_label` names the label that others are compared with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from misc_cli.readers.document import Document, Record, mapping, objects, text
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.common import Answers, Field, objects_at, of_records
from misc_cli.readers.reading import Reader, Reading
from misc_cli.readers.values import BOXES, CHOICE, CHOICES, SPANS, TEXT


@of_records
def detect(record: Record) -> str | None:
    if isinstance(record.get("data_row"), dict) and isinstance(record.get("projects"), dict):
        return "data_row and projects"
    if {"Label", "Created By"} <= set(record) and ("DataRow ID" in record or "ID" in record):
        return "Label, Created By and DataRow ID"
    return None


def read(document: Document, options: ReadOptions) -> Reading:
    found = Answers(document, "label_details.created_by", "data_row", "classifications[name={}]")
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
    references = {
        text(mapping(one.get("performance_details")).get("benchmark_reference_label"))
        for one in all_labels
    } - {""}
    right = text(label.get("id")) in references or text(label.get("label_kind")) == "Benchmark"
    answers = _answers(mapping(label.get("annotations")), prefix)
    found.fields(answers, details.get("created_by"), item, row, gold="benchmark" if right else "")


def _answers(annotations: Record, prefix: str = "") -> Iterator[Field]:
    for one in objects(annotations.get("classifications")):
        yield from _classification(one, prefix)
    regions = objects(annotations.get("objects"))
    if regions:
        spans = any(
            "location" in one or "TextEntity" in text(one.get("annotation_kind")) for one in regions
        )
        yield f"{prefix}objects", SPANS if spans else BOXES, text(regions)


def _classification(one: Record, prefix: str) -> Iterator[Field]:
    """Yield a question's answer, and those of the questions that it opens."""
    question = prefix + text(one.get("name") or one.get("title") or one.get("value"))
    radio = one.get("radio_answer", one.get("answer"))
    several = one.get("checklist_answers", one.get("checklist_answer", one.get("answers")))
    free = one.get("text_answer")
    if isinstance(radio, dict):
        yield question, CHOICE, _name(radio)
        for inner in objects(radio.get("classifications")):
            yield from _classification(inner, f"{question}/")
    elif isinstance(several, list):
        yield question, CHOICES, [_name(answer) for answer in objects(several)]
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
    roles = {"worker": "Created By", "item": "DataRow ID", "label": "Label: {}"}
    found.fields(answers, record["Created By"], item, row, columns=roles)


READER = Reader(
    name="labelbox",
    title="Labelbox, NDJSON",
    explain="worker is label_details.created_by, item the data row (its global_key where it has "
    "one), a question a classification; skipped labels are left out, benchmarks are gold",
    detect=detect,
    read=read,
)
