"""Kinds of values of a column, told from its vocabulary: classes, numbers, text, JSON, dates.

Only distinct values are looked at, at most some thousands, so a long column costs no more than a
short one.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

CHOICE = "choice"
CHOICES = "choices"  # several per answer
NUMBER = "number"
WITH_CLASSES = (CHOICE, CHOICES, NUMBER)  # all others have none to vote on
TEXT = "text"
REGIONS = "regions"  # boxes in an image, spans of a text
DATES = "dates"
JSON = "JSON"
URLS = "addresses"
IDS = "ids"
OTHER = "other"
# Cells where programs have nothing, as they write it: Null beside Ultralow is a class
MISSING = ("nan", "NaN", "NAN", "NA", "<NA>", "null", "NULL", "n/a", "N/A", "#N/A")
LOOKED_AT = 4000
FEW_CLASSES = 20  # that people choose from where nothing is called a label
MOST = 0.6  # of the values must look alike for a kind to be told
_DATE = (
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}([T ].*)?"
    r"|\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?( ?[AaPp][Mm])?"
    r"|([A-Z][a-z]{2} )?[A-Z][a-z]{2} \d{1,2},? (\d{2}:\d{2}:\d{2} [A-Z]{3} )?\d{4}.*"
)
_URL = r"(?i)(https?|s3|gs|ftp)://\S+|www\.\S+|\S+\.(jpe?g|png|gif|webp|wav|mp3|mp4)"
_ID = (
    r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-fA-F]{16,}|A[0-9A-Z]{10,14}"
    r"|[0-9A-Z]{28,32}|\d{9,}|R_\w{10,}"
)
_MARKUP = r"(?s)<[?!A-Za-z].*>"
_LOOKS = ((DATES, _DATE, 0), (OTHER, _MARKUP, 0), (URLS, _URL, 3), (IDS, _ID, 5))
_SEPARATORS = ("|", ";", ",", "\n")
_REGION_KEYS = {
    *("x", "y", "width", "height", "points", "left", "top", "xmin", "bbox", "polygon", "rle"),
    *("vertices", "mask", "start", "end", "startoffset", "endoffset", "start_offset", "end_offset"),
    *("boundingboxes", "polygons", "keypoints", "entities"),
}


class Kind(NamedTuple):
    """The kind of a column's values; `separator` stands between choices, "json" for lists."""

    name: str
    separator: str | None = None


def kind_of(column: Any) -> Kind:
    """Return the kind of a dictionary column of text, by its distinct values."""
    values = [value.strip() for value in column.dictionary[:LOOKED_AT].to_pylist() if value]
    return kind_of_values(list(filter(None, values)), len(column))


def kind_of_values(values: Sequence[str], n_answers: int) -> Kind:
    """Return the kind of distinct `values`; `n_answers` is how many there are with repeats."""
    if not values:
        return Kind(CHOICE)
    structured = [v for v in values if v[:1] in ("[", "{")]
    if 4 * len(structured) > len(values) and (kind := _structured(structured)) is not None:
        return kind
    for name, pattern, least in _LOOKS:
        n_alike = sum(map(bool, map(re.compile(pattern).fullmatch, values)))
        if len(values) > least and n_alike > MOST * len(values):
            return Kind(name)
    if all(map(is_number, values)):
        return Kind(NUMBER)
    is_marked = any(mark in value for mark in _SEPARATORS for value in values)
    if is_marked and (separator := _separator(values)) is not None:
        return Kind(CHOICES, separator)
    # sentences: long, of several words, hardly ever the same twice
    n_words = sum(len(value.split()) for value in values) / len(values)
    length = sum(map(len, values)) / len(values)
    is_rare = n_answers < 2 * len(values) and len(values) > 3
    if length > 200 or (n_words >= 4 and length > 20 and is_rare):
        return Kind(TEXT)
    return Kind(CHOICE)


