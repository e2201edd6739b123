"""Read several columns of answers: each filled cell is an answer, or counts some.

What a row and a column stand for is all that wide tables, matrices, forms, pairs and counts differ
in: an item and a worker, a worker and an item, or an item and a class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.errors import InputError
from misc_cli.readers.columns import Layout, is_unique, naming_column, select, truth_synonyms
from misc_cli.readers.document import Document
from misc_cli.readers.layouts.long import refuse_nameless
from misc_cli.readers.layouts.wide import (
    LABEL,
    WORKERS,
    Several,
    classes_of,
    find_counts,
    find_form,
    find_wide,
)
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.reading import (
    EACH_COLUMN,
    Question,
    Reading,
    by_kind,
    joined,
    known_of,
    nth_of_item,
    roles_of,
    take,
)
from misc_cli.readers.values import CHOICE
from misc_cli.readers.vocabulary import SYNONYMS, find_roles, normalise

MISSING = ("nan", "na", "<na>", "null", "n/a", "#n/a")  # cells where programs have nothing
ROLES = {"wide": "worker", "matrix": "worker", "form": "item", "counts": "label"}  # of columns


def read_several(document: Document, options: ReadOptions, found: Several | None) -> Reading:
    """Read columns of answers as --layout says, or as they were found."""
    several = found or _declared(document, options)
    if several.layout == "form":
        return cells_as_answers(document, several, worker_column(document, options, several.taken))
    rest = [n for n in document.names if n not in (*several.taken, *several.people)]
    if options.item_col is not None:
        items = select(document, "item", options.item_col)
    elif document.table.header is False or several.layout == "matrix":
        items = ()
    else:
        items = naming_column(document, rest)
    columns = {
        question: {whose: column for whose, column in own.items() if column not in items}
        for question, own in several.columns.items()
    }
    is_signed = document.format != "npy" or options.no_answer is not None
    return cells_as_answers(document, replace(several, columns=columns), items, is_signed=is_signed)


def _declared(document: Document, options: ReadOptions) -> Several:
    """Return the columns that the user named, else those that are sure, else all but the item's."""
    name = options.layout or "wide"
    role = ROLES[name]
    given = options.columns[role] or options.label_col
    bare = document.table.header is False
    if given is not None:
        names = select(document, role, given)
    else:
        finds = {"form": find_form, "wide": find_wide, "counts": find_counts}
        certain = None if bare or name == "matrix" else finds[name](document)
        if certain is not None:
            return certain
        names = tuple(n for n in document.names if n not in _gold_columns(document))
        items = options.item_col and select(document, "item", options.item_col)
        items = items or (() if bare or name == "matrix" else naming_column(document, names))
        names = tuple(n for n in names if n not in items)
        if name == "form" or (name == "counts" and not bare):
            names = ()
    if not names:
        raise InputError(
            f"{document.name}: --layout {name} needs the columns of the {role}s; name them with "
            f"--{role}-col"
        )
    first = 0 if document.format == "npy" else 1  # as NumPy counts
    if name == "counts":
        return Several(name, classes_of(names))
    called = {str(document.names.index(n) + first) if bare else n: n for n in names}
    return Several(name, {LABEL: called})


