"""Several answers within one JSON object: lists of objects, parallel lists, a worker for each key.

    {"id": 1, "annotations": [{"annotator": "a", "label": "x"}, …]}      a list of objects
    {"id": 1, "annotators": ["a", "b"], "labels": ["x", "y"]}            parallel lists
    {"id": 1, "annotators": {"a": "x", "b": "y"}}                        a worker for each key

Each becomes flat records, one per answer; what the columns then mean is found as in any table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from misc_cli.errors import InputError
from misc_cli.readers.document import Document, Record, flat, flat_table, text
from misc_cli.readers.layouts.wide import looks_like_workers
from misc_cli.readers.unwrap import ANSWER_KEYS, is_objects, unwrapped
from misc_cli.readers.values import keys_within, parsed
from misc_cli.readers.vocabulary import ABOUT, SYNONYMS, find_roles, normalise, singular, words_of

LOOKED_AT = 200
_WORKER = {"worker": SYNONYMS["worker"]}
_ITEM = {"item": SYNONYMS["item"][:3]}
_WORKER_KEYS = ("annotators", "raters", "workers", "byannotator", "byworker", "byrater", "users")


@dataclass(frozen=True)
class Exploded:
    """One flat record per answer; `anonymous` if the lists hold votes and no names."""

    document: Document
    why: str
    anonymous: bool = False


def explode(document: Document) -> Exploded | None:
    """The answers within each object; None if every object is one answer already."""
    records = unwrapped(document.records or [])
    for attempt in (_objects, _parallel, _keyed, _votes):
        found = attempt(document.name, records)
        if found is not None:
            flat_records, rows, why = found
            inner = _document(document, flat_records, rows)
            return Exploded(inner, why, anonymous=attempt is _votes)
    if records is document.records:
        return None
    return Exploded(_document(document, records, None), "a list within an object")


def explode_cells(document: Document) -> Exploded | None:
    """Parallel lists in the cells of a table: item,workers,labels with "a;b;c" and "x;y;x"."""
    names = document.names
    workers = [n for n in names if find_roles([singular(n)], _WORKER)["worker"]]
    if len(workers) != 1 or names.count(workers[0]) > 1:
        return None
    lists = {name: _separator(document.sampled(name)) for name in dict.fromkeys(names)}
    separator = lists[workers[0]]
    if separator is None:
        return None
    beside = [n for n, found in lists.items() if found == separator]
    columns = [column.to_pylist() for column in document.table.fetch(range(len(names)))]
    records: list[Record] = [
        dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)
    ]
    for record in records:
        for name in beside:
            record[name] = split_cell(record[name], separator)
    found = _parallel(document.name, records)
    if found is None:
        return None
    flat_records, rows, why = found
    inner = flat_table(flat_records)
    table = replace(inner, line=lambda row: document.table.line(rows[row]))
    return Exploded(Document(document.name, document.format, lambda: table), why)


def _separator(cells: Sequence[str]) -> str | None:
    """What parts the names in the cells of a column: "json" for lists, else a character."""
    if not cells:
        return None
    if all(cell.startswith("[") and isinstance(parsed(cell), list) for cell in cells):
        return "json"
    for character in "|;,":
        if all(character in cell for cell in cells) and not any(" " in c.strip() for c in cells):
            return character
    return None


def split_cell(cell: str, separator: str) -> list[str]:
    inner = parsed(cell) if separator == "json" else cell.split(separator)
    return [text(one).strip() for one in inner] if isinstance(inner, list) else [cell]


def _document(outer: Document, records: list[Record], rows: list[int] | None) -> Document:
    """Flat records; lines are counted in the records that they came from."""
    table = flat_table(records)
    if rows is not None:
        table = replace(table, line=lambda row: rows[row] + 1)
    return Document(outer.name, outer.format, lambda: table, records)


Found = tuple[list[Record], list[int], str] | None


def _is_values(value: Any) -> bool:
    return isinstance(value, list) and not any(isinstance(one, dict) for one in value)


def _fields(records: Sequence[Record], test: Any) -> list[str]:
    """Keys that pass a test wherever they are filled, in the first records."""
    first = records[:LOOKED_AT]
    keys = dict.fromkeys(key for record in first for key in record)
    filled = {key: [r[key] for r in first if r.get(key) not in (None, [], {})] for key in keys}
    return [key for key, values in filled.items() if values and all(map(test, values))]


def _objects(name: str, records: Sequence[Record]) -> Found:
    """A list of objects, each with its worker."""
    found = []
    for field in _fields(records, is_objects):
        keys = list(
            dict.fromkeys(
                k for r in records[:LOOKED_AT] for o in r.get(field) or [] for k in flat(o)
            )
        )
        within, outer = find_roles(keys), find_roles(list(records[0]))
        if within["worker"] or (outer["worker"] and within["item"] and within["label"]):
            found.append(field)
    if not found:
        return None
    if len(found) > 1:
        raise InputError(
            f"{name}: {' and '.join(map(repr, found))} each hold lists of answers; "
            "keep one of them, or export a flat table"
        )
    (field,) = found
    flat_records, rows = [], []
    for row, record in enumerate(records):
        outer = {key: value for key, value in record.items() if key != field}
        inner = record.get(field)
        for one in inner if isinstance(inner, list) else []:
            if isinstance(one, dict):
                flat_records.append(_merged(outer, one))
                rows.append(row)
    return flat_records, rows, f"a list of objects, {field!r}, one for each answer"


def _merged(outer: Record, inner: Record) -> Record:
    """One answer: its own fields, and its task's; the task's `id` is the item's.

    A task's own label or annotator (a majority's, a curator's) is nobody's answer.
    """
    taken = {*inner, *(key for key in outer if is_the_tasks_own(key, inner))}
    outer = {(f"{key} (consensus)" if key in taken else key): v for key, v in outer.items()}
    if "id" in outer and not find_roles([*inner, *outer], _ITEM)["item"]:
        outer = {("item_id" if key == "id" else key): value for key, value in outer.items()}
    return {**outer, **inner}


def is_the_tasks_own(key: str, inner: Iterable[str]) -> bool:
    """Whether a task's field is named as what each of its answers has itself."""
    roles = find_roles([key])
    within = find_roles(list(inner))
    return any(roles[role] and within[role] for role in ("worker", "label"))


