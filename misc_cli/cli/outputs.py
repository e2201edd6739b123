"""Where a command's results go: a file that was named, or stdout."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from misc_cli.errors import ConfigError
from misc_cli.version import SCHEMA


def output_file(given: str | None, *known: str) -> Path | None:
    """The file that an output option names; None is stdout, which "-" means too.

    `known` are the suffixes it may have, those of tables unless they are given.
    """
    if given is not None and given != "-":
        from misc_cli.io.places import STDOUT, stream_of
        from misc_cli.io.write import TABLES, check_suffix

        check_suffix(Path(given), known or TABLES)
        if stream_of(Path(given)) != STDOUT:
            return Path(given)
    if sys.stdout is None:
        raise ConfigError("stdout is closed; name a file with -o")
    return None


def companion(flag: str, given: str | None) -> Path | None:
    """The file that an option beside -o names; stdout is not for it."""
    if given == "-":
        raise ConfigError(f"--{flag} -: stdout is for the labels; name a file")
    return None if given is None else Path(given)


def write_stdout(data: bytes) -> None:
    """Data is UTF-8 whatever the locale of the terminal."""
    from misc_cli.io.write import content, to_stdout

    to_stdout(content(data))


def json_bytes(**value: Any) -> bytes:
    """What every --json prints and every .json file holds: one object, with a schema version."""
    text = json.dumps({"schema": SCHEMA, **value}, indent=2, ensure_ascii=False, default=str)
    return f"{text}\n".encode(errors="backslashreplace")
