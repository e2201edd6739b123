"""Snorkel, a label matrix as a table: a column lf_… for each labelling function, -1 for none.

https://snorkel.readthedocs.io/en/latest/packages/_autosummary/labeling/snorkel.labeling.PandasLFApplier.html:
a row per data point, a column per function, which abstains with -1. Other columns are the
point's data; one that is different in each row names the points, else they are counted from 0.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from misc_cli.io.document import Document, text_array
from misc_cli.io.melt import melt
from misc_cli.io.options import ReadOptions
from misc_cli.io.readers.base import CERTAIN, CHOICE, Match, Question, Reader, Reading
from misc_cli.io.vocabulary import normalise

_PREFIX = "lf_"
_NONE = {"-1", "-1.0", "abstain"}


def _functions(document: Document) -> list[str]:
    return [name for name in document.names if name.lower().startswith(_PREFIX)]


def detect(document: Document) -> Match | None:
    functions = _functions(document)
    if len(functions) < 2 or document.table.header is False:
        return None
    cells = {cell.lower() for name in functions for cell in document.sampled(name)}
    return Match(CERTAIN, "columns lf_… with -1 for none") if cells & _NONE else None


def read(document: Document, options: ReadOptions) -> Reading:
    functions = _functions(document)
    n_rows = len(document.columns([functions[0]])[0])
    names = [
        name for name in document.names if normalise(name) in ("id", "itemid", "exampleid", "text")
    ]
    items, item = text_array(map(str, range(n_rows))), "the row's number, from 0"
    for name in names:
        (column,) = document.columns([name])
        if len(column.dictionary) == n_rows:
            items, item = column, name
            break
    cells = melt(document, items, {name: name for name in functions})
    answered = np.array(
        [value.lower() not in _NONE for value in cells.label.dictionary.to_pylist()]
    )
    kept = np.flatnonzero(answered[np.asarray(cells.label.indices)])
    label = cells.label.take(pa.array(kept)).cast(pa.string()).dictionary_encode()
    roles = {"worker": "a column for each", "item": item, "label": "lf_*"}
    question = Question(
        "label",
        CHOICE,
        cells.by_column.take(kept),
        cells.by_row.take(kept),
        label,
        cells.rows[kept],
        columns=roles,
    )
    return Reading([question])


READER = Reader(
    name="snorkel",
    title="Snorkel, a table of labelling functions",
    explain="worker is a column lf_…, item the row (its id or text where there is one), -1 is no "
    "answer",
    detect=detect,
    read=read,
    page="https://snorkel.readthedocs.io/",
)
