"""Appen (Figure Eight, CrowdFlower), JSON report: one object per unit, judgments within.

https://hex.pm/packages/figure_eight/2.0.0-rc1/files/lib/figure_eight/judgment.ex lists a
judgment's fields: worker_id, tainted, and the answers in `data`. results.judgments are the
contributors' own, the other fields of `results` are aggregated. A right answer of a test question
stands in the unit's data as x_gold.
"""

from __future__ import annotations

from misc_cli.io.document import Document, text
from misc_cli.io.options import ReadOptions
from misc_cli.io.readers.base import CERTAIN, Match, Reader, Reading
from misc_cli.io.readers.common import (
    Answers,
    form_answers,
    mapping,
    objects,
    with_inferred_kinds,
)

LOOKED_AT = 20
_GOLD = "_gold"


def detect(document: Document) -> Match | None:
    for record in (document.records or [])[:LOOKED_AT]:
        judgments = objects(mapping(record.get("results")).get("judgments"))
        if any("worker_id" in one and "data" in one for one in judgments):
            return Match(CERTAIN, "results.judgments with worker_id and data")
    return None


def read(document: Document, options: ReadOptions) -> Reading:
    found = Answers(document.name)
    for row, record in enumerate(document.records or []):
        judgments = objects(mapping(record.get("results")).get("judgments"))
        if not judgments:
            found.aside("not judged", row)
        for judgment in judgments:
            if text(judgment.get("tainted")) == "true" or text(judgment.get("rejected")) == "true":
                found.aside("tainted", row)
                continue
            for question, kind, label in form_answers(judgment.get("data")):
                columns = {"worker": "worker_id", "item": "id", "label": f"data.{question}"}
                item = record.get("id", judgment.get("unit_id"))
                found.answer(question, judgment.get("worker_id"), item, label, row, kind, columns)
        for name, right in mapping(record.get("data")).items():
            known = right if isinstance(right, list) else [right]
            if name.endswith(_GOLD) and len(known) == 1 and text(known[0]):
                found.gold(name.removesuffix(_GOLD), record.get("id"), text(known[0]))
    return with_inferred_kinds(found.reading())


READER = Reader(
    name="appen-json",
    title="Appen, JSON report",
    explain="worker is worker_id, item the unit's id, a question a field of a judgment's data; "
    "tainted judgments are left out, aggregated results are not looked at",
    detect=detect,
    read=read,
    page="https://hex.pm/packages/figure_eight/2.0.0-rc1/files/lib/figure_eight/judgment.ex",
)