def is_scale(values: Sequence[str]) -> bool:
    """Return whether distinct numbers may be classes: at most twelve, or whole ones up to 20."""
    are_whole = all(value.lstrip("+-").isdigit() for value in values)
    return len(values) <= 12 or (len(values) <= 20 and are_whole)


def have_classes(cells: Sequence[str]) -> bool:
    """Return whether cells are answers: no ids, addresses, texts, nor numbers of any size."""
    values = sorted(set(cells))
    kind = kind_of_values(values, len(cells))
    if kind.name == NUMBER and not is_scale(values):
        return False
    return kind.name in WITH_CLASSES and not (len(cells) > 20 and 2 * len(values) > len(cells))


def is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def parsed(value: str) -> Any:
    """Return a cell's JSON, or its list as Python prints it; None if it holds neither."""
    with suppress(ValueError, RecursionError):
        return json.loads(value, parse_int=str, parse_float=str)
    with suppress(ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        found = ast.literal_eval(value) if len(value) < 10_000 else None
        found = list(found) if isinstance(found, tuple | set) else found
        return found if isinstance(found, list | dict) else None
    return None


def _structured(values: list[str]) -> Kind | None:
    """Return the kind of lists and objects in cells; None if they only look like that."""
    found = [inner for inner in map(parsed, values[:200]) if isinstance(inner, list | dict)]
    if len(found) <= MOST * min(len(values), 200):
        return None
    are_chosen = all(choices_in(inner) is not None for inner in found)
    return Kind(CHOICES, "json") if are_chosen else Kind(JSON)


def mark_region(names: Iterable[str]) -> bool:
    """Return whether keys of an object mark a part of the item."""
    return any(name.lower() in _REGION_KEYS for name in names)


def choices_in(value: Any) -> list[str] | None:
    """Return the options of a list of plain values or of {"choices": [...]}; else None."""
    if isinstance(value, dict) and set(value) <= {"choices", "type"} and "choices" in value:
        value = value["choices"]
    value = [value] if isinstance(value, str) else value
    plain = (str, bool, int, float)
    if not isinstance(value, list) or not all(isinstance(one, plain) for one in value):
        return None
    return [str(one).lower() if isinstance(one, bool) else str(one) for one in value]


def _separator(values: Sequence[str]) -> str | None:
    """Return what separates options that come back in several values, as in cat|dog."""
    for separator in _SEPARATORS:
        compounds = [value for value in values if separator in value]
        if not compounds:
            continue
        split = [[part.strip() for part in value.split(separator)] for value in compounds]
        uses = Counter(part for parts in split for part in set(parts))
        uses.update(value for value in values if separator not in value)
        # options chosen together: none is empty and none comes twice
        sets = [parts for parts in split if all(parts) and len(set(parts)) == len(parts)]
        again = sum(all(uses[part] > 1 for part in parts) for parts in sets)
        are_few = len(uses) < len(values) + 2 or len(compounds) == 1
        # No class is called "joy|anger" or spans two lines where `joy` is another.
        some = sum(any(uses[part] > 1 for part in parts) for parts in sets)
        is_mark = separator in "|\n" and some == len(compounds)
        if is_mark or (2 * again >= len(compounds) and are_few):
            return separator
    return None


def split_choices(column: Any, separator: str) -> Any:
    """Return a dictionary column of several choices per cell as a list<string> column."""
    lists = []
    for value in column.dictionary.to_pylist():
        parts = choices_in(parsed(value)) if separator == "json" else value.split(separator)
        parts = [value] if parts is None else parts
        lists.append(sorted({part.strip() for part in parts} - {""}))
    return pa.array(lists, pa.list_(pa.string())).take(column.indices)


def as_single(column: Any) -> Any | None:
    """Return a list column of at most one option per cell as text; None if some hold more."""
    if (pc.max(pc.list_value_length(column)).as_py() or 0) > 1:
        return None
    filled = [one[0] if one else "" for one in column.to_pylist()]
    return pa.array(filled, pa.string()).dictionary_encode()
