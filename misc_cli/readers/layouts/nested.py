"""Several answers within one JSON object, and objects around all answers.

    {"id": 1, "annotations": [{"annotator": "a", "label": "x"}, …]}      a list of objects
    {"id": 1, "annotators": ["a", "b"], "labels": ["x", "y"]}            parallel lists
    {"id": 1, "annotators": {"a": "x", "b": "y"}}                        a worker for each key
    {"data": [{…}, {…}]}, {"post 1": {…}, "post 2": {…}}                 all within one object

Each becomes flat records, one per answer; what the columns then mean is found as in any table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from misc_cli.errors import InputError
from misc_cli.readers.columns import Refusal
from misc_cli.readers.document import Document, Record, flat, flat_table, text
from misc_cli.readers.layouts.wide import looks_like_items, looks_like_workers
from misc_cli.readers.values import is_number, keys_within, parsed
from misc_cli.readers.vocabulary import ABOUT, SYNONYMS, find_roles, normalise, singular, words_of

LOOKED_AT = 200
_WORKER = {"worker": SYNONYMS["worker"]}
_ITEM = {"item": SYNONYMS["item"][:3]}
_WORKER_KEYS = ("annotators", "raters", "workers", "byannotator", "byworker", "byrater", "users")


@dataclass(frozen=True)
class Exploded:
    """One flat record per answer.

    anonymous  the lists hold votes and no names
    field      the list that the user named
    nested     whether each object had several answers; else all were within one object
    """

    document: Document
    why: str
    anonymous: bool = False
    field: str | None = None
    nested: bool = True


def explode_field(document: Document, field: str | None) -> Exploded | None:
    """Return the votes of a list that the user names as the label; None if it is no list."""
    records = unwrapped(document.records or [])
    if field is None or field not in _fields(records, _is_values):
        return None
    found = _anonymous(records, field)
    assert found is not None
    inner = _document(document, found[0], found[1])
    return Exploded(inner, found[2], anonymous=True, field=field)


def explode(document: Document) -> Exploded | None:
    """The answers within each object; None if every object is one answer already."""
    records = unwrapped(document.records or [])
    records, origin = _first_level(records)
    for attempt in (_objects, _parallel, _keyed, _votes):
        found = attempt(document.name, records)
        if found is not None:
            flat_records, rows, why = found
            rows = rows if origin is None else [origin[row] for row in rows]
            inner = _document(document, flat_records, rows)
            return Exploded(inner, why, anonymous=attempt is _votes)
    if records is document.records or origin is not None:
        return None
    return Exploded(_document(document, records, None), "a list within an object", nested=False)


def _first_level(records: list[Record]) -> tuple[list[Record], list[int] | None]:
    """Return objects within a list as records, where lists of answers are within those.

    {"article": …, "sentences": [{"sentence": …, "responses": [{"worker_id": …}, …]}, …]}: an item
    is a place in the outer list.
    """
    for field in _fields(records, is_objects):
        within = [one for record in records[:LOOKED_AT] for one in record.get(field) or []]
        lists = _fields(within, is_objects)
        keys = {key for one in within for inner in lists for o in one.get(inner) or [] for key in o}
        if len(lists) == 1 and find_roles(sorted(keys), _WORKER)["worker"]:
            found, rows = [], []
            for row, record in enumerate(records):
                for at, one in enumerate(record.get(field) or []):
                    if isinstance(one, dict):
                        found.append({"item_id": f"{row + 1}.{at + 1}", **one})
                        rows.append(row)
            return found, rows
    return records, None


def unwrapped_document(document: Document) -> Document:
    """Return the records within a single outer object; any other document as it is."""
    records = unwrapped(document.records or [])
    if document.records is None or records is document.records:
        return document
    return _document(document, records, None)


def explode_cells(document: Document) -> Exploded | None:
    """Parallel lists in the cells of a table: item,workers,labels with "a;b;c" and "x;y;x"."""
    names = document.names
    workers = [n for n in names if find_roles([singular(n)], _WORKER)["worker"]]
    lists = {name: _separator(document.sampled(name)) for name in dict.fromkeys(names)}
    if not workers:
        return _votes_in_cells(document, lists)
    if len(workers) != 1 or names.count(workers[0]) > 1:
        return None
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


def _votes_in_cells(document: Document, lists: Mapping[str, str | None]) -> Exploded | None:
    """Read [0, 1, 1] in a cell: votes of nobody, where a label comes twice in one."""
    fields = [name for name, found in lists.items() if found == "json"]
    fields = [name for name in fields if normalise(name) in ANSWER_KEYS]
    if len(fields) != 1 or len(document.names) != len(set(document.names)):
        return None
    cells = [split_cell(cell, "json") for cell in document.sampled(fields[0])]
    if not any(len(set(cell)) < len(cell) for cell in cells):
        return None
    columns = [column.to_pylist() for column in document.table.fetch(range(len(document.names)))]
    records = [dict(zip(document.names, row, strict=True)) for row in zip(*columns, strict=True)]
    for record in records:
        record[fields[0]] = split_cell(record[fields[0]], "json")
    found = _anonymous(records, fields[0])
    assert found is not None
    table = flat_table(found[0])
    rows = found[1]
    table = replace(table, line=lambda row: document.table.line(rows[row]))
    return Exploded(Document(document.name, document.format, lambda: table), found[2], True)


def _separator(cells: Sequence[str]) -> str | None:
    """Return the separator of names in the cells of a column: "json" for lists, or a character."""
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
    """Return one answer: its own fields, and its task's; the task's `id` is the item's.

    A task's own label or annotator (a majority's, a curator's) is nobody's answer.
    """
    renamed = _names_beside(tuple(outer), tuple(inner))
    return {**{renamed.get(key, key): value for key, value in outer.items()}, **inner}


@lru_cache(maxsize=256)
def _names_beside(outer: tuple[str, ...], inner: tuple[str, ...]) -> dict[str, str]:
    """Return new names for a task's fields that its answers have themselves, and for its id."""
    within = find_roles(inner)
    own = {key: find_roles([key]) for key in outer}
    taken = {
        k for k, found in own.items() if any(found[r] and within[r] for r in ("worker", "label"))
    }
    names = {key: f"{key} (consensus)" for key in outer if key in taken or key in inner}
    kept = [names.get(key, key) for key in outer]
    if "id" in kept and not find_roles([*inner, *kept], _ITEM)["item"]:
        names["id"] = "item_id"
    return names


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
    """Return a list of labels without names; only if it must be votes: a set has nothing twice."""
    names = list(dict.fromkeys(key for record in records[:LOOKED_AT] for key in flat(record)))
    if find_roles(names, _WORKER)["worker"]:
        return None
    fields = [f for f in _fields(records, _is_values) if normalise(f) in ANSWER_KEYS]
    counted = [name for name in names if words_of(name.partition(".")[0]) & {"counter", "counts"}]
    if counted and fields:
        counter = counted[0].partition(".")[0]
        raise Refusal(
            f"{name}: votes stand in {fields[0]!r} and, counted, in {counter!r}; say --layout "
            f"counts --label-col '{counter}.*' or --label-col {fields[0]}",
            [{"layout": "counts", "label_col": f"{counter}.*"}],
        )
    fields = [
        f for f in fields if not any(isinstance(v, list) for r in records for v in r.get(f) or [])
    ]
    if len(fields) != 1:
        return None
    lists = [record.get(fields[0]) or [] for record in records]
    if not any(len(set(values)) < len(values) for values in lists):
        return None
    return _anonymous(records, fields[0])


