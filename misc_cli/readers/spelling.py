"""Classes that are likely one class in several spellings, or no class at all: named, never changed.

Only the vocabulary is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.readers.values import is_number

MOST_CLASSES = 2000  # more are no classes that anybody has spelled by hand
SHOWN = 3
# What programs write into a cell that holds nothing; no person chooses such a label.
NOTHING = ("nan", "<na>", "nat", "#n/a")
# What may be a class of its own or stand for no answer.
_PERHAPS = {"null", "n/a", "na", "undefined", "?", "-", "--", "skip", "skipped", "no answer"}
_PYTHON = "None"  # `none` may be a class; Python's None is not


def alike(classes: Iterable[str]) -> list[list[str]]:
    """Classes that differ only in case or spaces."""
    groups: dict[str, list[str]] = {}
    for name in classes:
        groups.setdefault("".join(name.split()).casefold(), []).append(name)
    return [names for names in groups.values() if len(names) > 1]


def same_numbers(classes: Iterable[str]) -> list[list[str]]:
    """Classes that are one number: 1, 1.0 and 01."""
    groups: dict[float, list[str]] = {}
    for name in classes:
        if is_number(name):
            groups.setdefault(float(name), []).append(name)
    return [sorted(names, key=len) for names in groups.values() if len(names) > 1]


def doubts(column: Any) -> list[str]:
    """What to say of the classes of a label column, each with the flag that settles it."""
    if len(column.dictionary) > MOST_CLASSES:
        return []
    trimmed = {name.strip() for name in column.dictionary.to_pylist() if name and name.strip()}
    classes = sorted(trimmed)
    told = []
    spelled = alike(classes)
    if spelled:
        told.append(
            f"{_each(spelled)} are different classes and differ only in case or spaces; "
            "--fold-case makes them one"
        )
    numbers = same_numbers(classes)
    if numbers:
        first, *others = numbers[0]
        flags = " ".join(f"--rename {other}={first}" for other in others)
        told.append(f"{_each(numbers)} are different classes and one number; {flags} makes it one")
    perhaps = [name for name in classes if name.casefold() in _PERHAPS or name == _PYTHON]
    if perhaps and len(perhaps) < len(classes):
        told.append(
            f"{_and(perhaps)} {'counts as a class' if len(perhaps) == 1 else 'count as classes'}; "
            f"if nobody answered there, say --no-answer '{','.join(perhaps)}'"
        )
    return told


def nothing(label: Any) -> Any | None:
    """A mask of the labels that programs write where there is nothing; None if there are none."""
    lowered = pc.utf8_lower(pc.utf8_trim_whitespace(label.dictionary))
    hits = np.asarray(pc.is_in(lowered, pa.array(NOTHING)))
    return hits[np.asarray(label.indices)] if hits.any() else None


def _each(groups: Sequence[Sequence[str]]) -> str:
    shown = ", ".join(map(_and, groups[:SHOWN]))
    return shown + (f", … ({len(groups)} such)" if len(groups) > SHOWN else "")


def _and(names: Sequence[str]) -> str:
    return " and ".join(repr(name[:40]) for name in names)
