"""Tools for teams of annotators: Label Studio, Prodigy, doccano, Argilla, Labelbox and Potato."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any

import pyarrow.compute as pc

from misc_cli.readers.document import (
    Document,
    Record,
    is_one_of,
    mapping,
    objects,
    table_of,
    text,
    text_array,
)
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.export import (
    Answer,
    Damaged,
    Field,
    Found,
    as_label,
    export,
    fields_of,
    first_of,
    objects_in,
    platform,
    questions_within,
    with_columns,
)
from misc_cli.readers.reading import Reading, from_columns
from misc_cli.readers.values import parsed


@export("label-studio", "Label Studio, JSON", "completed_by", "id", "result[from_name={}].value")
def label_studio(record: Record, _: Document) -> Found:
    """Yield the answers to a task, or of one annotation with its task inside, as storages have."""
    if isinstance(record.get("task"), dict):
        task, annotations = record["task"], [record]
    else:
        task, annotations = record, objects_in(record, "annotations")
    if not annotations:
        yield "not annotated"
    for annotation in annotations:
        if annotation.get("was_cancelled"):
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
        who, item = _who(annotation.get("completed_by")), task.get("id")
        yield from fields_of(answers.items(), who, item, gold, seconds=annotation.get("lead_time"))


def _who(who: Any) -> Any:
    return first_of(who, "email", "id", "username") if isinstance(who, dict) else who


_OWN = {
    *("annotation_id", "annotator", "id", "created_at", "updated_at", "lead_time", "agreement"),
    *("inner_id", "updated_by", "project", "file_upload", "comment_count", "was_cancelled"),
}


@platform("label-studio-table", "Label Studio, CSV or JSON-MIN")
def label_studio_table(document: Document, options: ReadOptions) -> Reading:
    """Read a row per annotation, a column per question; JSON-MIN is the CSV of the same tasks."""
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
    return from_columns(
        with_columns(document, derived),
        worker="annotator",
        item="id",
        questions={name: name for name in asked},
        options=options,
        aside=lambda column: {
            "empty": reduce(pc.and_, (is_one_of(column(name), "") for name in asked or ["id"]))
        },
    )


_USERS = ("user", "username", "user_id", "annotator", "annotator_id", "annotated_by")


_WHO, _HASHES = "_annotator_id or _session_id", "_input_hash or _task_hash"


@export("prodigy", "Prodigy, JSON lines", _WHO, _HASHES, "{}")
def prodigy(task: Record, _: Document) -> Found:
    """Yield the answer of one task and annotator.

    The choice interface keeps the accepted options in `accept`; where a task only proposes a
    label, its verdict, accept or reject, is the answer.
    """
    verdict = text(task.get("answer")) or ("accept" if task.get("accept") else "")
    is_choice = "accept" in task or "options" in task
    # a text that is shown as tokens is marked, perhaps nowhere
    is_shown = "tokens" in task and "user_input" not in task
    is_marked = is_shown or bool({"spans", "relations", "audio_spans"} & set(task))
    is_marked = is_marked and not is_choice and "label" not in task
    key = "_input_hash" if is_choice else "_task_hash"
    item = first_of(task, key, "_input_hash", "_task_hash", "id", "text", "image")
    who = first_of(task, "_annotator_id", "_session_id")
    if verdict not in ("accept", "reject"):
        yield "ignored" if verdict == "ignore" else "unanswered"
    elif verdict == "reject" and (is_choice or is_marked):
        yield "rejected"
    elif is_choice:
        accepted = task.get("accept")
        yield Answer("accept", who, item, [] if accepted is None else accepted)
    elif is_marked:
        yield Answer("spans", who, item, task.get("spans") or [[]])
    elif "user_input" in task:
        yield Answer("user_input", who, item, {"text": task["user_input"]})
    else:  # yes or no to the label, or to the span, that the task proposes
        yield Answer("answer", who, item, verdict)


@export("doccano", "doccano, JSON lines", "user", "id", "{}")
def doccano(record: Record, _: Document) -> Found:
    """Yield the labels of one text.

    Versions before 1.2 write {"annotations": [{"label", "user"}]}, several of one user are one
    answer; later ones mostly name nobody. Spans are [start, end, label] or have a start_offset.
    """
    item, by_user = record.get("id"), dict[str, list[Record]]()
    for annotation in objects_in(record, "annotations"):
        by_user.setdefault(text(annotation.get("user")), []).append(annotation)
    for user, own in by_user.items():
        are_spans = any("start_offset" in annotation for annotation in own)
        said = own if are_spans else [one.get("label", one.get("text")) for one in own]
        yield Answer("spans" if are_spans else "label", user, item, said)
    keys = ("label", "labels", "cats", "entities", "relations")
    filled = [key for key in keys if record.get(key) and isinstance(record[key], list)]
    for key in filled:
        yield Answer(key, first_of(record, *_USERS), item, record[key])
    if not filled and not by_user:
        yield "not annotated"


_FLAT = ".responses"  # question.responses, and question.responses.users beside it


@export("argilla", "Argilla records", "user_id", "id", "{}.value")
def argilla(record: Record, _: Document) -> Found:
    """Yield the responses to one record."""
    responses = list(_responses(record))
    inner = next(iter(mapping(record.get("fields")).values()), None)
    item = first_of({**record, "inner": inner}, "id", "external_id", "_server_id", "text", "inner")
    if not responses:
        yield "not annotated"
    for question, user, value, given in responses:
        status = text(given).lower()
        if status not in ("", "submitted"):
            yield status
        elif value in (None, ""):
            yield "empty"
        else:
            yield Answer(question, user, item, value)


def _responses(record: Record) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield question, user, value and status of each response: flat, or by question."""
    flat = [key for key in record if key.endswith(_FLAT) and f"{key}.users" in record]
    if flat and isinstance(record.get("id"), list):
        raise Damaged("a list for each column, as to_dict() writes; export a record for each item")
    for key in flat:
        values, users, states = (record.get(key + end) or [] for end in ("", ".users", ".status"))
        lists = (values, users, states or ([""] * len(users)))
        if not all(isinstance(own, list) for own in lists) or len(set(map(len, lists))) > 1:
            raise Damaged(f"{key} and {key}.users should be lists of the same length")
        for value, user, state in zip(*lists, strict=True):
            yield key.removesuffix(_FLAT), user, value, state
    given = record.get("responses")
    for question, value in (given if isinstance(given, dict) else {} if flat else record).items():
        for one in objects(value):
            if {"user_id", "value", "status"} <= set(one) or isinstance(given, dict):
                yield question, one.get("user_id"), one.get("value"), one.get("status")


