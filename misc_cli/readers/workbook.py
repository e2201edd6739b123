"""A sheet of an .xlsx workbook, as CSV text, read as any table; openpyxl streams its rows."""

from __future__ import annotations

import csv
import datetime as dt
import io
import warnings
import zipfile
from typing import Any

from misc_cli.errors import ConfigError, InputError, MiscError
from misc_cli.readers.options import GIBIBYTE, ReadOptions
from misc_cli.readers.source import Buffer, one_line

MOST_CELLS = 50_000_000


def sheet_as_csv(name: str, content: Buffer, options: ReadOptions) -> bytes:
    """Return the only sheet with anything in it, or the one that `options.sheet` names."""
    import openpyxl

    file = io.BytesIO(memoryview(content))
    try:
        size = sum(member.file_size for member in zipfile.ZipFile(file).infolist())
        if size > (options.max_input or GIBIBYTE):
            raise InputError(f"{name}: too large when unpacked; raise --max-input, or save as CSV")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on styles and extensions, which do not matter here
            book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            sheets = {title: text for title in book.sheetnames if (text := _csv(name, book[title]))}
    except MiscError:
        raise
    except Exception as error:  # openpyxl lets those of zip, XML and its own checks through
        reason = one_line(error)
        raise InputError(f"{name}: not a whole workbook ({reason}); save it as CSV") from None
    if not sheets:
        raise InputError(f"{name}: the workbook is empty; give a file with answers in it")
    listed = ", ".join(sheets)
    if options.sheet is None and len(sheets) > 1:
        raise InputError(f"{name}: {len(sheets)} sheets ({listed}); pick one with --sheet")
    if options.sheet is not None and options.sheet not in sheets:
        raise ConfigError(f"--sheet {options.sheet}: {name} has {listed}")
    return sheets[options.sheet or listed]


def _csv(name: str, sheet: Any) -> bytes:
    """Return the sheet's rows, without the empty rows and columns around them."""
    rows, n_cells = [], 0
    for values in sheet.iter_rows(values_only=True):
        n_cells += len(values)
        if n_cells > MOST_CELLS:  # one cell in the last row and column makes all others
            raise InputError(
                f"{name}: more than {MOST_CELLS:,} cells, most of them empty? Delete what lies "
                "beside the table, or save it as CSV"
            )
        row = [] if values.count(None) == len(values) else list(map(_text, values))
        while row and not row[-1]:
            row.pop()
        rows += [row] if row else []
    width = max(map(len, rows), default=0)
    stream = io.StringIO(newline="")
    csv.writer(stream).writerows(row + [""] * (width - len(row)) for row in rows)
    return stream.getvalue().encode("utf-8", "replace")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float) and value.is_integer():  # Excel knows no integers
        return str(int(value))
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return "" if value is None else str(value).strip()
