"""Exports that are records: JSON objects, and a table with JSON in its cells.

A platform's reader yields who said what about which item, the value as the export has it;
`as_label` tells for all of them what kind of label that is. All is gathered into columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from misc_cli.errors import InputError
from misc_cli.readers.document import Document, Record, mapping, objects, text, text_array
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms import Reader, platform
from misc_cli.readers.reading import Question, Reading
from misc_cli.readers.values import (
    CHOICE,
    CHOICES,
    OTHER,
    REGIONS,
    TEXT,
    WITH_CLASSES,
    kind_of,
    mark_region,
    parsed,
)
from misc_cli.readers.vocabulary import ROLES, is_remark

PLAIN = ""  # the kind of a plain field: its values tell
_STRENGTH = {PLAIN: 0, CHOICE: 1, CHOICES: 2}  # one answer of a stronger kind decides for all
_AROUND = ("choices", "selected", "rating", "number", "datetime")  # keys of an object's only value
_ALONE = ("label", "labels", "on")  # in the same way, where there is no other key

Field = tuple[str, Any]  # a question's name, the value


class Answer(NamedTuple):
    """One answer of an export; the value is any JSON.

    right  it is known to be right: gold, and nobody's vote
    scope  what goes before the question's name where a file has several scopes
    """

    question: str
    worker: Any
    item: Any
    value: Any
    right: bool = False
    seconds: Any = None
    scope: str = ""


# Of a record; a text is the reason to set it aside, nothing says that it was not annotated.
Found = Iterator[Answer | str]


class Damaged(Exception):
    """A record that no file of the platform holds; the message says what is wrong with it."""


def as_label(value: Any) -> tuple[str, Any]:
    """Return kind and label of a value: text, options, an object around them, or a region.

    {"choices": ["cat"]}, {"label": "cat"}, {"cat": true, "dog": false} and "cat" say the same.
    """
    if isinstance(value, list):
        inner = [as_label(one)[0] for one in value if isinstance(one, dict)]
        if len(value) == 1 and inner:
            return as_label(value[0])
        if REGIONS in inner or any(isinstance(one, list) for one in value):
            return REGIONS, text(value)
        return (OTHER, text(value)) if inner else (CHOICES if len(value) > 1 else CHOICE, value)
    if not isinstance(value, dict):
        return PLAIN, text(value)
    if mark_region(map(str, value)):
        return REGIONS, text(value)
    if isinstance(value.get("taxonomy"), list):
        paths = value["taxonomy"]
        return as_label(["/".join(map(text, p)) if isinstance(p, list) else p for p in paths])
    if "text" in value:
        return TEXT, text(value["text"])
    around = [key for key in value if key in _AROUND or (key in _ALONE and len(value) == 1)]
    if around and not isinstance(value[around[0]], dict):
        return as_label(value[around[0]])
    if value and all(isinstance(on, bool) for on in value.values()):
        return as_label([option for option, on in value.items() if on])
    return OTHER, text(value)


def export(title: str, *roles: str) -> Callable[[Callable[[Record, Document], Found]], Reader]:
    """Return what makes a function that yields the answers of a JSON object a platform's reader."""

    def reader(answers_in: Callable[[Record, Document], Found]) -> Reader:
        def read(document: Document, options: ReadOptions) -> Reading:
            if document.records is None:
                raise InputError(f"{document.name}: a table, and not {title}; export that")
            found = (answers_in(record, document) for record in document.records)
            return gather(document, options, found, *roles)

        return platform(title)(read)

    return reader


