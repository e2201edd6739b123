"""Rows that do not count as answers by what stands beside them, and gold that does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from misc_cli.errors import InputError
from misc_cli.io.document import Document
from misc_cli.io.readers.base import is_one_of
from misc_cli.io.vocabulary import normalise

_BAD_STATUSES = (
    *("rejected", "reject", "cancelled", "canceled", "skipped", "skip", "tainted", "expired"),
    *("abandoned", "returned", "deleted", "draft", "invalid", "ignored", "ignore", "discarded"),
    *("spam", "failed", "timed-out", "timed out"),
)
_BAD_FLAGS = (
    *("rejected", "cancelled", "canceled", "wascancelled", "skipped", "tainted", "deleted"),
    *("isdeleted", "discarded", "isspam", "ignored", "isskipped", "isrejected", "iscancelled"),
)
_GOLD = {"gold", "goldlabel", "truth", "groundtruth", "truelabel", "goldanswer", "correctlabel"}


def statuses(document: Document) -> dict[str, Callable[[Any], Any]]:
    """Rows that a status or a flag takes out, by reason."""
    aside: dict[str, Callable[[Any], Any]] = {}
    for name in document.names:
        if document.names.count(name) > 1:
            continue
        if normalise(name).endswith("status") or normalise(name) == "state":
            seen = {value.lower() for value in document.sampled(name)} & set(_BAD_STATUSES)
            for status in sorted(seen):
                aside[status] = _is(name, status)
        elif normalise(name) in _BAD_FLAGS:
            aside[name.strip().lower()] = _is(name, "true", "1", "yes")
    return aside


def header_again(document: Document, roles: Mapping[str, str]) -> dict[str, Callable[[Any], Any]]:
    """Rows that are the header once more, as files have that were put together from several."""
    names = list(roles.values())
    if not document.table.header or not names:
        return {}

    def condition(column: Any) -> Any:
        _refuse_other_order(document, column, names)
        places = [(column(name), column(name).dictionary.index(name).as_py()) for name in names]
        if any(place < 0 for _, place in places):
            return None
        return np.all([np.asarray(values.indices) == place for values, place in places], axis=0)

    return {"repeated header": condition}


def _refuse_other_order(document: Document, column: Any, names: Sequence[str]) -> None:
    """A header in the middle of the file whose columns come in another order than the first's."""
    if len(names) == 2:
        first, second = names
        if all(
            column(name).dictionary.index(other).as_py() >= 0
            for name, other in ((first, second), (second, first))
        ):
            raise InputError(
                f"{document.name}: a second header with {first!r} and {second!r} in another order; "
                "give the parts as files of their own"
            )


def _is(name: str, *values: str) -> Callable[[Any], Any]:
    return lambda column: is_one_of(column(name), *values)


def gold_of(document: Document, roles: Mapping[str, str], answers: Sequence[str]) -> dict[str, str]:
    known = [n for n in document.names if normalise(n) in _GOLD and n not in roles.values()]
    return {answers[0]: known[0]} if len(known) == len(answers) == 1 else {}
