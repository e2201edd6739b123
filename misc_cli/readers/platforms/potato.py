"""Potato: annotated_instances as JSON lines or TSV.

A chosen label has a value, whatever it is. JSON lines lie in a folder of the annotator's name.
"""

from __future__ import annotations

from typing import Any

from misc_cli.readers.document import Document, mapping, text
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.export import Export
from misc_cli.readers.reading import CERTAIN, Match, Reader, Reading
from misc_cli.readers.values import SPANS, TEXT

_USERS = ("user_id", "user", "annotator", "annotator_id", "username")
_IDS = ("instance_id", "id")
_SEPARATOR = ":::"
_FREE = ("text_box", "textbox", "free_response", "bad_text")
_OFF = ("", "false", "none", "null", "0")

Schemes = dict[str, dict[str, Any]]  # question → label → its value


def detect(document: Document) -> Match | None:
    if document.records is None:
        marked = any(_SEPARATOR in name for name in document.names)
        if marked and set(document.names) & set(_USERS):
            return Match(CERTAIN, "user and scheme:::label columns")
        return None
    first = document.records[0] if document.records else {}
    known = isinstance(first.get("label_annotations"), dict)
    return Match(CERTAIN, "label_annotations") if known else None


def read(document: Document, options: ReadOptions) -> Reading:
    export = Export(document, options, "user", "id", "label_annotations.{}")
    for record in export.records(_rows(document) if document.records is None else None):
        who = next((record[key] for key in _USERS if record.get(key)), "")
        item = next((record[key] for key in _IDS if record.get(key) is not None), "")
        given = mapping(record.get("label_annotations"))
        said = _answer(export, who, item, {s: mapping(labels) for s, labels in given.items()})
        if record.get("span_annotations"):
            export.answer("spans", who, item, text(record["span_annotations"]), SPANS)
        elif not said:
            export.aside("not annotated")
    return export.reading(file_per_worker=True)


def _answer(export: Export, who: Any, item: Any, schemes: Schemes) -> bool:
    """Add the labels of each question that have a value; return whether there is any."""
    any_said = False
    for scheme, labels in schemes.items():
        filled = {name: v for name, v in labels.items() if text(v).lower() not in _OFF}
        free = [text(value) for name, value in filled.items() if name in _FREE]
        if free:
            export.answer(scheme, who, item, free[0], TEXT)
        elif filled:
            export.answer(scheme, who, item, list(filled))
        any_said |= bool(filled)
    return any_said


def _rows(document: Document) -> list[dict[str, Any]]:
    """Return the rows of a TSV as the JSON lines of the same answers."""
    names = [name for name in document.names if document.names.count(name) == 1]
    cells = zip(*(column.to_pylist() for column in document.columns(names)), strict=True)
    found = []
    for row in cells:
        record: dict[str, Any] = {"id": row[0]}
        schemes: Schemes = record.setdefault("label_annotations", {})
        for name, cell in zip(names, row, strict=True):
            scheme, marked, label = name.partition(_SEPARATOR)
            if marked:
                schemes.setdefault(scheme, {})[label] = cell
            else:
                record[name] = cell
        found.append(record)
    return found


READER = Reader("potato", "Potato, annotated instances", detect, read)
