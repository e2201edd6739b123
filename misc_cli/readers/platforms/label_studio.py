"""Label Studio, JSON: one record per task, one annotation per worker, one result per region.

Versions before 1.0 say `completions` and `skipped`. Storages are fed one annotation per record,
with its `task` inside. CSV and JSON-MIN have a row per annotation and a column per question.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from misc_cli.readers.document import Document, Record, compact, is_one_of, mapping, table_of, text
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.export import (
    Export,
    kind_of_region,
    labels_of,
    narrowed,
    no_question,
    of_records,
    varying,
)
from misc_cli.readers.reading import (
    CERTAIN,
    Match,
    Question,
    Reader,
    Reading,
    from_columns,
    rows_of,
    take,
)
from misc_cli.readers.values import BOXES, CHOICE, CHOICES, NUMBER, OTHER, SPANS, TEXT, parsed
from misc_cli.readers.vocabulary import SYNONYMS, find_roles

_LISTS = ("annotations", "completions")
# What a result's value is, by its key there.
_PLAIN = {"rating": NUMBER, "number": NUMBER, "selected": CHOICE, "text": TEXT, "datetime": OTHER}


@of_records
def detect(record: Record) -> str | None:
    if isinstance(record.get("data"), dict):
        for key in _LISTS:
            if isinstance(record.get(key), list):
                return f"tasks with data and {key}"
    if isinstance(mapping(record.get("task")).get("data"), dict) and "result" in record:
        return "annotations with their result and task"
    return None


def read(document: Document, options: ReadOptions) -> Reading:
    export = Export(document, options, "completed_by", "id", "result[from_name={}].value")
    for record in export.records():
        if isinstance(record.get("task"), dict):  # one annotation, with its task inside
            _annotation(export, record["task"], record)
            continue
        key = next((key for key in _LISTS if key in record), _LISTS[0])
        annotations = export.objects(record.get(key), key)
        if not annotations:
            export.aside("not annotated")
        for annotation in annotations:
            _annotation(export, record, annotation)
    return export.reading()


def _annotation(export: Export, task: Record, annotation: Record) -> None:
    if annotation.get("was_cancelled") or annotation.get("skipped"):
        export.aside("cancelled")
        return
    answers: dict[str, list[tuple[str, Any]]] = {}
    for result in export.objects(annotation.get("result"), "result"):
        if "value" not in result:
            continue  # a relation between regions
        if not isinstance(result["value"], dict):
            raise export.error("'value' should be an object; export it again")
        question = text(result.get("from_name")) or "label"
        kind, label = _answer(result["value"])
        if "item_index" in result and kind not in (BOXES, SPANS):
            kind, label = OTHER, text(result["value"])  # about one page of several
        known = answers.setdefault(question, [])
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
    item = text(task.get("id")) or _only_text(task.get("data"))
    export.fields(fields, _who(annotation.get("completed_by")), item, gold)


def _only_text(data: Any) -> str:
    """Return the data of a task without an id, where it is one text."""
    values = list(mapping(data).values())
    return values[0] if len(values) == 1 and isinstance(values[0], str) else ""


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


READER = Reader("label-studio", "Label Studio, JSON", detect, read)


_OWN = {
    *("annotation_id", "annotator", "id", "created_at", "updated_at", "lead_time", "agreement"),
    *("inner_id", "updated_by", "project", "file_upload", "comment_count", "was_cancelled"),
}


def detect_table(document: Document) -> Match | None:
    names = set(document.records[0]) if document.records else set(document.names)
    if names >= {"annotation_id", "annotator", "id"} and "result" not in names:
        return Match(CERTAIN, "columns annotation_id, annotator and id")
    return None


def read_table(document: Document, options: ReadOptions) -> Reading:
    is_json = document.records is not None
    if document.records is not None:  # JSON-MIN is the CSV of the same tasks, JSON in its cells
        people = [
            {**record, "annotator": _who(record.get("annotator"))} for record in document.records
        ]
        rows = [{key: text(value) for key, value in record.items()} for record in people]
        document = Document(document.name, document.format, lambda: table_of(rows))
    asked = [] if options.label_col is not None else _questions(document)
    empty = {name: is_one_of(*document.columns([name]), "") for name in asked if is_json}
    reading = from_columns(
        document,
        worker="annotator",
        item="id",
        questions=narrowed(document.name, {name: name for name in asked}, options),
        options=options,
        aside={"empty": lambda _: np.all(list(empty.values()), axis=0)} if empty else None,
    )
    found = []
    for question in map(_parsed, reading.questions):
        if question.name in empty:  # a record that lacks the key is no answer
            filled = ~np.asarray(empty[question.name])[rows_of(question)]
            question = take(question, np.flatnonzero(filled))
        if len(question):
            found.append(question)
    return replace(reading, questions=found)


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


def _parsed(question: Question) -> Question:
    """Return a question of CSV with the JSON of its cells read; each distinct cell once."""
    if pa.types.is_list(question.label.type):
        return question
    cells = question.label.dictionary.to_pylist()
    if not any(cell[:1] in ("[", "{") for cell in cells if cell):
        return question
    answers = [_cell(parsed(cell) if cell[:1] in ("[", "{") else cell) for cell in cells]
    kinds = {kind for (kind, _), cell in zip(answers, cells, strict=True) if cell}
    kind = CHOICES if kinds == {CHOICE, CHOICES} else min(kinds) if len(kinds) == 1 else OTHER
    taken = labels_of((label for _, label in answers), kind).take(question.label.indices)
    return replace(question, kind=kind, label=taken if kind == CHOICES else compact(taken))


def _cell(value: Any) -> tuple[str, Any]:
    """Return kind and label of a cell: text, the value of a result, or a list of them."""
    if isinstance(value, dict):
        return _answer(value)
    if not isinstance(value, list):
        return CHOICE, text(value)
    regions = [one for one in value if isinstance(one, dict)]
    if len(regions) == len(value) == 1:
        return _answer(regions[0])
    if regions:
        return _answer(regions[0])[0], text(value)
    return (
        _answer({"taxonomy": value}) if any(isinstance(o, list) for o in value) else _chosen(value)
    )


TABLE_READER = Reader(
    "label-studio-table", "Label Studio, CSV or JSON-MIN", detect_table, read_table
)
