"""The layouts of answers in a file: long, wide, form, pairs, counts, matrix, nested objects."""

from __future__ import annotations

from dataclasses import replace

from misc_cli.errors import InputError
from misc_cli.readers.columns import Refusal
from misc_cli.readers.document import Document
from misc_cli.readers.layouts import long
from misc_cli.readers.layouts.counts import find_counts, find_matrix, read_counts
from misc_cli.readers.layouts.nested import (
    Exploded,
    explode,
    explode_cells,
    has_lists,
    unwrapped_document,
)
from misc_cli.readers.layouts.wide import (
    Several,
    declared_pairs,
    find_form,
    find_pairs,
    find_wide,
    read_several,
)
from misc_cli.readers.options import NOBODY, ReadOptions
from misc_cli.readers.reading import Reading

_TITLES = {
    "long": "a table with one row per answer",
    "wide": "a table with a row per item and a column per worker",
    "form": "a table with a row per worker and a column per item",
    "pairs": "a table with a row per item and pairs of columns, who and what",
    "counts": "a table with a row per item and how many chose each class",
    "matrix": "a matrix of labels: a row per item, a column per worker",
    "lists": "JSON objects with several answers each",
}


def read_layout(document: Document, options: ReadOptions) -> Reading:
    """Read a file of no platform: the user's word first, then what is certain, else rows."""
    if options.layout not in (None, "long"):
        plain = unwrapped_document(document)
        return _read_several(plain, options, None)
    pairs = declared_pairs(document, options) if document.records is None else None
    if pairs is not None:
        return _read_several(document, options, pairs)
    exploded = _exploded(document, options)
    table = document if exploded is None else exploded.document
    others = [role for role, given in options.columns.items() if given is not None]
    if options.layout is None and others in ([], ["item"]) and not (exploded and exploded.nested):
        found = _find_several(table, with_forms=not others)
        if found is not None:
            return _read_several(table, options, found)
    if document.format == "npy" and not others:
        if any("." in cell for row in document.table.sample for cell in row):
            raise InputError(
                f"{document.name}: fractions, shares of votes perhaps, and no votes; give the "
                "labels of the workers, or counts of votes"
            )
        raise Refusal(
            f"{document.name}: a matrix without names: labels of workers (with 0 or -1 for none), "
            "or counts per class? Say --layout matrix, or --layout counts",
            is_open=True,
        )
    if exploded is not None:
        if exploded.anonymous:
            options = replace(options, label_col=None, worker_col=None)
        reading = long.read(table, options, anonymous=exploded.anonymous)
        layout = None if exploded.nested else reading.layout
        return _told(replace(reading, view=table, layout=layout), "lists", exploded.why)
    try:
        reading = long.read(document, options)
    except InputError as error:
        if document.records is not None and has_lists(document.records):
            raise Refusal(
                f"{error}; its objects hold lists of objects that no reader knows: flatten them"
            ) from None
        raise
    how = "its columns' names" if options.layout is None else "--layout long"
    return _told(reading, "long", how)


def _find_several(document: Document, *, with_forms: bool) -> Several | None:
    """Return columns that are surely answers: pairs, workers', counts, a matrix, items."""
    if document.format == "npy":
        return find_matrix(document)
    if document.table.header is False:
        return None
    finds = [find_pairs, find_wide, find_counts, *([find_form] if with_forms else [])]
    return next(filter(None, (find(document) for find in finds)), None)


def _read_several(document: Document, options: ReadOptions, found: Several | None) -> Reading:
    name = found.layout if found else options.layout or ""
    why = found.why if found else f"--layout {name}"
    read = read_counts if name == "counts" else read_several
    return _told(replace(read(document, options, found), view=document), name, why)


def _told(reading: Reading, name: str, how: str) -> Reading:
    return replace(reading, reader=name, title=_TITLES[name], how=how)


def _exploded(document: Document, options: ReadOptions) -> Exploded | None:
    """Return the answers within objects or cells as a table of their own; None without any."""
    exploded = None
    if document.records is not None:
        exploded = explode(document, options.label_col)
    inner = document if exploded is None else exploded.document
    is_open = not any(options.columns.values())
    is_list = options.label_col is not None and options.worker_col in (None, NOBODY)
    is_plain = inner.table.header is not False and not (exploded and exploded.anonymous)
    is_within = bool(options.worker_col) and options.worker_col not in (*inner.names, NOBODY)
    if is_plain and options.multi is None and is_list and not is_open:
        return explode_cells(inner, options.label_col) or exploded
    if is_plain and (is_open or is_within):
        return explode_cells(inner) or exploded
    return exploded


def exploded_cells(document: Document) -> Document | None:
    """Return the table of answers that lists in cells, of workers and labels, make."""
    found = _exploded(document, ReadOptions())
    return found.document if found is not None and not found.anonymous else None
