"""Several answers within one JSON object or one row, and objects around all answers.

    {"id": 1, "annotations": [{"annotator": "a", "label": "x"}, …]}      a list of objects
    {"id": 1, "annotators": ["a", "b"], "labels": ["x", "y"]}            parallel lists
    {"id": 1, "annotators": {"a": "x", "b": "y"}}                        a worker for each key
    {"id": 1, "labels": ["x", "x", "y"]}                                 votes of nobody
    {"data": [{…}, {…}]}, {"post 1": {…}, "post 2": {…}}                 all within one object

Cells of a table may hold such lists as well: item,workers,labels / a,"ann;bea","x;y". Each becomes
flat records, one per answer; what the columns then mean is found as in any table.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from misc_cli.readers.columns import Refusal
from misc_cli.readers.document import Document, Record, flat, mapping, objects, table_of, text
from misc_cli.readers.layouts.wide import looks_like_items, looks_like_workers
from misc_cli.readers.options import NOBODY, ROW, ReadOptions
from misc_cli.readers.values import FEW_CLASSES, is_number, parsed
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
LEAST_ROWS, LEAST_COLUMNS = 10, 3  # of a table that is written column by column
_ITEMS = {"id", *(name for tier in SYNONYMS["item"] for name in tier)}
_ANSWERED = ("worker", "label")
_WORKER_KEYS = names_in("annotators raters workers byannotator byworker byrater users")
_PEOPLE = names_in("judge judges annotator annotators rater raters worker workers reviewer coder")
_ANSWER_KEYS = names_in("""
annotations labels votes answers judgments judgements ratings responses crowdlabels label annotation
vote predictions outputs models annotatorlabels workerlabels oldlabels rawlabels alllabels
rawannotations
""")
OUTER, INNER = "outer key", "inner key"
ITEM = "item_id"  # the record that holds the answers

Path = tuple[str, ...]  # to a list of objects, at most two deep


class Found(NamedTuple):
    """Answers within records.

    records  that hold them: an item each, mostly
    fields   of a record that hold answers
    answers  of each record: their own fields
    paths    of these fields in the file; NOBODY for a worker that is only counted
    """

    records: Sequence[Record]
    fields: Sequence[str]
    answers: list[list[Record]]
    why: str
    paths: Mapping[str, str] = {}


class Exploded(NamedTuple):
    """One flat record per answer; `paths`: name of a column → its path in the file, if another."""

    document: Document
    why: str
    paths: Mapping[str, str]

    @property
    def anonymous(self) -> bool:
        """Tell whether the lists held votes and no names."""
        return self.paths.get("worker") == NOBODY

    def declared(self, options: ReadOptions) -> ReadOptions:
        """Return options that call the columns by their names here, not by their paths."""
        paths = {name: self.paths.get(name, name) for name in self.document.names}

        def called(part: str, role: str) -> str:
            if part in paths and not (role == "item" and part in paths.values()):
                return part  # a label of the record itself is nobody's answer
            ends = [name for name, path in paths.items() if f".{part}".endswith(f".{path}")]
            return max(ends, key=lambda name: len(paths[name]), default=part)

        given: dict[str, Any] = {
            f"{role}_col": ",".join(called(part.strip(), role) for part in asked.split(","))
            for role, asked in options.columns.items()
            if asked is not None
        }
        return replace(options, header=None, **given)


def exploded(document: Document, options: ReadOptions) -> Exploded | None:
    """Return the answers within objects or cells as a table of their own; None without any."""
    records = document.records
    found = explode(document, records, options) if records is not None else None
    inner = document if found is None else found.document
    is_open = inner.table.header is False and options.label_col is None
    if is_open or (found and found.anonymous) or options.multi:
        return found
    return explode_cells(inner, options) or found


def explode(document: Document, records: Sequence[Record], options: ReadOptions) -> Exploded | None:
    """Return the answers within each record; None if every record is one answer already."""
    found = _declared(records, options)
    for find in (_objects, _parallel, _keyed, _votes):
        found = found or find(document.name, records)
    for path, _ in _paths(records) if found is None else ():  # an object of a list is an item
        found = found or _votes(document.name, _within(records, path))
    return None if found is None else _spread(document, found, options)


def _declared(records: Sequence[Record], options: ReadOptions) -> Found | None:
    """Return answers where the user says that workers and labels are, if that is within lists."""
    who, said = options.worker_col, options.label_col
    lists = _fields(records, is_values)
    if said in lists and who in (None, NOBODY):
        return _anonymous(records, said)
    if said in lists and who in lists:
        return _zipped(records, {name: name for name in _as_long(records, lists, who)})
    given = [part.strip() for name in (who, said) if name for part in name.split(",")]
    given = [part for part in given if part not in _keys(map(flat, _some(records)))]
    for path, names in _paths(records):
        head = ".".join(path)
        if any(g == name or g.endswith(f"{head}.{name}") for g in given for name in names):
            return _objects_at(records, path)
    return None


def _paths(records: Sequence[Record]) -> Iterator[tuple[Path, list[str]]]:
    """Yield where lists of objects are, and the names in those objects."""
    for key in _fields(records, is_objects):
        within = [one for record in _some(records) for one in record.get(key) or []]
        yield (key,), _keys(map(flat, within))
        for inner in _fields(within, is_objects):
            yield (key, inner), _keys(flat(o) for one in within for o in one.get(inner) or [])


def _objects_at(records: Sequence[Record], path: Sequence[str]) -> Found:
    """Return the objects of lists as answers; of lists within lists an item is a place there."""
    *first, last = path
    records = _within(records, first)
    answers = [objects(record.get(last)) for record in records]
    names = _keys(flat(one) for own in _some(answers) for one in own)
    paths = {name: f"{'.'.join(path)}.{name}" for name in names}
    why = f"a list of objects, {last!r}, one for each answer"
    return Found(records, [last], answers, why, paths)


def _within(records: Sequence[Record], path: Sequence[str]) -> Sequence[Record]:
    """Return the objects of a list as records; their name is their place in it."""
    for key in path:
        records = [
            {ITEM: f"{row + 1}.{at + 1}", **one}
            for row, record in enumerate(records)
            for at, one in enumerate(objects(record.get(key)))
        ]
    return records


def _spread(document: Document, found: Found, options: ReadOptions) -> Exploded:
    """Return one record for each answer; lines are counted in the records that they came from."""
    outer = [{k: v for k, v in one.items() if k not in found.fields} for one in found.records]
    names = _keys(_some(outer))
    inner = _keys(one for own in _some(found.answers) for one in own)
    within = find_roles(inner)
    # a task's own label or annotator (a majority's, a curator's) is nobody's answer
    renamed = {
        key: f"{key} (consensus)"
        for key in names
        if key in inner or (within["worker"] and any(find_roles([key])[r] for r in _ANSWERED))
    }
    paths = {**found.paths, **{new: old for old, new in renamed.items()}}
    tasks = [{renamed.get(key, key): value for key, value in one.items()} for one in outer]
    if options.item_col == ROW or not within["item"]:
        paths[ITEM], items = _items(outer, is_row=options.item_col == ROW)
        tasks = [{**task, ITEM: item} for task, item in zip(tasks, items, strict=True)]
    rows = [row for row, own in enumerate(found.answers) for _ in own]
    records = [{**tasks[n], **one} for n, own in enumerate(found.answers) for one in own]
    table = table_of(records)
    of_outer = document.table.lines_of if document.records is None else table.lines_of
    table = replace(table, lines_of=lambda inner: of_outer([rows[row] for row in inner]))
    told = Document(document.name, document.format, lambda: table, records)
    return Exploded(told, found.why, paths)


def _items(records: Sequence[Record], *, is_row: bool) -> tuple[str, list[str]]:
    """Return the field that names each record once, and the names; else the records' numbers."""
    plain = [flat(record) for record in records]
    names = [n for n in _keys(_some(plain)) if normalise(n) in _ITEMS]
    names = [n for n in names if len({one.get(n) for one in plain}) == len(plain)]
    tiers = SYNONYMS["item"]
    at = find_roles(names, {"item": [*tiers[:3], {"id"}, *tiers[3:]]})["item"]
    if is_row or not at:
        return ROW, [str(row + 1) for row in range(len(plain))]
    return names[at[0]], [one.get(names[at[0]], "") for one in plain]