def _anonymous(records: Sequence[Record], field: str) -> Found:
    flat_records, rows = [], []
    for row, record in enumerate(records):
        outer = {key: value for key, value in record.items() if key != field}
        for at, label in enumerate(record.get(field) or [], start=1):
            flat_records.append(_merged(outer, {"worker": f"answer {at}", "label": label}))
            rows.append(row)
    return flat_records, rows, f"a list of votes, {field!r}, without names"


def has_lists(records: Sequence[Record]) -> bool:
    """Tell whether objects hold lists of objects: a format of the user's own."""
    first = list(records[:LOOKED_AT])
    return any(is_objects(value) and set(keys_within(value)) for r in first for value in r.values())


ANSWER_KEYS = (
    *("annotations", "labels", "votes", "answers", "judgments", "judgements", "ratings"),
    *("responses", "crowdlabels", "label", "annotation", "vote", "predictions", "outputs"),
    *("annotatorlabels", "workerlabels", "oldlabels", "rawlabels", "alllabels", "rawannotations"),
)
OUTER, INNER = "outer key", "inner key"


def is_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def unwrapped(records: list[Record]) -> list[Record]:
    """The list of objects that a single outer object wraps, as in {"data": [{…}, {…}]}."""
    for _ in range(5):
        if len(records) != 1:
            return _without_store(records) if records else records
        (outer,) = records
        table = _as_table(outer) or _by_key(outer) or _records_by_key(outer)
        table = table or _lists_by_key(outer) or _by_two_keys(outer)
        if table is not None:
            return table
        lists = [value for value in outer.values() if is_objects(value) and len(value) > 1]
        maps = [value for value in outer.values() if _is_map(value)]
        only = next(iter(outer.values())) if len(outer) == 1 else None
        if isinstance(only, dict) and (maps or not find_roles(list(only))["label"]):
            records = [only]  # {"annotations": {…}}, {"data": {"answers": …}}
            continue
        if len(lists) != 1 or find_roles(list(outer), {"item": SYNONYMS["item"]})["item"]:
            break
        if "id" in outer:
            break
        records = lists[0]
    return records


