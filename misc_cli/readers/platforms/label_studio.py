"""Label Studio, JSON: one record per task, one annotation per worker, one result per region.

Versions before 1.0 say `completions` and `skipped`. Storages are fed one annotation per record,
with its `task` inside. CSV and JSON-MIN have a row per annotation and a column per question.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import pyarrow.compute as pc

from misc_cli.readers.document import (
    Document,
    Record,
    is_one_of,
    mapping,
    table_of,
    text,
    text_array,
)
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.export import (
    Damaged,
    Found,
    as_label,
    certain,
    export,
    fields_of,
    first_of,
    objects_in,
    questions_within,
    with_columns,
)
from misc_cli.readers.reading import Reading, from_columns
from misc_cli.readers.values import parsed


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
        answers: dict[str, list[Record]] = {}  # several of one question are about regions
        for result in objects_in(annotation, "result"):
            value = result.get("value", {})  # a relation between regions has none
            if not isinstance(value, dict):
                raise Damaged("'value' should be an object; export it again")
            if "item_index" in result:
                value = {"page": result["item_index"], "said": value}  # one page of several
            known = answers.setdefault(text(result.get("from_name")) or "label", [])
            if value and value not in known:
                known.append(value)
        gold = "ground truth" if annotation.get("ground_truth") else ""
        who, item = _who(annotation.get("completed_by")), text(task.get("id")) or only
        yield from fields_of(answers.items(), who, item, gold, annotation.get("lead_time"))


def _who(who: Any) -> Any:
    return first_of(who, "email", "id", "username") if isinstance(who, dict) else who


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
        rows = [
            {k: text(_who(v) if k == "annotator" else v) for k, v in record.items()}
            for record in document.records
        ]
        document = Document(document.name, document.format, lambda: table_of(rows))
    asked, derived = list[str](), {}
    if options.label_col is None:
        asked = questions_within(document, "id", [n for n in document.names if n not in _OWN])
    for name, column in zip(asked, document.columns(asked), strict=True):
        values = [as_label(parsed(cell) or cell)[1] for cell in column.dictionary.to_pylist()]
        derived[name] = text_array(map(text, values)).take(column.indices)

    def empty(column: Callable[[str], Any]) -> dict[str, Any]:
        blank = [is_one_of(column(name), "") for name in asked]
        return {"empty": reduce(pc.and_, blank)} if blank else {}

    return from_columns(
        with_columns(document, derived),
        worker="annotator",
        item="id",
        questions={name: name for name in asked},
        options=options,
        aside=empty,
    )


TABLE = certain("label-studio-table", "Label Studio, CSV or JSON-MIN", _read_table)
