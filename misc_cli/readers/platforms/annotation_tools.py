"""Tools for teams of annotators: Prodigy, doccano, Argilla, Labelbox and Potato."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from misc_cli.readers.document import Document, Record, mapping, objects, text
from misc_cli.readers.platforms.export import (
    PLAIN,
    Answer,
    Damaged,
    Field,
    Found,
    export,
    fields_of,
    first_of,
    kind_of_region,
    objects_in,
    rows_as_records,
)
from misc_cli.readers.values import BOXES, CHOICE, CHOICES, OTHER, SPANS, TEXT

_USERS = ("user", "username", "user_id", "annotator", "annotator_id", "annotated_by")


def _prodigy(task: Record, _: Document) -> Found:
    """Yield the answer of one task and annotator.

    The choice interface keeps the accepted options in `accept`; where a task only proposes a
    label, its verdict, accept or reject, is the answer.
    """
    if "versions" in task:
        raise Damaged(
            "made by Prodigy's review, which merges the annotators; export the datasets that "
            "were reviewed"
        )
    verdict = text(task.get("answer")) or ("accept" if task.get("accept") else "")
    is_choice = "accept" in task or "options" in task
    marked = None if is_choice or "label" in task else _marked(task)
    key = "_input_hash" if is_choice else "_task_hash"
    item = first_of(task, key, "_input_hash", "_task_hash", "id", "text", "image")
    who = first_of(task, "_annotator_id", "_session_id")
    if verdict not in ("accept", "reject"):
        yield "ignored" if verdict == "ignore" else "unanswered"
    elif verdict == "reject" and (is_choice or marked):
        yield "rejected"
    elif is_choice:
        accepted = task.get("accept")
        chosen = accepted if isinstance(accepted, list) else [] if accepted is None else [accepted]
        several = mapping(task.get("config")).get("choice_style") == "multiple"
        yield Answer("accept", who, item, chosen, CHOICES if several else CHOICE)
    elif marked:
        yield Answer("spans", who, item, text(task.get("spans")), marked)
    elif "user_input" in task:
        yield Answer("user_input", who, item, task["user_input"], TEXT)
    else:  # yes or no to the label, or to the span, that the task proposes
        yield Answer("answer", who, item, verdict)


def _marked(task: Record) -> str | None:
    """Return the kind of what the annotator drew; None for a question about the whole."""
    if "relations" in task or "audio_spans" in task:
        return SPANS
    spans = task.get("spans")
    if not isinstance(spans, list):  # nothing was marked in a text that is shown as tokens
        return SPANS if "tokens" in task and "user_input" not in task else None
    return BOXES if any("points" in span for span in objects(spans)) else SPANS


PRODIGY = export(
    "prodigy",
    "Prodigy, JSON lines",
    _prodigy,
    ("_annotator_id or _session_id", "_input_hash or _task_hash", "{}"),
)


def _doccano(record: Record, _: Document) -> Found:
    """Yield the labels of one text.

    Versions before 1.2 write {"annotations": [{"label", "user"}]}, several of one user are one
    answer; later ones mostly name nobody. Spans are [start, end, label] or have a start_offset.
    """
    item, by_user = record.get("id"), dict[str, list[Record]]()
    for annotation in objects_in(record, "annotations"):
        by_user.setdefault(text(annotation.get("user")), []).append(annotation)
    for user, own in by_user.items():
        if any("start_offset" in annotation for annotation in own):
            yield Answer("spans", user, item, text(own), SPANS)
        else:
            yield Answer("label", user, item, [one.get("label", one.get("text")) for one in own])
    who = first_of(record, *_USERS)
    filled = [k for k in ("label", "labels", "cats") if record.get(k) and _is_list(record[k])]
    for key in filled:
        spans = any(isinstance(value, list | dict) for value in record[key])
        yield Answer(key, who, item, record[key], SPANS if spans else CHOICE)
    if record.get("entities") or record.get("relations"):
        yield Answer("entities", who, item, text(record.get("entities")), SPANS)
    elif not filled and not by_user:
        yield "not annotated"


DOCCANO = export(
    "doccano", "doccano, JSON lines", _doccano, ("user", "id", "{}"), file_per_worker=True
)

_FLAT = ".responses"  # question.responses, and question.responses.users beside it


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _argilla(record: Record, _: Document) -> Found:
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
        elif not _is_list(value):
            yield Answer(question, user, item, value, OTHER if isinstance(value, dict) else PLAIN)
        elif any(_is_list(one) or kind_of_region(one) for one in value):
            yield Answer(question, user, item, value, SPANS)
        else:
            yield Answer(question, user, item, value, OTHER if objects(value) else CHOICE)


def _responses(record: Record) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield question, user, value and status of each response: flat, by user, or by question."""
    flat = [key for key in record if key.endswith(_FLAT) and f"{key}.users" in record]
    for key in flat:
        values, users, states = (record.get(key + end) or [] for end in ("", ".users", ".status"))
        states = states or ([""] * len(users))
        lists = (values, users, states)
        if not all(map(_is_list, lists)) or len(set(map(len, lists))) > 1:
            raise Damaged(f"{key} and {key}.users should be lists of the same length")
        for value, user, state in zip(*lists, strict=True):
            yield key.removesuffix(_FLAT), user, value, state
    given = record.get("responses")
    for response in objects(given):  # version 1: all answers of one user
        for question, value in mapping(response.get("values")).items():
            value = value.get("value") if isinstance(value, dict) else value
            yield question, response.get("user_id"), value, response.get("status")
    for question, value in (given if isinstance(given, dict) else {} if flat else record).items():
        for one in objects(value):
            if {"user_id", "value", "status"} <= set(one) or isinstance(given, dict):
                yield question, one.get("user_id"), one.get("value"), one.get("status")


