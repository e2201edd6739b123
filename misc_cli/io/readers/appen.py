"""Appen (Figure Eight, CrowdFlower), full CSV report: one row per judgment.

https://success.appen.com: _unit_id, _worker_id, _tainted, _golden; the questions are the columns
that have an x_gold beside them, which holds the right answer of test questions.
"""

from __future__ import annotations

from misc_cli.io.document import Document
from misc_cli.io.options import ReadOptions
from misc_cli.io.readers.base import CERTAIN, Match, Reader, Reading, from_columns, is_one_of

_GOLD = "_gold"


def detect(document: Document) -> Match | None:
    if {"_unit_id", "_worker_id"} <= set(document.names):
        return Match(CERTAIN, "_unit_id and _worker_id")
    return None


def read(document: Document, options: ReadOptions) -> Reading:
    names = document.names
    questions = {name: name for name in names if f"{name}{_GOLD}" in names}
    tainted = {"tainted": lambda column: is_one_of(column("_tainted"), "true")}
    return from_columns(
        document,
        worker="_worker_id",
        item="_unit_id",
        questions=questions,
        options=options,
        aside=tainted if "_tainted" in names else None,
        gold={name: f"{name}{_GOLD}" for name in questions},
    )


READER = Reader(
    name="appen",
    title="Appen, full CSV report",
    explain="worker is _worker_id, item _unit_id, a question a column with its _gold beside it; "
    "tainted judgments are left out",
    detect=detect,
    read=read,
    page="https://success.appen.com/hc/en-us/articles/202703075",
)
