"""Known labels of several questions in one file, for --each-question.

item,mood,spam          a column for each question, called as it is
item,question,label     a row for each item and question
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from misc_cli.core.types import KnownLabels
from misc_cli.errors import InputError
from misc_cli.io.columns import listing, rivals, truth_synonyms
from misc_cli.io.document import Document
from misc_cli.io.known import Known
from misc_cli.io.open import open_document
from misc_cli.io.options import ReadOptions
from misc_cli.io.readers.base import compact
from misc_cli.io.results import FileInfo
from misc_cli.io.source import open_source
from misc_cli.io.vocabulary import find_roles, normalise

_QUESTION = {"question", "questionname", "questionid", "attribute", "aspect", "variable"}


def read_known_each(
    path: str, questions: Sequence[str], answers: ReadOptions | None = None
) -> dict[str, Known]:
    """The known labels of each question that the file knows; an error if it knows none."""
    answers = answers or ReadOptions()
    source = open_source(path, answers.encoding, answers.access)
    document = open_document(source, ReadOptions(header=True))
    columns = _by_column(document, questions) or _by_row(document, questions)
    if not columns:
        raise InputError(
            f"{document.name}: no column for any of {listing(questions)} among "
            f"{listing(document.names, 30)}; give one for each question (item,{questions[0]},…), "
            "or item,question,label"
        )
    digest = source.sha256()
    found = {}
    for question, (items, labels, name) in columns.items():
        info = FileInfo(
            document.name,
            digest,
            len(labels),
            document.format,
            document.table.delimiter,
            document.table.header,
            {"item": _item(document, [name]), "label": name},
            question=question,
        )
        found[question] = Known(KnownLabels(items, labels, document.name), info)
    return found


Columns = Mapping[str, tuple[Any, Any, str]]  # question → items, labels, the labels' column


def _by_column(document: Document, questions: Sequence[str]) -> Columns:
    named = {normalise(name): name for name in document.names}
    own = {q: named[normalise(q)] for q in questions if normalise(q) in named}
    if not own:
        return {}
    item, *labels = document.columns([_item(document, list(own.values())), *own.values()])
    return {q: (item, label, name) for (q, name), label in zip(own.items(), labels, strict=True)}


def _by_row(document: Document, questions: Sequence[str]) -> Columns:
    asked = [name for name in document.names if normalise(name) in _QUESTION]
    rest = [name for name in document.names if name not in asked]
    label = find_roles(rest, {"label": truth_synonyms()["label"]})["label"]
    if len(asked) != 1 or len(label) != 1:
        return {}
    name = rest[label[0]]
    which, item, labels = document.columns([asked[0], _item(document, [*asked, name]), name])
    words = [normalise(word) for word in which.to_pylist()]
    found = {}
    for question in questions:
        rows = pa.array(np.flatnonzero([word == normalise(question) for word in words]))
        if len(rows):
            found[question] = (compact(item.take(rows)), compact(labels.take(rows)), name)
    return found


def _item(document: Document, taken: Sequence[str]) -> str:
    rest = [name for name in document.names if name not in taken]
    found = [rest[at] for at in find_roles(rest, {"item": truth_synonyms()["item"]})["item"]]
    if len(found) > 1:
        raise rivals(document.name, "item", found)
    if not found:
        raise InputError(f"{document.name}: no item column among {listing(document.names, 30)}")
    return found[0]
