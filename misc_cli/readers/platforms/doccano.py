"""doccano, JSON lines and JSON: new versions without users, old ones with them.

Before 1.2 the export had {"annotations": [{"label", "user"}]}; spans are [start, end, label] or
objects with start_offset.
"""

from __future__ import annotations

from misc_cli.readers.document import Document, Record, objects, text
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.export import Export
from misc_cli.readers.reading import CERTAIN, LIKELY, Match, Reader, Reading
from misc_cli.readers.values import CHOICE, SPANS

_TEXTS = ("text", "data", "filename")
_LABELS = ("label", "labels", "cats")
_NEW = (*_LABELS, "entities", "relations")
_USERS = ("user", "username", "user_id", "annotator", "annotator_id", "annotated_by")


def detect(document: Document) -> Match | None:
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
    if set(first) <= {"id", *_TEXTS, *_NEW, "meta"} and isinstance(first.get("label"), list):
        return Match(LIKELY, "id, text and a list of labels")
    return None


def read(document: Document, options: ReadOptions) -> Reading:
    export = Export(document, options, "user", "id", "label")
    for record in export.records():
        if "annotations" in record:
            _old(export, record)
        else:
            _new(export, record)
    return export.reading(file_per_worker=True)


def _new(export: Export, record: Record) -> None:
    """Add labels that mostly name nobody; --worker-from takes the user from the file's name."""
    user = next((key for key in _USERS if record.get(key) is not None), "user")
    who, item = record.get(user), record.get("id")
    filled = [key for key in _LABELS if record.get(key) and isinstance(record[key], list)]
    for key in filled:
        spans = any(isinstance(value, list | dict) for value in record[key])
        paths = {"worker": user, "label": key}
        export.answer(key, who, item, record[key], SPANS if spans else CHOICE, paths)
    if record.get("entities") or record.get("relations"):
        export.answer("entities", who, item, text(record.get("entities")), SPANS)
    elif not filled:
        export.aside("not annotated")


def _old(export: Export, record: Record) -> None:
    """Add labels by number, each with its user; several of one user are one answer."""
    by_user: dict[str, list[Record]] = {}
    for annotation in export.objects(record["annotations"], "annotations"):
        by_user.setdefault(text(annotation.get("user")), []).append(annotation)
    if not by_user:
        export.aside("not annotated")
    for user, own in by_user.items():
        if any("start_offset" in annotation for annotation in own):
            export.answer("spans", user, record.get("id"), text(own), SPANS)
        else:
            labels = [one.get("label", one.get("text")) for one in own]
            paths = {"label": "annotations.label"}
            export.answer("label", user, record.get("id"), labels, paths=paths)


READER = Reader("doccano", "doccano, JSON lines", detect, read)
