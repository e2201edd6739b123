"""doccano, JSON lines, JSON and CSV, of new and old versions.

https://doccano.github.io/doccano/ and the exporter's own tests, backend/data_export in
https://github.com/doccano/doccano. New versions write {"id", "text" or "data", "label": […]}
without a user: one file per user, or, in a project that shares its annotations, one for all.
Before 1.2 the export had {"annotations": [{"label", "user"}]}, `labels` without users, or CSV
with a `user` column. Spans are [start, end, label] or objects with start_offset.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from misc_cli.readers.document import Document, Record, text
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
    if not document.records:
        return None
    first = document.records[0]
    if "id" not in first or not any(isinstance(first.get(key), str) for key in _TEXTS):
        return None
    annotations = first.get("annotations")
    if isinstance(annotations, list) and "data" not in first:
        known = [one for one in annotations if isinstance(one, dict) and "user" in one]
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
    if document.records is None:
        return _read_table(document)
    found = Answers(document.name)
    for row, record in enumerate(document.records):
        if "annotations" in record:
            _old(document, found, row, record)
        else:
            _new(found, row, record)
    return refuse_single(document, options, found.reading())


def _new(found: Answers, row: int, record: Record) -> None:
    """Mostly nobody's name: the file's name may be the user's, and says so in --worker-from."""
    user = next((key for key in _USERS if record.get(key) is not None), "user")
    who = record.get(user, "")
    said = False
    for key in ("label", "labels", "cats"):
        values = record.get(key)
        if isinstance(values, list) and values:
            said = True
            columns = {"worker": user, "item": "id", "label": key}
            if any(isinstance(value, list | dict) for value in values):
                found.answer(key, who, record.get("id"), text(values), row, SPANS, columns)
            else:
                found.said(key, who, record.get("id"), values, row, columns)
    if record.get("entities") or record.get("relations"):
        said = True
        found.answer("entities", who, record.get("id"), text(record.get("entities")), row, SPANS)
    if not said:
        found.aside("not annotated", row)


def _old(document: Document, found: Answers, row: int, record: Record) -> None:
    """Labels by number, each with its user; several of one user are one answer."""
    by_user: dict[str, list[Record]] = {}
    for annotation in objects_at(document, row, record["annotations"], "annotations"):
        by_user.setdefault(text(annotation.get("user")), []).append(annotation)
    if not by_user:
        found.aside("not annotated", row)
    for user, own in by_user.items():
        if any("start_offset" in annotation for annotation in own):
            found.answer("spans", user, record.get("id"), text(own), row, SPANS)
        else:
            labels = [a.get("label", a.get("text")) for a in own]
            columns = {"worker": "user", "item": "id", "label": "annotations.label"}
            found.said("label", user, record.get("id"), labels, row, columns)


def _read_table(document: Document) -> Reading:
    """CSV: a row per label; several rows of one user on one text are one answer."""
    columns = {"worker": "user", "item": "id", "label": "label"}
    answers: dict[tuple[Any, Any], tuple[int, list[Any]]] = {}
    cells: Iterable[tuple[Any, ...]] = zip(
        *(column.to_pylist() for column in document.columns(["user", "id", "label"])), strict=True
    )
    found = Answers(document.name)
    for row, (user, item, label) in enumerate(cells):
        if label:
            answers.setdefault((user, item), (row, []))[1].append(label)
        else:
            found.aside("not annotated", row)
    for (user, item), (row, labels) in answers.items():
        found.said("label", user, item, dict.fromkeys(labels), row, columns)
    return found.reading()


READER = Reader(
    name="doccano",
    title="doccano, JSON lines or CSV",
    explain="worker is user where the export has one (new versions: one file per user, "
    "--worker-from filename), item is id, the label is in label or annotations",
    detect=detect,
    read=read,
    page="https://github.com/doccano/doccano/tree/master/backend/data_export",
)