def gather(
    document: Document, options: ReadOptions, found: Iterable[Found], *roles: str
) -> Reading:
    """Return answers by question, given those of each row.

    A question is one of several choices if some list has more than one, and what is a region once
    is no class anywhere. If no answer of the file has a worker, only a majority vote is possible;
    if some have, the others are set aside.

    roles  the fields of worker, item and label, for people; {} is the question's name
    """
    aside: dict[str, list[int]] = {}
    answers: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    gold: dict[tuple[str, str], dict[str, Any]] = {}
    for row, of_record in enumerate(found):
        try:
            for one in list(of_record) or ["not annotated"]:
                if isinstance(one, str):
                    aside.setdefault(one, []).append(row)
                    continue
                item, (kind, label) = text(one.item), as_label(one.value)
                asked = one.scope, one.question
                if not item.strip():
                    raise Damaged("an answer without its item's id")
                if one.right:
                    gold.setdefault(asked, {})[item] = label
                else:
                    said = (row, text(one.worker), item, label, kind, text(one.seconds))
                    answers.setdefault(asked, []).append(said)
        except Damaged as error:
            is_table = document.records is None
            where = f"line {document.table.line(row)}" if is_table else f"record {row + 1}"
            raise InputError(f"{document.name}, {where}: {error}") from None
    nobody = [one[0] for own in answers.values() for one in own if not one[1].strip()]
    has_workers = len(nobody) < sum(map(len, answers.values())) or not answers
    if nobody and has_workers:
        aside["without a worker"] = nobody
    is_scoped = len({scope for scope, _ in answers}) > 1
    questions = []
    for asked, own in answers.items():
        kept = [one for one in own if one[1].strip() or not has_workers]
        if not kept:
            continue
        name = "".join(asked) if is_scoped else asked[1]
        rows, workers, items, labels, kinds, seconds = zip(*kept, strict=True)
        kind = max(kinds, key=lambda kind: _STRENGTH.get(kind, 3))
        if kind == PLAIN:
            kind = TEXT if is_remark(name) else kind_of(_column(labels, CHOICE)).name
            kind = CHOICE if kind == CHOICES else kind
        columns = text_array(workers), text_array(items), _column(labels, kind)
        told = dict(zip(ROLES, (role.replace("{}", name) for role in roles), strict=True))
        known = gold.get(asked, {})
        right = (text_array(known), _column(known.values(), kind)) if known else None
        took = text_array(seconds) if any(seconds) else None
        numbers = np.array(rows, dtype=np.int64)
        questions.append(Question(name, kind, *columns, numbers, right, told, took))
    votable = [one for one in questions if one.kind in WITH_CLASSES]
    is_alone = votable and all(len(one) == len(one.item.dictionary) for one in votable)
    if is_alone and not has_workers and options.worker_from is None:
        raise InputError(
            f"{document.name}: no worker is named, and each item has one answer; if each file is "
            "one worker's, give them all, with --worker-from"
        )
    return Reading(questions, aside, has_workers=has_workers)


def _column(values: Iterable[Any], kind: str) -> Any:
    """Return labels as a column: of sorted lists for several choices, else of text."""
    if kind not in WITH_CLASSES:
        return text_array(map(text, values))
    lists = (value if isinstance(value, list) else [value] for value in values)
    chosen = [sorted({text(one) for one in own if one not in (None, "")}) for own in lists]
    if kind == CHOICES:
        return pa.array(chosen, pa.list_(pa.string()))
    return text_array(map("".join, chosen))


def fields_of(
    fields: Iterable[Field], worker: Any, item: Any, gold: str = "", **more: Any
) -> Found:
    """Yield each field of a form as an answer; the record is set aside as empty if there is none.

    gold  the reason to set the record aside for, where its answers are the right ones
    more  seconds and scope of the answers
    """
    found = [field for field in fields if field[1] not in (None, "", [], {})]
    if gold or not found:
        yield gold if found else "empty"
    for question, value in found:
        yield Answer(question, worker, item, value, bool(gold), **more)


def objects_in(record: Mapping[str, Any], name: str) -> list[Record]:
    """Return a list of objects, or JSON of it, or nothing; else it is no file of the platform."""
    value = [] if record.get(name) is None else record[name]
    value = parsed(value) if isinstance(value, str) else value
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise Damaged(f"{name!r} should be a list of objects; export the file again")
    return value


def first_of(record: Mapping[str, Any], *keys: str) -> Any:
    """Return the first of these fields that is filled; None if none is."""
    return next((record[key] for key in keys if record.get(key) not in (None, "")), None)


_USERS = ("user", "username", "user_id", "annotator", "annotator_id", "annotated_by")


@export("Label Studio, JSON", "completed_by", "id", "result[from_name={}].value")
def label_studio(record: Record, _: Document) -> Found:
    """Yield the answers to a task, or of one annotation with its task inside, as storages have."""
    if isinstance(record.get("task"), dict):
        task, annotations = record["task"], [record]
    else:
        task, annotations = record, objects_in(record, "annotations")
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
        who, item = name_of(annotation.get("completed_by")), task.get("id")
        yield from fields_of(answers.items(), who, item, gold, seconds=annotation.get("lead_time"))


