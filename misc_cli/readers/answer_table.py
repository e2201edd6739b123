"""AnswerTable: the answers to one question from all files, and how each file was read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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

    @property
    def roles(self) -> str:
        """Return which columns are taken for what, except those that come with a worker."""
        own = dict(self.columns)
        if "a column for each" in own.values():
            own.pop("label", None)
        return ", ".join(f"{role} = {own[role]}" for role in ROLES if role in own)

    @property
    def form(self) -> str:
        """Return the form of the file in words: csv, delimiter ',', long."""
        delimiter = None if self.delimiter is None else f"delimiter {self.delimiter!r}"
        header = "no header" if self.header is False else None
        return ", ".join(filter(None, (self.format, delimiter, header, self.reader)))


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

    def with_kept(self, chunks: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """Yield columns of labels with those that are carried along (--keep), by their item."""
        for columns in chunks:
            items = [str(item).strip() for item in pa.array(columns["item"]).to_pylist()]
            beside = {n: pa.array([t.get(i, "") for i in items]) for n, t in self.kept.items()}
            yield {**columns, **beside}


def joined_tables(name: str, tables: Sequence[AnswerTable]) -> AnswerTable:
    """Return the files' answers to one question as one."""
    first = tables[0]
    if len(tables) == 1:
        return replace(first, question=name or first.question)
    parts = [table.answers for table in tables]
    files = [file for table in tables for file in table.files]
    names = ", ".join(file.name for file in files)
    worker, item, label = (
        joined([getattr(one, role) for one in parts]) for role in ("worker", "item", "label")
    )
    timed = any(one.seconds is not None for one in parts)
    took = [np.full(len(one), np.nan) if one.seconds is None else one.seconds for one in parts]
    gold = [table.gold for table in tables if table.gold is not None]
    known = [joined([getattr(one, part) for one in gold]) for part in ("items", "labels") if gold]
    kept: dict[str, dict[str, str]] = {}
    for table in tables:
        for column, texts in table.kept.items():
            kept.setdefault(column, {}).update(texts)
    return replace(
        first,
        answers=Answers(worker, item, label, names, np.concatenate(took) if timed else None),
        files=files,
        question=name or first.question,
        gold=KnownLabels(known[0], known[1], f"{names}, the gold it carries") if gold else None,
        anonymous=any(table.anonymous for table in tables),
        rejects=[one for table in tables for one in table.rejects],
        kept=kept,
    )


def reject_columns(rejects: Sequence[Rejects]) -> dict[str, Any]:
    """Return file, line and reason of every row that was set aside, by file and line."""
    found = sorted(
        (file, line, reason)
        for file, reason, rows, lines_of in rejects
        for line in lines_of([int(row) for row in rows])
    )
    types = {"file": pa.string(), "line": pa.int64(), "reason": pa.string()}
    columns = zip(*found, strict=True) if found else ((), (), ())
    return {n: pa.array(own, types[n]) for n, own in zip(types, columns, strict=True)}


def joined(parts: list[Any]) -> Any:
    """Return dictionary arrays as one."""
    if len(parts) == 1:
        return parts[0]
    return pa.chunked_array(parts).unify_dictionaries().combine_chunks()
