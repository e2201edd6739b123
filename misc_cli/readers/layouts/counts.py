"""Counts of votes, a column per class; and matrices without names, a column per worker.

A table of counts is read as answers of nobody: a count of seven is seven votes. It is certain where
rows sum to a column of totals or to one number, or where the names say so (votes_1,
label_counter.x); else it is asked about.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from misc_cli.errors import InputError
from misc_cli.readers.columns import Layout, is_unique, listing, select
from misc_cli.readers.document import Document, text_array
from misc_cli.readers.layouts.melt import LABEL, melt
from misc_cli.readers.layouts.wide import MANY_NAMES, item_columns
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.reading import (
    CERTAIN,
    THE_ROW,
    Match,
    Question,
    Reader,
    Reading,
    by_kind,
    joined,
    without_workers,
)
from misc_cli.readers.values import CHOICE
from misc_cli.readers.vocabulary import normalise, words_of

LEAST_ROWS = 10
MOST_CLASSES = 60
_COUNTS = {"votes", "vote", "counts", "count", "counter", "freq", "frequency", "num", "nb", "n"}
_TOTALS = {
    *("count", "total", "sum", "n", "votes", "totalvotes", "nvotes", "numvotes", "nannotators"),
    *("numannotators", "totalcount", "nratings", "numratings", "all", "numlabels", "nlabels"),
    *("annotatorcount", "numjudgments", "numclassifications", "nclassifications"),
}
_NO_COUNTS = {"id", "age", "year", "index", "row", "time", "seconds", "length", "duration", "rank"}


def count_columns(document: Document) -> tuple[tuple[str, ...], str]:
    """Return the columns that surely hold counts, and why; none if there are none."""
    if document.table.header is False or len(document.table.sample) < 2:
        return (), ""
    numbers = {name: cells for name in document.names if (cells := _counts(document, name))}
    for name, total in numbers.items():
        if normalise(name) in _TOTALS:
            parts = _parts_of(numbers, name, total)
            if parts:
                return parts, f"{listing(parts, MANY_NAMES)} sum to {name!r}"
    for stem in dict.fromkeys(map(_stem, numbers)):
        own = tuple(name for name in numbers if _stem(name) == stem)
        said = words_of(stem) & _COUNTS
        if said and 2 <= len(own) <= MOST_CLASSES:
            return own, f"{listing(own, MANY_NAMES)} are called counts"
    return (), ""


def _counts(document: Document, name: str) -> list[int] | None:
    """Return the whole numbers of a column, in the sample; None if it holds something else."""
    if document.names.count(name) > 1 or words_of(name) & _NO_COUNTS:
        return None
    at = document.names.index(name)
    cells = [row[at].strip() if at < len(row) else "" for row in document.table.sample]
    cells = [re.sub(r"\.0+$", "", cell) or "0" for cell in cells]
    if not all(cell.isascii() and cell.isdigit() and len(cell) < 7 for cell in cells):
        return None
    return [int(cell) for cell in cells]


def _stem(name: str) -> str:
    """votes_no and votes_1 → votes; label_counter.e → label_counter; without one the name."""
    head, found, _ = name.rpartition("." if "." in name else "_")
    if found:
        return head
    match = re.fullmatch(r"(#|n_|num_?|count_?)\S+", name, re.IGNORECASE)
    return match[1].rstrip("_") if match else name


def _parts_of(numbers: dict[str, list[int]], name: str, total: Sequence[int]) -> tuple[str, ...]:
    """Return neighbouring columns whose cells sum to the total in every row."""
    names = list(numbers)
    for first in range(len(names)):
        for last in range(first + 2, min(len(names), first + MOST_CLASSES) + 1):
            own = [other for other in names[first:last] if other != name]
            if name in names[first:last] or len(own) < 2:
                continue
            sums = [sum(cells) for cells in zip(*(numbers[one] for one in own), strict=True)]
            if sums == list(total) and max(total) > 1 and len(total) >= LEAST_ROWS:
                return tuple(own)
    return ()


def sums_of(document: Document, names: Sequence[str]) -> list[int] | None:
    """Return the rows' sums over columns of whole numbers, in the sample; None otherwise."""
    columns = [_counts(document, name) for name in names]
    if any(column is None for column in columns):
        return None
    return [sum(cells) for cells in zip(*(c for c in columns if c is not None), strict=True)]


def detect(document: Document) -> Match | None:
    if document.format == "npy":
        sums = sums_of(document, document.names) if len(document.names) > 1 else None
        is_constant = sums and len(set(sums)) == 1 and len(sums) >= LEAST_ROWS and sums[0] > 1
        if is_constant and max(_cells(document)) > 1 and 0 in _cells(document):
            return Match(CERTAIN, f"each row sums to {sums[0] if sums else 0}")
        return None
    names, why = count_columns(document)
    return Match(CERTAIN, why) if names else None


def _cells(document: Document) -> set[int]:
    return {int(cell) for row in document.table.sample for cell in row}


