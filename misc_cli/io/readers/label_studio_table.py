"""Label Studio, CSV and JSON-MIN: one row per annotation, one column per question.

https://labelstud.io/guide/export: `id` is the task's, next to `annotation_id`; `annotator`,
`created_at`, `updated_at` and `lead_time` are the tool's, the rest is data or a question.
"""

from __future__ import annotations

from misc_cli.io.columns import SYNONYMS, find_roles
from misc_cli.io.document import Document
from misc_cli.io.options import ReadOptions
from misc_cli.io.readers.base import CERTAIN, Match, Reader, Reading, from_columns

_OWN = {"annotation_id", "annotator", "id", "created_at", "updated_at", "lead_time", "agreement"}


def detect(document: Document) -> Match | None:
    if {"annotation_id", "annotator", "id"} <= set(document.names):
        return Match(CERTAIN, "columns annotation_id, annotator and id")
    return None


def read(document: Document, options: ReadOptions) -> Reading:
    names = [name for name in document.names if name not in _OWN]
    labels = find_roles(names, {"label": SYNONYMS["label"]})["label"]
    questions = {names[at]: names[at] for at in labels}
    return from_columns(
        document, worker="annotator", item="id", questions=questions, options=options
    )


READER = Reader(
    name="label-studio-table",
    title="Label Studio, CSV or JSON-MIN",
    explain="worker is annotator, item is id, a question is a column of its own",
    detect=detect,
    read=read,
    page="https://labelstud.io/guide/export",
)
