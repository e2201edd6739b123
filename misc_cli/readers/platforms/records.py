"""Records: Label Studio, Prodigy, doccano, Argilla, Labelbox, Potato, SageMaker, Zooniverse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import pyarrow as pa

from misc_cli.readers.document import Document, Record, mapping, objects, text
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.export import (
    Answer,
    Damaged,
    Field,
    Found,
    export,
    fields_of,
    first_of,
    gather,
    objects_in,
    platform,
)
from misc_cli.readers.reading import Reading
from misc_cli.readers.values import parsed

_USERS = ("user", "username", "user_id", "annotator", "annotator_id", "annotated_by")


@export("Label Studio, JSON", "completed_by", "id", "result[from_name={}].value")
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
    answers = [("label", user, said) for user, said in by_user.items()]
    keys = ("label", "labels", "cats", "entities", "relations")
    lists = [(key, record[key]) for key in keys if isinstance(record.get(key), list)]
    answers += [(key, first_of(record, *_USERS), own) for key, own in lists if own]
    if not answers:
        yield "not annotated"
    for question, who, said in answers:
        yield Answer(question, who, record.get("id"), said)


@export("Argilla records", "user_id", "id", "{}.value")
def argilla(record: Record, _: Document) -> Found:
    """Yield the responses to one record."""
    responses = list(_responses(record))
    inner = next(iter(mapping(record.get("fields")).values()), None)
    item = first_of({**record, "inner": inner}, "id", "external_id", "_server_id", "text", "inner")
    if not responses:
        yield "not annotated"
    for question, user, value, given in responses:
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
        if not labels:
            yield "not annotated"
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
    found = list(fields_of(fields, who, item))
    yield from ["not annotated"] if found == ["empty"] else found


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
