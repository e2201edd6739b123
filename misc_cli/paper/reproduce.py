"""Table 1 of the paper, cell by cell: ours beside theirs.

A cell is a dataset, a completer ("none" for the pure rows) and an aggregator. Mixed cells run with
the settings we ship, which were chosen with the truth (`search_ranks`), as the paper's must have
been. A cell that is done is remembered under everything that decides it, the code included.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from misc_cli.core.encode import encode, encode_gold
from misc_cli.core.types import Aggregation, Codes, Labels, ignore_iteration
from misc_cli.errors import ConfigError, MiscWarning
from misc_cli.evaluate.metrics import expected_error
from misc_cli.io.known import read_known
from misc_cli.io.read import read_answer_columns
from misc_cli.loop.driver import mix
from misc_cli.loop.settings import Loop
from misc_cli.paper import datasets
from misc_cli.run import registry
from misc_cli.run.fitting import fit
from misc_cli.run.settings import NO_COMPLETER, Settings, build
from misc_cli.version import __version__

COMPLETERS = (NO_COMPLETER, "lrtc", "tenals", "tucker")
AGGREGATORS = ("mv", "ds-em", "ds-mf", "mmce-c", "mmce-o")
PRESET = "paper"

Options = Mapping[str, Any]  # by the names of the flags: ranks, passes, …


@dataclass(frozen=True)
class Cell:
    dataset: str
    completer: str
    aggregator: str


@dataclass(frozen=True)
class Result:
    """Errors in per cent; `options` are those of the completer and the loop.

    `ours` is with the settings we ship, `auto` with those that hidden answers choose, if asked for.
    """

    cell: Cell
    paper: float
    ours: float
    options: Options
    seconds: float
    auto: float | None = None

    @property
    def reached(self) -> bool:
        """The paper's figure or lower, to the printed digit."""
        return round(self.ours, 2) <= self.paper


def paper_table() -> dict[Cell, float]:
    """The paper's Table 1, errors in per cent."""
    text = _data("paper_table.csv")
    return {
        Cell(row["dataset"], row["completer"], aggregator): float(row[aggregator])
        for row in csv.DictReader(text.splitlines())
        for aggregator in AGGREGATORS
    }


@dataclass(frozen=True)
class Shipped:
    """Options of a mixed cell and the error in per cent that they gave when they were found."""

    cell: Cell
    options: Options
    error: float


@cache
def shipped_cells() -> list[Shipped]:
    """What we ship for mixed cells; how it was found stands in the file."""
    found = []
    for entry in json.loads(_data("shipped_ranks.json"))["cells"]:
        cell = Cell(entry["dataset"], entry["completer"], entry["aggregator"])
        # JSON knows lists only; methods are frozen and take tuples
        options = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in entry["options"].items()
        }
        found.append(Shipped(cell, options, entry["error"]))
    return found


def choose(
    names: Sequence[str] | None = None,
    completers: Sequence[str] | None = None,
    aggregators: Sequence[str] | None = None,
) -> list[Cell]:
    """The cells of the table with these names, dataset by dataset; None means all."""
    chosen = []
    for given, known, what in (
        (names, tuple(datasets.registry()), "dataset"),
        (completers, COMPLETERS, "completer"),
        (aggregators, AGGREGATORS, "aggregator"),
    ):
        unknown = [name for name in given or () if name not in known]
        if unknown:
            raise ConfigError(
                f"the paper's table has no {what} {unknown[0]!r}; it has {', '.join(known)}"
            )
        chosen.append([name for name in known if given is None or name in given])
    return [Cell(d, c, a) for d in chosen[0] for c in chosen[1] for a in chosen[2]]


@lru_cache(maxsize=1)
def load(folder: Path) -> tuple[Labels, Codes]:
    """Labels and truth codes of a dataset's folder."""
    read = read_answer_columns([str(folder / "answers.csv")])
    labels = encode(read.answers).labels
    truth = read_known(str(folder / "truth.csv")).labels
    return labels, encode_gold(labels, truth.items, truth.labels, which=truth.name)


@lru_cache(maxsize=8)
def pure(folder: Path, aggregator: str) -> Aggregation:
    """The pure result, from which every mixed cell of the same dataset starts."""
    found: Aggregation = registry.create("aggregator", aggregator, PRESET)(load(folder)[0])
    return found


