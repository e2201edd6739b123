"""The table of platforms: one line each; the first whose keys are in a file reads it.

docs/platforms.md links the documentation that each was written from. A module is imported only if
a file shows the keys of its platform, so that a plain table pays for none of them.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from misc_cli.readers.document import Document
    from misc_cli.readers.options import ReadOptions
    from misc_cli.readers.reading import Reading

LOOKED_AT = 20  # records whose keys are searched

# Name → module, then what only its files show, one of: keys of an object, or columns, perhaps with
# =[] for a list there, ={} for an object, ={a,b} for one with these keys (or a list of them).
READERS = {
    "label-studio": ("records", "data={} annotations=[]; task={data} result"),
    "label-studio-table": ("rows", "annotation_id annotator id"),
    "prodigy": ("records", "*_hash answer; *_hash versions"),
    "toloka": ("rows", "OUTPUT:* ASSIGNMENT:*; OUTPUT:* INPUT:*"),
    "mturk": ("rows", "HITId Answer.*"),
    "appen": ("rows", "_unit_id _worker_id; _unit_id _trusted_judgments"),
    "doccano": (
        "records",
        "id annotations={user}; id annotation_approver; id [Cc]omments label=[]; "
        "id [Cc]omments labels=[]; id [Cc]omments cats=[]; id [Cc]omments entities=[]",
    ),
    "argilla": ("records", "*.responses.users; fields responses={}; *={user_id,value,status}"),
    "labelbox": ("records", "data_row={} projects={}"),
    "sagemaker": (
        "records",
        "datasetObjectId annotations=[]; answers={answerContent}; humanAnswers={answerContent}; "
        "*-metadata={human-annotated}; *-metadata={job-name}",
    ),
    "zooniverse": ("records", "classification_id annotations subject_ids"),
    "potato": ("records", "label_annotations={}; *:::* user*; *:::* annotator*"),
    "google-forms": ("surveys", "Timestamp*"),
    "qualtrics": ("surveys", "ResponseId"),
}


class Reader(NamedTuple):
    """One platform: its title for people, what in a file tells it, how it is read."""

    title: str
    detect: Callable[[Document], str | None]
    read: Callable[[Document, ReadOptions], Reading]
    name: str = ""  # its key in the table


def platform(
    title: str, detect: Callable[[Document], str | None] = lambda _: "keys that only it writes"
) -> Callable[[Callable[[Document, ReadOptions], Reading]], Reader]:
    """Return what makes a function the reader of a platform; mostly its keys give it away."""
    return lambda read: Reader(title, detect, read)


def load(name: str) -> Reader:
    module = import_module(f"misc_cli.readers.platforms.{READERS[name][0]}")
    reader: Reader = getattr(module, name.replace("-", "_"))
    return reader._replace(name=name)


def recognise(document: Document) -> tuple[Reader, str] | None:
    """Return the platform whose file this is, and how that was told; None for other files."""
    records = (document.records or [dict.fromkeys(document.names, "")])[:LOOKED_AT]
    for name, (_, shapes) in READERS.items():
        if any(_shows(shape, record) for shape in shapes.split(";") for record in records):
            reader = load(name)
            if (told := reader.detect(document)) is not None:
                return reader, told
    return None


def _shows(shape: str, record: Mapping[str, Any]) -> bool:
    """Return whether an object has a key like each of the shape's, with the right value there."""
    for part in shape.split():
        key, _, wanted = part.partition("=")
        like = [key] if key in record else fnmatch.filter(record, key)
        if not any(not wanted or _is(record[name], wanted) for name in like):
            return False
    return True


def _is(value: Any, wanted: str) -> bool:
    if wanted in ("[]", "{}"):
        return isinstance(value, list if wanted == "[]" else dict)
    keys = set(wanted[1:-1].split(","))
    inner = value if isinstance(value, list) else [value]
    return any(isinstance(one, dict) and keys <= set(one) for one in inner)
