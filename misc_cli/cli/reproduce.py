"""`misc reproduce`: run the cells of the paper's table."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from misc_cli.cli import options, outputs
from misc_cli.cli.parameters import COUNT, names
from misc_cli.errors import ConvergenceWarning
from misc_cli.run.settings import NO_COMPLETER

if TYPE_CHECKING:
    from misc_cli.cli.console import Console
    from misc_cli.cli.tables import Table
    from misc_cli.paper.table import CellResult


def tables_of(results: Sequence[CellResult]) -> list[Table]:
    """Return one table per dataset, rows by completer: ours, then the paper's."""
    from misc_cli.cli.tables import Table
    from misc_cli.paper.datasets import get

    aggregators = list(dict.fromkeys(result.cell.aggregator for result in results))
    shown = []
    for name in dict.fromkeys(result.cell.dataset for result in results):
        rows = []
        own = [result for result in results if result.cell.dataset == name]
        for completer in dict.fromkeys(result.cell.completer for result in own):
            line = [result for result in own if result.cell.completer == completer]
            rows.append((_row_name(completer), "ours", [r.ours for r in line]))
            if any(r.auto is not None for r in line):
                rows.append(
                    ("", "auto", [float("nan") if r.auto is None else r.auto for r in line])
                )
            rows.append(("", "paper", [r.paper for r in line]))
        size = get(name)
        title = f"{name}: {size.workers} workers, {size.items} items, {size.classes} classes"
        cells = [
            (first, which, *(f"{value:.2f}" for value in values)) for first, which, values in rows
        ]
        shown.append(Table(title, ("error, %", "", *aggregators), cells, left=2))
    return [*shown, Table("Ours against the paper's", notes=verdicts(results))]


def _row_name(completer: str) -> str:
    return "pure" if completer == NO_COMPLETER else completer


def verdicts(results: Sequence[CellResult]) -> list[str]:
    """Say for each completer how many cells reach the paper's error, and how far others miss it."""
    lines = []
    for completer in dict.fromkeys(result.cell.completer for result in results):
        own = [result for result in results if result.cell.completer == completer]
        reached = sum(result.reached for result in own)
        worst = max(own, key=lambda result: result.ours - result.paper)
        line = f"{_row_name(completer)}: {reached} of {len(own)} at or below"
        if not worst.reached:
            cell = f"{worst.cell.dataset} {worst.cell.aggregator}"
            line += f", the others at most {worst.ours - worst.paper:.2f} points above ({cell})"
        lines.append(line)
    return lines


def columns_of_results(results: Sequence[CellResult]) -> dict[str, Any]:
    import numpy as np
    import pyarrow as pa

    names = ("dataset", "completer", "aggregator")
    texts = {name: pa.array([getattr(r.cell, name) for r in results]) for name in names}
    judged = any(r.auto is not None for r in results)
    auto = np.array([float("nan") if r.auto is None else r.auto for r in results])
    return {
        **texts,
        "paper": np.array([r.paper for r in results]),
        "ours": np.array([r.ours for r in results]),
        **({"auto": auto} if judged else {}),
        "seconds": np.array([r.seconds for r in results]),
        "options": pa.array([json.dumps(dict(r.options)) for r in results]),
    }


EXAMPLES = """
misc datasets fetch && misc reproduce
misc reproduce --datasets web,bluebirds --completers none,tucker --aggregators ds-em
misc reproduce --from datasets/ --completers tucker --aggregators ds-em --auto -o table.csv
misc reproduce --datasets bluebirds --markdown
"""


@click.command(cls=options.Command, examples=EXAMPLES)
@options.table(
    "Which cells",
    {
        "--datasets A,B": "[default: all six]",
        "--completers A,B": "none is the pure row [default: all].",
        "--aggregators A,B": "[default: all]",
        "--from DIR": "A folder that has the datasets [default: MISC_DATA_DIR, or what was "
        "fetched].",
        "--fresh": "Do cells again that are done already.",
        "--auto": "Also run every mixed cell with what hidden answers choose, as a user without "
        "truth must.",
    },
    datasets={"type": names},
    completers={"type": names},
    aggregators={"type": names},
)
@options.table(
    "Output",
    {
        "-o --output FILE": "Also as CSV, a row each.",
        "--markdown": "Tables for a page.",
        **options.THREADS,
    },
    threads={"type": COUNT},
)
@options.talking
def command(**parameters: Any) -> None:
    """Run the 120 cells of the paper's Table 1 and print ours beside the paper's.

    Pure rows use the paper's settings. Mixed rows use settings that we ship and that were found
    with the truth, as the paper's must have been: they show what the methods can reach, not what a
    user without truth gets. A cell that is done is not done again.
    """
    from misc_cli.cli.console import Console
    from misc_cli.data.resources import thread_limit
    from misc_cli.writers.output_paths import check_writable

    console = Console.of(parameters)
    parameters["output"] = output = outputs.output_file(parameters["output"])
    check_writable([] if output is None else [output], [])
    folder = None if parameters["from"] is None else Path(parameters["from"])
    with console.watching(), thread_limit(parameters.pop("threads")), warnings.catch_warnings():
        # The paper's settings stop at a fixed number of iterations, converged or not.
        warnings.simplefilter("ignore", ConvergenceWarning)
        _run(parameters, folder, console)


def _run(parameters: dict[str, Any], folder: Path | None, console: Console) -> None:
    from misc_cli.cli.tables import markdown
    from misc_cli.paper import datasets, reproduce, table

    cells = table.choose(*(parameters[name] for name in ("datasets", "completers", "aggregators")))
    for name in dict.fromkeys(cell.dataset for cell in cells):
        datasets.locate(name, folder)  # before an hour's work, not after
    cache = reproduce.CellCache(reproduce.default_cache(), fresh=parameters["fresh"])
    results = []
    with console.bar(len(cells)) as step:
        auto = parameters["auto"]
        for result in reproduce.reproduce(cells, folder=folder, cell_cache=cache, auto=auto):
            results.append(result)
            step(" ".join(vars(result.cell).values()))
    tables = tables_of(results)
    if parameters["markdown"]:
        outputs.write_bytes(markdown(tables).encode())
    else:
        outputs.show(tables)
    if parameters["output"] is not None:
        outputs.write_columns(columns_of_results(results), parameters["output"])
