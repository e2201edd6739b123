"""Which of a worker's answers to an item is the last: by its version or time, where a column tells.

Exports are sorted by anything: the newest answer may stand first. Rows are put in order only where
a worker gives one item several labels, so that nobody else pays for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from misc_cli.readers.document import Document
from misc_cli.readers.platforms.base import Question, take
from misc_cli.readers.repeats import share_of_conflicts
from misc_cli.readers.row_filters import time_of
from misc_cli.readers.values import is_number
from misc_cli.readers.vocabulary import normalise

# The best first: what says how often an answer was changed, when it was changed, when it was given.
_VERSIONS = ("revision", "revisionnumber", "rev", "version", "versionnumber", "attempt")
_TIMES = (
    *("updatedat", "updated", "modifiedat", "lastmodified", "lastupdated", "submittedat"),
    *("submitted", "submittime", "submissiontime", "completedat", "completiontime", "finishedat"),
    *("answeredat", "annotatedat", "labeledat", "judgedat", "createdat", "created", "timestamp"),
    *("endtime", "enddate", "datetime", "time", "date", "ts", "createdatutc"),
)
_OLDEST = 1e8  # seconds since 1970: less is how long it took


def newest_last(question: Question, document: Document) -> Question:
    """The same answers, a worker's later answers to an item behind the earlier ones."""
    names = {normalise(name): name for name in document.names if document.names.count(name) == 1}
    taken = {*question.columns.values()}
    known = [names[n] for n in (*_VERSIONS, *_TIMES) if n in names and names[n] not in taken]
    if not known or not share_of_conflicts(question.worker, question.item, question.label)[1]:
        return question
    for name in known:
        told = _values(document, name)
        if told is not None:
            told = told if question.rows is None else told[question.rows]
            if not (np.diff(told) < 0).any():
                return question
            return take(question, np.argsort(told, kind="stable"))
    return question


def _values(document: Document, name: str) -> Any | None:
    """A number for each row; None if the column holds something else, or nothing in some row."""
    (column,) = document.columns([name])
    cells = [cell.strip() for cell in column.dictionary.to_pylist()]
    if normalise(name) in _VERSIONS:
        if not all(map(is_number, cells)):
            return None
        seconds = np.array([float(cell) for cell in cells])
    else:
        told = [time_of(cell) for cell in cells]
        if any(one is None for one in told):
            return None
        seconds = np.array([one.timestamp() for one in told if one is not None])
        if seconds.min(initial=np.inf) < _OLDEST:
            return None
    return None if column.null_count else seconds[np.asarray(column.indices)]