def _argilla_records(document: Document) -> list[Record]:
    """Return the rows of to_dict(), which writes a list per column; other records as they are."""
    records = document.records or []
    if len(records) != 1 or "id" not in records[0]:
        return records
    columns = records[0].values()
    if not all(map(_is_list, columns)) or len(set(map(len, columns))) != 1:
        return records
    return [dict(zip(records[0], row, strict=True)) for row in zip(*columns, strict=True)]


ARGILLA = export(
    "argilla",
    "Argilla records",
    _argilla,
    ("user_id", "id", "{}.value"),
    records=_argilla_records,
)


def _labelbox(record: Record, document: Document) -> Found:
    """Yield the labels of one data row; a reference label of the benchmark is gold."""
    item = first_of(mapping(record.get("data_row")), "global_key", "external_id", "id")
    projects = mapping(record.get("projects"))
    several = any(len(mapping(one.get("projects"))) > 1 for one in document.records or [])
    for project in map(mapping, projects.values()):
        prefix = f"{text(project.get('name'))}: " if several and project.get("name") else ""
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
            fields = _classifications(mapping(label.get("annotations")), prefix)
            yield from fields_of(
                fields, details.get("created_by"), item, "benchmark" if right else ""
            )


def _classifications(answer: Record, prefix: str) -> Iterator[Field]:
    """Yield the answers to the questions of an annotation, and to those that an answer opens."""
    regions = objects(answer.get("objects"))
    if regions:
        spans = any(
            "TextEntity" in text(r.get("annotation_kind")) or "location" in r for r in regions
        )
        yield f"{prefix}objects", SPANS if spans else BOXES, text(regions)
    for one in objects(answer.get("classifications")):
        question = f"{prefix}{_called(one)}"
        radio, several = one.get("radio_answer"), one.get("checklist_answers")
        free = one.get("text_answer")
        if isinstance(radio, dict):
            yield question, CHOICE, _called(radio)
            yield from _classifications(radio, f"{question}/")
        elif isinstance(several, list):
            yield question, CHOICES, list(map(_called, objects(several)))
            for inner in objects(several):
                yield from _classifications(inner, f"{question}/{_called(inner)}/")
        elif free is not None:
            yield question, TEXT, text(free.get("content") if isinstance(free, dict) else free)


def _called(answer: Record) -> str:
    return text(answer.get("name") or answer.get("value"))


LABELBOX = export(
    "labelbox",
    "Labelbox, NDJSON",
    _labelbox,
    ("label_details.created_by", "data_row", "classifications[name={}]"),
)

_SCHEME = ":::"  # between a question and a label in the name of a TSV's column


def _potato(record: Record, _: Document) -> Found:
    """Yield the schemes of one instance; a chosen label has a value, whatever it is."""
    who, item = first_of(record, *_USERS), first_of(record, "instance_id", "id")
    said = False
    for scheme, labels in mapping(record.get("label_annotations")).items():
        filled = {
            name: value
            for name, value in mapping(labels).items()
            if text(value).lower() not in ("", "false", "none", "null", "0")
        }
        said |= bool(filled)
        free = first_of(filled, "text_box", "textbox", "free_response", "bad_text")
        if filled:
            kind = CHOICE if free is None else TEXT
            yield Answer(scheme, who, item, list(filled) if free is None else text(free), kind)
    if record.get("span_annotations"):
        yield Answer("spans", who, item, text(record["span_annotations"]), SPANS)
    elif not said:
        yield "not annotated"


def _potato_records(document: Document) -> list[Record]:
    """Return JSON lines as they are, and rows of a TSV as JSON lines of the same answers."""
    if document.records is not None:
        return document.records
    found = []
    for row in rows_as_records(document):
        schemes: dict[str, Record] = {}
        for name, cell in row.items():
            scheme, marked, label = name.partition(_SCHEME)
            if marked:
                schemes.setdefault(scheme, {})[label] = cell
        found.append({"id": row[document.names[0]], **row, "label_annotations": schemes})
    return found


POTATO = export(
    "potato",
    "Potato, annotated instances",
    _potato,
    ("user", "id", "label_annotations.{}"),
    records=_potato_records,
    file_per_worker=True,
)
