"""What reading gives: the answers to one question from all files, and how each file was read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from misc_cli.data.types import Answers, KnownLabels
from misc_cli.readers.platforms.base import Question
from misc_cli.readers.vocabulary import ROLES


def reject_columns(rejects: Sequence[Rejects]) -> dict[str, Any]:
    """File, line and reason of every row that was set aside, by file and line."""
    found = sorted(
        (group.file, line, group.reason)
        for group in rejects
        for line in group.lines([int(row) for row in group.rows])
    )
    files, numbers, reasons = zip(*found, strict=True) if found else ((), (), ())
    return {
        "file": pa.array(files, pa.string()),
        "line": pa.array(numbers, pa.int64()),
        "reason": pa.array(reasons, pa.string()),
    }


@dataclass(frozen=True)
class FileInfo:
    """How one file was read: what a run's manifest records."""

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


@dataclass(frozen=True)
class Rejects:
    """Rows of one file that were set aside for one reason; `lines` gives rows' lines."""

    file: str
    reason: str
    rows: Any
    lines: Callable[[Sequence[int]], list[int]]


@dataclass(frozen=True)
class ReadResult:
    """The answers to one question, from all files.

    gold       what the files themselves say is right; None if they say nothing
    anonymous  nobody knows who answered: a majority vote is all that can be had
    times      when each answer was given, seconds since 1970 (NaN: not told), if that was asked
    """

    answers: Answers
    files: list[FileInfo]
    question: str = ""
    gold: KnownLabels | None = None
    anonymous: bool = False
    rejects: list[Rejects] = field(default_factory=list, repr=False)
    times: Any = None

    @property
    def set_aside(self) -> dict[str, int]:
        """Reason → how many rows, over all files."""
        total: Counter[str] = Counter()
        for file in self.files:
            total.update(file.set_aside)
        return dict(total)


@dataclass(frozen=True)
class Part:
    """One file's answers to one question; `times` as in `ReadResult`."""

    question: Question
    info: FileInfo
    rejects: list[Rejects]
    has_workers: bool
    times: Any = None


def result_of(name: str, parts: list[Part]) -> ReadResult:
    """The files' answers to one question as one."""
    questions = [part.question for part in parts]
    files = [part.info for part in parts]
    worker, item, label = (joined([getattr(one, role) for one in questions]) for role in ROLES)
    names = ", ".join(file.name for file in files)
    gold = [one.gold for one in questions if one.gold is not None]
    known = None
    if gold:
        items, labels = (joined([one[at] for one in gold]) for at in (0, 1))
        known = KnownLabels(items, labels, f"{names}, the gold it carries")
    anonymous = not all(part.has_workers for part in parts)
    return ReadResult(
        Answers(worker, item, label, names),
        files,
        name or questions[0].name,
        known,
        anonymous,
        [one for part in parts for one in part.rejects],
        None if parts[0].times is None else np.concatenate([part.times for part in parts]),
    )


def joined(parts: list[Any]) -> Any:
    """Dictionary arrays as one; neighbours that share a dictionary are not looked up again."""
    if len(parts) == 1:
        return parts[0]
    groups: list[list[Any]] = []
    for part in parts:
        if groups and _same_dictionary(groups[-1][0], part):
            groups[-1].append(part)
        else:
            groups.append([part])
    merged = [_with_one_dictionary(group) for group in groups]
    if len(merged) == 1:
        return merged[0]
    return pa.chunked_array(merged).unify_dictionaries().combine_chunks()


def _with_one_dictionary(group: list[Any]) -> Any:
    if len(group) == 1:
        return group[0]
    codes = pa.concat_arrays([array.indices for array in group])
    return pa.DictionaryArray.from_arrays(codes, group[0].dictionary)


def _same_dictionary(one: Any, other: Any) -> bool:
    """Whether two arrays are slices of one: their names lie in the same memory."""
    if not all(isinstance(array, pa.DictionaryArray) for array in (one, other)):
        return False
    first, second = one.dictionary, other.dictionary
    if len(first) != len(second) or not len(first):
        return False
    places = [
        [None if buffer is None else buffer.address for buffer in names.buffers()]
        for names in (first, second)
    ]
    return places[0] == places[1] and first.offset == second.offset
