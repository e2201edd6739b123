"""Several answers within one JSON object, and objects around all answers.

    {"id": 1, "annotations": [{"annotator": "a", "label": "x"}, …]}      a list of objects
    {"id": 1, "annotators": ["a", "b"], "labels": ["x", "y"]}            parallel lists
    {"id": 1, "annotators": {"a": "x", "b": "y"}}                        a worker for each key
    {"id": 1, "labels": ["x", "x", "y"]}                                 votes of nobody
    {"data": [{…}, {…}]}, {"post 1": {…}, "post 2": {…}}                 all within one object

Each becomes flat records, one per answer; what the columns then mean is found as in any table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from misc_cli.errors import InputError
from misc_cli.readers.columns import Refusal
from misc_cli.readers.document import Document, Record, flat, flat_table, text
from misc_cli.readers.layouts.wide import looks_like_items, looks_like_workers
from misc_cli.readers.values import is_number, keys_within, parsed
from misc_cli.readers.vocabulary import (
    ABOUT,
    SYNONYMS,
    find_roles,
    names_in,
    normalise,
    singular,
    words_of,
)

LOOKED_AT = 200
_WORKER = {"worker": SYNONYMS["worker"]}
_WORKER_KEYS = names_in("annotators raters workers byannotator byworker byrater users")
_ANSWER_KEYS = names_in("""
annotations labels votes answers judgments judgements ratings responses crowdlabels label annotation
vote predictions outputs annotatorlabels workerlabels oldlabels rawlabels alllabels rawannotations
""")
OUTER, INNER = "outer key", "inner key"

Answers = Callable[[Record], Iterable[Record]]  # of one object: its answers' own fields


@dataclass(frozen=True)
class Exploded:
    """One flat record per answer.

    anonymous  the lists hold votes and no names
    nested     whether each object had several answers; else all were within one object
    """

    document: Document
    why: str
    anonymous: bool = False
    nested: bool = True


def explode(document: Document, label_col: str | None = None) -> Exploded | None:
    """Return the answers within each object; None if every object is one answer already."""
    outer = document.records or []
    records, origin = _first_level(unwrapped(outer))
    if label_col is not None and label_col in _fields(records, _is_values):
        found: _Found | None = _anonymous(label_col)
    else:
        attempts = (_objects, _parallel, _keyed, _votes)
        found = next(filter(None, (find(document.name, records) for find in attempts)), None)
    if found is not None:
        return _spread(document, records, origin, found)
    if records is outer or origin is not None:
        return None
    return Exploded(_document(document, records), "a list within an object", nested=False)


@dataclass(frozen=True)
class _Found:
    """A place of answers: the fields that hold them, how one object's are got, and why."""

    fields: Sequence[str]
    answers: Answers
    why: str
    anonymous: bool = False


def _spread(
    document: Document, records: Sequence[Record], origin: Sequence[int] | None, found: _Found
) -> Exploded:
    """Return one record for each answer; lines are counted in the records that they came from."""
    flat_records, rows = [], []
    names = [key for key in _keys(records[:LOOKED_AT]) if key not in found.fields]
    items = [names[at] for at in find_roles(names, {"item": [*SYNONYMS["item"], {"id"}]})["item"]]
    is_named = any(len({text(r.get(n)) for r in records}) == len(records) for n in items)
    for row, record in enumerate(records):
        outer = {key: value for key, value in record.items() if key not in found.fields}
        if found.anonymous and not is_named:
            outer = {"item_id": str(row + 1)}  # whatever it is, the votes are about it
        for answer in found.answers(record):
            flat_records.append(_merged(outer, answer))
            rows.append(row if origin is None else origin[row])
    return Exploded(_document(document, flat_records, rows), found.why, found.anonymous)


def _document(outer: Document, records: list[Record], rows: list[int] | None = None) -> Document:
    table = flat_table(records)
    if rows is not None:
        of_outer = outer.table.lines_of if outer.records is None else table.lines_of
        table = replace(table, lines_of=lambda inner: of_outer([rows[row] for row in inner]))
    return Document(outer.name, outer.format, lambda: table, records)


def _first_level(records: list[Record]) -> tuple[list[Record], list[int] | None]:
    """Return objects within a list as records, where lists of answers are within those.

    {"article": …, "sentences": [{"sentence": …, "responses": [{"worker_id": …}, …]}, …]}: an item
    is a place in the outer list.
    """
    fields = _fields(records, is_objects)
    for field in fields if len(fields) == 1 else ():
        within = [one for record in records[:LOOKED_AT] for one in record.get(field) or []]
        lists = _fields(within, is_objects)
        keys = {key for one in within for inner in lists for o in one.get(inner) or [] for key in o}
        if len(lists) == 1 and find_roles(sorted(keys), _WORKER)["worker"]:
            found = [
                (row, {"item_id": f"{row + 1}.{at + 1}", **one})
                for row, record in enumerate(records)
                for at, one in enumerate(record.get(field) or [])
                if isinstance(one, dict)
            ]
            return [one for _, one in found], [row for row, _ in found]
    return records, None


