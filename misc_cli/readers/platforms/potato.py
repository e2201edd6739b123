"""Potato: annotated_instances as JSON lines or TSV, and a user's state.

A chosen label has a value, whatever it is. JSON lines lie in a folder of the annotator's name.
"""

from __future__ import annotations

from typing import Any

from misc_cli.readers.document import Document, Record, mapping, objects, text
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.common import Answers, refuse_single
from misc_cli.readers.reading import CERTAIN, Match, Reader, Reading
from misc_cli.readers.values import SPANS, TEXT

_STATE = "instance_id_to_label_to_value"
_USERS = ("user_id", "user", "annotator", "annotator_id", "username")
_IDS = ("instance_id", "id")
_SEPARATOR = ":::"
_FREE = ("text_box", "textbox", "free_response", "bad_text")
_OFF = ("", "false", "none", "null", "0")

Schemes = dict[str, list[tuple[str, Any]]]  # question → label and its value


def detect(document: Document) -> Match | None:
    if document.records is None:
        names = document.names
        if any(_SEPARATOR in name for name in names) and set(names) & set(_USERS):
            return Match(CERTAIN, "user and scheme:::label columns")
        return None
    first = document.records[0] if document.records else {}
    if isinstance(first.get("label_annotations"), dict):
        return Match(CERTAIN, "label_annotations")
    return Match(CERTAIN, _STATE) if _STATE in first else None


def read(document: Document, options: ReadOptions) -> Reading:
    found = Answers(document, "user", "id", "label_annotations.{}")
    if document.records is None:
        _read_table(document, found)
        return found.reading()
    for row, record in enumerate(document.records):
        if _STATE in record:
            _state(found, row, record)
            continue
        who = next((record[key] for key in _USERS if record.get(key)), "")
        item = next((record[key] for key in _IDS if record.get(key) is not None), "")
        schemes = mapping(record.get("label_annotations")).items()
        said = _schemes(found, row, who, item, {s: [*mapping(own).items()] for s, own in schemes})
        if record.get("span_annotations"):
            said = True
            found.answer("spans", who, item, text(record["span_annotations"]), row, SPANS)
        if not said:
            found.aside("not annotated", row)
    return refuse_single(document, options, found.reading())


def _schemes(found: Answers, row: int, who: Any, item: Any, schemes: Schemes) -> bool:
    """Add the labels of each question that have a value; return whether there is any."""
    said = False
    for scheme, labels in schemes.items():
        filled = [(label, value) for label, value in labels if text(value).lower() not in _OFF]
        free = [value for label, value in filled if label in _FREE]
        if free:
            found.answer(scheme, who, item, text(free[0]), row, TEXT)
        elif filled:
            found.said(scheme, who, item, [label for label, _ in filled], row)
        said |= bool(filled)
    return said


def _state(found: Answers, row: int, state: Record) -> None:
    """Add a user's state: {instance: [[{"schema", "name"}, value], …]}."""
    who = next((state[key] for key in _USERS if state.get(key)), "")
    for item, pairs in mapping(state[_STATE]).items():
        schemes: Schemes = {}
        for pair in pairs if isinstance(pairs, list) else []:
            if isinstance(pair, list) and len(pair) == 2 and objects(pair[:1]):
                scheme, name = text(pair[0].get("schema")), text(pair[0].get("name"))
                schemes.setdefault(scheme, []).append((name, pair[1]))
        _schemes(found, row, who, item, schemes)


def _read_table(document: Document, found: Answers) -> None:
    names = document.names
    user = next(name for name in _USERS if name in names)
    item = next((name for name in _IDS if name in names), names[0])
    marks = [name for name in names if _SEPARATOR in name]
    columns = [column.to_pylist() for column in document.columns([user, item, *marks])]
    for row, (who, what, *cells) in enumerate(zip(*columns, strict=True)):
        schemes: Schemes = {}
        for mark, cell in zip(marks, cells, strict=True):
            scheme, _, label = mark.partition(_SEPARATOR)
            schemes.setdefault(scheme, []).append((label, cell))
        if not _schemes(found, row, who, what, schemes):
            found.aside("not annotated", row)


READER = Reader(
    name="potato",
    title="Potato, annotated instances",
    explain="worker is user (per-annotator files: --worker-from), item is the instance's id, a "
    "question a scheme, its answer the labels that have a value",
    detect=detect,
    read=read,
)
