"""Workers who answer the same item more than once: how many, and what tells the answers apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from misc_cli.readers.document import Document

FIRST_ITEMS = 500  # only their answers are looked at: a long file costs no more than a short one


def share_of_conflicts(worker: Any, item: Any, *beside: Any) -> tuple[int, int]:
    """Pairs of worker and item among the first items, and how many differ in what stands beside."""
    items = np.asarray(item.indices)
    rows = np.flatnonzero(items < FIRST_ITEMS)[: FIRST_ITEMS * 100]
    if not len(rows):
        return 0, 0
    workers = np.asarray(worker.indices)[rows].astype(np.int64)
    pairs = workers * FIRST_ITEMS + items[rows]
    keys = pairs
    for column in beside:
        _, places = np.unique(keys, return_inverse=True)
        keys = places * (len(column.dictionary) + 1) + np.asarray(column.indices)[rows]
    _, first = np.unique(keys, return_index=True)
    _, counts = np.unique(pairs[first], return_counts=True)
    return len(counts), int((counts > 1).sum())


def tells_apart(
    document: Document, key: Sequence[str], column: str, said: Sequence[str] = ()
) -> bool:
    """Whether rows with the same key differ in `column`, in the sample: it is then part of it.

    Rows that are blank in one of the columns `said` are no answers.
    """
    at = [document.position(name) for name in key]
    place = document.position(column)
    filled = [document.names.index(name) for name in said]
    seen: dict[tuple[str, ...], set[str]] = {}
    n_rows: dict[tuple[str, ...], int] = {}
    for row in document.table.sample:
        if len(row) > max([*at, place, *filled]) and all(row[n].strip() for n in filled):
            values = tuple(row[position] for position in at)
            seen.setdefault(values, set()).add(row[place])
            n_rows[values] = n_rows.get(values, 0) + 1
    repeated = [values for values, n in n_rows.items() if n > 1]
    if not repeated:
        return False
    apart = sum(len(seen[values]) == n_rows[values] for values in repeated)
    return apart >= 0.8 * len(repeated)


def always_same(document: Document, owner: str, column: str) -> bool:
    """Whether every owner that comes again, four or more, has one value of `column` (sample)."""
    places = document.position(owner), document.position(column)
    values: dict[str, list[str]] = {}
    for row in document.table.sample:
        if len(row) > max(places):
            values.setdefault(row[places[0]], []).append(row[places[1]])
    again = [cells for cells in values.values() if len(cells) > 1]
    return len(again) >= 4 and all(len(set(cells)) == 1 for cells in again)
