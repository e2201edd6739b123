"""The layouts of answers in a file: long, wide, form, pairs, counts, matrix, nested objects."""

from __future__ import annotations

from dataclasses import replace

from misc_cli.errors import InputError
from misc_cli.readers.columns import Refusal
from misc_cli.readers.document import Document
from misc_cli.readers.layouts import counts, form, long, wide
from misc_cli.readers.layouts.nested import (
    Exploded,
    explode,
    explode_cells,
    has_lists,
    unwrapped_document,
)
from misc_cli.readers.options import NOBODY, ReadOptions
from misc_cli.readers.reading import CERTAIN, LIKELY, Match, Reader, Reading

Found = tuple[Reader, Match, Reading]

BY_NAME = {
    "wide": wide.READER,
    "form": form.READER,
    "counts": counts.READER,
    "matrix": wide.MATRIX,
    "long": long.READER,
}


def read_layout(document: Document, options: ReadOptions) -> Found:
    """Read a file of no platform: the user's word first, then what is certain, else rows."""
    if options.layout not in (None, "long"):
        reader = BY_NAME[options.layout or ""]
        plain = unwrapped_document(document)
        reading = replace(reader.read(plain, options), view=plain)
        return reader, Match(CERTAIN, f"--layout {options.layout}"), reading
    if document.records is None and wide.declared_pairs(document, options):
        return wide.PAIRS, Match(CERTAIN, "the columns named"), wide.read_pairs(document, options)
    exploded = _exploded(document, options)
    table = document if exploded is None else exploded.document
    others = [role for role, given in options.columns.items() if given is not None]
    if options.layout is None and others in ([], ["item"]) and not (exploded and exploded.nested):
        for reader in (wide.PAIRS, wide.READER, counts.READER, wide.MATRIX, form.READER):
            found = reader.detect(table) if reader is not form.READER or not others else None
            if found is not None:
                return reader, found, replace(reader.read(table, options), view=table)
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
        return LISTS, Match(CERTAIN, exploded.why), replace(reading, view=table, layout=layout)
    try:
        reading = long.read(document, options)
    except InputError as error:
        if document.records is not None and has_lists(document.records):
            raise Refusal(
                f"{error}; its objects hold lists of objects that no reader knows: flatten them"
            ) from None
        raise
    how = "its columns' names" if options.layout is None else "--layout long"
    return long.READER, Match(LIKELY, how), reading


def _exploded(document: Document, options: ReadOptions) -> Exploded | None:
    """Return the answers within objects or cells as a table of their own; None without any."""
    exploded = None
    if document.records is not None:
        exploded = explode(document, options.label_col)
    inner = document if exploded is None else exploded.document
    is_open = not any(options.columns.values())
    is_list = options.label_col is not None and options.worker_col in (None, NOBODY)
    is_plain = inner.table.header is not False and not (exploded and exploded.anonymous)
    if is_plain and (is_open or (is_list and options.multi is None)):
        exploded = explode_cells(inner, options.label_col) or exploded
    return exploded


LISTS = Reader(
    name="lists",
    title="JSON objects with several answers each",
    detect=lambda _: None,
    read=lambda document, options: read_layout(document, options)[2],
)
