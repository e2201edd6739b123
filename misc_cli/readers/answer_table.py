"""AnswerTable: the answers to one question from all files, and how each file was read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from misc_cli.data.types import Answers, KnownLabels
from misc_cli.readers.vocabulary import ROLES


@dataclass(frozen=True)
class FileInfo:
    """The reading of one file, as run.json records it.

    read_as  one line: worker = a, item = b, label = c; 56 rejected, 12 empty set aside
    flags    the flags that declare the same reading, so that a nightly job can pin them
    """

    name: str
    sha256: str
    n_rows: int
    format: str
    delimiter: str | None
    header: bool | None
    columns: dict[str, str] = field(default_factory=dict)
    reader: str | None = None
    question: str | None = None
    set_aside: dict[str, int] = field(default_factory=dict)
    read_as: str | None = None
    flags: str | None = None


# Rows of one file that were set aside for one reason: file, reason, rows, what gives their lines.
Rejects = tuple[str, str, Any, Callable[[Sequence[int]], list[int]]]


@dataclass(frozen=True)
class AnswerTable:
    """The answers to one question, from one file or several.

    gold       what the files themselves say is right; None if they say nothing
    anonymous  nobody knows who answered: a majority vote is all that can be had
    kept       columns that are carried along (--keep): name → text for each item
    """

    answers: Answers
    files: list[FileInfo]
    question: str = ""
    gold: KnownLabels | None = None
    anonymous: bool = False
    rejects: list[Rejects] = field(default_factory=list, repr=False)
    kept: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)

    @property
    def set_aside(self) -> dict[str, int]:
        """Return reason → how many rows, over all files."""
        return dict(sum((Counter(file.set_aside) for file in self.files), Counter[str]()))


def joined_tables(name: str, tables: Sequence[AnswerTable]) -> AnswerTable:
    """Return the files' answers to one question as one."""
    if len(tables) == 1:
        return replace(tables[0], question=name or tables[0].question)
    files = [file for table in tables for file in table.files]
    names = ", ".join(file.name for file in files)
    parts = [table.answers for table in tables]
    worker, item, label = (_joined(parts, role) for role in ROLES)
    timed = any(one.seconds is not None for one in parts)
    took = [np.full(len(one), np.nan) if one.seconds is None else one.seconds for one in parts]
    gold = [table.gold for table in tables if table.gold is not None]
    known = None
    if gold:
        items, labels = _joined(gold, "items"), _joined(gold, "labels")
        known = KnownLabels(items, labels, f"{names}, the gold it carries")
    kept: dict[str, dict[str, str]] = {}
    for table in tables:
        for column, texts in table.kept.items():
            kept.setdefault(column, {}).update(texts)
    return AnswerTable(
        Answers(worker, item, label, names, np.concatenate(took) if timed else None),
        files,
        name or tables[0].question,
        known,
        any(table.anonymous for table in tables),
        [one for table in tables for one in table.rejects],
        kept,
    )


def _joined(records: Sequence[Any], name: str) -> Any:
    """Return the columns of a name as one, dictionary-encoded."""
    columns = pa.chunked_array([getattr(one, name) for one in records])
    return columns.unify_dictionaries().combine_chunks()