# How stores write what kind a value is: DynamoDB's and MongoDB's.
_TYPED = ("S", "N", "BOOL", "$oid", "$numberLong", "$numberInt", "$date")


def _without_store(records: list[Record]) -> list[Record]:
    """Answers that a store wraps one by one: Elasticsearch's _source, Django's fields, a node.

    It is the only object of each record that itself names a worker, an item and a label.
    """
    wraps = [key for key, value in records[0].items() if isinstance(value, dict)]
    wraps = [key for key in wraps if _is_answer(records[0][key])]
    if len(wraps) != 1:
        return records
    (key,) = wraps
    inner = [record.get(key) for record in records]
    if not all(isinstance(one, dict) and _is_answer(one) for one in inner):
        return records
    return [{name: _untyped(value) for name, value in one.items()} for one in inner if one]


def _is_answer(value: Record) -> bool:
    names = list(flat({name: _untyped(inner) for name, inner in value.items()}))
    return all(find_roles(names).values())


def _untyped(value: Any) -> Any:
    if isinstance(value, dict) and len(value) == 1:
        ((kind, inner),) = value.items()
        return inner if kind in _TYPED else value
    return value


def _is_map(value: Any) -> bool:
    return isinstance(value, dict) and len(value) > 1 and all(map(_is_filled, value.values()))


def _is_filled(value: Any) -> bool:
    return isinstance(value, dict | list) and bool(value)


def _as_table(outer: Record) -> list[Record] | None:
    """A data frame as pandas writes it column by column, or split into columns and data."""
    columns, data = outer.get("columns"), outer.get("data")
    if isinstance(columns, list) and isinstance(data, list):
        if all(isinstance(row, list) and len(row) == len(columns) for row in data):
            return [dict(zip(map(str, columns), row, strict=True)) for row in data]
        return None
    values = list(outer.values())
    if len(values) < 2 or not all(isinstance(value, dict) and value for value in values):
        return None
    keys = list(values[0])
    if len(find_roles(list(outer))["label"]) == 0 or any(list(v) != keys for v in values):
        return None
    if any(isinstance(inner, dict | list) for value in values for inner in value.values()):
        return None
    return [{name: value[key] for name, value in outer.items()} for key in keys]


