"""Write the result of a command: a table on stdout, or a file in the format of its name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from misc_cli.cli import tables
from misc_cli.version import SCHEMA

if TYPE_CHECKING:
    import pandas as pd

PAGES = {".md": tables.markdown, ".tex": tables.latex, ".txt": tables.plain}


def place_of(
    given: str | None, inputs: Sequence[str], *kinds: str, as_json: bool = False
) -> Path | None:
    """Return the file that -o names, None for stdout, once it is sure that it can be written.

    `kinds` are the suffixes that it may have, those of tables unless given.
    """
    from misc_cli.readers.addresses import check_stdin_once
    from misc_cli.writers.output_paths import check_writable, output_file

    check_stdin_once(list(inputs))
    place = output_file(given, *((".json",) if as_json else kinds))
    check_writable([] if place is None else [place], inputs)
    return place


def deliver(
    shown: Sequence[tables.Table],
    place: Path | None,
    facts: Mapping[str, Any],
    columns: Mapping[str, Any] | None = None,
    *,
    as_json: bool = False,
) -> None:
    """Write a result: `facts` as JSON, `columns` as a table of data, else the tables `shown`.

    Without a file, and unless JSON is asked for, the tables go to stdout.
    """
    suffix = "" if place is None else place.suffix.lower()
    if as_json or suffix == ".json":
        write(json_bytes(**facts), place)
    elif suffix in PAGES:
        write(PAGES[suffix](shown).encode(), place)
    elif place is not None and columns is not None:
        write_columns(columns, place)
    else:
        tables.print_tables(shown)


def write(content: Any, place: Path | None = None) -> None:
    """Write bytes, or what a function writes, to the file, whole or not at all, or to stdout."""
    from misc_cli.writers.output_set import to_stdout, write_all

    if place is not None:
        write_all({place: content})
    else:
        to_stdout(content if callable(content) else lambda stream: stream.write(content))


def write_columns(columns: Mapping[str, Any], place: Path | None) -> None:
    """Write a table in the format of the file's name; CSV on stdout."""
    from misc_cli.writers.render import write_table

    write(partial(write_table, columns, name="" if place is None else place.name), place)


def write_frame(frame: pd.DataFrame, place: Path | None, title: str) -> None:
    """Write a data frame in the format of the file's name, an .xlsx as one sheet; CSV on stdout."""
    import pyarrow as pa

    if place is not None and place.name.lower().endswith(".xlsx"):
        from misc_cli.report.workbook import one_sheet

        write(one_sheet(title, frame), place)
        return
    columns: dict[str, Any] = {}
    for name, column in frame.items():
        values = pa.array(column.to_numpy(), from_pandas=True)
        columns[str(name)] = values.cast(pa.int8()) if pa.types.is_boolean(values.type) else values
    write_columns(columns, place)


def json_bytes(**value: Any) -> bytes:
    """Return one JSON object with the schema version, for --json and .json files."""
    text = json.dumps({"schema": SCHEMA, **value}, indent=2, ensure_ascii=False, default=str)
    return f"{text}\n".encode(errors="backslashreplace")
