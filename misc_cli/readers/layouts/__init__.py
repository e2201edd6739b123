"""The layouts of answers in a file: long, wide, form, pairs, counts, matrix, nested objects."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from misc_cli.errors import InputError
from misc_cli.readers.columns import Layout, Refusal, listing
from misc_cli.readers.document import Document
from misc_cli.readers.layouts import long
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.reading import Reading
from misc_cli.readers.vocabulary import find_roles

if TYPE_CHECKING:
    from misc_cli.readers.layouts.wide import Several

_TITLES = {
    "wide": "a table with a row per item and a column per worker",
    "form": "a table with a row per worker and a column per item",
    "pairs": "a table with a row per item and pairs of columns, who and what",
    "counts": "a table with a row per item and how many chose each class",
    "matrix": "a matrix of labels: a row per item, a column per worker",
    "lists": "JSON objects with several answers each",
}


def read_layout(document: Document, options: ReadOptions) -> Reading:
    """Read a file of no platform: the user's word first, then what is certain, else rows."""
    how = "its columns' names" if options.layout is None else f"--layout {options.layout}"
    given = [role for role, name in options.columns.items() if name is not None]
    if document.records is None and document.table.header and not (given or options.layout):
        roles = find_roles(document.names)
        if len(document.names) == 3 and all(len(own) == 1 for own in roles.values()):
            (at,) = roles["worker"]
            if not any(set(row[at]) & set("[|;,") for row in document.table.sample if row[at:]):
                # each column is called what it is, and no cell lists workers
                return long.read(document, options, how)
    from misc_cli.readers.layouts.nested import exploded, paths_within, unwrapped_document
    from misc_cli.readers.layouts.wide import declared_pairs, find_counts, find_several

    document = unwrapped_document(document)
    pairs = declared_pairs(document, options) if document.records is None else None
    if pairs is not None or options.layout not in (None, "long"):
        return _read_several(document, options, pairs)
    found = exploded(document, options)
    if found is not None and found.anonymous and not given and (own := find_counts(document)):
        counts = Layout("counts", label=tuple(own.taken)).options(document)
        raise Refusal(
            f"{document.name}: {found.why}, beside counts, {listing(own.taken, 4)}; say "
            "--layout counts, or name the list with --label-col",
            [counts, {"label_col": found.paths["label"]}],
        )
    if found is not None:
        table, title = found.document, _TITLES["lists"]
        reading = long.read(table, found.declared(options), found.why, anonymous=found.anonymous)
        return replace(reading, view=table, paths=found.paths, reader="lists", title=title)
    if options.layout is None and given in ([], ["item"]):
        several = find_several(document, with_forms=not given)
        if several is not None:
            return _read_several(document, options, several)
    try:
        return replace(long.read(document, options, how), view=document)
    except InputError as error:
        within = paths_within(document.records or [])
        if within:
            told = f"{str(error).partition(';')[0]}; lists in it hold {listing(within)}"
            raise Refusal(
                f"{told}; name them with --worker-col, --item-col and --label-col", is_open=True
            ) from None
        raise


def _read_several(document: Document, options: ReadOptions, found: Several | None) -> Reading:
    from misc_cli.readers.layouts.wide import read_several

    name = found.layout if found else options.layout or ""
    why = found.why if found else f"--layout {name}"
    reading = read_several(document, options, found)
    return replace(reading, view=document, reader=name, title=_TITLES[name], how=why)
