"""Table 1 of the paper: its cells, its errors, and the settings we ship for mixed cells."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from misc_cli.errors import ConfigError
from misc_cli.paper import datasets
from misc_cli.run.settings import NO_COMPLETER

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


@dataclass(frozen=True)
class CellResult:
    """Errors in per cent; `options` are those of the completer and the loop.

    `ours` is with the settings we ship, `auto` with those that held-out answers choose.
    """

    cell: Cell
    paper: float
    ours: float
    options: Options
    seconds: float
    auto: float | None = None

    @property
    def reached(self) -> bool:
        """Return True if our error, as printed, is at most the paper's."""
        return round(self.ours, 2) <= self.paper


def paper_table() -> dict[Cell, float]:
    """Return the paper's errors in per cent."""
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
    """Return the settings of mixed cells; the file says how they were found."""
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
    """Return the cells with these names, dataset by dataset; None means all."""
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


def _data(name: str) -> str:
    return resources.files("misc_cli.paper").joinpath("data", name).read_text("utf-8")
