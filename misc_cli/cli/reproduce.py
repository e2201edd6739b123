"""`misc reproduce`: the paper's table, and its experiment on sparse and noisy answers."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from misc_cli.cli import options
from misc_cli.errors import ConfigError, ConvergenceWarning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from misc_cli.console import Console
    from misc_cli.reproduce import Result
    from misc_cli.sparse_noisy import Point
    from misc_cli.text_table import Table

EXPERIMENTS = ("sparse-noisy",)
_CELLS = "Which cells"
_OUTPUT = "Output"
_EXPERIMENT = "The experiment"

EXAMPLES = """
misc datasets fetch && misc reproduce
misc reproduce --datasets web,bluebirds --completers none,tucker --aggregators ds-em
misc reproduce --from datasets/ --completers tucker --aggregators ds-em --auto -o table.csv
misc reproduce --experiment sparse-noisy --plot figure.svg --markdown
"""


@click.command(cls=options.Command, examples=EXAMPLES)
@options.option(
    "--datasets", section=_CELLS, type=options.Names(), metavar="A,B", help="[default: all six]"
)
@options.option(
    "--completers",
    section=_CELLS,
    type=options.Names(),
    metavar="A,B",
    help="none is the pure row.",
)
@options.option(
    "--aggregators", section=_CELLS, type=options.Names(), metavar="A,B", help="[default: all]"
)
@options.option(
    "--from",
    "folder",
    section=_CELLS,
    metavar="DIR",
    help="A folder that has the datasets [default: MISC_DATA_DIR, or what was fetched].",
)
@options.option(
    "--fresh", section=_CELLS, is_flag=True, help="Do cells again that are done already."
)
@options.option(
    "--auto",
    section=_CELLS,
    is_flag=True,
    help="Also run every mixed cell with what hidden answers choose, as a user without truth must.",
)
@options.option(
    "--search",
    section=_CELLS,
    is_flag=True,
    help="Search tucker's settings anew, with the truth, instead of using those we ship (slow).",
)
@options.option(
    "--trials",
    section=_CELLS,
    type=click.IntRange(min=1),
    default=250,
    show_default=True,
    help="Of --search, per cell at most.",
)
@options.option("--seed", section=_CELLS, type=int, default=0, help="Of --search [default: 0].")
@options.option(
    "--experiment",
    section=_EXPERIMENT,
    type=click.Choice(EXPERIMENTS),
    help="Section 5.4 on rte instead of the table: answers removed, noise added.",
)
@options.option(
    "--noise",
    section=_EXPERIMENT,
    type=options.Names(),
    metavar="A,B",
    help="spread, workers, casual: whose answers go wrong [default: each in turn].",
)
@options.option(
    "--seeds",
    section=_EXPERIMENT,
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="How many times over.",
)
@options.option("--plot", section=_EXPERIMENT, metavar="FILE.svg", help="Draw it.")
@options.option("-o", "--output", section=_OUTPUT, metavar="FILE", help="Also as CSV, a row each.")
@options.option("--markdown", section=_OUTPUT, is_flag=True, help="Tables for a page.")
@options.option(
    "--threads",
    section=_OUTPUT,
    type=click.IntRange(min=1),
    metavar="N",
    help="Never changes a result.",
)
@options.talking()
def command(**parameters: Any) -> None:
    """Run the 120 cells of the paper's Table 1 and print ours beside the paper's.

    Pure rows use the paper's settings. Mixed rows use settings that we ship and that were found
    with the truth, as the paper's must have been: they show what the methods can reach, not what a
    user without truth gets. A cell that is done is not done again.
    """
    from misc_cli.console import Console
    from misc_cli.io.write import check_writable
    from misc_cli.votes import thread_limit

    console = Console(quiet=parameters.pop("quiet"), verbose=parameters.pop("verbose"))
    for name in ("output", "plot"):
        parameters[name] = None if parameters[name] is None else Path(parameters[name])
    plot = parameters["plot"]
    if plot is not None and parameters["experiment"] is None:
        raise ConfigError("--plot belongs to --experiment")
    if plot is not None and plot.suffix.lower() != ".svg":
        raise ConfigError(f"--plot {plot}: the picture is an SVG; give a name that ends in .svg")
    check_writable([path for path in (parameters["output"], plot) if path is not None], [])
    parameters["folder"] = None if parameters["folder"] is None else Path(parameters["folder"])
    with console.watching(), thread_limit(parameters.pop("threads")), warnings.catch_warnings():
        # The paper's settings stop at a fixed number of iterations, converged or not.
        warnings.simplefilter("ignore", ConvergenceWarning)
        (_table if parameters["experiment"] is None else _sparse_noisy)(parameters, console)


def _table(parameters: dict[str, Any], console: Console) -> None:
    from misc_cli import datasets, reproduce

    cells = reproduce.choose(
        *(parameters[name] for name in ("datasets", "completers", "aggregators"))
    )
    for name in dict.fromkeys(cell.dataset for cell in cells):
        datasets.locate(name, parameters["folder"])  # before an hour's work, not after
    memory = reproduce.Memory(None if parameters["fresh"] else reproduce.default_memory())
    results = []
    with console.bar(len(cells)) as step:
        found = reproduce.reproduce(
            cells,
            folder=parameters["folder"],
            memory=memory,
            search_trials=parameters["trials"] if parameters["search"] else None,
            seed=parameters["seed"],
            auto=parameters["auto"],
        )
        for result in found:
            results.append(result)
            step(" ".join(vars(result.cell).values()))
    _finish(parameters, result_tables(results), result_columns(results))


def _sparse_noisy(parameters: dict[str, Any], console: Console) -> None:
    from misc_cli import datasets, experiment, plot, reproduce, sparse_noisy
    from misc_cli.io.write import Output, content, write_all

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
        write_all([Output(parameters["plot"], content(drawing.encode()))])
    _finish(parameters, point_tables(points), point_columns(points))


def _finish(parameters: dict[str, Any], tables: list[Table], columns: dict[str, Any]) -> None:
    from misc_cli.console import print_tables
    from misc_cli.io.render import write_table
    from misc_cli.io.write import Output, write_all
    from misc_cli.text_table import markdown

    path = parameters["output"]
    if path is not None:
        write_all([Output(path, lambda stream: write_table(columns, stream, path.name))])
    if parameters["markdown"]:
        click.echo(markdown(tables), nl=False)
    else:
        print_tables(tables)


def result_tables(results: Sequence[Result]) -> list[Table]:
    """One table per dataset, rows by completer: ours, then the paper's."""
    from misc_cli.datasets import get
    from misc_cli.reproduce import PURE
    from misc_cli.text_table import Table

    aggregators = list(dict.fromkeys(result.cell.aggregator for result in results))
    shown = []
    for name in dict.fromkeys(result.cell.dataset for result in results):
        rows = []
        own = [result for result in results if result.cell.dataset == name]
        for completer in dict.fromkeys(result.cell.completer for result in own):
            line = [result for result in own if result.cell.completer == completer]
            rows.append(
                ("pure" if completer == PURE else completer, "ours", [r.ours for r in line])
            )
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


def verdicts(results: Sequence[Result]) -> list[str]:
    """How many cells of each completer are at the paper's figure or below, how far the others."""
    from misc_cli.reproduce import PURE

    lines = []
    for completer in dict.fromkeys(result.cell.completer for result in results):
        own = [result for result in results if result.cell.completer == completer]
        reached = sum(result.reached for result in own)
        worst = max(own, key=lambda result: result.ours - result.paper)
        line = f"{'pure' if completer == PURE else completer}: {reached} of {len(own)} at or below"
        if not worst.reached:
            cell = f"{worst.cell.dataset} {worst.cell.aggregator}"
            line += f", the others at most {worst.ours - worst.paper:.2f} points above ({cell})"
        lines.append(line)
    return lines


def result_columns(results: Sequence[Result]) -> dict[str, Any]:
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


def point_tables(points: Sequence[Point]) -> list[Table]:
    """One table per noise: mean ± standard deviation over the seeds."""
    from misc_cli.sparse_noisy import TITLES
    from misc_cli.text_table import Table

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


def point_columns(points: Sequence[Point]) -> dict[str, Any]:
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
