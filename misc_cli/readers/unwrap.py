"""A single JSON object around all answers → the list of objects that is meant.

{"data": [{…}, {…}]}                             a list within an object
{"worker": {"0": "a"}, "label": {"0": "x"}}      a data frame, column by column
{"post 1": {"annotators": […]}, "post 2": …}     an object per item
{"post 1": {"ann": "x", "bob": "y"}, …}          a label per item and worker
{"_id": 7, "_source": {"worker": "a", …}}        each answer within an object of its store
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from misc_cli.readers.document import Record, flat, text
from misc_cli.readers.layouts.wide import looks_like_items, looks_like_workers
from misc_cli.readers.values import is_number
from misc_cli.readers.vocabulary import SYNONYMS, find_roles, normalise, singular

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
        table = _as_table(outer) or _by_key(outer) or _lists_by_key(outer) or _by_two_keys(outer)
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
    """What the outer and the inner keys are; inner keys of things may be workers or questions."""
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
