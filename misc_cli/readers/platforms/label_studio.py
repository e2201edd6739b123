"""Label Studio, JSON: one record per task, one annotation per worker, one result per region.

Versions before 1.0 say `completions` and `skipped`. Storages are fed one annotation per record,
with its `task` inside. CSV and JSON-MIN have a row per annotation and a column per question.
"""

from __future__ import annotations

from typing import Any

from misc_cli.readers.columns import select
from misc_cli.readers.document import Document, Record, mapping, table_of, text
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.export import (
    PLAIN,
    Damaged,
    Found,
    certain,
    export,
    fields_of,
    gather,
    kind_of_region,
    no_question,
    objects_in,
    rows_as_records,
    varying,
)
from misc_cli.readers.reading import Reading
from misc_cli.readers.values import BOXES, CHOICE, CHOICES, NUMBER, OTHER, SPANS, TEXT, parsed
from misc_cli.readers.vocabulary import SYNONYMS, find_roles

# What a result's value is, by its key there.
_PLAIN = {"rating": NUMBER, "number": NUMBER, "selected": CHOICE, "text": TEXT, "datetime": OTHER}


def _task(record: Record, _: Document) -> Found:
    """Yield the answers to a task; or of one annotation, with its task inside."""
    if isinstance(record.get("task"), dict):
        task, annotations = record["task"], [record]
    else:
        key = "completions" if "annotations" not in record else "annotations"
        task, annotations = record, objects_in(record, key)
    if not annotations:
        yield "not annotated"
    data = list(mapping(task.get("data")).values())
    only = data[0] if len(data) == 1 and isinstance(data[0], str) else ""
    for annotation in annotations:
        if annotation.get("was_cancelled") or annotation.get("skipped"):
            yield "cancelled"
            continue
        answers: dict[str, list[tuple[str, Any]]] = {}
        for result in objects_in(annotation, "result"):
            if "value" not in result:
                continue  # a relation between regions
            if not isinstance(result["value"], dict):
                raise Damaged("'value' should be an object; export it again")
            kind, label = _answer(result["value"])
            if "item_index" in result and kind not in (BOXES, SPANS):
                kind, label = OTHER, text(result["value"])  # about one page of several
            known = answers.setdefault(text(result.get("from_name")) or "label", [])
            if (kind, label) not in known:
                known.append((kind, label))
        fields = []
        for question, known in answers.items():
            kind, label = known[-1]
            if len(known) > 1:  # about several regions
                kind = kind if kind in (BOXES, SPANS) else OTHER
                label = text([one for _, one in known])
            fields.append((question, kind, label))
        gold = "ground truth" if annotation.get("ground_truth") else ""
        who = _who(annotation.get("completed_by"))
        item, took = text(task.get("id")) or only, annotation.get("lead_time")
        yield from fields_of(fields, who, item, gold, took)


def _who(who: Any) -> str:
    if isinstance(who, dict):
        return text(who.get("email") or who.get("id") or who.get("username"))
    return text(who)


def _answer(value: Record) -> tuple[str, Any]:
    """Return kind and label of a result's value: {"choices": ["cat"]}, {"rating": 4}, a box."""
    region = kind_of_region(value)
    if region:
        return region, text(value)
    if "choices" in value:
        return _chosen(value["choices"])
    if "taxonomy" in value:
        paths = value["taxonomy"] if isinstance(value["taxonomy"], list) else []
        return _chosen(["/".join(map(text, p)) if isinstance(p, list) else p for p in paths])
    for key, kind in _PLAIN.items():
        if key in value:
            return kind, text(value[key])
    return OTHER, text(value)


def _chosen(options: Any) -> tuple[str, Any]:
    """Return a choice, or choices if there are several; options within options are neither."""
    if isinstance(options, str):
        return CHOICE, options
    if not isinstance(options, list) or any(isinstance(one, dict | list) for one in options):
        return OTHER, text(options)
    return CHOICES if len(options) > 1 else CHOICE, options


TASKS = export(
    "label-studio",
    "Label Studio, JSON",
    _task,
    ("completed_by", "id", "result[from_name={}].value"),
)

_OWN = {
    *("annotation_id", "annotator", "id", "created_at", "updated_at", "lead_time", "agreement"),
    *("inner_id", "updated_by", "project", "file_upload", "comment_count", "was_cancelled"),
}


def _read_table(document: Document, options: ReadOptions) -> Reading:
    """Read a row per annotation; JSON-MIN is the CSV of the same tasks."""
    if document.records is not None:
        flat = [
            {k: _who(v) if k == "annotator" else text(v) for k, v in record.items()}
            for record in document.records
        ]
        document = Document(document.name, document.format, lambda: table_of(flat))
    given = options.columns
    worker, item, asked = (
        [default] if given[role] is None else select(document, role, given[role] or "")
        for role, default in (("worker", "annotator"), ("item", "id"), ("label", ""))
    )
    asked = _questions(document) if given["label"] is None else asked

    def answers(row: Record) -> Found:
        filled = [name for name in asked if row[name].strip()]
        fields = ((name, *_cell(row[name])) for name in filled)
        who, what = (" | ".join(row[name] for name in names) for names in (worker, item))
        yield from fields_of(fields, who, what)

    rows = rows_as_records(document, [*dict.fromkeys([*worker, *item, *asked])])
    roles = (" + ".join(worker), " + ".join(item), "{}")
    return gather(document, enumerate(map(answers, rows)), roles)


def _questions(document: Document) -> list[str]:
    """Return the columns after the id that are no data; if columns are sorted, those that differ.

    Data tells each task apart, and does not differ within one.
    """
    names = document.names
    others = [name for name in names if name not in _OWN]
    differ = set(varying(document, "id", others))
    if names != sorted(names) and names.index("id") < names.index("annotator"):
        asked = [name for name in names[names.index("id") :] if name in others]
        items, *columns = document.columns(["id", *asked])
        n_items = len(items.dictionary)
        found = [
            name
            for name, column in zip(asked, columns, strict=True)
            if name in differ or len(column.dictionary) < n_items or n_items < 2
        ] or asked
    else:
        by_name = find_roles(others, {"label": SYNONYMS["label"]})["label"]
        found = [name for name in others if name in differ] or [others[at] for at in by_name]
    if not found:
        raise no_question(document, others)
    return found


def _cell(cell: str) -> tuple[str, Any]:
    """Return kind and label of a cell: text, the value of a result, or a list of them."""
    value = parsed(cell) if cell[:1] in ("[", "{") else None
    if isinstance(value, dict):
        return _answer(value)
    if not isinstance(value, list):
        return PLAIN, cell
    regions = [one for one in value if isinstance(one, dict)]
    if regions:
        kind, label = _answer(regions[0])
        return kind, label if len(value) == 1 else text(value)
    return _answer({"taxonomy" if any(isinstance(o, list) for o in value) else "choices": value})


TABLE = certain("label-studio-table", "Label Studio, CSV or JSON-MIN", _read_table)