def name_of(who: Any) -> Any:
    """Return what an annotator of Label Studio is called."""
    return first_of(who, "email", "id", "username") if isinstance(who, dict) else who


@export("Prodigy, JSON lines", "_annotator_id or _session_id", "_input_hash or _task_hash", "{}")
def prodigy(task: Record, _: Document) -> Found:
    """Yield the answer of one task and annotator.

    The choice interface keeps the accepted options in `accept`; where a task only proposes a
    label, its verdict, accept or reject, is the answer.
    """
    verdict = text(task.get("answer")) or ("accept" if task.get("accept") else "")
    is_shown = "tokens" in task and "user_input" not in task  # marked, perhaps nowhere
    key = "_task_hash"
    said: Field = "answer", verdict  # of the label, or span, that the task proposes
    if "accept" in task or "options" in task:
        key, said = "_input_hash", ("accept", task.get("accept") or [])
    elif "label" not in task and (is_shown or {"spans", "relations", "audio_spans"} & set(task)):
        said = "spans", task.get("spans") or [[]]
    elif "user_input" in task:
        said = "user_input", {"text": task["user_input"]}
    item = first_of(task, key, "_input_hash", "_task_hash", "id", "text", "image")
    if verdict not in ("accept", "reject"):
        yield "ignored" if verdict == "ignore" else "unanswered"
    elif verdict == "reject" and said[0] in ("accept", "spans"):
        yield "rejected"
    else:
        yield Answer(said[0], first_of(task, "_annotator_id", "_session_id"), item, said[1])


@export("doccano, JSON lines", "user", "id", "{}")
def doccano(record: Record, _: Document) -> Found:
    """Yield the labels of one text.

    Versions before 1.2 write {"annotations": [{"label", "user"}]}, several of one user are one
    answer; later ones mostly name nobody. Spans are [start, end, label] or have a start_offset.
    """
    by_user: dict[str, list[Any]] = {}
    for one in objects_in(record, "annotations"):
        said = one if "start_offset" in one else one.get("label", one.get("text"))
        by_user.setdefault(text(one.get("user")), []).append(said)
    for user, labels in by_user.items():
        yield Answer("label", user, record.get("id"), labels)
    for key in ("label", "labels", "cats", "entities", "relations"):
        if record.get(key) and isinstance(record[key], list):
            yield Answer(key, first_of(record, *_USERS), record.get("id"), record[key])


@export("Argilla records", "user_id", "id", "{}.value")
def argilla(record: Record, _: Document) -> Found:
    """Yield the responses to one record."""
    inner = next(iter(mapping(record.get("fields")).values()), None)
    item = first_of({**record, "inner": inner}, "id", "external_id", "_server_id", "text", "inner")
    for question, user, value, given in _responses(record):
        status = text(given).lower()
        if status in ("", "submitted"):
            yield from fields_of([(question, value)], user, item)
        else:
            yield status


