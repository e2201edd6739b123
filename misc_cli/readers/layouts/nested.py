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
from misc_cli.readers.document import Document, Record, flat, objects, table_of, text
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

# The fields that hold answers, of each object its answers' own fields, why, whether nobody's.
_Found = tuple[Sequence[str], list[list[Record]], str, bool]


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
    records = _first_level(unwrapped(outer))
    if label_col is not None and label_col in _fields(records, _is_values):
        found: _Found | None = _anonymous(records, label_col)
    else:
        attempts = (_objects, _parallel, _keyed, _votes)
        found = next(filter(None, (find(document.name, records) for find in attempts)), None)
    if found is not None:
        return _spread(document, records, found)
    if records is outer:
        return None
    return Exploded(_document(document, records), "a list within an object", nested=False)


def _spread(document: Document, records: Sequence[Record], found: _Found) -> Exploded:
    """Return one record for each answer; lines are counted in the records that they came from."""
    fields, answers, why, anonymous = found
    flat_records, rows = [], []
    names = [key for key in _keys(records[:LOOKED_AT]) if key not in fields]
    items = [names[at] for at in find_roles(names, {"item": [*SYNONYMS["item"], {"id"}]})["item"]]
    is_named = any(len({text(r.get(n)) for r in records}) == len(records) for n in items)
    for row, (record, own) in enumerate(zip(records, answers, strict=True)):
        outer = {key: value for key, value in record.items() if key not in fields}
        if anonymous and not is_named:
            outer = {"item_id": str(row + 1)}  # whatever it is, the votes are about it
        for answer in own:
            renamed = _names_beside(tuple(outer), tuple(answer))
            task = {renamed.get(key, key): value for key, value in outer.items()}
            flat_records.append({**task, **answer})
            rows.append(row)
    return Exploded(_document(document, flat_records, rows), why, anonymous)


@lru_cache(maxsize=256)
def _names_beside(outer: tuple[str, ...], inner: tuple[str, ...]) -> dict[str, str]:
    """Return new names for a task's fields that its answers have themselves, and for its id.

    A task's own label or annotator (a majority's, a curator's) is nobody's answer.
    """
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


def _document(outer: Document, records: list[Record], rows: list[int] | None = None) -> Document:
    table = table_of(records)
    if rows is not None:
        of_outer = outer.table.lines_of if outer.records is None else table.lines_of
        table = replace(table, lines_of=lambda inner: of_outer([rows[row] for row in inner]))
    return Document(outer.name, outer.format, lambda: table, records)


def _first_level(records: list[Record]) -> list[Record]:
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
            return [
                {"item_id": f"{row + 1}.{at + 1}", **one}
                for row, record in enumerate(records)
                for at, one in enumerate(objects(record.get(field)))
            ]
    return records


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
    lists = {n: _separator(document.sampled(n)) for n in names if label_col in (None, n)}
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
        for name in beside:
            cell = record[name]
            inner = parsed(cell) if separator == "json" else cell.split(separator)
            is_list = isinstance(inner, list)
            record[name] = [text(one).strip() for one in inner] if is_list else [cell]
    find = _parallel if workers else _votes
    found = _anonymous(records, label_col) if label_col else find(document.name, records)
    return None if found is None else _spread(document, records, found)


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


def _is_values(value: Any) -> bool:
    return isinstance(value, list) and not any(isinstance(one, dict) for one in value)


def _fields(records: Sequence[Record], test: Callable[[Any], bool]) -> list[str]:
    """Return keys that pass a test wherever they are filled, in the first records."""
    first = records[:LOOKED_AT]
    filled = {
        key: [r[key] for r in first if r.get(key) not in (None, [], {})] for key in _keys(first)
    }
    return [key for key, values in filled.items() if values and all(map(test, values))]


def _keys(records: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(key for one in records for key in one))


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
    why = f"a list of objects, {''.join(found)!r}, one for each answer"
    return (found, [objects(r.get(found[0])) for r in records], why, False) if found else None


def _parallel(name: str, records: Sequence[Record]) -> _Found | None:
    """Find lists of equal length, one of them of workers."""
    fields = _fields(records, _is_values)
    workers = find_roles([singular(field) for field in fields], _WORKER)["worker"]
    if len(workers) != 1 or len(fields) < 2:
        return None
    field = fields[workers[0]]
    lengths = {f: [len(r.get(f) or ()) for r in records] for f in fields}
    beside = [other for other in fields if lengths[other] == lengths[field] and other != field]
    roles = {other: singular(other) for other in (field, *beside)}
    if not find_roles(list(roles.values()))["label"]:
        answered = [other for other in beside if not words_of(other) & ABOUT]
        if len(answered) == 1:
            roles[answered[0]] = "label"  # whatever it is called, it is all that was answered
        elif not beside or find_roles(list(records[0]))["label"]:
            raise InputError(
                f"{name}: {field!r} lists workers, and no list of the same length what each of "
                "them answered; export each worker's answer"
            )
    lists = [zip(*(record.get(other) or [] for other in roles), strict=True) for record in records]
    answers = [[dict(zip(roles.values(), one, strict=True)) for one in own] for own in lists]
    return list(roles), answers, f"parallel lists, {', '.join(map(repr, roles))}", False