_NAMED = ("label_details.created_by", "data_row", "classifications[name={}]")


@export("labelbox", "Labelbox, NDJSON", *_NAMED)
def labelbox(record: Record, _: Document) -> Found:
    """Yield the labels of one data row; a reference label of the benchmark is gold."""
    item = first_of(mapping(record.get("data_row")), "global_key", "external_id", "id")
    for project in map(mapping, mapping(record.get("projects")).values()):
        labels = objects_in(project, "labels")
        if not labels:
            yield "not annotated"
        compared = [mapping(one.get("performance_details")) for one in labels]
        references = {text(one.get("benchmark_reference_label")) for one in compared} - {""}
        for label, performance in zip(labels, compared, strict=True):
            details = mapping(label.get("label_details"))
            if any(part.get("skipped") is True for part in (label, details, performance)):
                yield "skipped"
                continue
            right = label.get("label_kind") == "Benchmark" or text(label.get("id")) in references
            fields = _classifications(mapping(label.get("annotations")))
            who, gold = details.get("created_by"), "benchmark" if right else ""
            scope = f"{text(project.get('name'))}: "
            yield from fields_of(fields, who, item, gold, scope=scope)


def _classifications(answer: Record, prefix: str = "") -> Iterator[Field]:
    """Yield the answers to the questions of an annotation, and to those that an answer opens."""
    yield f"{prefix}objects", objects(answer.get("objects"))
    for one in objects(answer.get("classifications")):
        question, free = f"{prefix}{_called(one)}", one.get("text_answer")
        chosen = [*objects([one.get("radio_answer")]), *objects(one.get("checklist_answers"))]
        yield question, list(map(_called, chosen))
        if free is not None:
            yield question, {"text": free.get("content") if isinstance(free, dict) else free}
        for inner in chosen:
            yield from _classifications(inner, f"{question}/{_called(inner)}/")


def _called(answer: Record) -> str:
    return text(answer.get("name") or answer.get("value"))


_FREE = ("text_box", "textbox", "free_response", "bad_text")


@export("potato", "Potato, JSON lines", "user", "id", "label_annotations.{}")
def potato(record: Record, _: Document) -> Found:
    """Yield the schemes of one instance; a chosen label has a value, whatever it is."""
    who, item = first_of(record, *_USERS), first_of(record, "instance_id", "id")
    fields: list[Field] = [("spans", record.get("span_annotations"))]
    for scheme, labels in mapping(record.get("label_annotations")).items():
        nothing = ("", "false", "none", "null", "0")
        filled = {k: v for k, v in mapping(labels).items() if text(v).lower() not in nothing}
        free = first_of(filled, *_FREE)
        fields.append((scheme, list(filled) if free is None else {"text": free}))
    found = list(fields_of(fields, who, item))
    yield from ["not annotated"] if found == ["empty"] else found
