"""`misc reproduce`: the paper's table, and its experiment on sparse and noisy answers."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from misc_cli.cli import options, outputs
from misc_cli.cli.method_options import COUNT, SEED
from misc_cli.errors import ConfigError, ConvergenceWarning
from misc_cli.run.settings import NO_COMPLETER

if TYPE_CHECKING:
    from misc_cli.cli.console import Console
    from misc_cli.cli.text_table import Table
    from misc_cli.paper.sparse_noisy import Point
    from misc_cli.paper.table import CellResult


def of_results(results: Sequence[CellResult]) -> list[Table]:
    """One table per dataset, rows by completer: ours, then the paper's."""
    from misc_cli.cli.text_table import Table
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
    """How many cells of each completer are at the paper's figure or below, how far the others."""

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


def of_points(points: Sequence[Point]) -> list[Table]:
    """One table per noise: mean ± standard deviation over the seeds."""
    from misc_cli.cli.text_table import Table
    from misc_cli.paper.sparse_noisy import TITLES

    rates = list(dict.fromkeys(point.error_rate for point in points))
    header = ("error, %", "", *(f"{100 * rate:.1f}" for rate in rates))
    shown = []
    for noise in dict.fromkeys(point.noise for point in points):
        own = [point for point in points if point.noise == noise]
        rows = []
        for key in dict.fromkeys((point.aggregator, point.strategy) for point in own):
            curve = [p for p in own if (p.aggregator, p.strategy) == key]
            how = "pure" if key[1] == "pure" else f"tucker, {key[1]}"
            rows.append((key[0], how, *(f"{p.mean:.1f} ± {p.deviation:.1f}" for p in curve)))
        shown.append(Table(TITLES[noise], header, rows, left=2))
    return shown


def columns_of_points(points: Sequence[Point]) -> dict[str, Any]:
    import numpy as np
    import pyarrow as pa

    names = ("noise", "aggregator", "strategy")
    texts = {name: pa.array([getattr(point, name) for point in points]) for name in names}
    return {
        **texts,
        "error_rate": np.array([100 * point.error_rate for point in points]),
        "mean": np.array([point.mean for point in points]),
        "deviation": np.array([point.deviation for point in points]),
        "seeds": np.array([len(point.errors) for point in points]),
    }


# Flags that mean something only beside another, or only for the table.
NEEDED_BY = {
    "noise": "experiment",
    "seeds": "experiment",
    "plot": "experiment",
    "trials": "search",
    "seed": "search",
}
OF_THE_TABLE = ("completers", "fresh", "auto", "search")

EXPERIMENTS = ("sparse-noisy",)
_cells = partial(options.option, section="Which cells")
_output = partial(options.option, section="Output")
_experiment = partial(options.option, section="The experiment")

EXAMPLES = """
misc datasets fetch && misc reproduce
misc reproduce --datasets web,bluebirds --completers none,tucker --aggregators ds-em
misc reproduce --from datasets/ --completers tucker --aggregators ds-em --auto -o table.csv
misc reproduce --experiment sparse-noisy --plot figure.svg --markdown
"""


@click.command(cls=options.Command, examples=EXAMPLES)
@_cells("--datasets", type=options.Names(), metavar="A,B", help="[default: all six]")
@_cells(
    "--completers",
    type=options.Names(),
    metavar="A,B",
    help="none is the pure row [default: all].",
)
@_cells("--aggregators", type=options.Names(), metavar="A,B", help="[default: all]")
@_cells(
    "--from",
    "folder",
    metavar="DIR",
    help="A folder that has the datasets [default: MISC_DATA_DIR, or what was fetched].",
)
@_cells("--fresh", is_flag=True, help="Do cells again that are done already.")
@_cells(
    "--auto",
    is_flag=True,
    help="Also run every mixed cell with what hidden answers choose, as a user without truth must.",
)
@_cells(
    "--search",
    is_flag=True,
    help="Search tucker's settings anew, with the truth, instead of using those we ship (slow).",
)
@_cells(
    "--trials",
    type=COUNT,
    default=250,
    show_default=True,
    help="Of --search, per cell at most.",
)
@_cells("--seed", type=SEED, default=0, help="Of --search [default: 0].")
@_experiment(
    "--experiment",
    type=click.Choice(EXPERIMENTS),
    help="Section 5.4 on rte instead of the table: answers removed, noise added.",
)
@_experiment(
    "--noise",
    type=options.Names(),
    metavar="A,B",
    help="spread, workers, casual: whose answers go wrong [default: each in turn].",
)
@_experiment(
    "--seeds",
    type=COUNT,
    default=5,
    show_default=True,
    help="How many times over.",
)
@_experiment("--plot", metavar="FILE.svg", help="Draw it.")
@_output("-o", "--output", metavar="FILE", help="Also as CSV, a row each.")
@_output("--markdown", is_flag=True, help="Tables for a page.")
@options.threads("Output")
@options.talking()
def command(**parameters: Any) -> None:
    """Run the 120 cells of the paper's Table 1 and print ours beside the paper's.

    Pure rows use the paper's settings. Mixed rows use settings that we ship and that were found
    with the truth, as the paper's must have been: they show what the methods can reach, not what a
    user without truth gets. A cell that is done is not done again.
    """
    from misc_cli.cli.console import Console
    from misc_cli.data.parallel import thread_limit
    from misc_cli.writers.output_paths import check_writable

    console = Console.of(parameters)
    plot = None if parameters["plot"] is None else Path(parameters["plot"])
    output = outputs.output_file(parameters["output"])
    parameters |= {"plot": plot, "output": output}
    _refuse_idle(parameters)
    if plot is not None and plot.suffix.lower() != ".svg":
        raise ConfigError(f"--plot {plot}: the picture is an SVG; give a name that ends in .svg")
    check_writable([path for path in (output, plot) if path is not None], [])
    parameters["folder"] = None if parameters["folder"] is None else Path(parameters["folder"])
    with console.watching(), thread_limit(parameters.pop("threads")), warnings.catch_warnings():
        # The paper's settings stop at a fixed number of iterations, converged or not.
        warnings.simplefilter("ignore", ConvergenceWarning)
        (_table if parameters["experiment"] is None else _sparse_noisy)(parameters, console)