def _keyed(name: str, records: Sequence[Record]) -> _Found | None:
    """Find an object whose keys are workers."""
    for field in _fields(records, lambda value: isinstance(value, dict)):
        inner = [record[field] for record in records[:LOOKED_AT] if record.get(field)]
        values = [value for one in inner for value in one.values()]
        roles = [find_roles(list(value)) for value in values if isinstance(value, dict)]
        is_said = len(roles) == len(values) and all(r["label"] and not r["worker"] for r in roles)
        if not is_said and any(isinstance(value, dict | list) for value in values):
            continue
        keys, plain = _keys(inner), normalise(field)
        is_answers = plain in (*_ANSWER_KEYS, "models") and looks_like_workers(keys)
        if len(keys) > 1 and (plain in _WORKER_KEYS or is_answers):
            answers = [
                [
                    {**(said if isinstance(said, dict) else {"label": said}), "worker": who}
                    for who, said in (record.get(field) or {}).items()
                ]
                for record in records
            ]
            return [field], answers, f"a worker for each key of {field!r}", False
    return None


def _votes(name: str, records: Sequence[Record]) -> _Found | None:
    """Find a list of labels without names; only if it must be votes: a set has nothing twice."""
    names = _keys(map(flat, records[:LOOKED_AT]))
    if find_roles(names, _WORKER)["worker"]:
        return None
    lists = _fields(records, _is_values)
    fields = [f for f in lists if normalise(f) in _ANSWER_KEYS]
    counted = [name for name in names if words_of(name.partition(".")[0]) & {"counter", "counts"}]
    if counted and fields:
        counter = counted[0].partition(".")[0]
        raise Refusal(
            f"{name}: votes stand in {fields[0]!r} and, counted, in {counter!r}: which are meant? "
            "Name them with --label-col",
            [{"layout": "counts", "label_col": f"{counter}.*"}],
        )
    voted = [field for field in lists if _are_votes(records, field)]
    voted.sort(key=lambda field: -sum(len(record.get(field) or []) for record in records))
    if len(voted) > 1 and len(records) > 1:
        raise Refusal(
            f"{name}: lists of votes stand in {', '.join(map(repr, voted[:8]))}; pick one with "
            "--label-col",
            [{"label_col": field} for field in voted],
        )
    return _anonymous(records, voted[0]) if voted and voted[0] in fields else None


def _are_votes(records: Sequence[Record], field: str) -> bool:
    """Return whether lists are votes, of three or more: not sets, and of few values."""
    lists = [record.get(field) or [] for record in records[:LOOKED_AT]]
    values = [text(value) for own in lists for value in own]
    if not values or any(value.startswith(("[", "{")) for value in values):
        return False
    is_repeated = any(len(set(own)) < len(own) > 2 for own in lists)
    return is_repeated and len(set(values)) <= 20 and not words_of(field) & {"id", "ids", "tokens"}


def _anonymous(records: Sequence[Record], field: str) -> _Found:
    answers = [
        [{"worker": f"answer {at}", "label": said} for at, said in enumerate(own, start=1)]
        for own in (record.get(field) or [] for record in records)
    ]
    return [field], answers, f"a list of votes, {field!r}, without names", True


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
            break
        (outer,) = records
        table = _by_key(outer) or _by_two_keys(outer)
        if table is not None:
            return table
        values = list(outer.values())
        lists = [value for value in values if is_objects(value) and len(value) > 1]
        if len(values) == 1 and isinstance(values[0], dict):
            inner = values[0]
            is_map = len(inner) > 1 and all(
                v and isinstance(v, dict | list) for v in inner.values()
            )
            if is_map or not find_roles(list(inner))["label"]:
                records = [inner]  # {"annotations": {…}}, {"data": {"answers": …}}
                continue
        named = find_roles(list(outer), {"item": [*SYNONYMS["item"], {"id"}]})["item"]
        if len(lists) != 1 or named:
            break
        records = lists[0]
    return records


def _are_filled(values: Sequence[Any], kind: type) -> bool:
    return len(values) > 1 and all(isinstance(value, kind) and value for value in values)


def _by_key(outer: Record) -> list[Record] | None:
    """Return objects or lists of one form that stand under keys: {"post 1": {…}, "post 2": {…}}.

    The key is the item, unless the objects name it or are answers that the key only counts.
    """
    values = list(outer.values())
    if _are_filled(values, list):
        every = [one for value in values for one in value]
        is_table = bool(find_roles([singular(key) for key in outer])["label"])
        is_told = all(map(is_objects, values)) and find_roles(sorted(_keys(every)))["worker"]
        return (
            [{"item": k, "answers": v} for k, v in outer.items()]
            if is_told and not is_table
            else None
        )
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


def _by_two_keys(outer: Record) -> list[Record] | None:
    """{item: {worker: label}}, or the other way round; what nothing tells is the user's to say."""
    values = list(outer.values())
    if not _are_filled(values, dict):
        return None
    said = [one for value in values for one in value.values()]
    is_object = all(isinstance(one, dict) and find_roles(list(one))["label"] for one in said)
    if not is_object and any(isinstance(one, dict | list) for one in said):
        return None
    if find_roles(list(outer))["label"]:  # a table that pandas wrote column by column
        return [{name: own.get(key) for name, own in outer.items()} for key in values[0]]
    inner = Counter(key for value in values for key in value)
    if max(inner.values()) < 2 or any(map(bool, find_roles(list(inner)).values())):
        return None
    first, second = OUTER, INNER
    are_counts = all(is_number(text(one)) for one in said if one)  # {"cat": 3, "dog": 1}
    has_gaps = any(len(value) < len(inner) for value in values)  # questions have none
    for roles, one, other in (
        (("item", "worker"), outer, inner),
        (("worker", "item"), inner, outer),
    ):
        are_items = looks_like_items(list(one)) and not looks_like_items(list(other))
        are_items = are_items and not are_counts and (has_gaps or one is inner)
        if are_items or (looks_like_workers(list(other)) and not looks_like_workers(list(one))):
            first, second = roles
            break
    return [
        {first: key, second: within, **(said if isinstance(said, dict) else {"label": said})}
        for key, value in outer.items()
        for within, said in value.items()
    ]
