"""doccano, JSON lines, JSON and CSV: new versions without users, old ones with them.

Before 1.2 the export had {"annotations": [{"label", "user"}]} or CSV with a `user` column; spans
are [start, end, label] or objects with start_offset.
"""

from __future__ import annotations

from typing import Any

from misc_cli.readers.document import Document, Record, objects, text
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.common import Answers, objects_at, refuse_single
from misc_cli.readers.reading import CERTAIN, LIKELY, Match, Reader, Reading
from misc_cli.readers.values import SPANS

_TEXTS = ("text", "data", "filename")
_NEW = ("label", "labels", "cats", "entities", "relations")
_USERS = ("user", "username", "user_id", "annotator", "annotator_id", "annotated_by")
_CSV = {"id", "label", "user"}


def detect(document: Document) -> Match | None:
    if document.records is None:
        if set(document.names) >= _CSV and set(document.names) & set(_TEXTS):
            return Match(LIKELY, "columns id, text, label and user")
        return None
    first = document.records[0] if document.records else {}
    if "id" not in first or not any(isinstance(first.get(key), str) for key in _TEXTS):
        return None
    annotations = first.get("annotations")
    if isinstance(annotations, list) and "data" not in first:
        known = any("user" in one for one in objects(annotations))
        if known or (not annotations and "annotation_approver" in first):
            return Match(CERTAIN, "annotations with label and user")
    if any(key in first for key in ("Comments", "comments", "annotation_approver")) and any(
        isinstance(first.get(key), list) for key in _NEW
    ):
        return Match(CERTAIN, "id, text, label and Comments")
    whole = set(first) <= {"id", *_TEXTS, *_NEW, "meta"}
    if whole and isinstance(first.get("label"), list):
        return Match(LIKELY, "id, text and a list of labels")
    return None


def read(document: Document, options: ReadOptions) -> Reading:
    found = Answers(document, "user", "id", "label")
    if document.records is None:
        return _read_table(document, found)
    for row, record in enumerate(document.records):
        if "annotations" in record:
            _old(document, found, row, record)
        else:
            _new(found, row, record)
    return refuse_single(document, options, found.reading())


def _new(found: Answers, row: int, record: Record) -> None:
    """Add labels that mostly name nobody; --worker-from takes the user from the file's name."""
    user = next((key for key in _USERS if record.get(key) is not None), "user")
    who, item = record.get(user, ""), record.get("id")
    filled = [key for key in ("label", "labels", "cats") if record.get(key)]
    filled = [key for key in filled if isinstance(record[key], list)]
    for key in filled:
        columns = {"worker": user, "label": key}
        if any(isinstance(value, list | dict) for value in record[key]):
            found.answer(key, who, item, text(record[key]), row, SPANS, columns)
        else:
            found.said(key, who, item, record[key], row, columns=columns)
    if record.get("entities") or record.get("relations"):
        found.answer("entities", who, item, text(record.get("entities")), row, SPANS)
    elif not filled:
        found.aside("not annotated", row)


def _old(document: Document, found: Answers, row: int, record: Record) -> None:
    """Add labels by number, each with its user; several of one user are one answer."""
    by_user: dict[str, list[Record]] = {}
    for annotation in objects_at(document, row, record["annotations"], "annotations"):
        by_user.setdefault(text(annotation.get("user")), []).append(annotation)
    if not by_user:
        found.aside("not annotated", row)
    for user, own in by_user.items():
        if any("start_offset" in annotation for annotation in own):
            found.answer("spans", user, record.get("id"), text(own), row, SPANS)
        else:
            labels = [one.get("label", one.get("text")) for one in own]
            columns = {"label": "annotations.label"}
            found.said("label", user, record.get("id"), labels, row, columns=columns)


def _read_table(document: Document, found: Answers) -> Reading:
    """Read CSV, a row per label; several rows of one user on one text are one answer."""
    answers: dict[tuple[Any, Any], tuple[int, dict[Any, None]]] = {}
    columns = [column.to_pylist() for column in document.columns(["user", "id", "label"])]
    for row, (user, item, label) in enumerate(zip(*columns, strict=True)):
        if label:
            answers.setdefault((user, item), (row, {}))[1][label] = None
        else:
            found.aside("not annotated", row)
    for (user, item), (row, labels) in answers.items():
        found.said("label", user, item, labels, row)
    return found.reading()


READER = Reader(
    name="doccano",
    title="doccano, JSON lines or CSV",
    explain="worker is user where the export has one (new versions: one file per user, "
    "--worker-from filename), item is id, the label is in label or annotations",
    detect=detect,
    read=read,
)