def _responses(record: Record) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield question, user, value and status of each response: flat, or by question."""
    flat = [key for key in record if key.endswith(".responses") and f"{key}.users" in record]
    if flat and isinstance(record.get("id"), list):
        raise Damaged("a list for each column, as to_dict() writes; export a record for each item")
    for key in flat:
        users, values, states = (record.get(key + end) or [] for end in (".users", "", ".status"))
        lists = (users, values, states or ([""] * len(users)))
        if not all(isinstance(own, list) for own in lists) or len(set(map(len, lists))) > 1:
            raise Damaged(f"{key} and {key}.users should be lists of the same length")
        for user, value, state in zip(*lists, strict=True):
            yield key.removesuffix(".responses"), user, value, state
    given = record.get("responses")
    for question, value in (given if isinstance(given, dict) else {} if flat else record).items():
        for one in objects(value):
            if {"user_id", "value", "status"} <= set(one) or isinstance(given, dict):
                yield question, one.get("user_id"), one.get("value"), one.get("status")


@export("Labelbox, NDJSON", "label_details.created_by", "data_row", "classifications[name={}]")
def labelbox(record: Record, _: Document) -> Found:
    """Yield the labels of one data row; a reference label of the benchmark is gold."""
    item = first_of(mapping(record.get("data_row")), "global_key", "external_id", "id")
    for project in map(mapping, mapping(record.get("projects")).values()):
        labels = objects_in(project, "labels")
        shown = [mapping(one.get("performance_details")) for one in labels]
        references = {text(one.get("benchmark_reference_label")) for one in shown} - {""}
        for label, performance in zip(labels, shown, strict=True):
            details = mapping(label.get("label_details"))
            if any(part.get("skipped") is True for part in (label, details, performance)):
                yield "skipped"
                continue
            right = label.get("label_kind") == "Benchmark" or text(label.get("id")) in references
            fields = _classifications(mapping(label.get("annotations")))
            who, gold = details.get("created_by"), "benchmark" if right else ""
            yield from fields_of(fields, who, item, gold, scope=f"{text(project.get('name'))}: ")


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


@export("Potato, JSON lines", "user", "id", "label_annotations.{}")
def potato(record: Record, _: Document) -> Found:
    """Yield the schemes of one instance; a chosen label has a value, whatever it is."""
    who, item = first_of(record, *_USERS), first_of(record, "instance_id", "id")
    fields: list[Field] = [("spans", record.get("span_annotations"))]
    for scheme, labels in mapping(record.get("label_annotations")).items():
        nothing = ("", "false", "none", "null", "0")
        filled = {k: v for k, v in mapping(labels).items() if text(v).lower() not in nothing}
        free = first_of(filled, "text_box", "textbox", "free_response", "bad_text")
        fields.append((scheme, list(filled) if free is None else {"text": free}))
    if any(value for _, value in fields):
        yield from fields_of(fields, who, item)


@export("SageMaker Ground Truth, workers' answers", "workerId", "datasetObjectId", "{}")
def sagemaker(record: Record, document: Document) -> Found:
    """Yield workers' answers to a data object before they are consolidated.

    A post-annotation function gets `annotations`, JSON within JSON; files of worker responses hold
    `answers` (A2I: humanAnswers). An output manifest has one consolidated label, but for custom
    jobs whose function passes all answers on as annotationsFromAllWorkers.
    """
    given: list[Record] = []
    for key in ("annotations", "answers", "humanAnswers"):
        given += objects_in(record, key)
    for job in record.values():
        given += objects(mapping(job).get("annotationsFromAllWorkers"))
    item = first_of(record, "datasetObjectId", "humanLoopName", "source-ref", "source")
    if item is None:  # a file of responses lies in a folder of its own
        path = PurePath(document.name)
        item = path.parent.name if path.parent.name.isdigit() else path.stem
    if not given:
        yield "no worker's answer"
    for one in given:
        found = {**one, **mapping(one.get("annotationData"))}
        content = first_of(found, "content", "answerContent")
        content = parsed(content) if isinstance(content, str) else content
        if not isinstance(content, dict):
            raise Damaged("a worker's content is not JSON")
        yield from fields_of(content.items(), one.get("workerId"), item)


@platform("Zooniverse, CSV of classifications")
def zooniverse(document: Document, options: ReadOptions) -> Reading:
    """Read the tasks of each classification, which are JSON; an expert's are the right answers."""
    rows = pa.table(document.columns(document.names), document.names).to_pylist()
    found = map(_classification, rows)
    return gather(document, options, found, "user_name", "subject_ids", "annotations[task={}]")


def _classification(row: Record) -> Found:
    answers = [one for task in objects_in(row, "annotations") for one in _task_fields(task)]
    who = first_of(row, "user_name", "user_id", "user_ip")
    gold = "gold standard" if row.get("gold_standard", "").lower() == "true" else ""
    workflow = f"{row.get('workflow_id')}."
    yield from fields_of(answers, who, row.get("subject_ids"), gold, scope=workflow)


def _task_fields(task: Record) -> Iterator[Field]:
    """Yield the answer of a task, and of those that it combines; a survey's are {"choice"}."""
    question, value = text(task.get("task")) or "task", task.get("value")
    inner = objects(value)
    if inner and all("task" in one and "value" in one for one in inner):
        for one in inner:
            yield from _task_fields(one)
    elif inner and all("choice" in one for one in inner):
        yield question, [one["choice"] for one in inner]
    else:
        yield question, value
