"""Lists in the cells of a table: of workers and labels, of votes, of JSON objects.

item,workers,labels / a,"ann;bea","x;y"                                  parallel lists
text,votes / hello,"[1, 1, 0]"                                           votes of nobody
item,answers / a,"[{'annotator': 'ann', 'label': 'x'}, …]"               objects, as in JSON
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from misc_cli.readers.document import Document, Record, text
from misc_cli.readers.layouts.nested import (
    FEW_CLASSES,
    Exploded,
    explode_records,
    is_values,
    of_workers,
)
from misc_cli.readers.options import NOBODY, ReadOptions
from misc_cli.readers.values import parsed

MOST_VOTES = 100  # in a list


def explode_cells(document: Document, options: ReadOptions) -> Exploded | None:
    """Return lists in cells: of workers and labels ("a;b" and "x;y"), of votes, of JSON objects."""
    names, asked = document.names, (options.worker_col, options.label_col)
    if len(set(names)) < len(names):
        return None
    is_within = asked[0] not in (None, NOBODY, *names)  # a column that only the lists make
    given = [name for name in asked if name in names and not is_within]
    if given and asked[1] not in names:
        return None
    lists = {n: _separator(document.sampled(n)) for n in names if not given or n in given}
    workers = [asked[0]] if asked[0] in lists else [] if given else of_workers(lists)
    workers = [name for name in workers if lists[name]] or workers
    separator = lists[workers[0]] if len(workers) == 1 else None
    beside = [name for name, found in lists.items() if found == (separator or "json")]
    split: Callable[[str], Any] = parsed
    if separator and separator != "json":
        split = partial(str.split, sep=separator)
    if given and not workers:
        beside = [name for name in given if are_votes(document.sampled(name))]
        split = listed
    if not beside or len(beside) < len(given):
        return None
    columns = [column.to_pylist() for column in document.table.fetch(range(len(names)))]
    records: list[Record] = [dict(zip(names, r, strict=True)) for r in zip(*columns, strict=True)]
    for record in records:
        for name in beside:
            inner = split(record[name])
            if is_values(inner):
                inner = [text(one).strip() for one in inner]
            record[name] = inner if isinstance(inner, list | dict) else [record[name]]
    return explode_records(document, records, options, is_declared=bool(given))


def listed(cell: str) -> list[str]:
    """Return the values of a list in a cell: as JSON, Python or NumPy prints it, or "2, 3, 3"."""
    inner = parsed(cell) if cell[:1] in ("[", "(") else None
    if isinstance(inner, list):
        return [text(one).strip() for one in inner]
    marks = r"[\s,;|]+" if cell[:1] in ("[", "(") else r"\s*[,;|]\s*"
    parts = re.split(marks, re.sub(r"(\d\.)(?!\d)", r"\g<1>0", cell.strip("[]() \n")))
    return [part for part in parts if part]  # NumPy's 0. is Python's 0.0


def are_votes(cells: Sequence[str]) -> bool:
    """Return whether nearly each cell lists three or more of a few values, which come again in it.

    Votes are about as many in each cell; tags of words and vectors are not, or differ.
    """
    lists = [listed(cell) for cell in cells]
    sizes = np.array([len(own) for own in lists])
    n_again = sum(len(set(own)) < len(own) for own in lists)
    if not lists or (sizes > 2).mean() < 0.9 or n_again < len(lists) / 10:
        return False
    is_even = sizes.max() <= MOST_VOTES and sizes.std() < sizes.mean() / 2
    return bool(is_even) and len({value for own in lists for value in own}) <= FEW_CLASSES


def _separator(cells: Sequence[str]) -> str | None:
    """Return the separator of names in the cells of a column: "json" for lists, or a character."""
    if not cells:
        return None
    if all(cell[:1] in ("[", "{") and isinstance(parsed(cell), list | dict) for cell in cells):
        return "json"
    for character in "|;,":
        if all(character in cell for cell in cells) and not any(" " in c.strip() for c in cells):
            return character
    return None
