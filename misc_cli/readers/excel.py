"""A sheet of an .xlsx workbook as CSV text, which then is read as any table.

openpyxl (extra `excel`), because it also writes workbooks, so that one library serves both ends;
its read-only mode streams the rows.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import warnings
import zipfile
from typing import Any

import pyarrow as pa

from misc_cli.errors import ConfigError, InputError, needs_extra
from misc_cli.readers.addresses import Access

MOST_CELLS = 50_000_000


def sheet_as_csv(name: str, archive: zipfile.ZipFile, access: Access) -> pa.Buffer:
    """Return the only sheet with anything in it, or the one that `access.sheet` names."""
    try:
        import openpyxl
    except ImportError:
        raise needs_extra(f"{name}: reading this", "excel") from None
    access.refuse_large(name, sum(member.file_size for member in archive.infolist()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on styles and extensions, which do not matter here
        try:
            book = openpyxl.load_workbook(archive.fp, read_only=True, data_only=True)
            sheets = {title: text for title in book.sheetnames if (text := _csv(name, book[title]))}
        except InputError:
            raise
        except Exception as error:  # openpyxl lets those of zip, XML and its own checks through
            reason = " ".join(str(error).split()) or type(error).__name__
            raise InputError(
                f"{name}: not a whole Excel workbook ({reason}); save it again, or as CSV"
            ) from None
    if not sheets:
        raise InputError(f"{name}: the workbook is empty; give a file with answers in it")
    listed = ", ".join(sheets)
    if access.sheet is None and len(sheets) > 1:
        raise InputError(f"{name}: {len(sheets)} sheets ({listed}); pick one with --sheet")
    if access.sheet is not None and access.sheet not in sheets:
        raise ConfigError(f"--sheet {access.sheet}: {name} has {listed}")
    return pa.py_buffer(sheets[access.sheet or listed])


def _csv(name: str, sheet: Any) -> bytes:
    """Return the sheet's rows, without the empty rows and columns around them."""
    rows, n_cells, width = [], 0, 0
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
        if row:
            rows.append(row)
            width = max(width, len(row))
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(
        row + [""] * (width - len(row)) for row in rows
    )
    return stream.getvalue().encode("utf-8", "replace")


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # Excel knows no integers: 3 is stored as 3.0
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return str(value).strip()