def read(document: Document, options: ReadOptions) -> Reading:
    if options.label_col is not None:
        classes = select(document, "label", options.label_col)
    elif document.table.header is False:
        items = select(document, "item", options.item_col) if options.item_col else ()
        classes = tuple(name for name in document.names if name not in items)
    else:
        classes, _ = count_columns(document)
    if len(classes) < 2:
        raise InputError(
            f"{document.name}: --layout counts needs the columns of the classes; name them with "
            "--label-col"
        )
    names = _items(document, options, classes)
    columns = document.columns(classes)
    items = joined(document.columns(names), len(columns[0]))
    counts = np.column_stack(
        [_numbers(document, n, c) for n, c in zip(classes, columns, strict=True)]
    )
    rows, which = np.nonzero(counts)
    times = counts[rows, which]
    rows, which = np.repeat(rows, times), np.repeat(which, times)
    stem = _stem(classes[0])
    is_stem = all(_stem(name) == stem != name for name in classes)
    words = [name[len(stem) :].lstrip("_.") if is_stem else name for name in classes]
    label = pa.DictionaryArray.from_arrays(pa.array(which, pa.int32()), pa.array(words))
    roles = {
        "worker": "nobody",
        "item": " + ".join(names) or THE_ROW,
        "label": listing(list(classes), MANY_NAMES),
    }
    what = items.take(rows)
    question = Question(LABEL, CHOICE, what, what, label, rows, columns=roles)
    reading = Reading([question], layout=Layout("counts", item=names, label=classes))
    return without_workers(document, replace(options, worker_from=None), reading)


def _items(document: Document, options: ReadOptions, classes: Sequence[str]) -> tuple[str, ...]:
    """Return the item's columns; the row where nothing names it once."""
    if options.item_col is not None:
        return select(document, "item", options.item_col)
    try:
        return item_columns(document, options, classes)
    except InputError:
        return ()


def _numbers(document: Document, name: str, column: Any) -> Any:
    cells = [cell.strip() or "0" for cell in column.dictionary.to_pylist()]
    wrong = [cell for cell in cells if not re.fullmatch(r"\d{1,6}(\.0*)?", cell)]
    if wrong:
        raise InputError(
            f"{document.name}: {name!r} holds {wrong[0]!r}, which counts nothing; name the columns "
            "of counts with --label-col"
        )
    values = np.array([int(float(cell)) for cell in cells], dtype=np.int64)
    return values[np.asarray(column.indices)]


COUNTS = Reader(
    name="counts",
    title="a table with a row per item and how many chose each class",
    explain="a count of seven is seven votes of nobody; the column is the class",
    detect=detect,
    read=read,
)


def detect_matrix(document: Document) -> Match | None:
    """Return whether a NumPy matrix surely holds labels: -1 or gaps, or few classes everywhere."""
    if document.format != "npy":
        return None
    cells = {cell for row in document.table.sample for cell in row}
    if any("." in cell for cell in cells) or cells - {""} == {"-1", "0", "1"}:
        return None
    has_gaps = "" in cells or any(cell.startswith("-") for cell in cells)
    return Match(CERTAIN, "a matrix of labels") if has_gaps or _few_classes(document) else None


def _few_classes(document: Document) -> bool:
    """Return whether numbers are classes: as few as 0 to 9, and each column has most of them."""
    cells = {cell for row in document.table.sample for cell in row}
    return len(cells) <= 10 and max(map(len, cells)) == 1 and len(document.table.sample) > 1


def read_matrix(document: Document, options: ReadOptions) -> Reading:
    """Read rows as items and columns as workers, called by their place (from 0 in NumPy's)."""
    given = options.worker_col or options.label_col
    items = select(document, "item", options.item_col) if options.item_col else ()
    columns = select(document, "worker", given) if given else tuple(document.names)
    columns = tuple(name for name in columns if name not in items)
    first = 0 if document.format == "npy" else 1
    n_rows = len(document.columns([columns[0]])[0])
    rows = joined(document.columns(items), n_rows)
    if not items:
        rows = text_array(str(row + first) for row in range(n_rows))
    header = document.table.header is not False
    named = {n if header else str(document.names.index(n) + first): n for n in columns}
    melted = melt(document, rows, named)
    kind, labels = by_kind(melted.label)
    kept = np.arange(len(labels))
    if (
        document.format == "npy"
        and options.no_answer is None
        and pa.types.is_dictionary(labels.type)
    ):
        said = np.array([not word.startswith("-") for word in labels.dictionary.to_pylist()])
        kept = np.flatnonzero(said[np.asarray(labels.indices)])
    roles = {
        "worker": "a column for each",
        "item": " + ".join(items) or THE_ROW,
        "label": f"{len(columns)} columns",
    }
    order = np.lexsort((np.asarray(melted.by_column.indices)[kept], melted.rows[kept]))
    kept = kept[order]
    question = Question(
        LABEL,
        kind,
        melted.by_column.take(kept),
        melted.by_row.take(kept),
        labels.take(kept),
        melted.rows[kept],
        columns=roles,
    )
    return Reading([question], layout=Layout("matrix", item=items))


MATRIX = Reader(
    name="matrix",
    title="a matrix of labels: a row per item, a column per worker",
    explain="each filled cell is one answer; a negative number in a NumPy file is none",
    detect=detect_matrix,
    read=read_matrix,
)

__all__ = ["COUNTS", "MATRIX", "count_columns", "is_unique", "sums_of"]