def cells_as_answers(
    document: Document,
    several: Several,
    named: Sequence[str],
    out: Any = None,
    *,
    is_signed: bool = True,
) -> Reading:
    """Return each filled cell as an answer, or as many as it counts.

    named      the columns that name the rows: items, or in a form the worker; none: their numbers
    out        a mask of the rows that are left out
    is_signed  whether a negative number is a label; else it is no answer
    """
    is_form, is_counted = several.layout == "form", several.layout == "counts"
    rows_named = document.columns(named or several.taken[:1])
    n_rows = len(rows_named[0])
    names = joined(rows_named if named else (), n_rows, first=0 if document.format == "npy" else 1)
    gold = [name for name in _gold_columns(document) if name not in several.taken]
    is_known = len(gold) == 1 and not (is_form or is_counted)
    known = known_of(names, document.columns(gold)[0]) if is_known else None
    people = [
        pc.utf8_trim_whitespace(c.cast(pa.string())) for c in document.columns(several.people)
    ]
    gaps, questions = [], []
    for question, of_column in several.columns.items():
        columns = [column.cast(pa.string()) for column in document.columns([*of_column.values()])]
        cells = pc.utf8_trim_whitespace(pa.concat_arrays(columns))
        missing = pc.is_in(pc.utf8_lower(cells), pa.array(MISSING))
        if not is_signed:
            missing = pc.or_(missing, pc.starts_with(cells, "-"))
        kept = np.flatnonzero(~np.asarray(pc.or_(missing, pc.equal(cells, ""))))
        if is_counted:
            kept = np.repeat(kept, _counts(document, cells.take(kept)))
        gaps.append(np.flatnonzero(np.asarray(missing)) % n_rows)
        rows, which = kept % n_rows, pa.array(kept // n_rows, pa.int32())
        by_row = names.take(rows)
        if people:
            by_column = pa.concat_arrays(people).take(kept).dictionary_encode()
        else:
            by_column = pa.DictionaryArray.from_arrays(which, pa.array([*of_column], pa.string()))
        who, what, label = by_column, by_row, cells.take(kept).dictionary_encode()
        told = {"worker": several.people or EACH_COLUMN, "item": tuple(named)}
        if is_form:
            who, what = by_row, by_column
            told = {"worker": tuple(named), "item": several.people or EACH_COLUMN}
        elif is_counted:
            who, label = nth_of_item(by_row), by_column
            told["worker"] = "nobody"
        roles = roles_of(**told, label=[*of_column.values()])
        found = Question(question, CHOICE, who, what, label, rows, known, roles)
        if out is not None:
            found = take(found, np.flatnonzero(~out[rows]))
        if is_form or people:
            refuse_nameless(document, found, ("worker", "item"))
        kind, labels = (CHOICE, found.label) if is_counted else by_kind(found.label)
        questions.append(replace(found, kind=kind, label=labels))
    missing_rows, taken = np.concatenate(gaps), tuple(several.taken)
    layouts = {
        "wide": Layout("wide", taken, tuple(named)),
        "pairs": Layout("long", several.people, tuple(named), taken),
        "form": Layout("form", tuple(named), taken),
        "matrix": Layout("matrix", item=tuple(named)),
        "counts": Layout("counts", item=tuple(named), label=taken),
    }
    is_nobody = is_form and not named
    return Reading(
        questions,
        {"no answer": missing_rows} if len(missing_rows) and not is_counted else {},
        [f"{document.name}: nobody is named, so each row is a worker"] if is_nobody else [],
        has_workers=not is_counted,
        layout=layouts[several.layout] if len(questions) == 1 else None,
    )


def _counts(document: Document, cells: Any) -> Any:
    """Return the whole numbers in cells of text."""
    wrong = pc.invert(pc.match_substring_regex(cells, r"^\d{1,6}(\.0*)?$"))
    if pc.any(wrong).as_py():
        raise InputError(
            f"{document.name}: {cells.filter(wrong)[0].as_py()!r} counts nothing; name the columns "
            "of counts with --label-col"
        )
    return np.asarray(cells.cast(pa.float64()), dtype=np.int64)


def worker_column(
    document: Document, options: ReadOptions, items: Sequence[str]
) -> tuple[str, ...]:
    """Return the column of a form's workers; none if rows are counted."""
    if options.worker_col is not None:
        return select(document, "worker", options.worker_col)[:1]
    rest = [name for name in document.names if name not in items]
    for tiers in (SYNONYMS["worker"], [WORKERS]):
        found = [rest[at] for at in find_roles(rest, {"worker": tiers})["worker"]]
        # "anonymous" in every row names nobody
        found = [name for name in found if len(set(document.sampled(name))) > 1]
        unique = [name for name in found if is_unique(document, name)]
        if found and not unique:
            raise InputError(
                f"{document.name}: {found[0]!r} answers more than once, and no column names "
                "the items; pick with --item-col, or name the workers with --worker-col"
            )
        if found:
            return (unique[0],)
    return ()


def _gold_columns(document: Document) -> list[str]:
    known = truth_synonyms()["label"][0]
    return [name for name in document.names if normalise(name) in known]
