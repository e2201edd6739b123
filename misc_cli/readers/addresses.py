"""Names of inputs: files, folders, patterns and addresses; remote.py fetches what is behind one."""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from misc_cli.errors import ConfigError, InputError
from misc_cli.redaction import SCHEME

STDIN = "-"
WEB = ("http", "https")
STORES = ("s3", "gs")
PACKED_SUFFIXES = (".gz", ".bz2", ".zst")
TABLES = (".csv", ".tsv", ".tab", ".txt", ".parquet", ".npy")
SUFFIXES = (*TABLES, ".xlsx", ".json", ".jsonl", ".ndjson", ".manifest")
_OURS = (".run.json", ".diagnostics.jsonl")


def scheme_of(path: str) -> str | None:
    """Return `https` of https://…, in lower case; None for a local path."""
    match = SCHEME.match(path)
    return match[1].lower() if match else None


def suffix_of(name: str) -> str:
    """Return the extension of a file or an address, `.gz` and the like set aside."""
    plain = (re.split(r"[?#]", name)[0] if scheme_of(name) else name).lower()
    for packed in PACKED_SUFFIXES:
        plain = plain.removesuffix(packed)
    return os.path.splitext(plain)[1]


def check_stdin_once(sources: Iterable[str]) -> None:
    """Refuse a second reader of standard input, which would find it empty."""
    if list(sources).count(STDIN) > 1:
        raise ConfigError("standard input (-) can be read only once")


def expand(sources: Sequence[str]) -> list[str]:
    """Return every file that folders and quoted patterns mean; a plain path as it is.

    Recursive, sorted, without hidden files and our own outputs.
    """
    found: list[str] = []
    if not sources:
        raise ConfigError("no input; name a file of answers, or - for standard input")
    check_stdin_once(sources)
    for source in sources:
        is_pattern = glob.has_magic(source) and not os.path.exists(source)
        if source == STDIN or "://" in source or not (os.path.isdir(source) or is_pattern):
            found.append(source)
            continue
        if is_pattern:
            paths = [Path(path) for path in sorted(glob.glob(source, recursive=True))]
        else:
            paths = [
                path
                for path in sorted(Path(source).rglob("*"))
                if suffix_of(path.name) in SUFFIXES
                and not any(part[0] in "._~" for part in path.relative_to(source).parts)
            ]
        files = _without_ours([path for path in paths if path.is_file()])
        if not files:
            why = "no file matches" if is_pattern else "a folder without files of answers"
            raise InputError(f"{source}: {why}; check the path, or name the files")
        found.extend(map(str, files))
    return list(dict.fromkeys(found))


def _without_ours(files: list[Path]) -> list[Path]:
    """Return files but for run records, diagnostics and the outputs that a record beside names."""
    ours: set[Path] = set()
    for folder in {file.parent for file in files}:
        for record in folder.glob(f"*{_OURS[0]}"):
            try:
                named = list(map(str, json.loads(record.read_bytes()).get("outputs", {}).values()))
            except (OSError, ValueError, AttributeError, RecursionError):
                continue
            ours.update(folder / Path(path).name for path in named)
    return [file for file in files if not file.name.endswith(_OURS) and file not in ours]
