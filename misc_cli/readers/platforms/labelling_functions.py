"""Labelling functions as workers: a Snorkel table and WRENCH's JSON, -1 for no answer."""

from __future__ import annotations

import numpy as np

from misc_cli.readers.document import Document, Record, is_one_of, text, text_array
from misc_cli.readers.layouts.wide import melt
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.export import Export
from misc_cli.readers.reading import CERTAIN, Match, Question, Reader, Reading, take
from misc_cli.readers.values import CHOICE, OTHER
from misc_cli.readers.vocabulary import normalise

_NONE = {"-1", "-1.0", "abstain"}
_VOTES = "weak_labels"


def _functions(document: Document) -> list[str]:
    return [name for name in document.names if name.lower().startswith("lf_")]


def detect_snorkel(document: Document) -> Match | None:
    functions = _functions(document)
    if len(functions) < 2 or document.table.header is False:
        return None
    cells = {cell.lower() for name in functions for cell in document.sampled(name)}
    return Match(CERTAIN, "columns lf_… with -1 for none") if cells & _NONE else None


def read_snorkel(document: Document, options: ReadOptions) -> Reading:
    functions = _functions(document)
    n_rows = len(document.columns([functions[0]])[0])
    ids = ("id", "itemid", "exampleid", "text")
    names = [name for name in document.names if normalise(name) in ids]
    items, item = text_array(map(str, range(n_rows))), "the row's number, from 0"
    for name, column in zip(names, document.columns(names), strict=True):
        if len(column.dictionary) == n_rows:
            items, item = column, name
            break
    cells = melt(document, items, {name: name for name in functions})
    roles = {"worker": "a column for each", "item": item, "label": "lf_*"}
    who, what = cells.by_column, cells.by_row
    every = Question("label", CHOICE, who, what, cells.label, cells.rows, columns=roles)
    return Reading([take(every, np.flatnonzero(~np.asarray(is_one_of(cells.label, *_NONE))))])


SNORKEL = Reader("snorkel", "Snorkel, a table of labelling functions", detect_snorkel, read_snorkel)


def detect_wrench(document: Document) -> Match | None:
    first = next(iter(_examples(document)), {})
    return Match(CERTAIN, _VOTES) if isinstance(first.get(_VOTES), list) else None


def read_wrench(document: Document, options: ReadOptions) -> Reading:
    export = Export(document, options, "place in weak_labels", "key", _VOTES)
    examples = _examples(document)
    width = len(examples[0].get(_VOTES) or ()) if examples else 0
    for example in export.records(examples):
        votes, item = example.get(_VOTES), text(example.get("id")) or str(export.row)
        if not isinstance(votes, list) or len(votes) != width:
            raise export.error(
                f"{_VOTES} should be a list of {width or 'some'} labels, one for each labelling "
                "function"
            )
        if any(isinstance(vote, list) for vote in votes):  # a label for each token
            export.answer(_VOTES, "tokens", item, text(votes), OTHER)
            continue
        said = {at: vote for at, vote in enumerate(map(text, votes)) if vote and vote[0] != "-"}
        if not said:
            export.aside("no vote")
        for at, vote in said.items():
            export.answer(_VOTES, str(at), item, vote)
        if not isinstance(example.get("label"), list | dict | type(None)):
            export.gold(_VOTES, item, example["label"])
    return export.reading()


def _examples(document: Document) -> list[Record]:
    """Return the examples: records of their own, or values of one object, with their key as id."""
    records = document.records or []
    if len(records) != 1 or _VOTES in records[0]:
        return records
    values = records[0].items()
    if not all(isinstance(value, dict) for _, value in values):
        return []
    return [{**value, "id": key} for key, value in values]


WRENCH = Reader("wrench", "WRENCH, weak labels in JSON", detect_wrench, read_wrench)
