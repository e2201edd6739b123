"""Files without a header: three columns, and which of them is the worker."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from misc_cli.errors import InputError
from misc_cli.readers.columns import by_position
from misc_cli.readers.document import Document
from misc_cli.readers.layouts.wide import ITEM_NAME
from misc_cli.readers.options import ReadOptions

_WORKER = re.compile(
    r"(w|#w|worker|annotator|ann|rater|user|turker|coder|judge|performer|labell?er|lf)[\s_-]*\d+"
    r"|A[0-9A-Z]{9,14}|[^@\s]+@[^@\s]+\.\w+",
    re.IGNORECASE,
)
ROLES = ("worker", "item", "label")


def positions(document: Document, options: ReadOptions) -> tuple[dict[str, int], str]:
    """Role → position (from 0), and what to say of it; the user's word needs no comment."""
    n_columns = len(document.names)
    _refuse_title(document)
    if document.table.doubtful and options.header is None:
        shown = ", ".join(" ".join(cell.split())[:40] for cell in document.table.first_row[:5])
        shown = shown.encode("utf-8", "replace").decode()
        raise InputError(
            f"{document.name}: is the first row ({shown}) a header? If so, say --header and name "
            "the columns with --worker-col, --item-col and --label-col, else say --no-header"
        )
    given = options.columns
    chosen = by_position(document.name, n_columns, given, ROLES)
    places = {role: column.position for role, column in chosen.items()}
    if any(given.values()):
        return places, ""
    if n_columns > 3:
        raise InputError(
            f"{document.name}: no header and {n_columns} columns, so nobody knows which is what; "
            "say --worker-col, --item-col and --label-col as positions, or --header"
        )
    first, second = (document.sampled(document.names[at]) for at in (0, 1))
    third = document.sampled(document.names[2])
    if _most(_WORKER, third) or _most(ITEM_NAME, third):
        raise InputError(
            f"{document.name}: no header, and column 3 does not look like labels ({third[0]!r}); "
            "say --worker-col, --item-col and --label-col as positions"
        )
    told = _by_looks(first, second)
    swapped, why = told or _by_counts(document)
    if swapped:
        places = {"worker": 1, "item": 0, "label": 2}
    order = "item, worker, label" if swapped else "worker, item, label"
    said = (
        f"no header, so columns are taken as {order}: {why}; "
        "--worker-col 1 --item-col 2 or the other way round settles it"
    )
    return places, said if told is None else ""


def _refuse_title(document: Document) -> None:
    """A first row that is shorter than all the others is no row: a title above the header."""
    first, sample = document.table.first_row, document.table.sample
    widths = {len(row) for row in sample[1:] if any(map(str.strip, row))}
    if len(sample) > 2 and widths and len(first) < min(widths) and min(widths) >= len(ROLES):
        raise InputError(
            f"{document.name}: the first row has {len(first)} of {min(widths)} columns, a title "
            f"above the header ({' '.join(first[0].split())[:40]})? Delete the lines above the "
            "header, or name its columns worker, item and label"
        )


def _by_looks(first: list[str], second: list[str]) -> tuple[bool, str] | None:
    """Whether the item comes before the worker, if their names tell."""
    said_first = _most(_WORKER, first) - _most(ITEM_NAME, first)
    said_second = _most(_WORKER, second) - _most(ITEM_NAME, second)
    if said_first == said_second or not first or not second:
        return None  # an empty column tells nothing
    swapped = said_second > said_first
    who, what = (second[0], first[0]) if swapped else (first[0], second[0])
    return swapped, f"{who!r} looks like a worker beside {what!r}"


def _by_counts(document: Document) -> tuple[bool, str]:
    """Whether the item comes before the worker, by how often values come; and how that was told."""
    columns = document.columns(document.names[:2])
    counts = [np.bincount(np.asarray(column.indices)) for column in columns]
    regular = [bool(len(c) > 1 and c.min() == c.max() and c[0] > 1) for c in counts]
    if len(columns[0]) >= 20 and regular[0] != regular[1]:
        at = 0 if regular[0] else 1
        return at == 0, f"each value of column {at + 1} comes {counts[at][0]} times, as items do"
    sizes = [len(c) for c in counts]
    if len(columns[0]) >= 50 and max(sizes) >= 3 * min(sizes):
        more = int(np.argmax(sizes))
        return more == 0, f"column {more + 1} has {sizes[more]:,} values, the other {min(sizes):,}"
    raise InputError(
        f"{document.name}: no header, and nothing tells whether column 1 or 2 is the worker; say "
        "--worker-col 1 --item-col 2 --label-col 3, or --worker-col 2 --item-col 1 --label-col 3"
    )


def _most(pattern: re.Pattern[str], cells: list[Any]) -> bool:
    return bool(cells) and sum(1 for c in cells if pattern.fullmatch(c)) > 0.8 * len(cells)
