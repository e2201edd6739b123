"""Read the tables of labels that misc writes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.data.encode import trimmed
from misc_cli.data.types import Floats, LabelTable
from misc_cli.errors import InputError
from misc_cli.readers.columns import read_columns
from misc_cli.readers.document import open_document
from misc_cli.readers.source import Source, open_source
from misc_cli.readers.vocabulary import SYNONYMS

CONFIDENCE = "confidence"
PROBABILITY = "p_"
WANTED = {"item": [*SYNONYMS["item"], {"id"}], "label": SYNONYMS["label"]}


def read_labels(path: str) -> LabelTable:
    """Read labels that `misc aggregate` wrote, or any two columns of items and labels."""
    source = open_source(path)
    document = open_document(source, synonyms=WANTED)
    has_header = document.records is None and document.table.header is not False
    names = document.names if has_header else []
    sure = [CONFIDENCE] if CONFIDENCE in names else []
    chances = [name for name in names if name.startswith(PROBABILITY)]
    given: dict[str, str | None] = {name: name for name in (*sure, *chances)}
    synonyms = {**WANTED, **{name: [] for name in given}}
    *_, columns = read_columns(source, given, synonyms)
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


def _numbers(source: Source, name: str, column: Any) -> Floats:
    """Return a column of probabilities."""
    try:
        values: Floats = trimmed(column).cast(pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        told = f"{source.name}: column {name} holds something that is not a number"
        raise InputError(told) from None
    bad = np.flatnonzero(~((values >= 0) & (values <= 1.0)))
    if len(bad):
        told = f"{source.name}: column {name} holds {values[bad[0]]:g}; a probability"
        raise InputError(f"{told} is between 0 and 1")
    return values
