"""Tables drawn with lines, as psql, mysql and Markdown show them → comma-separated text.

Lines stay where they are, so that a line's number in a message is its number in the file.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from misc_cli.readers.source import Source, refuse_undecodable

_BORDER = re.compile(r"[\s|+\-=:]*--[\s|+\-=:]*")
_COUNT = re.compile(r"\(\d+ rows?\)|\d+ rows? in set.*")  # psql's and mysql's last line


def is_border(cells: Iterable[str]) -> bool:
    """Whether a row is the line between a drawn header and its rows, or above or below them."""
    return _BORDER.fullmatch("|".join(cells)) is not None


def to_csv(source: Source) -> Source:
    """The same table without its lines, cells trimmed and separated by commas."""
    refuse_undecodable(source)
    text = bytes(memoryview(source.content)).decode("utf-8")
    drawn = io.StringIO()
    writer = csv.writer(drawn, lineterminator="\n")
    for line in text.splitlines():
        row = line.strip()
        if not row or _BORDER.fullmatch(row) or _COUNT.fullmatch(row):
            drawn.write("\n")
            continue
        cells = row.removeprefix("|").removesuffix("|").split("|")
        writer.writerow([cell.strip() for cell in cells])
    return replace(source, content=pa.py_buffer(drawn.getvalue().encode()))
