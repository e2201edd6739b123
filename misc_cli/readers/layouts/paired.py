"""Tables with a row per item and numbered pairs of columns: item,worker_1,label_1,worker_2,label_2.

The worker's column holds who answered, the other what; numbers say which belong together.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.errors import InputError
from misc_cli.readers.columns import listing
from misc_cli.readers.document import Document
from misc_cli.readers.layouts.melt import LABEL, melt
from misc_cli.readers.layouts.wide import item_column
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.base import CERTAIN, Match, Question, Reader, Reading, by_kind
from misc_cli.readers.vocabulary import NUMBERED_WORKER, SYNONYMS, normalise

Series = dict[str, str]  # number → column

_WHO = {"id", "name", "email", "workerid", "mail", "login"}
_LABELS = {word for tier in SYNONYMS["label"] for word in tier}


def find(document: Document) -> tuple[Series, dict[str, Series]] | None:
    """The workers' columns, and those of each question; None if the table is no such thing."""
    people: dict[str, Series] = {}
    others: dict[str, Series] = {}
    for name in document.names:
        worker = NUMBERED_WORKER.fullmatch(name.strip())
        plain = re.fullmatch(r"(?P<stem>\D*?)[\s_\-.:#]*(?P<number>\d+)", name.strip())
        if worker is not None:
            rest = " ".join(filter(None, (worker["before"], worker["after"])))
            number = re.sub(r"\D+", "", worker["who"]) or worker["who"][-1]
            people.setdefault(rest, {})[number] = name
        elif plain is not None:
            others.setdefault(plain["stem"], {})[plain["number"]] = name
    for rest, who in people.items():
        if len(who) < 2:
            continue
        if normalise(rest) in _WHO:
            said = {q: c for q, c in people.items() if q != rest and set(c) == set(who)}
        elif not rest:
            said = {q: c for q, c in others.items() if normalise(q) in _LABELS}
            said = {q: c for q, c in said.items() if set(c) == set(who)}
        else:
            continue
        if said:
            return who, said
    return None


def detect(document: Document) -> Match | None:
    found = None if document.table.header is False else find(document)
    if found is None:
        return None
    who, said = found
    names = [*who.values(), *(column for series in said.values() for column in series.values())]
    return Match(CERTAIN, f"pairs of columns, who and what: {listing(names, 4)}")


def read(document: Document, options: ReadOptions) -> Reading:
    found = find(document)
    if found is None:
        raise InputError(f"{document.name}: no pairs of columns such as worker_1 and label_1")
    who, said = found
    taken = [*who.values(), *(column for series in said.values() for column in series.values())]
    item = item_column(document, options, taken)
    numbers = list(who)
    people = pa.concat_arrays([c.cast(pa.string()) for c in document.columns(list(who.values()))])
    people = pc.utf8_trim_whitespace(people)
    n_rows = len(people) // len(numbers)
    names = pa.array([str(row + 1) for row in range(n_rows)]).dictionary_encode()
    if item is not None:
        (names,) = document.columns([item])
    questions = []
    for question, series in said.items():
        melted = melt(document, names, {number: series[number] for number in numbers})
        workers = people.take(np.asarray(melted.by_column.indices) * n_rows + melted.rows)
        _refuse_nameless(document, workers, melted.rows)
        kind, labels = by_kind(melted.label)
        roles = {
            "worker": listing(list(who.values()), 4),
            "item": item or "the row's number",
            "label": listing(list(series.values()), 4),
        }
        encoded = workers.dictionary_encode()
        rows = melted.rows
        name = (normalise(question) and question) or LABEL
        questions.append(Question(name, kind, encoded, melted.by_row, labels, rows, columns=roles))
    return Reading(questions)


def _refuse_nameless(document: Document, workers: Any, rows: Any) -> None:
    nameless = np.flatnonzero(np.asarray(pc.equal(workers, "")))
    if len(nameless):
        line = document.table.line(int(rows[nameless[0]]))
        raise InputError(
            f"{document.name}, line {line}: a label without its worker; fill it in or drop it"
        )


READER = Reader(
    name="pairs",
    title="a table with a row per item and pairs of columns, who and what",
    explain="each pair of columns with the same number is one answer",
    detect=detect,
    read=read,
)
