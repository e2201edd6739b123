"""Where a command's results go: a file that was named, or stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from misc_cli.version import SCHEMA
from misc_cli.writers.output_paths import output_file as output_file

if TYPE_CHECKING:
    from misc_cli.cli.console import Table


def write_bytes(data: bytes, place: Path | None = None) -> None:
    """To the file, whole or not at all, or to stdout: as it is, whatever the terminal's locale."""
    from misc_cli.writers.output_set import content

    _write(content(data), place)


def write_columns(columns: Mapping[str, Any], place: Path | None) -> None:
    """A table, in the format that the file's name says; CSV on stdout."""
    from misc_cli.writers.render import write_table

    name = "" if place is None else place.name
    _write(lambda stream: write_table(columns, stream, name), place)


def show(tables: Sequence[Table]) -> None:
    """What a person reads, on stdout; before the files, which a full stdout must not cost."""
    from misc_cli.cli.console import print_tables
    from misc_cli.writers.output_set import to_stdout

    if sys.stdout is not None:  # else closed by the caller, who wants only the file
        to_stdout(lambda _: print_tables(tables))


def _write(write: Callable[[BinaryIO], None], place: Path | None) -> None:
    from misc_cli.writers.output_set import Output, to_stdout, write_all

    if place is None:
        to_stdout(write)
    else:
        write_all([Output(place, write)])


def json_bytes(**value: Any) -> bytes:
    """What every --json prints and every .json file holds: one object, with a schema version."""
    text = json.dumps({"schema": SCHEMA, **value}, indent=2, ensure_ascii=False, default=str)
    return f"{text}\n".encode(errors="backslashreplace")
