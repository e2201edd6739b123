"""Cells of several columns as rows: what tables with a column per worker, item or class become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.readers.document import Document
from misc_cli.readers.reading import RowNumbers

# Cells that programs write where there is nothing.
MISSING = ("nan", "na", "<na>", "null", "n/a", "#n/a")
LABEL = "label"  # the question of a table that has no name for it

Columns = dict[str, dict[str, str]]  # question → worker or item → column


@dataclass(frozen=True)
class Melted:
    """The filled cells: their row's name, their column's name, their text, their row (from 0).

    missing  rows of cells that say "missing" in a program's words
    """

    by_row: Any
    by_column: Any
    label: Any
    rows: RowNumbers
    missing: RowNumbers


def melt(document: Document, row_names: Any, columns: Mapping[str, str]) -> Melted:
    """Return the filled cells of `columns` (name → column); `row_names` is a column of text."""
    values = document.columns(list(columns.values()))
    n_rows = len(row_names)
    cells = pc.utf8_trim_whitespace(pa.concat_arrays([v.cast(pa.string()) for v in values]))
    blank = np.asarray(pc.equal(cells, ""))
    missing = np.asarray(pc.is_in(pc.utf8_lower(cells), pa.array(MISSING)))
    kept = np.flatnonzero(~(blank | missing))
    which = pa.array(kept // n_rows, pa.int32())
    return Melted(
        by_row=row_names.take(kept % n_rows),
        by_column=pa.DictionaryArray.from_arrays(which, pa.array(list(columns), pa.string())),
        label=cells.take(kept).dictionary_encode(),
        rows=kept % n_rows,
        missing=np.flatnonzero(missing) % n_rows,
    )


def share_values(document: Document, columns: Mapping[str, str] | Sequence[str]) -> bool:
    """Return whether columns choose from the same classes: no column's values are all its own."""
    names = columns.values() if isinstance(columns, Mapping) else columns
    values = [{cell.casefold() for cell in document.sampled(column)} for column in names]
    filled = [own for own in values if own]
    if len(filled) < 2:
        return False
    return all(own & set().union(*(v for v in filled if v is not own)) for own in filled)
