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

from misc_cli.readers.document import Document, Record, text
from misc_cli.readers.layouts.nested import Exploded, are_votes, explode, is_values, of_workers
from misc_cli.readers.options import NOBODY, ReadOptions
from misc_cli.readers.values import parsed


def explode_cells(document: Document, options: ReadOptions) -> Exploded | None:
    """Return lists in cells: of workers and labels ("a;b" and "x;y"), of votes, of JSON objects."""
    names, who, said = document.names, options.worker_col, options.label_col
    is_declared = said in names and who in (None, NOBODY, *names)  # else the lists may have them
    if who in names and not is_declared:
        return None
    given = [name for name in (who, said) if name in names] if is_declared else names
    lists = {name: _separator(document.sampled(name)) for name in given}
    workers = [who] if who in names else [] if is_declared else of_workers(lists)
    workers = [name for name in workers if lists[name]]
    separator = lists[workers[0]] if len(workers) == 1 else None
    beside = [name for name, found in lists.items() if found == (separator or "json")]
    split: Callable[[str], Any] = parsed
    if separator and separator != "json":
        split = partial(str.split, sep=separator)
    if is_declared and not workers:
        beside = [name for name in given if are_votes([*map(listed, document.sampled(name))])]
        split = listed
    if not beside or (is_declared and len(beside) < len(given)):
        return None
    columns = [column.to_pylist() for column in document.table.fetch(range(len(names)))]
    records: list[Record] = [dict(zip(names, r, strict=True)) for r in zip(*columns, strict=True)]
    for record in records:
        for name in beside:
            inner = split(record[name])
            if is_values(inner):
                inner = [text(one).strip() for one in inner]
            record[name] = inner if isinstance(inner, list | dict) else [record[name]]
    return explode(document, records, options)


def listed(cell: str) -> list[str]:
    """Return the values of a list in a cell: as JSON, Python or NumPy prints it, or "2, 3, 3"."""
    inner = parsed(cell) if cell[:1] in ("[", "(") else None
    if isinstance(inner, list):
        return [text(one).strip() for one in inner]
    is_plain = cell[:1] in ("[", "(") or re.fullmatch(r"[\d.\s]+", cell)
    marks = r"[\s,;|]+" if is_plain else r"\s*[,;|]\s*"
    parts = re.split(marks, re.sub(r"(\d\.)(?!\d)", r"\g<1>0", cell.strip("[]() \n")))
    return [part for part in parts if part]  # NumPy's 0. is Python's 0.0


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
