"""The table of readers: one line per format; the surest reads.

docs/platforms.md links the documentation that each was written from. A reader's module is imported
only if one of its `marks` is in the file, so that a plain table of worker, item and label pays for
none of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING

from misc_cli.errors import InputError

if TYPE_CHECKING:
    from misc_cli.readers.document import Document
    from misc_cli.readers.reading import Match, Reader

LOOKED_AT = 50  # records whose keys are searched for marks


@dataclass(frozen=True)
class Entry:
    """The place of a reader, and how names begin in the files that are worth asking it about.

    module  in this package
    marks   a column, or a key at the top of a JSON object, begins with one of them
    reader  the name of the reader in the module
    """

    module: str
    marks: tuple[str, ...]
    reader: str = "READER"


# The first words of the column of times in a form's responses.
_TIMESTAMPS = (
    *("Timestamp", "Zeitstempel", "Horodateur", "Marca temporal", "Informazioni crono"),
    *("Carimbo de", "Tijdstempel", "Отметка", "タイムスタンプ", "时间戳", "타임스탬프"),
)
READERS: dict[str, Entry] = {
    "label-studio": Entry("label_studio", ("annotations", "completions", "result")),
    "label-studio-table": Entry("label_studio", ("annotation_id", "annotator"), "TABLE_READER"),
    "prodigy": Entry("prodigy", ("_input_hash", "_task_hash", "_session_id", "_annotator_id")),
    "toloka": Entry("crowd_reports", ("INPUT:", "OUTPUT:", "ASSIGNMENT:"), "TOLOKA"),
    "mturk": Entry("mturk", ("HITId",)),
    "appen": Entry("crowd_reports", ("_unit_id", "_worker_id"), "APPEN"),
    "doccano": Entry("doccano", ("annotations", "label", "cats", "entities")),
    "argilla": Entry("argilla", ("responses", "fields", "external_id", "status")),
    "labelbox": Entry("annotation_suites", ("data_row",), "LABELBOX"),
    "superannotate": Entry("annotation_suites", ("instances",), "SUPERANNOTATE"),
    "sagemaker": Entry("sagemaker", ("datasetObjectId", "answers", "humanAnswers", "source")),
    "zooniverse": Entry("zooniverse", ("classification_id",)),
    "potato": Entry("potato", ("label_annotations", "instance_id")),
    "google-forms": Entry("surveys", _TIMESTAMPS, "GOOGLE_FORMS"),
    "qualtrics": Entry("surveys", ("ResponseId",), "QUALTRICS"),
    "surveymonkey": Entry("surveys", ("Respondent", "respondent_id"), "SURVEYMONKEY"),
    "snorkel": Entry("labelling_functions", ("lf_", "LF_"), "SNORKEL"),
    "wrench": Entry("labelling_functions", ("weak_labels", "0"), "WRENCH"),
}


# Exports that hold nothing to vote on or are no longer read, by keys of their first object.
_OWN = "export each annotator's own answers"
_XML = "Mechanical Turk's answers as XML are not read; download the batch as CSV"
_REFUSED = {
    ("task_id", "response", "params"): f"a task of Scale names no annotators; {_OWN}",
    ("tags", "shapes", "version"): f"annotations of CVAT name no annotators; {_OWN}",
    ("images", "annotations", "categories"): f"COCO holds boxes, and no annotators; {_OWN}",
    ("categories", "items", "info"): f"Datumaro names no annotators; {_OWN}",
    ("Label", "Created By", "DataRow ID"): "version 1 of Labelbox's export; export NDJSON (v2)",
    ("Assignments", "NumResults"): _XML,
    ("AssignmentId", "HITId", "Answer"): _XML,
}
_TAG = re.compile(r"O|[BIESLU]-[\w-]+")  # of a token


def load(name: str) -> Reader:
    entry = READERS[name]
    module = import_module(f"misc_cli.readers.platforms.{entry.module}")
    reader: Reader = getattr(module, entry.reader)
    return reader


def recognise(document: Document) -> tuple[Reader, Match] | None:
    """Return the platform whose file this is, and how that was told; None for other files."""
    _refuse_others(document)
    found = []
    keys = _keys(document)
    for name, entry in READERS.items():
        if any(key.startswith(entry.marks) for key in keys):
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


def _refuse_others(document: Document) -> None:
    """Raise for exports that would be read wrong as plain tables, and for tags of tokens."""
    why = None
    if document.records:
        known = (why for keys, why in _REFUSED.items() if set(keys) <= set(document.records[0]))
        why = next(known, None)
    elif document.records is None and (document.table.header is False or document.table.doubtful):
        last = [row[-1].strip() for row in document.table.sample if row]
        tags = [cell for cell in last if _TAG.fullmatch(cell)]
        if len(last) > 4 and len(tags) > 0.8 * len(last) and len(set(tags)) > 1:
            why = "tags of tokens (CoNLL), not of items: there are no classes to vote on"
    if why is not None:
        raise InputError(f"{document.name}: {why}")
