"""Check that the files of a run are one whole set, by the SHA-256s in run.json."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from misc_cli.errors import InputError
from misc_cli.writers.output_set import sha256_of

WHOLE, CHANGED, MISSING, UNKNOWN = "whole", "changed", "missing", "not a run.json"


@dataclass(frozen=True)
class Member:
    """One file of a set, with the name that the run gave it and its state."""

    name: str
    file: Path
    state: str


def verify(run_file: Path) -> list[Member]:
    """Check run.json and each file of the set; return run.json first.

    A folder of labels is one that has its run.json in it.
    """
    if (run_file / "run.json").is_file():
        run_file = run_file / "run.json"
    try:
        manifest = json.loads(run_file.read_bytes())
        listed = [(str(one["name"]), str(one["file"]), one["sha256"]) for one in manifest["files"]]
    except FileNotFoundError:
        return [Member("run", run_file, MISSING)]
    except OSError as error:
        raise InputError(f"{run_file}: cannot be read ({error.strerror})") from None
    except (ValueError, TypeError, KeyError, RecursionError):
        return [Member("run", run_file, UNKNOWN)]
    files = [(name, run_file.parent / file, digest) for name, file, digest in listed]
    return [
        Member("run", run_file, WHOLE),
        *(Member(name, file, _state(file, digest)) for name, file, digest in files),
    ]


def _state(file: Path, digest: Any) -> str:
    try:
        if file.exists() and not file.is_file():  # a pipe would never end
            return CHANGED
        with file.open("rb") as stream:
            return WHOLE if sha256_of(stream) == digest else CHANGED
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return MISSING
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from None
