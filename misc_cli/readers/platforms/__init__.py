"""The table of readers: one line per format, one file each; the surest reads.

docs/platforms.md links the documentation that each was written from. A reader's module is imported
only if one of its `marks` is in the file, so that a plain table of worker, item and label pays for
none of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from misc_cli.readers.document import Document
    from misc_cli.readers.reading import Match, Reader

LOOKED_AT = 50  # records whose keys are searched for marks


@dataclass(frozen=True)
class Entry:
    """The place of a reader, and how names begin in the files that are worth asking it about.

    module  in this package
    marks   a column, or a key at the top of a JSON object, begins with one of them; () is any file
    reader  the name of the reader in the module
    """

    module: str
    marks: tuple[str, ...]
    reader: str = "READER"


READERS: dict[str, Entry] = {
    "label-studio": Entry("label_studio", ("annotations", "completions", "result")),
    "label-studio-table": Entry("label_studio", ("annotation_id", "annotator"), "TABLE_READER"),
    "prodigy": Entry("prodigy", ("_input_hash", "_task_hash", "_session_id", "_annotator_id")),
    "toloka": Entry("toloka", ("INPUT:", "OUTPUT:", "ASSIGNMENT:")),
    "toloka-api": Entry("toloka", ("solutions", "items", "data"), "API_READER"),
    "mturk": Entry("mturk", ("HITId", "AssignmentId", "WorkerId")),
    "mturk-api": Entry("mturk", ("Assignments", "AssignmentId"), "API_READER"),
    "appen": Entry("appen", ("_unit_id", "_worker_id")),
    "appen-json": Entry("appen", ("results",), "JSON_READER"),
    "dataloop": Entry("dataloop", ("annotations",)),
    "doccano": Entry("doccano", ("annotations", "label", "cats", "entities")),
    "argilla": Entry(
        "argilla", ("responses", "annotation_agent", "fields", "external_id", "status")
    ),
    "labelbox": Entry("labelbox", ("data_row", "Created By")),
    "superannotate": Entry("superannotate", ("instances",)),
    "sagemaker": Entry("sagemaker", ("datasetObjectId", "answers", "humanAnswers", "source")),
    "zooniverse": Entry("zooniverse", ("classification_id",)),
    "potato": Entry("potato", ("label_annotations", "instance_id")),
    "google-forms": Entry(
        "surveys",
        (
            *("Timestamp", "Zeitstempel", "Horodateur", "Marca temporal", "Informazioni crono"),
            *("Carimbo de", "Tijdstempel", "Отметка", "タイムスタンプ", "时间戳", "타임스탬프"),
        ),
        "GOOGLE_FORMS",
    ),
    "qualtrics": Entry("surveys", ("ResponseId",), "QUALTRICS"),
    "surveymonkey": Entry(
        "surveys", ("Respondent ID", "RespondentID", "respondent_id"), "SURVEYMONKEY"
    ),
    "snorkel": Entry("labelling_functions", ("lf_", "LF_"), "SNORKEL"),
    "wrench": Entry("labelling_functions", ("weak_labels", "0"), "WRENCH"),
    "without-workers": Entry("without_workers", ()),
}


def load(name: str) -> Reader:
    entry = READERS[name]
    module = import_module(f"misc_cli.readers.platforms.{entry.module}")
    reader: Reader = getattr(module, entry.reader)
    return reader


def recognise(document: Document) -> tuple[Reader, Match] | None:
    """Return the platform whose file this is, and how that was told; None for other files."""
    found = []
    keys = _keys(document)
    for name, entry in READERS.items():
        if not entry.marks or any(key.startswith(entry.marks) for key in keys):
            reader = load(name)
            match = reader.detect(document)
            if match is not None:
                found.append((reader, match))
    return max(found, key=lambda pair: pair[1].sure, default=None)


def _keys(document: Document) -> list[str]:
    if document.records is None:
        return document.names if document.table.header is not False else []
    first = islice(document.records, LOOKED_AT)
    return list(dict.fromkeys(key for record in first for key in record))
