"""Answers to a form: a row per respondent, a column per question. What surveys' readers share.

Questions that are answered in the same words are items, one group of them a question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from misc_cli.errors import InputError
from misc_cli.io import forms
from misc_cli.io.columns import listing
from misc_cli.io.document import Document, text_array
from misc_cli.io.kinds import CHOICE, CHOICES, NUMBER, kind_of_values
from misc_cli.io.melt import LABEL, is_unique, melt
from misc_cli.io.options import ReadOptions
from misc_cli.io.readers.base import Question, Reading, by_kind, compact
from misc_cli.io.readers.common import is_remark
from misc_cli.io.vocabulary import words_of

# Words of questions about the respondent, not about what is judged.
_PERSONAL = {
    *("consent", "participate", "participation", "age", "old", "gender", "sex", "education"),
    *("nationality", "occupation", "prolific", "captcha", "robot"),
}


def groups(document: Document, names: Sequence[str]) -> list[list[str]]:
    """Of these columns those that are answered in the same few words, group by group."""
    found: list[tuple[set[str], list[str]]] = []
    for name in names:
        values = set(document.sampled(name))
        if not values or not _is_asked(document, name):
            continue
        joined = [group for group in found if group[0] & values]
        found = [group for group in found if group not in joined]
        words = values.union(*(group[0] for group in joined))
        found.append((words, [*(one for group in joined for one in group[1]), name]))
    return [columns for _, columns in found if len(columns) > 1]


def _is_asked(document: Document, name: str) -> bool:
    if is_remark(name):
        return False
    cells = document.sampled(name)
    return kind_of_values(sorted(set(cells)), len(cells)).name in (CHOICE, CHOICES, NUMBER)


def is_personal(text: str) -> bool:
    return bool(words_of(text) & _PERSONAL)


def reading(
    document: Document, found: Sequence[Sequence[str]], worker: str | None, out: Any = None
) -> Reading:
    """Each filled cell of each group is an answer; `out` is a mask of the rows that are left out.

    worker  the column that names whoever answered; None if nobody is named
    """
    n_rows = len(document.columns([document.names[0]])[0])
    people = text_array(f"row {row + 1}" for row in range(n_rows))
    if worker is not None:
        (people,) = document.columns([worker])
    questions = []
    for group in found:
        cells = melt(document, people, {name: name for name in group})
        kept = np.arange(len(cells.rows)) if out is None else np.flatnonzero(~out[cells.rows])
        forms.refuse_nameless(document, cells.by_row.take(kept), cells.rows[kept])
        kind, labels = by_kind(compact(cells.label.take(kept)))
        roles = {
            "worker": worker or "the row's number",
            "item": "a column for each",
            "label": listing(group, 4),
        }
        title = LABEL if len(found) == 1 else group[0]
        who, what = cells.by_row.take(kept), cells.by_column.take(kept)
        rows = cells.rows[kept]
        questions.append(Question(title, kind, who, what, labels, rows, columns=roles))
    notes = [] if worker else [f"{document.name}: nobody is named, so each row is a worker"]
    return Reading(questions, notes=notes)


def read_below(
    document: Document,
    options: ReadOptions,
    *,
    n_headers: int,
    names: Mapping[str, str],
    people: Sequence[str],
    aside: Mapping[str, Callable[[Document], Any]] | None = None,
) -> Reading:
    """A survey with more header rows below its names.

    n_headers  how many of the first rows are no answers
    names      the questions' columns → what was asked
    people     columns that name whoever answered, the best first
    aside      reason → a function of the document that gives a mask of rows
    """
    view = without_first(document, n_headers)
    asked = [name for name, text in names.items() if not is_personal(f"{name} {text}")]
    found = groups(view, [name for name in asked if document.names.count(name) == 1])
    if not found:
        raise InputError(
            f"{document.name}: a survey whose questions are each answered in words of their own, "
            "so none of them judges several items; name the columns of the items with --item-cols"
        )
    taken = [name for group in found for name in group]
    worker = options.worker_col and forms.worker_column(view, options, taken)
    worker = worker or next((name for name in people if _names_all(view, name)), None)
    reasons: dict[str, Any] = {}
    n_rows = len(view.columns([view.names[0]])[0])
    out = np.zeros(n_rows, dtype=bool)
    for reason, test in (aside or {}).items():
        rows = np.asarray(test(view)) & ~out
        if rows.any():
            reasons[reason] = np.flatnonzero(rows)
            out |= rows
    return replace(reading(view, found, worker, out), aside=reasons, view=view)


def _names_all(document: Document, name: str) -> bool:
    if document.names.count(name) != 1 or not is_unique(document, name):
        return False
    return len(document.sampled(name)) == len(document.table.sample)


def without_first(document: Document, n_rows: int) -> Document:
    """The same file without its first rows."""
    table = document.table

    def lines(rows: Sequence[int]) -> list[int]:
        return table.lines_of([row + n_rows for row in rows])

    below = replace(
        table,
        sample=table.sample[n_rows:],
        fetch=lambda places: [compact(column.slice(n_rows)) for column in table.fetch(places)],
        line=lambda row: table.line(row + n_rows),
        lines=lines,
    )
    return Document(document.name, document.format, lambda: below)