def unwrapped_document(document: Document) -> Document:
    """Return the records within a single outer object; any other document as it is."""
    records = unwrapped(document.records or [])
    if document.records is None or records is document.records:
        return document
    return _document(document, records)


def explode_cells(document: Document, label_col: str | None = None) -> Exploded | None:
    """Return lists in cells: of workers and labels ("a;b" and "x;y"), or of votes ([0, 1, 1])."""
    names = document.names
    if len(set(names)) < len(names):
        return None
    lists = {name: _separator(document.sampled(name)) for name in names}
    if label_col is not None:
        lists = {name: found for name, found in lists.items() if name == label_col}
    workers = [
        n for n in lists if label_col is None and find_roles([singular(n)], _WORKER)["worker"]
    ]
    separator = lists[workers[0]] if len(workers) == 1 else None if workers else "json"
    beside = [name for name, found in lists.items() if found == separator]
    if separator is None or not beside:
        return None
    columns = [column.to_pylist() for column in document.table.fetch(range(len(names)))]
    records: list[Record] = [dict(zip(names, r, strict=True)) for r in zip(*columns, strict=True)]
    for record in records:
        record.update({name: _split(record[name], separator) for name in beside})
    find = _parallel if workers else _votes
    found = _anonymous(label_col) if label_col else find(document.name, records)
    return None if found is None else _spread(document, records, None, found)


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


def _split(cell: str, separator: str) -> list[str]:
    inner = parsed(cell) if separator == "json" else cell.split(separator)
    return [text(one).strip() for one in inner] if isinstance(inner, list) else [cell]


def _is_values(value: Any) -> bool:
    return isinstance(value, list) and not any(isinstance(one, dict) for one in value)


def _fields(records: Sequence[Record], test: Callable[[Any], bool]) -> list[str]:
    """Return keys that pass a test wherever they are filled, in the first records."""
    first = records[:LOOKED_AT]
    keys = dict.fromkeys(key for record in first for key in record)
    filled = {key: [r[key] for r in first if r.get(key) not in (None, [], {})] for key in keys}
    return [key for key, values in filled.items() if values and all(map(test, values))]


def _objects(name: str, records: Sequence[Record]) -> _Found | None:
    """Find a list of objects, each with its worker."""
    found = []
    for field in _fields(records, is_objects):
        inner = (flat(one) for record in records[:LOOKED_AT] for one in record.get(field) or [])
        within, outer = find_roles(_keys(inner)), find_roles(list(records[0]))
        if within["worker"] or (outer["worker"] and within["item"] and within["label"]):
            found.append(field)
    if len(found) > 1:
        raise InputError(
            f"{name}: {' and '.join(map(repr, found))} each hold lists of answers; "
            "keep one of them, or export a flat table"
        )

    def answers(record: Record) -> Iterable[Record]:
        inner = record.get(found[0])
        return [one for one in inner if isinstance(one, dict)] if isinstance(inner, list) else []

    why = f"a list of objects, {''.join(found)!r}, one for each answer"
    return _Found(found, answers, why) if found else None


def _keys(objects: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(key for one in objects for key in one))


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
    if "id" in kept and not find_roles([*inner, *kept], {"item": SYNONYMS["item"][:3]})["item"]:
        names["id"] = "item_id"
    return names


def _parallel(name: str, records: Sequence[Record]) -> _Found | None:
    """Find lists of equal length, one of them of workers."""
    fields = _fields(records, _is_values)
    workers = find_roles([singular(field) for field in fields], _WORKER)["worker"]
    if len(workers) != 1 or len(fields) < 2:
        return None
    field = fields[workers[0]]
    lengths = {f: [len(r.get(f) or ()) for r in records] for f in fields}
    beside = [other for other in fields if lengths[other] == lengths[field] and other != field]
    if not beside:
        raise InputError(
            f"{name}: {fields[0]!r} and {fields[1]!r} are lists of different lengths; nobody knows "
            "whose answer is whose"
        )
    roles = {other: singular(other) for other in (field, *beside)}
    if not find_roles(list(roles.values()))["label"]:
        answered = [other for other in beside if not words_of(other) & ABOUT]
        if len(answered) == 1:
            roles[answered[0]] = "label"  # whatever it is called, it is all that was answered
        elif find_roles(list(records[0]))["label"]:
            raise InputError(
                f"{name}: {field!r} lists workers and none of {', '.join(map(repr, beside))} what "
                "each of them answered, beside one label for all; export each worker's answer"
            )

    def answers(record: Record) -> Iterable[Record]:
        lists = zip(*(record.get(other) or [] for other in roles), strict=True)
        return [dict(zip(roles.values(), values, strict=True)) for values in lists]

    return _Found(list(roles), answers, f"parallel lists, {', '.join(map(repr, roles))}")


