"""Appen (Figure Eight, CrowdFlower): the full CSV report and the JSON, judgment by judgment.

_tainted judgments are of contributors who failed the test questions; x_gold holds the right
answers for x, one per line where several are accepted.
"""

from __future__ import annotations

from dataclasses import replace

from misc_cli.errors import InputError
from misc_cli.readers.document import (
    Document,
    Record,
    is_one_of,
    mapping,
    objects,
    text,
    text_array,
)
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.common import (
    Answers,
    form_answers,
    narrowed,
    of_names,
    of_records,
    varying,
)
from misc_cli.readers.reading import Question, Reader, Reading, from_columns

_GOLD = "_gold"
_MOST_COLUMNS = 500


def _judgments(record: Record) -> list[Record]:
    return objects(mapping(record.get("results")).get("judgments"))


@of_records
def detect_json(record: Record) -> str | None:
    known = any("worker_id" in one and "data" in one for one in _judgments(record))
    return "results.judgments with worker_id and data" if known else None


def read_json(document: Document, options: ReadOptions) -> Reading:
    found = Answers(document, "worker_id", "id", "data.{}")
    for row, record in enumerate(document.records or []):
        judgments = _judgments(record)
        if not judgments:
            found.aside("not judged", row)
        for judgment in judgments:
            if "true" in (text(judgment.get("tainted")), text(judgment.get("rejected"))):
                found.aside("tainted", row)
                continue
            item = record.get("id", judgment.get("unit_id"))
            for question, kind, label in form_answers(judgment.get("data")):
                found.answer(question, judgment.get("worker_id"), item, label, row, kind)
        for name, right in mapping(record.get("data")).items():
            known = right if isinstance(right, list) else [right]
            if name.endswith(_GOLD) and len(known) == 1 and text(known[0]):
                found.gold(name.removesuffix(_GOLD), record.get("id"), text(known[0]))
    return found.inferred()


JSON_READER = Reader(
    name="appen-json",
    title="Appen, JSON report",
    explain="worker is worker_id, item the unit's id, a question a field of a judgment's data; "
    "tainted judgments are left out, aggregated results are not looked at",
    detect=detect_json,
    read=read_json,
)


@of_names
def detect(names: set[str]) -> str | None:
    known = names & {"_worker_id", "_trusted_judgments", "_unit_state"}
    return "_unit_id and _worker_id" if "_unit_id" in names and known else None


def read(document: Document, options: ReadOptions) -> Reading:
    names = set(document.names)
    if "_worker_id" not in names:
        raise InputError(
            f"{document.name}: Appen's aggregated report, which names no contributors; download "
            "the full report"
        )
    gold = {name: f"{name}{_GOLD}" for name in document.names if f"{name}{_GOLD}" in names}
    questions = list(gold)
    if not questions and options.label_col is None:
        questions = _judged(document)
    tainted = {"tainted": lambda column: is_one_of(column("_tainted"), "true", "1")}
    reading = from_columns(
        document,
        worker="_worker_id",
        item="_unit_id",
        questions=narrowed(document.name, {name: name for name in questions}, options),
        options=options,
        aside=tainted if "_tainted" in names else None,
        gold=gold,
    )
    return replace(reading, questions=[_certain_gold(question) for question in reading.questions])


def _judged(document: Document) -> list[str]:
    """Return the questions of a report without test questions: they differ within a unit."""
    other = (_GOLD, "_gold_reason", ":confidence")
    others = [n for n in document.names if n and not n.startswith("_") and not n.endswith(other)]
    found = varying(document, "_unit_id", others[:_MOST_COLUMNS])
    if not found:
        raise InputError(
            f"{document.name}: no column is surely a question among {', '.join(others[:12])}; "
            "name it with --label-col"
        )
    return found


def _certain_gold(question: Question) -> Question:
    """Drop the right answers of items that accept several: nobody knows which one is right."""
    if question.gold is None or not hasattr(question.gold[1], "dictionary"):
        return question
    labels: dict[str, set[str]] = {}
    for item, label in zip(*(column.to_pylist() for column in question.gold), strict=True):
        labels.setdefault(item, set()).update(label.split("\n"))
    sure = {item: min(known) for item, known in labels.items() if len(known) == 1}
    gold = (text_array(sure), text_array(sure.values())) if sure else None
    return replace(question, gold=gold)


READER = Reader(
    name="appen",
    title="Appen, full CSV report",
    explain="worker is _worker_id, item _unit_id, a question a column with its _gold beside it; "
    "tainted judgments are left out",
    detect=detect,
    read=read,
)
