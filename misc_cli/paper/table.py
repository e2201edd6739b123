"""Table 1 of the paper: its cells, its errors, the settings we ship for mixed cells, and ours."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

from misc_cli.completers.parameters import Loop
from misc_cli.data.encode import encode_known
from misc_cli.data.types import OnIteration, ignore_iteration
from misc_cli.errors import ConfigError
from misc_cli.paper import datasets
from misc_cli.readers.known_labels import read_known
from misc_cli.readers.read import read_answer_columns
from misc_cli.run.pipeline import memory_engine
from misc_cli.run.settings import NO_COMPLETER, Settings, build
from misc_cli.selection.candidates import Method
from misc_cli.selection.compare import Comparison, Dataset, compare_datasets

COMPLETERS = (NO_COMPLETER, "lrtc", "tenals", "tucker")
AGGREGATORS = ("mv", "ds-em", "ds-mf", "mmce-c", "mmce-o")
PRESET = "paper"

Options = Mapping[str, Any]  # by the names of the flags: ranks, passes, …


@dataclass(frozen=True)
class Cell:
    """A dataset, a completer ("none" for the pure rows) and an aggregator."""

    dataset: str
    completer: str
    aggregator: str

    @property
    def method(self) -> str:
        pure = self.completer == NO_COMPLETER
        return self.aggregator if pure else f"{self.completer} + {self.aggregator}"


def paper_table() -> dict[Cell, float]:
    """Return the paper's errors in per cent."""
    text = _data("paper_table.csv")
    return {
        Cell(row["dataset"], row["completer"], aggregator): float(row[aggregator])
        for row in csv.DictReader(text.splitlines())
        for aggregator in AGGREGATORS
    }


@cache
def shipped() -> dict[Cell, tuple[Options, float]]:
    """Return the options of mixed cells, and the error in per cent that they gave when found."""
    found: dict[Cell, tuple[Options, float]] = {}
    for entry in json.loads(_data("shipped_ranks.json"))["cells"]:
        cell = Cell(entry["dataset"], entry["completer"], entry["aggregator"])
        # JSON knows lists only; methods are frozen and take tuples
        options = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in entry["options"].items()
        }
        found[cell] = options, entry["error"]
    return found


def choose(
    names: Sequence[str] | None = None,
    completers: Sequence[str] | None = None,
    aggregators: Sequence[str] | None = None,
) -> list[Cell]:
    """Return the cells with these names, dataset by dataset; None means all."""
    datasets = tuple(dict.fromkeys(cell.dataset for cell in paper_table()))
    chosen = []
    for given, known in ((names, datasets), (completers, COMPLETERS), (aggregators, AGGREGATORS)):
        for name in given or ():
            if name not in known:
                raise ConfigError(f"the paper's table has no {name!r}; it has {', '.join(known)}")
        chosen.append([name for name in known if given is None or name in given])
    return [Cell(*one) for one in product(*chosen)]


def _data(name: str) -> str:
    return resources.files("misc_cli.paper").joinpath("data", name).read_text("utf-8")


def method_of(cell: Cell, options: Options) -> Method:
    """Return the method of a cell, as `misc aggregate --preset paper` with these options has it."""
    methods = build(Settings(PRESET, cell.completer, cell.aggregator, options=options))
    loop = Loop(**methods.loop) if methods.completer is not None else Loop()
    return Method(cell.method, methods.aggregator, methods.completer, loop, preset=PRESET)


def reproduce(
    cells: Sequence[Cell],
    folder: Path | None = None,
    on_iteration: OnIteration = ignore_iteration,
) -> Comparison:
    """Return our errors of these cells, in per cent, methods × datasets.

    Mixed cells run with the settings we ship, which were chosen with the truth
    (benchmarks/rank_search.py), as the paper's must have been.
    """
    names = list(dict.fromkeys(cell.dataset for cell in cells))
    folders = [datasets.locate(name, folder) for name in names]

    def methods(dataset: Dataset) -> list[Method]:
        own = [cell for cell in cells if cell.dataset == dataset.name]
        return [method_of(cell, shipped().get(cell, ({}, 0.0))[0]) for cell in own]

    found = [read_dataset(here, name) for name, here in zip(names, folders, strict=True)]
    return compare_datasets(found, methods, on_iteration=on_iteration)


def read_dataset(folder: Path, name: str = "") -> Dataset:
    """Return the answers and the truth of a dataset's folder."""
    read = read_answer_columns([str(folder / "answers.csv")])
    engine = memory_engine(read.answers, Settings(duplicates="last"))
    truth = read_known(str(folder / "truth.csv")).labels
    return Dataset(name or folder.name, engine, encode_known(engine.labels, truth))
