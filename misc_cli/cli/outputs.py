"""Write the results of a command to a file or to stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from misc_cli.version import SCHEMA
from misc_cli.writers.output_paths import output_file as output_file

if TYPE_CHECKING:
    import pandas as pd

    from misc_cli.cli.tables import Table


def write_bytes(data: bytes, place: Path | None = None) -> None:
    """Write bytes to the file, whole or not at all, or unchanged to stdout."""
    _write(lambda stream: stream.write(data), place)


def write_columns(columns: Mapping[str, Any], place: Path | None) -> None:
    """Write a table in the format of the file's name; CSV on stdout."""
    from misc_cli.writers.render import write_table

    name = "" if place is None else place.name
    _write(lambda stream: write_table(columns, stream, name), place)


def write_frame(frame: pd.DataFrame, place: Path | None, title: str) -> None:
    """Write a data frame in the format of the file's name, an .xlsx as one sheet; CSV on stdout."""
    import pyarrow as pa

    if place is not None and place.name.lower().endswith(".xlsx"):
        from misc_cli.report.workbook import one_sheet

        write_bytes(one_sheet(title, frame), place)
        return
    columns: dict[str, Any] = {}
    for name, column in frame.items():
        values = pa.array(column.to_numpy(), from_pandas=True)
        columns[str(name)] = values.cast(pa.int8()) if pa.types.is_boolean(values.type) else values
    write_columns(columns, place)


def show(tables: Sequence[Table]) -> None:
    """Print tables on stdout; before files are written, so that a failing stdout keeps them."""
    from misc_cli.cli.tables import print_tables
    from misc_cli.writers.output_set import to_stdout

    if sys.stdout is not None:  # else closed by the caller, who wants only the file
        to_stdout(lambda _: print_tables(tables))


def _write(write: Callable[[BinaryIO], object], place: Path | None) -> None:
    from misc_cli.writers.output_set import to_stdout, write_all

    if place is None:
        to_stdout(write)
    else:
        write_all({place: write})


def json_bytes(**value: Any) -> bytes:
    """Return one JSON object with the schema version, for --json and .json files."""
    text = json.dumps({"schema": SCHEMA, **value}, indent=2, ensure_ascii=False, default=str)
    return f"{text}\n".encode(errors="backslashreplace")
