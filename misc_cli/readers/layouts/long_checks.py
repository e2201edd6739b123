"""Rows of worker, item and label, under whatever names: the plain case, and the fast one."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from misc_cli.errors import InputError, MiscWarning
from misc_cli.readers.columns import Parsed, by_position, choose, first_nameless, flag
from misc_cli.readers.document import Document, Table

if TYPE_CHECKING:
    from misc_cli.readers.platforms.base import Question

Synonyms = dict[str, list[set[str]]]


def from_table(
    where: str, table: Table, given: dict[str, str | None], synonyms: Synonyms, hint: str = ""
) -> Parsed:
    """The columns sought, by role; `hint` ends the message if one cannot be found."""
    if table.header is False:
        chosen = by_position(where, len(table.names), given, list(synonyms))
    else:
        chosen = choose(where, table.names, given, synonyms, hint)
    values = table.fetch([column.position for column in chosen.values()])
    columns = dict(zip(chosen, values, strict=True))
    _refuse_nameless(where, table, columns)
    if table.doubtful:
        _warn_of_header(where, table.first_row, list(synonyms))
    return Parsed(columns, chosen, len(columns["label"]), table.delimiter, table.header)


def _refuse_nameless(where: str, table: Table, columns: dict[str, Any]) -> None:
    """An answer needs a worker and an item."""
    for role in columns:
        row = first_nameless(columns, role)
        if row is not None:
            raise _nameless(where, table, row, role)


def refuse_nameless(
    document: Document, questions: Sequence[Question], roles: Mapping[str, str]
) -> None:
    """The same for questions, as far as their labels are text; `roles` are looked at."""
    for question in questions:
        if pa.types.is_dictionary(question.label.type):
            columns = {"worker": question.worker, "item": question.item, "label": question.label}
            for role in roles:
                row = first_nameless(columns, role)
                if row is not None:
                    source = row if question.rows is None else int(question.rows[row])
                    raise _nameless(document.name, document.table, source, role)


def _nameless(where: str, table: Table, row: int, role: str) -> InputError:
    kind = "record" if table.header is None else "line"
    place = "row" if kind == "line" else kind
    return InputError(
        f"{where}, {kind} {table.line(row)}: a label without its {role}; "
        f"fill it in or drop the {place}"
    )


def _warn_of_header(name: str, first_row: list[str], roles: list[str]) -> None:
    shown = ", ".join(cell.strip() for cell in first_row[:5]) + ", …" * (len(first_row) > 5)
    shown = shown.encode("utf-8", "replace").decode()
    flags = f", or say --header, {flag(roles[0])} and so on" if "worker" in roles else ""
    warnings.warn(
        f"{name}: no header was found, so the first row ({shown}) counts as data; if it is the "
        f"header, call its columns {', '.join(roles)}{flags}",
        MiscWarning,
        stacklevel=2,
    )
