"""Labelling functions as workers: a Snorkel table and WRENCH's JSON, -1 for no answer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from misc_cli.errors import InputError
from misc_cli.readers.document import Document, Record, is_one_of, text, text_array
from misc_cli.readers.layouts.melt import melt
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.common import Answers
from misc_cli.readers.reading import CERTAIN, Match, Question, Reader, Reading, take
from misc_cli.readers.values import CHOICE, OTHER
from misc_cli.readers.vocabulary import normalise

_PREFIX = "lf_"
_NONE = {"-1", "-1.0", "abstain"}


def _functions(document: Document) -> list[str]:
    return [name for name in document.names if name.lower().startswith(_PREFIX)]


def detect_snorkel(document: Document) -> Match | None:
    functions = _functions(document)
    if len(functions) < 2 or document.table.header is False:
        return None
    cells = {cell.lower() for name in functions for cell in document.sampled(name)}
    return Match(CERTAIN, "columns lf_… with -1 for none") if cells & _NONE else None


def read_snorkel(document: Document, options: ReadOptions) -> Reading:
    functions = _functions(document)
    n_rows = len(document.columns([functions[0]])[0])
    names = [
        name for name in document.names if normalise(name) in ("id", "itemid", "exampleid", "text")
    ]
    items, item = text_array(map(str, range(n_rows))), "the row's number, from 0"
    for name, column in zip(names, document.columns(names), strict=True):
        if len(column.dictionary) == n_rows:
            items, item = column, name
            break
    cells = melt(document, items, {name: name for name in functions})
    kept = np.flatnonzero(~np.asarray(is_one_of(cells.label, *_NONE)))
    roles = {"worker": "a column for each", "item": item, "label": "lf_*"}
    who, what = cells.by_column, cells.by_row
    every = Question("label", CHOICE, who, what, cells.label, cells.rows, columns=roles)
    return Reading([take(every, kept)])


SNORKEL = Reader(
    name="snorkel",
    title="Snorkel, a table of labelling functions",
    explain="worker is a column lf_…, item the row (its id or text where there is one), -1 is no "
    "answer",
    detect=detect_snorkel,
    read=read_snorkel,
)


_VOTES = "weak_labels"


def detect_wrench(document: Document) -> Match | None:
    first = next(_examples(document), None)
    if first is not None and isinstance(first[1].get(_VOTES), list):
        return Match(CERTAIN, _VOTES)
    return None


def read_wrench(document: Document, options: ReadOptions) -> Reading:
    found = Answers(document, "place in weak_labels", "key", _VOTES)
    width: int | None = None
    for row, (item, example) in enumerate(_examples(document)):
        votes = example.get(_VOTES)
        width = width or (len(votes) if isinstance(votes, list) else None)
        if not isinstance(votes, list) or len(votes) != width:
            raise InputError(
                f"{document.name}, record {row + 1}: {_VOTES} should be a list of "
                f"{width or 'some'} labels, one for each labelling function"
            )
        if any(isinstance(vote, list) for vote in votes):  # a label for each token
            found.answer(_VOTES, "tokens", item, text(votes), row, OTHER)
            continue
        said = {str(at): text(vote) for at, vote in enumerate(votes)}
        filled = {at: vote for at, vote in said.items() if vote and not vote.startswith("-")}
        if not filled:
            found.aside("no vote", row)
        for at, vote in filled.items():
            found.answer(_VOTES, at, item, vote, row)
        if not isinstance(example.get("label"), list | dict | type(None)):
            found.gold(_VOTES, item, example["label"])
    return found.reading()


def _examples(document: Document) -> Iterator[tuple[str, Record]]:
    """Yield name and content of each example: values of one object, or records of their own."""
    records = document.records or []
    if len(records) == 1 and _VOTES not in records[0]:
        pairs = [(key, value) for key, value in records[0].items() if isinstance(value, dict)]
        if len(pairs) == len(records[0]):
            yield from pairs
        return
    for row, record in enumerate(records):
        yield text(record.get("id")) or str(row), record


WRENCH = Reader(
    name="wrench",
    title="WRENCH, weak labels in JSON",
    explain="worker is the place in weak_labels, item the example's key, -1 is no answer; label is "
    "gold",
    detect=detect_wrench,
    read=read_wrench,
)