def run_cell(cell: Cell, folder: Path, options: Options) -> float:
    """The error of a cell in per cent."""
    labels, truth = load(folder)
    initial = pure(folder, options.get("start", cell.aggregator))
    if cell.completer == NO_COMPLETER:
        return 100 * expected_error(initial.posteriors, truth)
    # the same way as `misc aggregate --preset paper --completer … --ranks …`
    methods = build(Settings(PRESET, cell.completer, cell.aggregator, options=options))
    loop = Loop(**methods.loop)
    mixture = mix(labels, methods.completer, methods.aggregator, loop, initial=initial)
    return 100 * expected_error(mixture.aggregation.posteriors, truth)


def run_auto(cell: Cell, folder: Path) -> float:
    """The error of a mixed cell whose ranks hidden answers choose, in per cent: no truth used."""
    labels, truth = load(folder)
    settings = Settings(PRESET, cell.completer, cell.aggregator, calibrate=False)
    found = fit(labels, build(settings), ignore_iteration)
    return 100 * expected_error(found.aggregation.posteriors, truth)


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


def reproduce(
    cells: Iterable[Cell],
    *,
    folder: Path | None = None,
    memory: Memory | None = None,
    search_trials: int | None = None,
    seed: int = 0,
    auto: bool = False,
) -> Iterator[Result]:
    """Every cell in turn, as it is done; `search_trials` searches tucker's ranks anew.

    `auto` also runs every mixed cell as a user without truth would.
    """
    memory = memory or Memory(None)
    paper = paper_table()
    shipped = {entry.cell: entry.options for entry in shipped_cells()}
    for cell in cells:
        here = datasets.locate(cell.dataset, folder)
        options = shipped.get(cell, {})
        searched = search_trials is not None and cell.completer == "tucker"
        key = _key(here, cell, [search_trials, seed] if searched else options)
        if key not in memory.done:
            started = time.perf_counter()
            if searched:
                options, error = _search(cell, here, paper[cell], search_trials or 1, seed)
            else:
                error = run_cell(cell, here, options)
            memory.add(key, Done(error, time.perf_counter() - started, options), cell)
        done = memory.done[key]
        result = Result(cell, paper[cell], done.error, done.options, done.seconds)
        if auto and cell.completer != NO_COMPLETER:
            key = _key(here, cell, "auto")
            if key not in memory.done:
                started = time.perf_counter()
                error = run_auto(cell, here)
                memory.add(key, Done(error, time.perf_counter() - started, {}), cell)
            result = replace(result, auto=memory.done[key].error)
        yield result


def _search(
    cell: Cell, folder: Path, target: float, trials: int, seed: int
) -> tuple[Options, float]:
    from misc_cli.paper.rank_search import search

    labels, truth = load(folder)
    aggregator = registry.create("aggregator", cell.aggregator, PRESET)
    slow = cell.aggregator.startswith("mmce")
    screen = registry.create("aggregator", "ds-em", PRESET) if slow else None
    names = dict.fromkeys((cell.aggregator, *AGGREGATORS))
    starts = {name: pure(folder, name).posteriors for name in names}
    found = search(
        labels, truth, aggregator, starts, target=target, trials=trials, seed=seed, screen=screen
    )
    return found.options, found.error


def _key(folder: Path, cell: Cell, decided_by: Any) -> str:
    """Everything that decides a cell's figure: what is run, on what, by which code."""
    content = [(folder / file).read_bytes() for file in datasets.COLUMNS]
    parts = [json.dumps([vars(cell), decided_by], sort_keys=True).encode(), *content, _code()]
    return hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


@cache
def _code() -> bytes:
    """The source of everything but what talks to the user, and the versions of what computes."""
    package = Path(__file__).parent.parent
    talking = {"cli", "report"}
    files = sorted(
        path for path in package.rglob("*.py") if path.relative_to(package).parts[0] not in talking
    )
    versions = f"numpy {np.__version__} scipy {scipy.__version__}".encode()
    return b"\0".join([versions, *(path.read_bytes() for path in files)])


def _data(name: str) -> str:
    return resources.files("misc_cli.paper").joinpath("data", name).read_text("utf-8")