def unwrapped_document(document: Document) -> Document:
    """Return the records within a single outer object; any other document as it is."""
    records = document.records and _unwrapped(document.records)
    if records is None or records is document.records:
        return document
    return replace(document, open_table=lambda: table_of(records), records=records)


def of_workers(names: Collection[str]) -> list[str]:
    """Return the lists that name workers: by a known name, else by a word of it."""
    known = [n for n in names if find_roles([singular(n)])["worker"]]
    return known or [n for n in names if words_of(n) & _PEOPLE and not words_of(n) & ABOUT]


def is_values(value: Any) -> bool:
    return isinstance(value, list) and not any(isinstance(one, dict) for one in value)


def _fields(records: Sequence[Record], test: Callable[[Any], bool]) -> list[str]:
    """Return keys that pass a test wherever they are filled, in some records."""
    some = _some(records)
    filled = {k: [r[k] for r in some if r.get(k) not in (None, [], {})] for k in _keys(some)}
    return [key for key, values in filled.items() if values and all(map(test, values))]


def _some(records: Sequence[Any]) -> list[Any]:
    """Return the first records and others from all over: what was answered may come late."""
    rest = records[LOOKED_AT:]
    return [*records[:LOOKED_AT], *rest[:: max(1, len(rest) // LOOKED_AT)]]


def _keys(records: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(key for one in records for key in one))


def _objects(name: str, records: Sequence[Record]) -> Found | None:
    """Find a list of objects, each with its worker; or with item and label, and one worker."""
    outer, found, full = find_roles(list(records[0])), list[Path](), dict[Path, dict[str, str]]()
    for path, names in _paths(records):
        within = find_roles(names)
        is_said = len(path) == 1 and outer["worker"] and within["item"] and within["label"]
        if within["worker"] or is_said:
            found.append(path)
        if within["worker"] and within["label"]:
            columns = {f"{role}_col": names[within[role][0]] for role in _ANSWERED}
            full[path] = {role: ".".join([*path, name]) for role, name in columns.items()}
    found = list(full) if len(full) == 1 else found
    if len(found) > 1:
        heads = " and ".join(repr(".".join(path)) for path in found)
        raise Refusal(
            f"{name}: {heads} each hold lists of answers; name the columns of one with "
            "--worker-col and --label-col",
            list(full.values()),
        )
    return _objects_at(records, found[0]) if found else None


def _parallel(name: str, records: Sequence[Record]) -> Found | None:
    """Find lists of equal length, one of them of workers."""
    fields = _fields(records, is_values)
    workers = of_workers(fields)
    if len(workers) != 1 or len(fields) < 2:
        return None
    field = workers[0]
    beside = [other for other in _as_long(records, fields, field) if other != field]
    roles = {other: singular(other) for other in (field, *beside)}
    if not find_roles([roles[field]])["worker"]:
        roles[field] = "worker"
    chosen = []
    for other in beside:
        values = {text(one) for record in _some(records) for one in record.get(other) or []}
        if len(values) <= FEW_CLASSES and not words_of(other) & ABOUT:
            chosen.append(other)
    if len(chosen) == 1:
        roles[chosen[0]] = "label"  # whatever it is called, it is all that was chosen
    return _zipped(records, roles)


def _as_long(records: Sequence[Record], fields: Sequence[str], field: str) -> list[str]:
    """Return the lists that are as long as this one in every record."""
    lengths = {name: [len(record.get(name) or ()) for record in records] for name in fields}
    return [name for name in fields if lengths[name] == lengths[field]]


def _zipped(records: Sequence[Record], roles: Mapping[str, str]) -> Found:
    """Return what stands at the same place of several lists as one answer; `roles` names them."""
    lists = [zip(*(record.get(name) or [] for name in roles), strict=True) for record in records]
    answers = [[dict(zip(roles.values(), one, strict=True)) for one in own] for own in lists]
    paths = {called: name for name, called in roles.items()}
    why = f"parallel lists, {', '.join(map(repr, roles))}"
    return Found(records, list(roles), answers, why, paths)


def _keyed(name: str, records: Sequence[Record]) -> Found | None:
    """Find an object whose keys are workers."""
    for field in _fields(records, lambda value: isinstance(value, dict)):
        inner = [record[field] for record in _some(records) if record.get(field)]
        keys, plain = _keys(inner), normalise(field)
        is_told = plain in _WORKER_KEYS or (plain in _ANSWER_KEYS and looks_like_workers(keys))
        if is_told and len(keys) > 1 and _are_labels([v for one in inner for v in one.values()]):
            answers = [
                [{**_labelled(said), "worker": w} for w, said in (record.get(field) or {}).items()]
                for record in records
            ]
            return Found(records, [field], answers, f"a worker for each key of {field!r}")
    return None


def _votes(name: str, records: Sequence[Record]) -> Found | None:
    """Find a list of labels without names."""
    some = _some(records)
    if find_roles(_keys(map(flat, some)))["worker"]:
        return None
    lists = {
        field: [list(map(text, record.get(field) or [])) for record in some]
        for field in _fields(records, is_values)
    }
    # as long as a list of words: a tag for each word
    tags = {
        name
        for field, own in lists.items()
        if len({value for one in own for value in one}) > FEW_CLASSES
        for name in _as_long(some, list(lists), field)
    }
    voted = [field for field, own in lists.items() if are_votes(own) and field not in tags]
    voted.sort(key=lambda field: -sum(map(len, lists[field])))
    if len(voted) > 1 and len(records) > 1:
        raise Refusal(
            f"{name}: lists of votes stand in {', '.join(map(repr, voted[:8]))}; pick one with "
            "--label-col",
            [{"label_col": own} for own in voted if not own[-1:].isdigit()],  # rel.0 is one slot
        )
    is_told = bool(voted) and normalise(voted[0]) in _ANSWER_KEYS
    return _anonymous(records, voted[0]) if is_told else None


def are_votes(lists: Sequence[Sequence[str]]) -> bool:
    """Return whether most lists have three or more of a few values, and some one twice."""
    values = {value for own in lists for value in own}
    is_repeated = any(len(set(own)) < len(own) for own in lists)
    n_many = sum(len(own) > 2 for own in lists)
    are_plain = not any(value.startswith(("[", "{")) for value in values)
    return is_repeated and are_plain and 2 * n_many >= len(lists) and len(values) <= FEW_CLASSES


def _anonymous(records: Sequence[Record], field: str) -> Found:
    answers = [
        [{"worker": f"answer {at}", "label": said} for at, said in enumerate(own, start=1)]
        for own in (record.get(field) or [] for record in records)
    ]
    paths = {"worker": NOBODY, "label": field}
    return Found(records, [field], answers, f"a list of votes, {field!r}, without names", paths)


def explode_cells(document: Document, options: ReadOptions) -> Exploded | None:
    """Return lists in cells: of workers and labels ("a;b" and "x;y"), of votes, of JSON objects."""
    names, who, said = document.names, options.worker_col, options.label_col
    is_declared = said in names and who in (None, NOBODY, *names)  # else the lists may have them
    if who in names and not is_declared:
        return None
    given = [name for name in (who, said) if name in names] if is_declared else names
    lists = {name: _separator(document.sampled(name)) for name in given}
    workers = [who] if who in names else [] if is_declared else of_workers(lists)
    workers = [name for name in workers if lists[name]]
    separator = lists[workers[0]] if len(workers) == 1 else None
    beside = [name for name, found in lists.items() if found == (separator or "json")]
    split: Callable[[str], Any] = parsed
    if separator and separator != "json":
        split = partial(str.split, sep=separator)
    if is_declared and not workers:
        beside = [name for name in given if are_votes([*map(listed, document.sampled(name))])]
        split = listed
    if not beside or (is_declared and len(beside) < len(given)):
        return None
    columns = [column.to_pylist() for column in document.table.fetch(range(len(names)))]
    records: list[Record] = [dict(zip(names, r, strict=True)) for r in zip(*columns, strict=True)]
    for record in records:
        for name in beside:
            inner = split(record[name])
            if is_values(inner):
                inner = [text(one).strip() for one in inner]
            record[name] = inner if isinstance(inner, list | dict) else [record[name]]
    return explode(document, records, options)


def listed(cell: str) -> list[str]:
    """Return the values of a list in a cell: as JSON, Python or NumPy prints it, or "2, 3, 3"."""
    inner = parsed(cell) if cell[:1] in ("[", "(") else None
    if isinstance(inner, list):
        return [text(one).strip() for one in inner]
    is_plain = cell[:1] in ("[", "(") or re.fullmatch(r"[\d.\s]+", cell)
    marks = r"[\s,;|]+" if is_plain else r"\s*[,;|]\s*"
    parts = re.split(marks, re.sub(r"(\d\.)(?!\d)", r"\g<1>0", cell.strip("[]() \n")))
    return [part for part in parts if part]  # NumPy's 0. is Python's 0.0


def _separator(cells: Sequence[str]) -> str | None:
    """Return the separator of names in the cells of a column: "json" for lists, or a character."""
    if not cells:
        return None
    if all(cell[:1] in ("[", "{") and isinstance(parsed(cell), list | dict) for cell in cells):
        return "json"
    for character in "|;,":
        if all(character in cell for cell in cells) and not any(" " in c.strip() for c in cells):
            return character
    return None


def paths_within(records: list[Record]) -> list[str]:
    """Return the paths to fields of objects in lists: a format of the user's own."""
    return [".".join([*p, name]) for p, names in _paths(records) for name in names]


def is_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def _unwrapped(records: list[Record]) -> list[Record]:
    """Return the records that a single outer object wraps: in a list, under keys, by columns."""
    if len(records) != 1:
        return records
    (outer,) = records
    values = list(outer.values())
    lists = [value for value in values if is_objects(value)]
    if table := _of_pandas(outer) or _by_key(outer) or _by_column(outer):
        return table
    if len(values) == 1 and isinstance(values[0], dict):
        return _unwrapped(values)  # {"annotations": {…}}, {"data": {"answers": …}}
    is_list = len(lists) == 1 and _ITEMS.isdisjoint(map(normalise, outer))
    return _unwrapped(lists[0]) if is_list else records


def _of_pandas(outer: Record) -> list[Record] | None:
    """Return a table that pandas wrote: {"item": {"0": …}, …}, or split in columns and data."""
    names, rows = outer.get("columns"), outer.get("data")
    if isinstance(names, list) and isinstance(rows, list) and all(map(is_values, rows)):
        return [dict(zip(map(str, names), row, strict=False)) for row in rows]
    keys = {tuple(mapping(own)) for own in outer.values()}
    rows = [str(at) for at in range(max(map(len, keys), default=0))]
    if not rows or keys != {tuple(rows)}:
        return None
    return [{name: own[row] for name, own in outer.items()} for row in rows]


def _by_column(outer: Record) -> list[Record] | None:
    """Return many lists of one length as a table: {"scores": {"ann": [1, 0, …], "bea": […]}}."""
    within = {f"{k}.{n}": v for k, own in outer.items() for n, v in mapping(own).items()}
    lists = {n: v for n, v in {**outer, **within}.items() if is_values(v) and len(v) >= LEAST_ROWS}
    length, n_lists = Counter(map(len, lists.values())).most_common(1)[0] if lists else (0, 0)
    own = {name: value for name, value in lists.items() if len(value) == length}
    rows = [{name: value[row] for name, value in own.items()} for row in range(length)]
    return rows if n_lists >= LEAST_COLUMNS else None


def _by_key(outer: Record) -> list[Record] | None:
    """Return what stands under keys, each an item, mostly: {"post 1": {…}, "post 2": {…}}."""
    outer = {key: value for key, value in outer.items() if value not in ({}, [])}
    values = list(outer.values())
    if len(values) < 2:
        return None
    if all(map(is_objects, values)) and not find_roles(list(map(singular, outer)))["label"]:
        return [{"item": key, "answers": value} for key, value in outer.items()]
    if not all(isinstance(value, dict) for value in values):
        return None
    fields = _keys(values)
    are_fields = any(find_roles(list(map(singular, fields))).values())
    if not are_fields and _are_labels([one for value in values for one in value.values()]):
        return _by_two_keys(outer, fields)
    common = sorted(set(values[0]).intersection(*values))
    if find_roles(common, {"item": [*SYNONYMS["item"][:4], {"id"}]})["item"]:  # not by its text
        return values
    return [{ITEM: key, **value} for key, value in outer.items()] if common else None


def _by_two_keys(outer: Record, inner: list[str]) -> list[Record]:
    """{item: {worker: label}}, or the other way round; what nothing tells is the user's to say."""
    is_outer = looks_like_workers(list(outer)) or looks_like_items(inner)
    has_gaps = any(len(value) < len(inner) for value in outer.values())  # questions have none
    said = [text(one) for value in outer.values() for one in value.values()]
    is_inner = looks_like_workers(inner) or (
        looks_like_items(list(outer)) and has_gaps and not all(map(is_number, said))
    )
    first, second = ("worker", "item") if is_outer else ("item", "worker")
    if is_outer == is_inner:
        first, second = OUTER, INNER
    return [
        {first: key, second: within, **_labelled(said)}
        for key, value in outer.items()
        for within, said in value.items()
    ]


def _are_labels(values: Sequence[Any]) -> bool:
    """Return whether values are labels, or an object around each."""
    if any(isinstance(value, dict) for value in values):
        return all(isinstance(v, dict) and find_roles(list(v))["label"] for v in values)
    return not any(isinstance(value, list) for value in values)


def _labelled(said: Any) -> Record:
    return said if isinstance(said, dict) else {"label": said}
