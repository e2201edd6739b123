"""Argilla, records as JSON, Parquet or CSV, of versions 1 and 2.

https://docs.argilla.io/latest/how_to_guides/import_export/ and, of version 1,
https://docs.v1.argilla.io/en/latest/practical_guides/collect_responses.html. Version 2:
{"responses": {question: [{"value", "user_id", "status"}]}}, flattened {"question.responses":
[…], "question.responses.users": […], "question.responses.status": […]}. Version 1: {"responses":
[{"user_id", "values": {question: {"value"}}, "status"}]} or {question: [{"user_id", "value",
"status"}]}; before feedback datasets, {"annotation", "annotation_agent", "status"}. Only
submitted responses count; suggestions and predictions are a model's.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from misc_cli.errors import InputError
from misc_cli.readers.document import Document, Record, text
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.common import (
    Answers,
    kind_of_region,
    loads,
    mapping,
    objects,
    with_inferred_kinds,
)
from misc_cli.readers.reading import CERTAIN, Match, Reader, Reading
from misc_cli.readers.values import CHOICE, OTHER, SPANS

_FLAT = ".responses"
_OLD = {"annotation", "annotation_agent"}
LOOKED_AT = 20

Response = tuple[str, Any, Any, str]  # question, user, value, status


def detect(document: Document) -> Match | None:
    if document.records is None:
        flat = [name for name in document.names if f"{name}.users" in set(document.names)]
        return Match(CERTAIN, "question.responses.users") if flat else None
    for record in _rows(document.records)[:LOOKED_AT]:
        if any(f"{key}.users" in record for key in record if key.endswith(_FLAT)):
            return Match(CERTAIN, "question.responses.users")
        if "fields" in record and _is_response(record.get("responses")):
            return Match(CERTAIN, "fields and responses")
        if record.keys() >= _OLD and "status" in record:
            return Match(CERTAIN, "annotation, annotation_agent and status")
        if any(_is_feedback(value) for value in record.values()):
            return Match(CERTAIN, "responses with user_id, value and status")
    return None


def _is_response(value: Any) -> bool:
    """Of version 2: lists by question; of version 1: a list of objects with values."""
    if isinstance(value, dict):
        return all(isinstance(given, list) for given in value.values())
    return isinstance(value, list) and all("values" in one for one in objects(value))


def _is_feedback(value: Any) -> bool:
    return bool(objects(value)) and all(
        {"user_id", "value", "status"} <= set(response) for response in objects(value)
    )


def read(document: Document, options: ReadOptions) -> Reading:
    found = Answers(document.name)
    records = document.records
    if records is None:
        records = _from_table(document)
    for row, record in enumerate(_rows(records)):
        item = _item(record, row)
        said = False
        for question, user, value, status in _responses(document, row, record):
            said = True
            if status and status != "submitted" and status != "validated":
                found.aside(status, row)
            elif value is None or value == "":
                found.aside("empty", row)
            else:
                _answer(found, question, user, item, value, row)
        if not said:
            found.aside("not annotated", row)
    return with_inferred_kinds(found.reading())


def _answer(found: Answers, question: str, user: Any, item: str, value: Any, row: int) -> None:
    columns = {"worker": "user_id", "item": "id", "label": f"{question}.value"}
    if isinstance(value, list):
        if any(isinstance(one, dict | list) for one in value):  # spans, or a ranking
            kind = SPANS if any(map(kind_of_region, objects(value))) else OTHER
            kind = SPANS if any(isinstance(one, list) for one in value) else kind
            found.answer(question, user, item, text(value), row, kind, columns)
        else:
            found.said(question, user, item, value, row, columns)
    elif isinstance(value, dict):
        found.answer(question, user, item, text(value), row, OTHER, columns)
    else:
        found.answer(question, user, item, value, row, CHOICE, columns)


def _responses(document: Document, row: int, record: Record) -> Iterator[Response]:
    flat = [key for key in record if key.endswith(_FLAT) and f"{key}.users" in record]
    if flat:
        for key in flat:
            yield from _flat(document, row, record, key)
    elif isinstance(record.get("responses"), dict):
        for question, given in record["responses"].items():
            for one in objects(given):
                yield question, one.get("user_id"), one.get("value"), _status(one)
    elif isinstance(record.get("responses"), list):
        for response in objects(record["responses"]):
            for question, given in mapping(response.get("values")).items():
                value = given.get("value") if isinstance(given, dict) else given
                yield question, response.get("user_id"), value, _status(response)
    elif set(record) >= _OLD:
        if record["annotation"] is not None or _status(record) == "discarded":
            yield "annotation", record["annotation_agent"], record["annotation"], _status(record)
    else:
        for question, given in record.items():
            if _is_feedback(given):
                for one in objects(given):
                    yield question, one["user_id"], one["value"], _status(one)


def _flat(document: Document, row: int, record: Record, key: str) -> Iterator[Response]:
    """Parallel lists of values, users and states."""
    values, users = record[key] or [], record[f"{key}.users"] or []
    states = record.get(f"{key}.status") or [""] * (len(users) if isinstance(users, list) else 0)
    lists = all(isinstance(one, list) for one in (values, users, states))
    if not lists or not len(values) == len(users) == len(states):
        raise InputError(
            f"{document.name}, record {row + 1}: {key} and {key}.users should be lists of the same "
            "length; export it again"
        )
    for value, user, state in zip(values, users, states, strict=True):
        yield key.removesuffix(_FLAT), user, value, text(state).lower()


def _status(record: Record) -> str:
    return text(record.get("status")).lower()


def _item(record: Record, row: int) -> str:
    for key in ("id", "external_id", "_server_id"):
        if record.get(key) not in (None, ""):
            return text(record[key])
    fields = mapping(record.get("fields")) or record
    plain = record.get("text", next(iter(fields.values()), None))
    return plain if isinstance(plain, str) and plain else str(row + 1)


def _rows(records: list[Record]) -> list[Record]:
    """to_dict() writes a list per column; these are its rows."""
    if len(records) != 1 or not all(isinstance(value, list) for value in records[0].values()):
        return records
    (columns,) = records
    if len({len(value) for value in columns.values()}) != 1 or "id" not in columns:
        return records
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _from_table(document: Document) -> list[Record]:
    """CSV: the lists are JSON, or as Python prints them."""
    names = set(document.names)
    keys = [n for n in document.names if n.endswith(_FLAT) and f"{n}.users" in names]
    wanted = [n for n in document.names if any(n == k or n.startswith(f"{k}.") for k in keys)]
    others = [name for name in ("id", "external_id", "_server_id", "text") if name in names]
    cells = [column.to_pylist() for column in document.columns([*others, *wanted])]
    rows = zip(*cells, strict=True)
    return [
        {
            name: _listed(cell) if name in wanted else cell
            for name, cell in zip([*others, *wanted], row, strict=True)
        }
        for row in rows
    ]


def _listed(cell: str) -> Any:
    if not cell.strip():
        return None
    try:
        return loads(cell) or ast.literal_eval(cell)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


READER = Reader(
    name="argilla",
    title="Argilla records",
    explain="worker is user_id (annotation_agent), item is id, a question its name; only submitted "
    "responses count, suggestions and predictions are no answers",
    detect=detect,
    read=read,
    page="https://docs.argilla.io/latest/how_to_guides/import_export/",
)