def _by_key(outer: Record) -> list[Record] | None:
    """Objects of one form, each under a key: {"post 1": {"annotators": […]}, "post 2": {…}}.

    The key is the item where each object holds several answers; else it only counts the answers.
    """
    values = list(outer.values())
    if len(values) < 2 or not all(isinstance(value, dict) and value for value in values):
        return None
    keys = set(values[0]).intersection(*values)
    several = [key for key in keys if all(isinstance(v[key], dict | list) for v in values)]
    answers = [key for key in several if normalise(key) in ANSWER_KEYS]
    roles = find_roles(sorted(map(singular, keys)))
    if not roles["worker"] and not any(is_objects(values[0][key]) for key in several):
        if not answers:
            return None
    elif not several and find_roles(sorted(keys))["worker"]:  # annotator, not annotators
        return values if roles["label"] else None
    named = find_roles(sorted(keys), {"item": SYNONYMS["item"][:4]})["item"]  # not by its text
    if named or "id" in keys:
        return values
    return [{"item_id": key, **value} for key, value in outer.items()]


def _records_by_key(outer: Record) -> list[Record] | None:
    """Return objects under their ids, {"287": {"text": …, "votes": {…}}, …}, as records."""
    values = list(outer.values())
    if len(values) < 3 or not all(isinstance(value, dict) and value for value in values):
        return None
    common = set(values[0]).intersection(*values[:50])
    if len(common) < 2 or 2 * len(common) < len(values[0]):
        return None
    inner = [one for value in values[:50] for one in value.values()]
    if all(isinstance(one, dict) and find_roles(list(one))["label"] for one in inner):
        return None  # a label for each of two keys
    kinds = {type(values[0][key]) for key in common}
    is_long = any(len(str(value[key])) > 40 for value in values[:20] for key in common)
    if not (kinds & {dict, list} or is_long):
        return None
    if find_roles(sorted(common), {"item": SYNONYMS["item"][:4]})["item"] or "id" in common:
        return values
    return [{"item_id": key, **value} for key, value in outer.items()]


def _lists_by_key(outer: Record) -> list[Record] | None:
    """{"post 1": [{"annotator": "a", "label": "x"}, …], …}, or with nothing but the labels."""
    values = list(outer.values())
    if len(values) < 2 or not all(isinstance(value, list) and value for value in values):
        return None
    if find_roles([singular(key) for key in outer])["label"]:
        return None  # columns of a table
    objects = all(map(is_objects, values))
    keys = {key for value in values[:50] for one in value if isinstance(one, dict) for key in one}
    if objects and not find_roles(sorted(keys))["worker"]:
        return None
    if not objects and any(isinstance(one, dict | list) for value in values for one in value):
        return None
    if not objects and all(is_number(text(one)) for value in values for one in value):
        return None  # votes, or how many there were for each class
    return [{"item": key, "answers": value} for key, value in outer.items()]


def _by_two_keys(outer: Record) -> list[Record] | None:
    """{item: {worker: label}}, or the other way round; what nothing tells is the user's to say."""
    values = list(outer.values())
    if len(values) < 2 or not all(isinstance(value, dict) and value for value in values):
        return None
    said = [one for value in values for one in value.values()]
    objects = all(isinstance(one, dict) and find_roles(list(one))["label"] for one in said)
    if not objects and any(isinstance(one, dict | list) for one in said):
        return None
    inner = Counter(key for value in values for key in value)
    if max(inner.values()) < 2 or any(map(bool, find_roles(list(inner)).values())):
        return None
    first, second = _told_apart(outer, inner)
    return [
        {first: key, second: within, **(said if isinstance(said, dict) else {"label": said})}
        for key, value in outer.items()
        for within, said in value.items()
    ]


def _told_apart(outer: Record, inner: Mapping[str, int]) -> tuple[str, str]:
    """Return the roles of the outer and the inner keys; inner keys may be workers or questions."""
    if looks_like_workers(list(inner)) != looks_like_workers(list(outer)):
        return ("item", "worker") if looks_like_workers(list(inner)) else ("worker", "item")
    labels = {text(label) for value in outer.values() for label in value.values()}
    if all(map(is_number, filter(None, labels))):
        return OUTER, INNER  # {"a.jpg": {"cat": 3, "dog": 1}} counts votes
    if looks_like_items(list(inner)) and not looks_like_items(list(outer)):
        return "worker", "item"
    has_gaps = any(len(value) < len(inner) for value in outer.values())  # questions have none
    if looks_like_items(list(outer)) and not looks_like_items(list(inner)) and has_gaps:
        return "item", "worker"
    return OUTER, INNER
