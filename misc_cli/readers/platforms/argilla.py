"""Argilla, records as JSON or Parquet: responses by question (version 1: by user), or flat."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from misc_cli.readers.document import Document, Record, mapping, objects, text
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.export import PLAIN, Export, kind_of_region, of_records
from misc_cli.readers.reading import Reader, Reading
from misc_cli.readers.values import CHOICE, OTHER, SPANS

_FLAT = ".responses"
_IDS = ("id", "external_id", "_server_id", "text")

Response = tuple[str, Any, Any, Any]  # question, user, value, status


@of_records
def detect(record: Record) -> str | None:
    if any(f"{key}.users" in record for key in record if key.endswith(_FLAT)):
        return "question.responses.users"
    given = record.get("responses")
    by_question = isinstance(given, dict) and all(map(_is_list, given.values()))
    if "fields" in record and (by_question or any("values" in one for one in objects(given))):
        return "fields and responses"
    if any(_is_feedback(value) for value in record.values()):
        return "responses with user_id, value and status"
    return None


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_feedback(value: Any) -> bool:
    found = objects(value)
    return bool(found) and all({"user_id", "value", "status"} <= set(one) for one in found)


def read(document: Document, options: ReadOptions) -> Reading:
    export = Export(document, options, "user_id", "id", "{}.value")
    for record in export.records(_rows(document.records or [])):
        responses = list(_responses(export, record))
        fields = mapping(record.get("fields"))
        names = (*(record.get(key) for key in _IDS), *list(fields.values())[:1], export.row + 1)
        item = next(name for name in names if name not in (None, ""))
        if not responses:
            export.aside("not annotated")
        for question, user, value, given in responses:
            status = text(given).lower()
            if status not in ("", "submitted"):
                export.aside(status)
            elif value in (None, ""):
                export.aside("empty")
            else:
                export.answer(question, user, item, value, _kind(value))
    return export.reading()


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        return OTHER
    if not isinstance(value, list):
        return PLAIN
    if any(isinstance(one, list) or kind_of_region(one) for one in value):
        return SPANS
    return OTHER if any(isinstance(one, dict) for one in value) else CHOICE


def _responses(export: Export, record: Record) -> Iterator[Response]:
    flat = [key for key in record if key.endswith(_FLAT) and f"{key}.users" in record]
    for key in flat:
        values, users, states = (record.get(key + end) or [] for end in ("", ".users", ".status"))
        states = states or ([""] * len(users))
        if not all(map(_is_list, (values, users, states))) or not (
            len(values) == len(users) == len(states)
        ):
            raise export.error(
                f"{key} and {key}.users should be lists of the same length; export it again"
            )
        for value, user, state in zip(values, users, states, strict=True):
            yield key.removesuffix(_FLAT), user, value, state
    given = record.get("responses")
    for response in objects(given):  # version 1: all answers of one user
        for question, value in mapping(response.get("values")).items():
            value = value.get("value") if isinstance(value, dict) else value
            yield question, response.get("user_id"), value, response.get("status")
    questions = given if isinstance(given, dict) else {} if flat else record
    for question, value in questions.items():
        if questions is given or _is_feedback(value):
            for one in objects(value):
                yield question, one.get("user_id"), one.get("value"), one.get("status")


def _rows(records: list[Record]) -> list[Record]:
    """Return the rows of to_dict(), which writes a list per column; other records as they are."""
    if len(records) != 1 or "id" not in records[0]:
        return records
    columns = records[0].values()
    if not all(map(_is_list, columns)) or len(set(map(len, columns))) != 1:
        return records
    return [dict(zip(records[0], row, strict=True)) for row in zip(*columns, strict=True)]


READER = Reader("argilla", "Argilla records", detect, read)
