"""Exports without workers or without classes, each refused with its reason."""

from __future__ import annotations

import re

from misc_cli.errors import InputError
from misc_cli.readers.document import Document
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.reading import CERTAIN, LIKELY, Match, Reader, Reading

_NO_WORKER = "it names no annotators, so there is nothing to weigh"
_TAG = re.compile(r"O|[BIESLU]-[\w-]+")
_LEAST_TAGS = 5


def detect(document: Document) -> Match | None:
    reason = _reason(document)
    return None if reason is None else Match(*reason)


def read(document: Document, options: ReadOptions) -> Reading:
    reason = _reason(document)
    why = reason[1] if reason else "labels without workers"
    raise InputError(f"{document.name}: {why}; export each annotator's own answers")


def _reason(document: Document) -> tuple[int, str] | None:
    if document.records is None:
        return _tokens(document)
    if not document.records:
        return None
    first = document.records[0]
    keys = set(first)
    if {"task_id", "response"} <= keys and keys & {"params", "callback_url", "type", "status"}:
        return CERTAIN, f"a task of Scale: {_NO_WORKER}"
    if {"tags", "shapes"} <= keys and keys & {"tracks", "version"}:
        return CERTAIN, f"annotations of CVAT: {_NO_WORKER}"
    if {"images", "annotations", "categories"} <= keys:
        return CERTAIN, f"COCO: boxes and segments, and {_NO_WORKER}"
    if {"categories", "items"} <= keys and isinstance(first["items"], list):
        return CERTAIN, f"Datumaro: {_NO_WORKER}"
    tags = [first.get(key) for key in ("tokens", "ner_tags", "tags", "labels", "bio")]
    if isinstance(tags[0], list) and any(isinstance(one, list) for one in tags[1:]):
        return LIKELY, "labels of tokens, not of items: there are no classes to vote on"
    return None


def _tokens(document: Document) -> tuple[int, str] | None:
    """Refuse CoNLL: rows of a token and its tag, the last column O, B-PER and the like."""
    if document.table.header is not False and not document.table.doubtful:
        return None
    last = [row[-1].strip() for row in document.table.sample if row]
    tags = [cell for cell in last if _TAG.fullmatch(cell)]
    marked = any(cell.startswith(("B-", "I-", "S-", "U-")) for cell in tags)
    if len(last) >= _LEAST_TAGS and marked and len(tags) > 0.8 * len(last):
        return CERTAIN, "tags of tokens (CoNLL), not of items: there are no classes to vote on"
    return None


READER = Reader(
    name="without-workers",
    title="labels without workers or without classes",
    explain="refused: Scale, CVAT, COCO, Datumaro and tags of tokens leave nothing to vote on",
    detect=detect,
    read=read,
)
