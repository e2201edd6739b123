"""`misc reproduce`: run the cells of the paper's table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from misc_cli.cli import options, outputs
from misc_cli.cli.parameters import COUNT, names

if TYPE_CHECKING:
    from misc_cli.cli.tables import Table
    from misc_cli.data.types import Iteration
    from misc_cli.paper.table import Cell

EXAMPLES = """
misc datasets fetch && misc reproduce
misc reproduce --datasets web,bluebirds --completers none,tucker --aggregators ds-em
misc reproduce --from datasets/ --completers tucker -o table.tex
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
    },
    datasets={"type": names},
    completers={"type": names},
    aggregators={"type": names},
)
@options.table(
    "Output",
    {"-o --output FILE": "As CSV, TSV, Parquet, Markdown or LaTeX.", **options.THREADS},
    threads={"type": COUNT},
)
@options.talking
def command(**parameters: Any) -> None:
    """Run the 120 cells of the paper's Table 1 and print ours beside the paper's.

    Pure rows use the paper's settings. Mixed rows use settings that we ship and that were found
    with the truth, as the paper's must have been: they show what the methods can reach, not what a
    user without truth gets (misc compare shows that).
    """
    from misc_cli.cli.compare import write_table
    from misc_cli.cli.console import Console
    from misc_cli.data.resources import thread_limit
    from misc_cli.paper import table
    from misc_cli.writers.output_paths import TABLES, check_writable

    console = Console.of(parameters)
    output = outputs.output_file(parameters["output"], *TABLES, ".md", ".tex")
    check_writable([] if output is None else [output], [])
    cells = table.choose(*(parameters[name] for name in ("datasets", "completers", "aggregators")))
    folder = None if parameters["from"] is None else Path(parameters["from"])
    bar = console.bar(len({cell.dataset for cell in cells}))
    with console.watching(), thread_limit(parameters["threads"]), bar as tell:

        def advance(iteration: Iteration) -> None:
            tell(str(iteration.extra.get("candidate", "")))

        ours = table.reproduce(cells, folder, advance).cells()
    paper = table.paper_table()
    errors = {cell: ours[cell.method, cell.dataset] for cell in cells}
    columns = {
        **{name: [getattr(cell, name) for cell in cells] for name in vars(cells[0])},
        "paper": [paper[cell] for cell in cells],
        "ours": [errors[cell] for cell in cells],
    }
    write_table(table_of(errors, paper), columns, output)


def table_of(ours: dict[Cell, float], paper: dict[Cell, float]) -> Table:
    """Return methods × datasets, a row of ours above one of the paper's."""
    from misc_cli.cli.tables import Table

    cells = list(ours)
    shown = list(dict.fromkeys(cell.dataset for cell in cells))
    rows = []
    for method in dict.fromkeys(cell.method for cell in cells):
        own = {cell.dataset: cell for cell in cells if cell.method == method}
        for name, figures in (("ours", ours), ("paper", paper)):
            values = [f"{figures[own[dataset]]:.2f}" for dataset in shown]
            rows.append([method if name == "ours" else "", name, *values])
    notes = verdicts(ours, paper)
    return Table("Error in %", ("method", "", *shown), rows, left=2, notes=notes)


def verdicts(ours: dict[Cell, float], paper: dict[Cell, float]) -> Sequence[str]:
    """Say for each completer how many cells reach the paper's error, and how far others miss it."""
    lines = []
    for completer in dict.fromkeys(cell.completer for cell in ours):
        above = {
            cell: round(error, 2) - paper[cell]
            for cell, error in ours.items()
            if cell.completer == completer
        }
        reached = sum(points <= 0 for points in above.values())
        worst = max(above, key=lambda cell: above[cell])
        name = "pure" if completer == "none" else completer
        line = f"{name}: {reached} of {len(above)} at or below"
        if above[worst] > 0:
            cell = f"{worst.dataset} {worst.aggregator}"
            line += f", the others at most {above[worst]:.2f} points above ({cell})"
        lines.append(line)
    return lines
