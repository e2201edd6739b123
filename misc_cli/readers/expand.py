"""Folders and quoted patterns → files: recursive, sorted, no hidden files, none of our outputs."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from misc_cli.errors import InputError
from misc_cli.readers.source import STDIN, suffix_of

SUFFIXES = (
    *(".csv", ".tsv", ".tab", ".txt", ".json", ".jsonl", ".ndjson", ".parquet", ".npy", ".npz"),
    *(".xlsx", ".manifest", ".zip", ".arrow", ".feather"),
)
_OURS = (".run.json", ".diagnostics.jsonl")


def expand(sources: Sequence[str]) -> list[str]:
    """Return every file that is meant; a plain path as it is, whether it exists or not."""
    found: list[str] = []
    for source in sources:
        if source == STDIN or "://" in source or os.path.isfile(source):
            found.append(source)
        elif os.path.isdir(source):
            files = without_ours(_files_in(source))
            if not files:
                raise InputError(f"{source}: a folder without files of answers; name the files")
            found.extend(files)
        elif glob.has_magic(source) and not os.path.exists(source):
            files = without_ours(filter(os.path.isfile, sorted(glob.glob(source, recursive=True))))
            if not files:
                raise InputError(f"{source}: no file matches; check the pattern")
            found.extend(files)
        else:
            found.append(source)
    return list(dict.fromkeys(found))


def _files_in(folder: str) -> list[str]:
    """Return what looks like answers below a folder."""
    paths = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
    shown = [path for path in paths if not _is_hidden(path.relative_to(folder))]
    return [str(path) for path in shown if suffix_of(path.name) in SUFFIXES]


def _is_hidden(path: Path) -> bool:
    return any(part.startswith((".", "_", "~")) for part in path.parts)


def without_ours(paths: Iterable[str]) -> list[str]:
    """Return files but for run records, diagnostics and the outputs that a record beside names."""
    files = list(paths)
    ours: set[str] = set()
    for folder in {Path(file).parent for file in files}:
        for manifest in folder.glob(f"*{_OURS[0]}"):
            ours.update(_outputs(manifest))
    return [
        file for file in files if not file.endswith(_OURS) and os.path.realpath(file) not in ours
    ]


def _outputs(manifest: Path) -> list[str]:
    """Return what a run wrote: its paths as given, and beside its record."""
    try:
        outputs = json.loads(manifest.read_bytes()).get("outputs", {})
        named = [str(path) for path in outputs.values()]
    except (OSError, ValueError, AttributeError, RecursionError):
        return []
    beside = [str(manifest.parent / Path(path).name) for path in named]
    return [os.path.realpath(path) for path in (*named, *beside)]
