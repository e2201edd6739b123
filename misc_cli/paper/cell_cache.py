"""Cells of the table that are done, so that none is done twice."""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import dataclass
from pathlib import Path

from misc_cli.errors import MiscWarning
from misc_cli.paper import datasets
from misc_cli.paper.table import Cell, Options
from misc_cli.version import __version__


@dataclass(frozen=True)
class Done:
    error: float
    seconds: float
    options: Options


class Memory:
    """Cells that are done, one JSON object a line; a line cut short by a crash is dropped.

    `fresh` forgets what is there and still remembers what comes: a later line counts.
    """

    def __init__(self, path: Path | None, fresh: bool = False) -> None:
        self.path = path
        self.done: dict[str, Done] = {}
        if path is not None and path.is_file() and not fresh:
            self._read(path)

    def _read(self, path: Path) -> None:
        n_damaged = 0
        try:
            lines = path.read_text("utf-8", errors="replace").splitlines()
        except OSError:  # a cache that cannot be read is none
            lines = []
        for line in filter(None, lines):
            try:
                entry = json.loads(line)
                error, seconds = float(entry["error"]), float(entry["seconds"])
                self.done[str(entry["key"])] = Done(error, seconds, dict(entry["options"]))
            except (ValueError, KeyError, TypeError, RecursionError):
                n_damaged += 1
        if n_damaged:
            warnings.warn(
                f"{path}: {n_damaged:,} damaged {'line' if n_damaged == 1 else 'lines'} dropped; "
                "those cells are done again",
                MiscWarning,
                stacklevel=3,
            )

    def add(self, key: str, done: Done, cell: Cell) -> None:
        """Remember at once, so that an interrupted run goes on where it was."""
        self.done[key] = done
        if self.path is None:
            return
        line = json.dumps({"key": key, **vars(cell), **vars(done), "version": __version__})
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab+") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
                cut = file.read(1) not in (b"", b"\n")  # a crash left half a line
                file.write(b"\n" * cut + line.encode() + b"\n")
        except OSError:
            self.path = None  # a cache that cannot be written is no reason to stop


def default_memory() -> Path:
    return datasets.cache_folder().parent / "reproduce.jsonl"
