"""WRENCH (and Snorkel labels in JSON): records with a list of weak labels, -1 for none.

https://github.com/JieyuZ2/wrench: {"0": {"label": 1, "weak_labels": [-1, 0, 1], "data": {…}},
…}. Labelling functions are the workers, called by their place in the list; `label` is the truth,
so it is gold.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from misc_cli.errors import InputError
from misc_cli.io.document import Document, Record, text
from misc_cli.io.options import ReadOptions
from misc_cli.io.readers.base import CERTAIN, OTHER, Match, Reader, Reading
from misc_cli.io.readers.common import Answers

_VOTES = "weak_labels"


def detect(document: Document) -> Match | None:
    first = next(_examples(document), None)
    if first is not None and isinstance(first[1].get(_VOTES), list):
        return Match(CERTAIN, _VOTES)
    return None


def read(document: Document, options: ReadOptions) -> Reading:
    found = Answers(document.name)
    width: int | None = None
    columns = {"worker": "place in weak_labels", "item": "key", "label": _VOTES}
    for row, (item, example) in enumerate(_examples(document)):
        votes = example.get(_VOTES)
        width = width or (len(votes) if isinstance(votes, list) else None)
        if not isinstance(votes, list) or len(votes) != width:
            raise InputError(
                f"{document.name}, record {row + 1}: {_VOTES} should be a list of "
                f"{width or 'some'} labels, one for each labelling function"
            )
        if any(isinstance(vote, list) for vote in votes):  # a label for each token
            found.answer(_VOTES, "tokens", item, text(votes), row, OTHER, columns)
            continue
        _vote(found, row, item, votes, columns)
        if not isinstance(example.get("label"), list | dict | type(None)):
            found.gold(_VOTES, item, example["label"])
    return found.reading()


def _vote(found: Answers, row: int, item: str, votes: list[Any], columns: dict[str, str]) -> None:
    said = [(at, text(vote)) for at, vote in enumerate(votes)]
    filled = [(at, vote) for at, vote in said if vote and not vote.startswith("-")]
    if not filled:
        found.aside("no vote", row)
    for at, vote in filled:
        found.answer(_VOTES, str(at), item, vote, row, columns=columns)


def _examples(document: Document) -> Iterator[tuple[str, Record]]:
    """Name and content of each example: values of one object, or records of their own."""
    records = document.records or []
    if len(records) == 1 and _VOTES not in records[0]:
        pairs = [(key, value) for key, value in records[0].items() if isinstance(value, dict)]
        if len(pairs) == len(records[0]):
            yield from pairs
        return
    for row, record in enumerate(records):
        yield text(record.get("id")) or str(row), record


READER = Reader(
    name="wrench",
    title="WRENCH, weak labels in JSON",
    explain="worker is the place in weak_labels, item the example's key, -1 is no answer; label is "
    "gold",
    detect=detect,
    read=read,
    page="https://github.com/JieyuZ2/wrench",
)
