"""SageMaker Ground Truth and A2I: workers' answers before they are consolidated.

A post-annotation function gets `annotations` of each data object, JSON within JSON; files of
worker responses hold `answers` (A2I: humanAnswers). An output manifest has one consolidated label,
but for custom jobs whose function passes all answers on as annotationsFromAllWorkers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from misc_cli.errors import InputError
from misc_cli.readers.document import Document, Record, mapping, objects, text
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.export import Export, form_fields, of_records
from misc_cli.readers.reading import Reader, Reading
from misc_cli.readers.values import parsed

_ALL = "annotationsFromAllWorkers"
_RESPONSES = ("answers", "humanAnswers")


@of_records
def detect(record: Record) -> str | None:
    if "datasetObjectId" in record and isinstance(record.get("annotations"), list):
        return "datasetObjectId and annotations"
    for key in _RESPONSES:
        if any("answerContent" in answer for answer in objects(record.get(key))):
            return f"{key} with answerContent"
    return "a label and its -metadata" if _is_consolidated(record) else None


def _is_consolidated(record: Record) -> bool:
    metadata = [mapping(value) for key, value in record.items() if key.endswith("-metadata")]
    return any("human-annotated" in one or "job-name" in one for one in metadata)


def read(document: Document, options: ReadOptions) -> Reading:
    export = Export(document, options, "workerId", "datasetObjectId")
    for record in export.records():
        answers = list(_answers(export, record))
        if not answers and _is_consolidated(record):
            raise InputError(
                f"{document.name}: Ground Truth's output manifest holds consolidated labels and no "
                "workers; read the job's annotations/worker-response files"
            )
        if not answers:
            export.aside("not annotated")
        key, item = _item(document, record)
        for who, content in answers:
            export.fields(form_fields(content), who, item, paths={"item": key})
    return export.reading()


def _answers(export: Export, record: Record) -> Iterator[tuple[Any, Any]]:
    """Yield worker and content of each answer."""
    passed_on = [one for value in record.values() for one in objects(mapping(value).get(_ALL))]
    for one in [*export.objects(record.get("annotations"), "annotations"), *passed_on]:
        content = mapping(one.get("annotationData")).get("content", one.get("content"))
        content = parsed(content) if isinstance(content, str) else content
        if not isinstance(content, dict):
            raise export.error("annotationData.content is not JSON")
        yield one.get("workerId"), content
    for key in _RESPONSES:
        for one in export.objects(record.get(key), key):
            yield one.get("workerId"), one.get("answerContent")


def _item(document: Document, record: Record) -> tuple[str, str]:
    """Return what names the item, and its name: a file of responses lies in a folder of its own."""
    for key in ("datasetObjectId", "humanLoopName", "source-ref", "source"):
        if record.get(key) is not None:
            return key, text(record[key])
    path = PurePath(document.name)
    if path.parent.name.isdigit():
        return "the folder's number", path.parent.name
    return "the file's name", path.stem


READER = Reader("sagemaker", "SageMaker Ground Truth, workers' answers", detect, read)