def _refuse_idle(parameters: dict[str, Any]) -> None:
    """A flag that would do nothing is a misunderstanding."""
    source = click.get_current_context().get_parameter_source
    for name, needed in NEEDED_BY.items():
        if source(name) is ParameterSource.COMMANDLINE and not parameters[needed]:
            raise ConfigError(f"--{name} belongs to --{needed}")
    for name in OF_THE_TABLE:
        if parameters["experiment"] and source(name) is ParameterSource.COMMANDLINE:
            raise ConfigError(f"--{name} belongs to the table, not to --experiment")


def _table(parameters: dict[str, Any], console: Console) -> None:
    from misc_cli.paper import cell_cache, datasets, reproduce, table

    cells = table.choose(*(parameters[name] for name in ("datasets", "completers", "aggregators")))
    for name in dict.fromkeys(cell.dataset for cell in cells):
        datasets.locate(name, parameters["folder"])  # before an hour's work, not after
    done = cell_cache.Memory(cell_cache.default_memory(), fresh=parameters["fresh"])
    results = []
    with console.bar(len(cells)) as step:
        found = reproduce.reproduce(
            cells,
            folder=parameters["folder"],
            memory=done,
            search_trials=parameters["trials"] if parameters["search"] else None,
            seed=parameters["seed"],
            auto=parameters["auto"],
        )
        for result in found:
            results.append(result)
            step(" ".join(vars(result.cell).values()))
    _finish(
        parameters,
        of_results(results),
        columns_of_results(results),
    )


def _sparse_noisy(parameters: dict[str, Any], console: Console) -> None:
    from misc_cli.paper import datasets, experiment, plot, reproduce, sparse_noisy

    names = parameters["datasets"] or ("rte",)
    if len(names) > 1:
        raise ConfigError("--experiment sparse-noisy takes one dataset")
    noises = parameters["noise"] or experiment.NOISES
    for noise in noises:
        if noise not in experiment.NOISES:
            raise ConfigError(f"--noise {noise}: choose from {', '.join(experiment.NOISES)}")
    aggregators = parameters["aggregators"] or ("mv", "ds-em")
    labels, truth = reproduce.load(datasets.locate(names[0], parameters["folder"]))
    total = len(noises) * len(experiment.PAPER_ERROR_RATES) * len(aggregators)
    with console.bar(total) as step:
        points = sparse_noisy.run(
            labels,
            truth,
            aggregators=aggregators,
            noises=noises,
            seeds=parameters["seeds"],
            on_step=step,
        )
    if parameters["plot"] is not None:
        drawing = plot.line_chart(sparse_noisy.panels(points))
        outputs.write_bytes(drawing.encode(), parameters["plot"])
    _finish(
        parameters,
        of_points(points),
        columns_of_points(points),
    )


def _finish(parameters: dict[str, Any], tables: list[Table], columns: dict[str, Any]) -> None:
    from misc_cli.cli.text_table import markdown

    if parameters["markdown"]:
        outputs.write_bytes(markdown(tables).encode())
    else:
        outputs.show(tables)
    if parameters["output"] is not None:
        outputs.write_columns(columns, parameters["output"])
