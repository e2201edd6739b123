"""Measure the time of a start with nothing to do."""

from __future__ import annotations

import sys

from measure import Case, in_turn, seconds, table

from sections.bench import Bench

IMPORTS = "import numpy, scipy.sparse, pyarrow.csv, click"


def start_up(bench: Bench) -> str:
    """Measure the time of a start with nothing to do."""
    small = bench.answers(100, 10)
    python = sys.executable
    pairs = [
        (
            bench.ours("`misc aggregate`, 100 rows", small, "--completer", "none"),
            Case(f"`{IMPORTS}`", [python, "-c", IMPORTS]),
        ),
        (
            Case("`misc --help`", [bench.misc, "--help"]),
            Case("`import click`", [python, "-c", "import click"]),
        ),
    ]
    rows = []
    for ours, base in pairs:
        runs = in_turn([ours, base], bench.repeats + 2)
        cost, floor = runs[ours.name], runs[base.name]
        cells = [seconds(value) for value in (cost.wall, floor.wall, cost.cpu, floor.cpu)]
        rows.append([ours.name, base.name, *cells, f"{cost.cpu / floor.cpu:.2f}×"])
        if ours is pairs[0][0]:
            bench.promise(
                f"100 rows, processor time: at most that of `{IMPORTS}`",
                f"{cost.cpu / floor.cpu:.2f}×",
                cost.cpu <= floor.cpu,
            )
    header = ["run", "yardstick", "ours, s", "yardstick, s", "ours CPU, s", "its CPU, s", "ratio"]
    return table(header, rows)
