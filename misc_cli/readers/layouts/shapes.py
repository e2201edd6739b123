"""Files of no platform in particular: which of the plain shapes are they?"""

from __future__ import annotations

from dataclasses import replace

from misc_cli.errors import InputError
from misc_cli.readers.document import Document
from misc_cli.readers.layouts import form, long, paired, wide
from misc_cli.readers.layouts.nested_json import explode, explode_cells, has_lists
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.platforms.base import CERTAIN, LIKELY, Match, Reader, Reading

Found = tuple[Reader, Match, Reading]


def read_shape(document: Document, options: ReadOptions) -> Found:
    """Whichever shape the file has: the user's word first, then what is certain, else rows."""
    if options.wide or options.worker_cols is not None:
        said = "--wide" if options.worker_cols is None else "--worker-cols"
        return wide.READER, Match(CERTAIN, said), wide.read(document, options)
    if options.item_cols is not None:
        return form.READER, Match(CERTAIN, "--item-cols"), form.read(document, options)
    exploded = explode(document) if document.records is not None else None
    if not any(options.columns.values()):
        inner = document if exploded is None else exploded.document
        if inner.table.header is not False and not (exploded and exploded.anonymous):
            exploded = explode_cells(inner) or exploded
    if exploded is not None:
        reading = long.read(exploded.document, options, anonymous=exploded.anonymous)
        return LISTS, Match(CERTAIN, exploded.why), replace(reading, view=exploded.document)
    if not any(options.columns.values()):
        for shape in (paired, wide, form):
            match = shape.detect(document)
            if match is not None:
                return shape.READER, match, shape.read(document, options)
    try:
        reading = long.read(document, options)
    except InputError as error:
        if document.records is not None and has_lists(document.records):
            raise InputError(
                f"{error}; its objects hold lists of objects that no reader knows: flatten them, "
                "or name the platform with --format"
            ) from None
        raise
    return long.READER, Match(LIKELY, "its columns' names"), reading


LISTS = Reader(
    name="lists",
    title="JSON objects with several answers each",
    explain="each element of a list, or each key of an object, is one answer",
    detect=lambda _: None,
    read=lambda document, options: read_shape(document, options)[2],
)
