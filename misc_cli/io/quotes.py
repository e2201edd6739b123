"""Quotes that would swallow rows: found before parsing, for a parser takes them without a word.

Two stray quotes make one cell of all that lies between them. So a quote that closes a cell must
have the delimiter or the end of the line behind it, and a cell that spans lines is refused if each
of its lines is a whole row by itself, or if there are improbably many of them.

A file without quotes, as most are, never comes here.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from misc_cli.errors import InputError
from misc_cli.io.source import Buffer

MOST_BREAKS = 1000  # line breaks within one cell; --quotes-span-lines allows any number
CHUNK = 1 << 24
QUOTE = ord('"')

Positions = npt.NDArray[np.int64]
Span = tuple[Positions, Positions]  # first and last byte of every quoted cell


def check_quotes(
    name: str, body: Buffer, delimiter: str, first_line: int, width: int, *, spanning: bool
) -> None:
    """Raise an InputError with the line of the first quote that cannot be meant.

    `first_line` is the number of the body's first line, `width` how many columns its rows have,
    `spanning` that the user knows of cells with many lines.
    """
    data = np.frombuffer(body, dtype=np.uint8)
    quotes = _positions(data, QUOTE)
    ends = np.frombuffer(f"{delimiter}\r\n".encode(), dtype=np.uint8)
    cells = _paired(data, quotes, ends)
    if cells is None:
        cells = _scanned(name, body, ends, first_line)
    if not spanning:
        _refuse_swallowed(name, data, cells, ord(delimiter), first_line, width)


def _positions(data: Any, byte: int) -> Positions:
    found = [
        np.flatnonzero(data[start : start + CHUNK] == byte) + start
        for start in range(0, len(data), CHUNK)
    ]
    return np.concatenate(found) if found else np.array([], dtype=np.int64)


def _paired(data: Any, quotes: Positions, ends: Any) -> Span | None:
    """Quoted cells if every quote opens or closes one, or is doubled within it; else None."""
    if len(quotes) % 2:
        return None
    opening, closing = quotes[::2], quotes[1::2]
    doubled = closing[:-1] + 1 == opening[1:]  # closes and opens again: a quote within the cell
    starts = opening[np.append(True, ~doubled)]
    stops = closing[np.append(~doubled, True)]
    starts_well = (starts == 0) | np.isin(data[starts - 1], ends)
    stops_well = (stops == len(data) - 1) | np.isin(data[(stops + 1) % len(data)], ends)
    return (starts, stops) if starts_well.all() and stops_well.all() else None


def _scanned(name: str, body: Buffer, ends: Any, first_line: int) -> Span:
    """The same where a quote may also stand within plain text (5" wide): cell by cell."""
    text = memoryview(body)
    boundary = re.escape(bytes(ends))
    opening = re.compile(rb"(?:\A|(?<=[" + boundary + rb']))"')
    cell = re.compile(rb'"[^"]*(?:""[^"]*)*"')
    starts, stops, at = [], [], 0
    while found := opening.search(text, at):
        whole = cell.match(text, found.start())
        line = first_line + _count(text[: found.start()])
        if whole is None:
            raise InputError(
                f"{name}, line {line}: a quote opens in this row and does not close; "
                'close it, or double quotes within a cell ("")'
            )
        at = whole.end()
        if at < len(text) and text[at] not in ends:
            line += _count(text[found.start() : at])
            raise InputError(
                f"{name}, line {line}: a quote closes in this row and text follows it; a stray "
                'quote? Remove it, or double quotes within a cell ("")'
            )
        starts.append(found.start())
        stops.append(at - 1)
    return np.array(starts, dtype=np.int64), np.array(stops, dtype=np.int64)


def _refuse_swallowed(
    name: str, data: Any, cells: Span, delimiter: int, first_line: int, width: int
) -> None:
    starts, stops = cells
    breaks = _positions(data, ord("\n"))
    before = np.searchsorted(breaks, starts)
    n_breaks = np.searchsorted(breaks, stops) - before
    spanning = np.flatnonzero(n_breaks)
    if not len(spanning):
        return
    many = spanning[n_breaks[spanning] > MOST_BREAKS]
    if len(many):
        raise _swallowed(name, first_line + int(before[many[0]]), int(n_breaks[many[0]]))
    delimiters = _positions(data, delimiter)
    edges = np.concatenate([[-1], breaks, [len(data)]])
    whole_rows = np.diff(np.searchsorted(delimiters, edges)) == width - 1  # by line of the body
    n_quotes = np.diff(np.searchsorted(_positions(data, QUOTE), edges))
    suspicious = []
    for at in spanning:
        lines = slice(before[at], before[at] + n_breaks[at] + 1)
        if whole_rows[lines].all() and n_quotes[lines].sum() == 2:
            suspicious.append(at)
    # Texts of several lines look like rows now and then; stray quotes do so each time.
    if 2 * len(suspicious) > len(spanning):
        at = suspicious[0]
        raise _swallowed(name, first_line + int(before[at]), int(n_breaks[at]))


def _swallowed(name: str, line: int, n_breaks: int) -> InputError:
    rows = "a row" if n_breaks == 1 else f"{n_breaks:,} rows"
    return InputError(
        f"{name}, line {line}: a quote opens here and closes {n_breaks:,} "
        f"{'line' if n_breaks == 1 else 'lines'} below, which would swallow {rows}; remove the "
        "stray quotes, or say --quotes-span-lines if this is one cell"
    )


def _count(text: memoryview) -> int:
    return bytes(text).count(b"\n")
