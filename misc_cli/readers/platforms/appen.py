"""Appen (Figure Eight, CrowdFlower), full CSV report: one row per judgment.

https://success.appen.com/hc/en-us/articles/202703075: _unit_id is the row that was judged,
_worker_id the contributor; _tainted judgments are of contributors who failed the test questions,
_golden rows are test questions, x_gold holds the right answers for x, one per line where several
are accepted. The aggregated report has _unit_state and x:confidence instead of contributors.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from misc_cli.errors import InputError
from misc_cli.readers.document import Document, is_one_of, text
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.common import (
    Answers,
    form_answers,
    mapping,
    narrowed,
    objects,
    varying,
    with_inferred_kinds,
)
from misc_cli.readers.reading import CERTAIN, Match, Question, Reader, Reading, from_columns

LOOKED_AT = 20
_GOLD = "_gold"


def detect_json(document: Document) -> Match | None:
    for record in (document.records or [])[:LOOKED_AT]:
        judgments = objects(mapping(record.get("results")).get("judgments"))
        if any("worker_id" in one and "data" in one for one in judgments):
            return Match(CERTAIN, "results.judgments with worker_id and data")
    return None


def read_json(document: Document, options: ReadOptions) -> Reading:
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


JSON_READER = Reader(
    name="appen-json",
    title="Appen, JSON report",
    explain="worker is worker_id, item the unit's id, a question a field of a judgment's data; "
    "tainted judgments are left out, aggregated results are not looked at",
    detect=detect_json,
    read=read_json,
    page="https://hex.pm/packages/figure_eight/2.0.0-rc1/files/lib/figure_eight/judgment.ex",
)


_GOLD = "_gold"
_MOST_COLUMNS = 500


def detect(document: Document) -> Match | None:
    names = set(document.names)
    if "_unit_id" in names and names & {"_worker_id", "_trusted_judgments", "_unit_state"}:
        return Match(CERTAIN, "_unit_id and _worker_id")
    return None


def read(document: Document, options: ReadOptions) -> Reading:
    names = set(document.names)
    if "_worker_id" not in names:
        raise InputError(
            f"{document.name}: Appen's aggregated report, which names no contributors; download "
            "the full report"
        )
    questions = {name: name for name in document.names if f"{name}{_GOLD}" in names}
    if not questions and options.label_col is None:
        questions = {name: name for name in _judged(document)}
    tainted = {"tainted": lambda column: is_one_of(column("_tainted"), "true", "1")}
    gold = {name: f"{name}{_GOLD}" for name in questions if f"{name}{_GOLD}" in names}
    reading = from_columns(
        document,
        worker="_worker_id",
        item="_unit_id",
        questions=narrowed(document.name, questions, options),
        options=options,
        aside=tainted if "_tainted" in names else None,
        gold=gold,
    )
    return replace(reading, questions=[_certain_gold(question) for question in reading.questions])


def _judged(document: Document) -> list[str]:
    """Without test questions: what contributors said differs within a unit, its data does not."""
    others = [
        name
        for name in document.names
        if name
        and not name.startswith("_")
        and not name.endswith((_GOLD, "_gold_reason", ":confidence"))
    ]
    found = varying(document, "_unit_id", others[:_MOST_COLUMNS])
    if not found:
        raise InputError(
            f"{document.name}: no column is surely a question among {', '.join(others[:12])}; "
            "name it with --label-col"
        )
    return found


def _certain_gold(question: Question) -> Question:
    """Where several answers are accepted, nobody knows the right one."""
    if question.gold is None:
        return question
    pairs = list(zip(*(column.to_pylist() for column in question.gold), strict=True))
    labels: dict[str, set[str]] = {}
    if pa.types.is_list(question.gold[1].type):
        return question
    for item, label in pairs:
        labels.setdefault(item, set()).add(label)
    sure = [(i, next(iter(s))) for i, s in labels.items() if len(s) == 1 and "\n" not in min(s)]
    if not sure:
        return replace(question, gold=None)
    items, known = (pa.array(column).dictionary_encode() for column in zip(*sure, strict=True))
    return replace(question, gold=(items, known))


READER = Reader(
    name="appen",
    title="Appen, full CSV report",
    explain="worker is _worker_id, item _unit_id, a question a column with its _gold beside it; "
    "tainted judgments are left out",
    detect=detect,
    read=read,
    page="https://success.appen.com/hc/en-us/articles/202703075",
)
