"""Figures of a table's columns, each computed once: what a guess and a proposal are judged by.

Cells are kept as codes, so that columns are joined and compared without a loop over rows. A guess
looks at the sample, a proposal at the first 20,000 rows: answers to an item may lie far apart.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.readers.document import Document, text_array
from misc_cli.readers.values import CHOICE, MISSING, NUMBER, Kind, is_scale, kind_of_values
from misc_cli.readers.vocabulary import SYNONYMS, names_in

MOST_ROWS = 20_000
KNOWN = {role: {word for tier in tiers for word in tier} for role, tiers in SYNONYMS.items()}
# Parts of an item's name beside ids: what was compared, by which system, in which turn.
PARTS = names_in("""
model system turn question prompt word sentence source target doc document segment pair id ids
dataset instance item index term topic hash text image sys
""")


class Profile:
    """The columns of a document whose names come once, by figures of their cells."""

    def __init__(self, document: Document, *, whole: bool = False) -> None:
        self.document = document
        self.names = [name for name in document.names if name.strip()]
        self._whole = whole
        self._columns: dict[str, Any] = {}
        self._codes: dict[tuple[str, ...], Any] = {}

    @cached_property
    def n_rows(self) -> int:
        return len(self._column(self.names[0])) if self.names else 0

    def _column(self, name: str) -> Any:
        """Return the trimmed cells of a column, dictionary-encoded."""
        if name not in self._columns:
            if self._whole:
                for own, column in zip(self.names, self.document.columns(self.names), strict=True):
                    cells = pc.utf8_trim_whitespace(column[:MOST_ROWS].cast(pa.string()))
                    self._columns[own] = cells.dictionary_encode()
            else:
                at, rows = self.document.names.index(name), self.document.table.sample
                texts = (row[at].strip() if at < len(row) else "" for row in rows)
                self._columns[name] = text_array(texts)
        return self._columns[name]

    def codes(self, *names: str) -> Any:
        """Return a code for each row: of its cell, or of its cells in several columns."""
        if names not in self._codes:
            if len(names) == 1:
                found = np.asarray(self._column(names[0]).indices).astype(np.int64)
            else:
                first, last = self.codes(*names[:-1]), self.codes(names[-1])
                found = np.unique(first * (last.max(initial=0) + 1) + last, return_inverse=True)[1]
            self._codes[names] = found
        return self._codes[names]

    def filled(self, *names: str) -> Any:
        """Return a mask of the rows that are empty in none of the columns."""
        blank = [pc.index(self._column(n).dictionary, pa.scalar("")).as_py() for n in names]
        return np.all([self.codes(n) != at for n, at in zip(names, blank, strict=True)], axis=0)

    def cells(self, name: str) -> list[str]:
        return list(self._column(name).to_pylist())

    def values(self, name: str) -> list[str]:
        """Return what a column holds, each once."""
        return [value for value in self._column(name).dictionary.to_pylist() if value]

    def n_distinct(self, *names: str) -> int:
        return len(np.unique(self.codes(*names)[self.filled(*names)]))

    def kind(self, name: str) -> Kind:
        return kind_of_values(self.values(name), int(self.filled(name).sum()))

    def is_unique(self, name: str) -> bool:
        return 0 < len(self.values(name)) == int(self.filled(name).sum())

    def has_classes(self, name: str) -> bool:
        """Return whether a column holds choices, or marks of a scale of whole numbers."""
        values = [value for value in self.values(name) if value not in MISSING]
        values = [re.sub(r"\.0+$", "", value) for value in values]
        kind = kind_of_values(values, int(self.filled(name).sum()))
        is_whole = all(value.lstrip("+-").isdigit() for value in values)
        return kind.name == CHOICE or (kind.name == NUMBER and is_scale(values) and is_whole)

    def tells_apart(self, key: Sequence[str], name: str) -> bool:
        """Return whether rows with the same key differ in a column: it is part of the key."""
        keys, pairs = self.codes(*key), self.codes(*key, name)
        n_rows = np.bincount(keys)
        n_values = np.bincount(keys[np.unique(pairs, return_index=True)[1]], minlength=len(n_rows))
        again = n_rows > 1
        return bool(again.any() and (n_values == n_rows)[again].mean() >= 0.8)
