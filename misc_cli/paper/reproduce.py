"""Run the cells of the paper's Table 1 and compare our errors with the paper's.

Mixed cells run with the settings we ship, which were chosen with the truth
(benchmarks/rank_search.py), as the paper's must have been. A finished cell is cached under a key of
everything that decides its figure, the code included.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from misc_cli import registry
from misc_cli.completers.completion_loop import run_loop
from misc_cli.completers.parameters import Loop
from misc_cli.data.encode import encode, encode_gold
from misc_cli.data.types import Aggregation, Codes, Labels, ignore_iteration
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.protocol import POSTERIORS
from misc_cli.errors import MiscWarning
from misc_cli.paper import datasets
from misc_cli.paper.table import PRESET, Cell, CellResult, Options, paper_table, shipped_cells
from misc_cli.quality.evaluation import expected_error
from misc_cli.readers.known_labels import read_known
from misc_cli.readers.read import read_answer_columns
from misc_cli.run.fitting import fit
from misc_cli.run.settings import NO_COMPLETER, Settings, build
from misc_cli.version import __version__


@dataclass(frozen=True)
class FinishedCell:
    """The error of a cell in per cent, its seconds, and the options it ran with."""

    error: float
    seconds: float
    options: Options


class CellCache:
    """Finished cells in a file, one JSON object per line.

    A line that a crash cut short is dropped. `fresh` ignores what the file has and still adds to
    it: of two lines with one key the later counts.
    """

    def __init__(self, path: Path | None, fresh: bool = False) -> None:
        self.path = path
        self.finished: dict[str, FinishedCell] = {}
        lines, n_damaged = [], 0
        if path is not None and path.is_file() and not fresh:
            with suppress(OSError):  # a cache that cannot be read is none
                lines = path.read_text("utf-8", errors="replace").splitlines()
        for line in filter(None, lines):
            try:
                entry = json.loads(line)
                numbers = float(entry["error"]), float(entry["seconds"])
                self.finished[str(entry["key"])] = FinishedCell(*numbers, dict(entry["options"]))
            except (ValueError, KeyError, TypeError, RecursionError):
                n_damaged += 1
        if n_damaged:
            warnings.warn(
                f"{path}: {n_damaged:,} damaged {'line' if n_damaged == 1 else 'lines'} dropped; "
                "those cells are done again",
                MiscWarning,
                stacklevel=2,
            )

    def get_or_run(
        self, key: str, cell: Cell, options: Options, run: Callable[[], float]
    ) -> FinishedCell:
        """Return a finished cell; one that is not here is run, and added."""
        if key not in self.finished:
            started = time.perf_counter()
            error = run()
            self.add(key, FinishedCell(error, time.perf_counter() - started, options), cell)
        return self.finished[key]

    def add(self, key: str, done: FinishedCell, cell: Cell) -> None:
        """Append a cell to the file at once, so that an interrupted run can go on."""
        self.finished[key] = done
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


def default_cache() -> Path:
    return datasets.cache_folder().parent / "reproduce.jsonl"


@lru_cache(maxsize=1)
def load(folder: Path) -> tuple[Labels, Codes]:
    """Read the labels and the truth codes of a dataset's folder."""
    read = read_answer_columns([str(folder / "answers.csv")])
    labels = encode(read.answers).labels
    truth = read_known(str(folder / "truth.csv")).labels
    return labels, encode_gold(labels, truth.items, truth.labels, which=truth.name)


@lru_cache(maxsize=8)
def pure(folder: Path, aggregator: str) -> Aggregation:
    """Return the pure result; mixed cells of the same dataset start from it."""
    found: Aggregation = registry.create("aggregator", aggregator, PRESET)(load(folder)[0])
    return found


def run_cell(cell: Cell, folder: Path, options: Options) -> float:
    """Return the error of a cell in per cent."""
    labels, truth = load(folder)
    initial = pure(folder, options.get("start", cell.aggregator))
    if cell.completer == NO_COMPLETER:
        return 100 * expected_error(initial.posteriors, truth)
    # the same way as `misc aggregate --preset paper --completer … --ranks …`
    methods = build(Settings(PRESET, cell.completer, cell.aggregator, options=options))
    loop = Loop(**methods.loop)
    engine = MemoryEngine(labels)
    assert methods.completer is not None
    run_loop(engine, methods.completer, methods.aggregator, loop, initial=initial.posteriors)
    return 100 * expected_error(engine.whole(POSTERIORS), truth)


def run_auto(cell: Cell, folder: Path) -> float:
    """Return the error in per cent of a mixed cell whose ranks held-out answers choose."""
    labels, truth = load(folder)
    settings = Settings(PRESET, cell.completer, cell.aggregator, calibrate=False)
    engine = MemoryEngine(labels)
    fit(engine, build(settings), ignore_iteration)
    return 100 * expected_error(engine.whole(POSTERIORS), truth)


def reproduce(
    cells: Iterable[Cell],
    *,
    folder: Path | None = None,
    cell_cache: CellCache | None = None,
    auto: bool = False,
) -> Iterator[CellResult]:
    """Yield the result of each cell when it is done.

    With `auto`, each mixed cell also runs as a user without truth would run it.
    """
    cell_cache = cell_cache or CellCache(None)
    paper = paper_table()
    shipped = {entry.cell: entry.options for entry in shipped_cells()}
    for cell in cells:
        here = datasets.locate(cell.dataset, folder)
        options = shipped.get(cell, {})
        run = partial(run_cell, cell, here, options)
        done = cell_cache.get_or_run(_key(here, cell, options), cell, options, run)
        result = CellResult(cell, paper[cell], done.error, done.options, done.seconds)
        if auto and cell.completer != NO_COMPLETER:
            run = partial(run_auto, cell, here)
            done = cell_cache.get_or_run(_key(here, cell, "auto"), cell, {}, run)
            result = replace(result, auto=done.error)
        yield result


def _key(folder: Path, cell: Cell, decided_by: Any) -> str:
    """Return a hash of all that decides a cell's figure: methods, options, data and code."""
    content = [(folder / file).read_bytes() for file in datasets.COLUMNS]
    parts = [json.dumps([vars(cell), decided_by], sort_keys=True).encode(), *content, _code()]
    return hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


@cache
def _code() -> bytes:
    """Return the source of the package without cli and report, and the numeric versions."""
    package = Path(__file__).parent.parent
    rooms = {path: path.relative_to(package).parts[0] for path in sorted(package.rglob("*.py"))}
    files = [path.read_bytes() for path, room in rooms.items() if room not in ("cli", "report")]
    versions = f"numpy {np.__version__} scipy {scipy.__version__}".encode()
    return b"\0".join([versions, *files])