def _keyed(name: str, records: Sequence[Record]) -> _Found | None:
    """Find an object whose keys are workers."""
    for field in _fields(records, lambda value: isinstance(value, dict)):
        inner = [record[field] for record in records[:LOOKED_AT] if record.get(field)]
        values = [value for one in inner for value in one.values()]
        objects = all(isinstance(value, dict) and _names_label(value) for value in values)
        if not objects and any(isinstance(value, dict | list) for value in values):
            continue
        keys, plain = _keys(inner), normalise(field)
        is_answers = plain in (*_ANSWER_KEYS, "models") and looks_like_workers(keys)
        if len(keys) > 1 and (plain in _WORKER_KEYS or is_answers):

            def answers(record: Record, field: str = field) -> Iterable[Record]:
                said = (record.get(field) or {}).items()
                return [
                    {**(a if isinstance(a, dict) else {"label": a}), "worker": w} for w, a in said
                ]

            return _Found([field], answers, f"a worker for each key of {field!r}")
    return None


def _names_label(value: Record) -> bool:
    roles = find_roles(list(value))
    return bool(roles["label"]) and not roles["worker"]


def _votes(name: str, records: Sequence[Record]) -> _Found | None:
    """Find a list of labels without names; only if it must be votes: a set has nothing twice."""
    names = _keys(map(flat, records[:LOOKED_AT]))
    if find_roles(names, _WORKER)["worker"]:
        return None
    fields = [f for f in _fields(records, _is_values) if normalise(f) in _ANSWER_KEYS]
    counted = [name for name in names if words_of(name.partition(".")[0]) & {"counter", "counts"}]
    if counted and fields:
        counter = counted[0].partition(".")[0]
        raise Refusal(
            f"{name}: votes stand in {fields[0]!r} and, counted, in {counter!r}: which are meant? "
            "Name them with --label-col",
            [{"layout": "counts", "label_col": f"{counter}.*"}],
        )
    voted = [field for field in _fields(records, _is_values) if _are_votes(records, field)]
    voted.sort(key=lambda field: -sum(len(record.get(field) or []) for record in records))
    if len(voted) > 1 and len(records) > 1:
        raise Refusal(
            f"{name}: lists of votes stand in {', '.join(map(repr, voted[:8]))}; pick one with "
            "--label-col",
            [{"label_col": field} for field in voted],
        )
    return _anonymous(voted[0]) if voted and voted[0] in fields else None


def _are_votes(records: Sequence[Record], field: str) -> bool:
    """Return whether lists are votes, of three or more: not sets, and of few values."""
    lists = [record.get(field) or [] for record in records[:LOOKED_AT]]
    values = [text(value) for own in lists for value in own]
    if not values or any(value.startswith(("[", "{")) for value in values):
        return False
    is_repeated = any(len(set(own)) < len(own) > 2 for own in lists)
    return is_repeated and len(set(values)) <= 20 and not words_of(field) & {"id", "ids", "tokens"}


def _anonymous(field: str) -> _Found:
    def answers(record: Record) -> Iterable[Record]:
        said = enumerate(record.get(field) or [], start=1)
        return [{"worker": f"answer {at}", "label": label} for at, label in said]

    return _Found([field], answers, f"a list of votes, {field!r}, without names", anonymous=True)


def has_lists(records: Sequence[Record]) -> bool:
    """Return whether objects hold lists of objects: a format of the user's own."""
    first = list(records[:LOOKED_AT])
    return any(is_objects(value) and set(keys_within(value)) for r in first for value in r.values())


def is_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def unwrapped(records: list[Record]) -> list[Record]:
    """Return the list of objects that a single outer object wraps, as in {"data": [{…}, {…}]}."""
    for _ in range(5):
        if len(records) != 1:
            return _without_store(records) if records else records
        (outer,) = records
        table = _as_table(outer) or _by_key(outer) or _by_two_keys(outer)
        if table is not None:
            return table
        values = list(outer.values())
        lists = [value for value in values if is_objects(value) and len(value) > 1]
        if len(values) == 1 and isinstance(values[0], dict):
            inner = values[0]
            is_map = len(inner) > 1 and all(
                isinstance(v, dict | list) and v for v in inner.values()
            )
            if is_map or not find_roles(list(inner))["label"]:
                records = [inner]  # {"annotations": {…}}, {"data": {"answers": …}}
                continue
        named = find_roles(list(outer), {"item": [*SYNONYMS["item"], {"id"}]})["item"]
        if len(lists) != 1 or named:
            break
        records = lists[0]
    return records


