"""Argilla 1 and 2, records as JSON, Parquet or CSV, nested or flat.

Of version 1 see https://docs.v1.argilla.io/en/latest/practical_guides/collect_responses.html.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from misc_cli.errors import InputError
from misc_cli.readers.document import Document, Record, mapping, objects, text
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.common import LOOKED_AT, Answers, kind_of_region
from misc_cli.readers.reading import CERTAIN, Match, Reader, Reading
from misc_cli.readers.values import CHOICE, OTHER, SPANS, parsed

_FLAT = ".responses"
_OLD = {"annotation", "annotation_agent"}
_IDS = ("id", "external_id", "_server_id")

Response = tuple[str, Any, Any, Any]  # question, user, value, status


def detect(document: Document) -> Match | None:
    if document.records is None:
        flat = any(f"{name}.users" in document.names for name in document.names)
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
    """Return whether these are version 2's lists by question, or version 1's objects."""
    if isinstance(value, dict):
        return all(isinstance(given, list) for given in value.values())
    return isinstance(value, list) and all("values" in one for one in objects(value))


def _is_feedback(value: Any) -> bool:
    found = objects(value)
    return bool(found) and all({"user_id", "value", "status"} <= set(one) for one in found)


def read(document: Document, options: ReadOptions) -> Reading:
    found = Answers(document, "user_id", "id", "{}.value")
    records = _from_table(document) if document.records is None else document.records
    for row, record in enumerate(_rows(records)):
        responses = list(_responses(document, row, record))
        if not responses:
            found.aside("not annotated", row)
        for question, user, value, given in responses:
            status = text(given).lower()
            if status not in ("", "submitted", "validated"):
                found.aside(status, row)
            elif value is None or value == "":
                found.aside("empty", row)
            elif isinstance(value, list) and not any(isinstance(v, dict | list) for v in value):
                found.said(question, user, _item(record, row), value, row)
            else:
                found.answer(question, user, _item(record, row), text(value), row, _kind(value))
    return found.inferred()


def _kind(value: Any) -> str:
    """Return the kind of one value that is no list of plain options."""
    if not isinstance(value, dict | list):
        return CHOICE
    spans = isinstance(value, list) and any(
        isinstance(one, list) or kind_of_region(one) for one in value
    )
    return SPANS if spans else OTHER


def _responses(document: Document, row: int, record: Record) -> Iterator[Response]:
    flat = [key for key in record if key.endswith(_FLAT) and f"{key}.users" in record]
    given = record.get("responses")
    if flat:
        for key in flat:
            yield from _flat(document, row, record, key)
    elif isinstance(given, list):
        for response in objects(given):
            for question, value in mapping(response.get("values")).items():
                value = value.get("value") if isinstance(value, dict) else value
                yield question, response.get("user_id"), value, response.get("status")
    elif set(record) >= _OLD:
        value, status = record["annotation"], record.get("status")
        if value is not None or text(status).lower() == "discarded":
            yield "annotation", record["annotation_agent"], value, status
    else:
        questions = given if isinstance(given, dict) else record
        for question, value in questions.items():
            if questions is given or _is_feedback(value):
                for one in objects(value):
                    yield question, one.get("user_id"), one.get("value"), one.get("status")


def _flat(document: Document, row: int, record: Record, key: str) -> Iterator[Response]:
    """Yield the responses of parallel lists of values, users and states."""
    values, users = record[key] or [], record[f"{key}.users"] or []
    states = record.get(f"{key}.status") or [""] * (len(users) if isinstance(users, list) else 0)
    lists = all(isinstance(one, list) for one in (values, users, states))
    if not lists or not len(values) == len(users) == len(states):
        raise InputError(
            f"{document.name}, record {row + 1}: {key} and {key}.users should be lists of the same "
            "length; export it again"
        )
    for value, user, state in zip(values, users, states, strict=True):
        yield key.removesuffix(_FLAT), user, value, state


def _item(record: Record, row: int) -> str:
    for key in _IDS:
        if record.get(key) not in (None, ""):
            return text(record[key])
    fields = mapping(record.get("fields")) or record
    plain = record.get("text", next(iter(fields.values()), None))
    return plain if isinstance(plain, str) and plain else str(row + 1)


def _rows(records: list[Record]) -> list[Record]:
    """Return the rows of to_dict(), which writes a list per column; other records as they are."""
    if len(records) != 1 or not all(isinstance(value, list) for value in records[0].values()):
        return records
    (columns,) = records
    if len({len(value) for value in columns.values()}) != 1 or "id" not in columns:
        return records
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _from_table(document: Document) -> list[Record]:
    """Return the rows of CSV, whose lists are JSON or as Python prints them."""
    names = document.names
    keys = [name for name in names if name.endswith(_FLAT) and f"{name}.users" in names]
    lists = [n for n in names if any(n == key or n.startswith(f"{key}.") for key in keys)]
    wanted = [*(name for name in (*_IDS, "text") if name in names), *lists]
    cells = [column.to_pylist() for column in document.columns(wanted)]
    return [
        {
            name: parsed(row[at].strip()) if name in lists else row[at]
            for at, name in enumerate(wanted)
        }
        for row in zip(*cells, strict=True)
    ]


READER = Reader(
    name="argilla",
    title="Argilla records",
    explain="worker is user_id (annotation_agent), item is id, a question its name; only submitted "
    "responses count, suggestions and predictions are no answers",
    detect=detect,
    read=read,
)
