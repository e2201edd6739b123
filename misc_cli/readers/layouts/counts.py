"""Counts of votes, a column per class: read as answers of nobody, a count of seven as seven votes.

Certain where rows sum to a column of totals or, in a NumPy matrix, to one number, or where the
names say so (votes_1, label_counter.x); else --layout counts says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from misc_cli.errors import InputError
from misc_cli.readers.columns import Layout, listing, select
from misc_cli.readers.document import Document
from misc_cli.readers.layouts.wide import LABEL, Several, are_answers, item_columns, matched
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.reading import Question, Reading, joined, roles_of, without_workers
from misc_cli.readers.values import CHOICE
from misc_cli.readers.vocabulary import names_in, normalise, words_of

LEAST_ROWS = 10
MOST_CLASSES, MOST_COLUMNS = 60, 300
_COUNTS = names_in("votes vote counts count counter freq frequency num nb n")
_TOTALS = names_in("""
count total sum n votes totalvotes nvotes numvotes nannotators numannotators totalcount nratings
numratings all numlabels nlabels annotatorcount numjudgments numclassifications nclassifications
""")
_NO_COUNTS = names_in("id age year index row time seconds length duration rank")


def find_matrix(document: Document) -> Several | None:
    """Find a NumPy matrix of counts, whose rows have one sum, or of labels: gaps, few classes."""
    names = document.names
    cells = {cell for row in document.table.sample for cell in row}
    numbers = [own for name in names if (own := whole_numbers(document, name)) is not None]
    is_whole = 1 < len(names) == len(numbers)
    sums = [sum(row) for row in zip(*numbers, strict=True)] if is_whole else []
    is_even = len(sums) >= LEAST_ROWS and len(set(sums)) == 1
    if is_even and "0" in cells and not cells <= {"0", "1"}:
        called = {LABEL: {name: name for name in names}}
        return Several("counts", called, f"each row sums to {sums[0]}")
    if any("." in cell for cell in cells) or cells - {""} == {"-1", "0", "1"}:
        return None
    has_gaps = "" in cells or any(cell.startswith("-") for cell in cells)
    few = len(cells) <= 10 and max(map(len, cells)) == 1 and len(document.table.sample) > 1
    if not (has_gaps or few):
        return None
    called = {LABEL: {str(at): name for at, name in enumerate(names)}}
    return Several("matrix", called, "a matrix of labels")


def find_counts(document: Document) -> Several | None:
    """Find columns that sum to a column of totals, or are called counts: votes_cat, votes_dog."""
    numbers = [name for name in document.names if whole_numbers(document, name)]
    if len(document.table.sample) < 2 or not numbers or has_raters(document):
        return None
    for name in numbers:
        is_total = normalise(name) in _TOTALS
        parts = runs_with_sum(document, numbers, total=name) if is_total else ()
        if parts:
            called = {LABEL: {part: part for part in parts}}
            return Several("counts", called, f"{listing(parts, 4)} sum to {name!r}")
    for stem in dict.fromkeys(map(_stem, numbers)):
        own = [name for name in numbers if _stem(name) == stem]
        if words_of(stem) & _COUNTS and 2 <= len(own) <= MOST_CLASSES:
            called = {LABEL: {name: name for name in own}}
            return Several("counts", called, f"{listing(own, 4)} are called counts")
    return None


def has_raters(document: Document) -> bool:
    """Return whether answers that were counted stand beside the counts: label_1, label_2, …"""
    words = [
        n for n in document.names if re.search(r"\d$", n) and whole_numbers(document, n) is None
    ]
    return any(
        len(own) > 1 and are_answers(document, own)
        for own in matched(words, re.compile(r"(.*?)(\d+)"), lambda m: (m[1], m[2])).values()
    )


def whole_numbers(document: Document, name: str) -> list[int] | None:
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


def runs_with_sum(
    document: Document, names: Sequence[str], least: int = 2, total: str | None = None
) -> tuple[str, ...]:
    """Return the longest neighbouring columns of counts whose rows all sum to one number.

    With `total`, to the number in that column.
    """
    counted = {
        name: cells for name in names if (cells := whole_numbers(document, name)) is not None
    }
    aims = None if total is None else np.array(whole_numbers(document, total))
    own = [name for name in counted if name != total][:MOST_COLUMNS]
    if len(own) < least or len(document.table.sample) < LEAST_ROWS:
        return ()
    sums = np.cumsum(
        [np.zeros(len(document.table.sample), int), *(counted[n] for n in own)], axis=0
    )
    for width in range(min(len(own), MOST_CLASSES), least - 1, -1):
        runs = sums[width:] - sums[:-width]
        aim = runs[:, :1] if aims is None else aims
        fits = (runs == aim).all(axis=1) & (runs.max(axis=1) > (2 if aims is None else 1))
        if fits.any():
            first = int(np.argmax(fits))
            return tuple(own[first : first + width])
    return ()


def read_counts(document: Document, options: ReadOptions, found: Several | None) -> Reading:
    """Read counts as votes of nobody: a count of seven is seven votes."""
    if options.label_col is not None:
        classes = select(document, "label", options.label_col)
    elif document.table.header is False:
        taken = select(document, "item", options.item_col) if options.item_col else ()
        classes = tuple(name for name in document.names if name not in taken)
    else:
        found = found or find_counts(document)
        classes = tuple(found.taken) if found else ()
    if len(classes) < 2:
        raise InputError(
            f"{document.name}: --layout counts needs the columns of the classes; name them with "
            "--label-col"
        )
    names = item_columns(document, options, classes)
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
    roles = roles_of(worker="nobody", item=names, label=classes)
    what = items.take(rows)
    question = Question(LABEL, CHOICE, what, what, label, rows, columns=roles)
    reading = Reading([question], layout=Layout("counts", item=names, label=classes))
    return without_workers(document, replace(options, worker_from=None), reading)


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
