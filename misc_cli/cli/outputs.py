"""Where a command's results go: a file that was named, or stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from misc_cli.errors import ConfigError
from misc_cli.version import SCHEMA

if TYPE_CHECKING:
    from misc_cli.cli.text_table import Table


def output_file(given: str | None, *known: str) -> Path | None:
    """The file that an output option names; None is stdout, which "-" means too.

    `known` are the suffixes it may have, those of tables unless they are given.
    """
    if given is not None and given != "-":
        from misc_cli.writers.output_paths import STDOUT, TABLES, check_suffix, stream_number

        check_suffix(Path(given), known or TABLES)
        if stream_number(Path(given)) != STDOUT:
            return Path(given)
    if sys.stdout is None:
        raise ConfigError("stdout is closed; name a file with -o")
    return None


def companion(flag: str, given: str | None) -> Path | None:
    """The file that an option beside -o names; stdout is not for it."""
    if given == "-":
        raise ConfigError(f"--{flag} -: stdout is for the labels; name a file")
    return None if given is None else Path(given)


def places_of(parameters: Mapping[str, Any]) -> dict[str, Path]:
    """Where each output of a run goes; labels are missing here when they go to stdout."""
    from misc_cli.cli.report_source import check_report_name
    from misc_cli.writers.output_paths import check_suffix, is_special
    from misc_cli.writers.run_outputs import beside

    places: dict[str, Path] = {}
    path = output_file(parameters["output"])
    if path is not None:
        places["labels"] = path
        if not is_special(path):
            places.update(beside(path))
    for name in ("diagnostics", "workers", "changes", "metrics", "report", "rejects"):
        named = companion(name, parameters[name])
        if named is not None:
            places[name] = named
    for name in ("workers", "changes", "rejects"):
        if name in places:
            check_suffix(places[name])
    if "report" in places:
        check_report_name(places["report"])
    elif parameters["anonymize_workers"]:
        raise ConfigError("--anonymize-workers is for the report; name one with --report")
    return places


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
