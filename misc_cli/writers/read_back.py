"""Read the tables of labels and workers that misc writes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.data.encode import trimmed
from misc_cli.data.types import Floats, LabelTable, WorkerTable
from misc_cli.errors import InputError
from misc_cli.readers.columns import read_columns
from misc_cli.readers.document import open_document
from misc_cli.readers.source import Source, open_source
from misc_cli.readers.vocabulary import SYNONYMS

CONFIDENCE = "confidence"
PROBABILITY = "p_"
WANTED = {"item": [*SYNONYMS["item"], {"id"}], "label": SYNONYMS["label"]}
WORKER = ("worker", "answers", "accuracy")  # columns that a table of workers has
INTERVAL = ("accuracy_low", "accuracy_high")  # and that it may have


def read_labels(path: str) -> LabelTable:
    """Read labels that `misc aggregate` wrote, or any two columns of items and labels."""
    source = open_source(path)
    names = _names(source)
    sure = [CONFIDENCE] if CONFIDENCE in names else []
    chances = [name for name in names if name.startswith(PROBABILITY)]
    given: dict[str, str | None] = {name: name for name in (*sure, *chances)}
    synonyms = {**WANTED, **{name: [] for name in given}}
    columns = read_columns(source, given, synonyms).columns
    items, labels = trimmed(columns["item"]), trimmed(columns["label"])
    labelled = pc.not_equal(labels, "")
    numbers = {name: _numbers(source, name, columns[name].filter(labelled)) for name in given}
    return LabelTable(
        items=items.filter(labelled),
        labels=labels.filter(labelled),
        confidence=numbers[CONFIDENCE] if sure else None,
        probabilities=np.column_stack([numbers[name] for name in chances]) if chances else None,
        classes=tuple(name.removeprefix(PROBABILITY) for name in chances),
        name=source.name,
    )


def read_workers(path: str) -> WorkerTable:
    """Read a table that `misc aggregate --workers` wrote: names, answers and accuracies."""
    source = open_source(path)
    names = _names(source)
    for name in WORKER:
        if name not in names:
            raise InputError(
                f"{source.name}: no column {name}; give a file that misc aggregate --workers wrote"
            )
    given: dict[str, str | None] = {n: n for n in (*WORKER, *INTERVAL) if n in names}
    columns = read_columns(source, given, {name: [] for name in given}).columns
    workers = trimmed(columns.pop("worker"))
    if len(pc.unique(workers)) < len(workers):
        raise InputError(f"{source.name}: a worker stands in two rows; keep one")
    answers = _numbers(source, "answers", columns.pop("answers"), most=np.inf)
    numbers = {name: _numbers(source, name, column) for name, column in columns.items()}
    low, high = (numbers.get(name) for name in INTERVAL)
    return WorkerTable(workers, answers, numbers["accuracy"], low, high, source.name)


def _names(source: Source) -> list[str]:
    """Return the names of the columns, if the format has a header."""
    document = open_document(source, synonyms=WANTED)
    if document.records is not None or document.table.header is False:
        return []
    return document.names


def _numbers(source: Source, name: str, column: Any, most: float = 1.0) -> Floats:
    """Return a column of numbers from 0 to `most`."""
    try:
        values: Floats = trimmed(column).cast(pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        told = f"{source.name}: column {name} holds something that is not a number"
        raise InputError(told) from None
    bad = np.flatnonzero(~((values >= 0) & (values <= most)))
    if len(bad):
        told = f"{source.name}: column {name} holds {values[bad[0]]:g}; a probability"
        raise InputError(f"{told} is between 0 and 1")
    return values