# How stores write what kind a value is: DynamoDB's and MongoDB's.
_TYPED = ("S", "N", "BOOL", "$oid", "$numberLong", "$numberInt", "$date")


def _without_store(records: list[Record]) -> list[Record]:
    """Return answers that a store wraps one by one: Elasticsearch's _source, Django's fields.

    It is the only object of each record that itself names a worker, an item and a label.
    """
    for key, value in records[0].items():
        is_answer = isinstance(value, dict) and all(find_roles([*flat(_untyped(value))]).values())
        if is_answer and all(isinstance(record.get(key), dict) for record in records):
            return [_untyped(record[key]) for record in records]
    return records


def _untyped(record: Record) -> Record:
    def plain(value: Any) -> Any:
        if isinstance(value, dict) and len(value) == 1 and next(iter(value)) in _TYPED:
            return next(iter(value.values()))
        return value

    return {name: plain(value) for name, value in record.items()}


def _are_filled(values: Sequence[Any], kind: type) -> bool:
    return len(values) > 1 and all(isinstance(value, kind) and value for value in values)


def _as_table(outer: Record) -> list[Record] | None:
    """Return a data frame as pandas writes it column by column, or split into columns and data."""
    columns, data = outer.get("columns"), outer.get("data")
    if isinstance(columns, list) and isinstance(data, list):
        if all(isinstance(row, list) and len(row) == len(columns) for row in data):
            return [dict(zip(map(str, columns), row, strict=True)) for row in data]
        return None
    values = list(outer.values())
    if not _are_filled(values, dict) or not find_roles(list(outer))["label"]:
        return None
    keys = list(values[0])
    inner = [one for value in values for one in value.values()]
    if any(list(v) != keys for v in values) or any(isinstance(one, dict | list) for one in inner):
        return None
    return [{name: value[key] for name, value in outer.items()} for key in keys]


def _by_key(outer: Record) -> list[Record] | None:
    """Return objects or lists of one form that stand under keys: {"post 1": {…}, "post 2": {…}}.

    The key is the item, unless the objects name it or are answers that the key only counts.
    """
    values = list(outer.values())
    if _are_filled(values, list):
        return _lists_by_key(outer)
    if not _are_filled(values, dict):
        return None
    common = sorted(set(values[0]).intersection(*values[:50]))
    several = [key for key in common if all(isinstance(v.get(key), dict | list) for v in values)]
    roles = find_roles([singular(key) for key in common])
    if not several and roles["worker"] and find_roles(common)["worker"]:
        return values if roles["label"] else None  # annotator, not annotators
    holds_answers = bool(roles["worker"]) or any(
        is_objects(values[0][key]) or normalise(key) in _ANSWER_KEYS for key in several
    )
    if not holds_answers and not _are_alike(values, common, several):
        return None
    if find_roles(common, {"item": [*SYNONYMS["item"][:4], {"id"}]})["item"]:  # not by its text
        return values
    return [{"item_id": key, **value} for key, value in outer.items()]


def _are_alike(values: Sequence[Record], common: Sequence[str], several: Sequence[str]) -> bool:
    """Return whether objects have the same fields, some of them lists, objects or long texts."""
    if len(values) < 3 or len(common) < 2 or 2 * len(common) < len(values[0]):
        return False
    inner = [one for value in values[:50] for one in value.values()]
    if all(isinstance(one, dict) and find_roles(list(one))["label"] for one in inner):
        return False  # a label for each of two keys
    return bool(several) or any(len(str(v[key])) > 40 for v in values[:20] for key in common)


def _lists_by_key(outer: Record) -> list[Record] | None:
    """{"post 1": [{"annotator": "a", "label": "x"}, …], …}, or with nothing but the labels."""
    values = list(outer.values())
    if find_roles([singular(key) for key in outer])["label"]:
        return None  # columns of a table
    every = [one for value in values for one in value]
    if all(map(is_objects, values)):
        is_told = bool(find_roles(sorted(_keys(every)))["worker"])
    else:  # numbers are votes, or how many there were for each class
        is_plain = not any(isinstance(one, dict | list) for one in every)
        is_told = is_plain and not all(is_number(text(one)) for one in every)
    return [{"item": key, "answers": own} for key, own in outer.items()] if is_told else None


def _by_two_keys(outer: Record) -> list[Record] | None:
    """{item: {worker: label}}, or the other way round; what nothing tells is the user's to say."""
    values = list(outer.values())
    if not _are_filled(values, dict):
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
