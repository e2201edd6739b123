"""Table 1 of the paper, cell by cell: ours beside theirs.

Mixed cells run with the settings we ship, which were chosen with the truth (rank_search.py), as the
paper's must have been. A cell that is done is remembered under everything that decides it, the code
included.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from misc_cli import registry
from misc_cli.completers.completion_loop import run_loop
from misc_cli.completers.parameters import Loop
from misc_cli.data.encode import encode, encode_gold
from misc_cli.data.types import Aggregation, Codes, Labels, ignore_iteration
from misc_cli.paper import datasets
from misc_cli.paper.cell_cache import Done, Memory
from misc_cli.paper.table import (
    AGGREGATORS,
    PRESET,
    Cell,
    CellResult,
    Options,
    paper_table,
    shipped_cells,
)
from misc_cli.quality.evaluation import expected_error
from misc_cli.readers.known_labels import read_known
from misc_cli.readers.read import read_answer_columns
from misc_cli.run.fitting import fit
from misc_cli.run.settings import NO_COMPLETER, Settings, build


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
    mixture = run_loop(labels, methods.completer, methods.aggregator, loop, initial=initial)
    return 100 * expected_error(mixture.aggregation.posteriors, truth)


def run_auto(cell: Cell, folder: Path) -> float:
    """The error of a mixed cell whose ranks hidden answers choose, in per cent: no truth used."""
    labels, truth = load(folder)
    settings = Settings(PRESET, cell.completer, cell.aggregator, calibrate=False)
    found = fit(labels, build(settings), ignore_iteration)
    return 100 * expected_error(found.aggregation.posteriors, truth)


def reproduce(
    cells: Iterable[Cell],
    *,
    folder: Path | None = None,
    memory: Memory | None = None,
    search_trials: int | None = None,
    seed: int = 0,
    auto: bool = False,
) -> Iterator[CellResult]:
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
        result = CellResult(cell, paper[cell], done.error, done.options, done.seconds)
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