def _parallel(name: str, records: Sequence[Record]) -> Found:
    """Lists of equal length, one of them of workers."""
    fields = _fields(records, _is_values)
    workers = find_roles([singular(field) for field in fields], _WORKER)["worker"]
    if len(workers) != 1 or len(fields) < 2:
        return None
    field = fields[workers[0]]
    sizes = {
        other: all(_length(r, other) == _length(r, field) for r in records) for other in fields
    }
    beside = [other for other in fields if sizes[other] and other != field]
    if not beside:
        row = next(
            r
            for r, record in enumerate(records)
            if _length(record, fields[0]) != _length(record, fields[1])
        )
        raise InputError(
            f"{name}, record {row + 1}: {fields[0]!r} and {fields[1]!r} are lists of different "
            "lengths; nobody knows whose answer is whose"
        )
    roles = {other: singular(other) for other in (field, *beside)}
    if not find_roles(list(roles.values()))["label"]:
        answers = [other for other in beside if not words_of(other) & ABOUT]
        if len(answers) == 1:
            roles[answers[0]] = "label"  # whatever it is called, it is all that was answered
        elif find_roles(list(records[0]))["label"]:
            raise InputError(
                f"{name}: {field!r} lists workers and none of {', '.join(map(repr, beside))} what "
                "each of them answered, beside one label for all; export each worker's answer"
            )
    flat_records, rows = [], []
    for row, record in enumerate(records):
        outer = {key: value for key, value in record.items() if key not in roles}
        for values in zip(*(record.get(other) or [] for other in roles), strict=True):
            flat_records.append(_merged(outer, dict(zip(roles.values(), values, strict=True))))
            rows.append(row)
    return flat_records, rows, f"parallel lists, {', '.join(map(repr, roles))}"


def _length(record: Record, field: str) -> int:
    value = record.get(field)
    return len(value) if isinstance(value, list) else 0


def _keyed(name: str, records: Sequence[Record]) -> Found:
    """An object whose keys are workers."""
    for field in _fields(records, lambda value: isinstance(value, dict)):
        inner = [record[field] for record in records[:LOOKED_AT] if record.get(field)]
        values = [value for one in inner for value in one.values()]
        objects = all(isinstance(value, dict) and _names_label(value) for value in values)
        if not objects and any(isinstance(value, dict | list) for value in values):
            continue
        keys = list(dict.fromkeys(key for one in inner for key in one))
        is_workers = normalise(field) in _WORKER_KEYS
        is_answers = normalise(field) in (*ANSWER_KEYS, "models") and looks_like_workers(keys)
        if len(keys) < 2 or not (is_workers or is_answers):
            continue
        flat_records, rows = [], []
        for row, record in enumerate(records):
            outer = {key: value for key, value in record.items() if key != field}
            for who, said in (record.get(field) or {}).items():
                answer = said if isinstance(said, dict) else {"label": said}
                flat_records.append(_merged(outer, {**answer, "worker": who}))
                rows.append(row)
        return flat_records, rows, f"a worker for each key of {field!r}"
    return None


def _names_label(value: Record) -> bool:
    roles = find_roles(list(value))
    return bool(roles["label"]) and not roles["worker"]


def _votes(name: str, records: Sequence[Record]) -> Found:
    """A list of labels without names; only if it must be votes: a set has nothing twice."""
    names = list(dict.fromkeys(key for record in records[:LOOKED_AT] for key in flat(record)))
    if find_roles(names, _WORKER)["worker"]:
        return None
    fields = [f for f in _fields(records, _is_values) if normalise(f) in ANSWER_KEYS]
    fields = [
        f for f in fields if not any(isinstance(v, list) for r in records for v in r.get(f) or [])
    ]
    if len(fields) != 1:
        return None
    (field,) = fields
    lists = [list(record.get(field) or []) for record in records]
    if not any(len(set(values)) < len(values) for values in lists):
        return None
    flat_records, rows = [], []
    for row, (record, values) in enumerate(zip(records, lists, strict=True)):
        outer = {key: value for key, value in record.items() if key != field}
        for at, label in enumerate(values, start=1):
            flat_records.append(_merged(outer, {"worker": f"answer {at}", "label": label}))
            rows.append(row)
    return flat_records, rows, f"a list of votes, {field!r}, without names"


def has_lists(records: Sequence[Record]) -> bool:
    """Whether objects hold objects in lists: somebody's own format."""
    first = list(records[:LOOKED_AT])
    return any(is_objects(value) and set(keys_within(value)) for r in first for value in r.values())
