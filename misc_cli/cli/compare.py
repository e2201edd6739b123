"""`misc compare` and `misc reproduce`: methods ranked on answers, and on those of the paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from misc_cli import registry
from misc_cli.cli import options, tables
from misc_cli.cli.tables import Table
from misc_cli.run.settings import NO_COMPLETER, Settings

if TYPE_CHECKING:
    from misc_cli.selection.candidates import Method
    from misc_cli.selection.compare import Comparison, Dataset, Standing

EXAMPLES = """
misc compare answers.csv --truth truth.csv -o leaderboard.csv
misc compare datasets/ --completers none -o table.tex
misc compare monday.csv tuesday.csv --as-one
"""
FILES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".md", ".tex", ".json")


COMPARED = options.table(
    "What is compared",
    {
        "--as-one": "All files are answers to the same items, not datasets of their own.",
        "--completers A,B": f"Of {', '.join([NO_COMPLETER, *registry.COMPLETERS])}; or all.",
        "--aggregators A,B": f"Of {', '.join(registry.AGGREGATORS)}; mmce-o only if the classes "
        "have an order.",
        "--truth FILE": "True labels, to report each method's error.",
        **options.JSON,
        "-o --output FILE": "The table as CSV, TSV, Parquet, JSON, Markdown, LaTeX.",
    },
    completers={"default": "none,tucker", "show_default": True},
    aggregators={"default": "all", "show_default": True},
)


@options.command(
    EXAMPLES,
    click.Argument(["sources"], nargs=-1, required=True, metavar="DATASETS..."),
    *COMPARED,
    *options.search,
    *options.reading,
    *options.talking,
)
def command(sources: tuple[str, ...], **parameters: Any) -> None:
    """Rank completers × aggregators on answers.

    Of one dataset: by how well they forecast answers that were hidden from them. The score is the
    mean log probability of a hidden answer: higher is better. The null knows only how often each
    worker says each label; what a method scores above it, in per cent of the leader's, is its
    lead. Truth, if given, is only reported.

    Of several datasets: methods × datasets, with mean and average rank. A folder with answers.csv
    is a dataset, truth.csv beside it its truth; a folder of such folders is several. If all have
    truth, methods are compared by their error in per cent, else by their score. A method without *
    ranks worse than the best one by Nemenyi's test (5 %).
    """
    from misc_cli.cli.console import Console
    from misc_cli.data.holdout import fold_plan
    from misc_cli.data.resources import limits
    from misc_cli.job.datasets import find_datasets
    from misc_cli.selection.compare import compare, compare_datasets

    console = Console(**parameters, sources=sources)
    as_json, truth = parameters["json"], parameters["truth"]
    inputs = [*sources, *([truth] if truth else [])]
    place = tables.place_of(parameters["output"], inputs, *FILES, as_json=as_json)
    reading = options.read_options_from(parameters)
    rules = Settings(duplicates=parameters["duplicates"], class_order=parameters["class_order"])
    asked = {name: parameters[name] for name in ("seed", "time_budget")}
    with console.watching(), limits(parameters["threads"]):
        files = find_datasets(sources, as_one=parameters["as_one"], truth=truth)
        datasets = [one.read(reading, rules) for one in files]
        if len(datasets) > 1:
            methods_of = partial(_methods, parameters=parameters)
            told = console.steps(len(datasets), "dataset")
            several = compare_datasets(datasets, methods_of, on_iteration=told, **asked)
            table, columns = comparison_table(several), several.columns()
        else:
            one, methods = datasets[0], _methods(datasets[0], parameters)
            steps = len(methods) * (fold_plan(one.engine.n_votes)[0] + 1)
            told = console.steps(steps, "search", "fitted")
            found = compare(one.engine, methods, truth=one.truth, on_iteration=told, **asked)
            rows = [asdict(standing) for standing in found]
            table, columns = leaderboard(found), {n: [row[n] for row in rows] for n in rows[0]}
    _deliver(table, columns, place, as_json)


def _methods(dataset: Dataset, parameters: dict[str, Any]) -> list[Method]:
    """Return every pair of a completer and an aggregator that these answers allow."""
    from misc_cli.run.pipeline import combinations
    from misc_cli.selection import candidates

    completers, aggregators = (
        None if parameters[name] == ("all",) else parameters[name]
        for name in ("completers", "aggregators")
    )
    return combinations(
        completers or [NO_COMPLETER, *registry.names("completer")],
        aggregators or candidates.applicable(dataset.engine),
        parameters["preset"],
        parameters["seed"],
    )


def _deliver(
    table: Table, columns: Mapping[str, Any], place: Path | None, as_json: bool = False
) -> None:
    """Write a table of methods; a column of errors that nobody knows is only in JSON."""
    import pandas as pd
    import pyarrow as pa

    from misc_cli.run.run_record import strict

    frame = pd.DataFrame(columns)
    rows = [{"error": None, **row} for row in frame.astype(object).to_dict("records")]
    known = {str(name): pa.array(column, from_pandas=True) for name, column in frame.items()}
    if "error" in known and frame["error"].isna().all():
        del known["error"]
    tables.deliver([table], place, {"methods": strict(rows)}, known, as_json=as_json)


def leaderboard(standings: list[Standing]) -> Table:
    """Return the methods on one dataset, best first."""
    header = ["method", "score", "±", "lead %", "behind", "differs", "seconds", "error %"]
    names = ("method", "score", "standard_error", "share", "behind", "differs", "seconds", "error")
    formats = dict(zip(names, ("", ".4f", ".4f", ".1f", ".1f", ",", ".1f", ".2f"), strict=True))
    if all(standing.error is None for standing in standings):
        del formats["error"], header[-1]
    rows = [
        ["" if row[name] is None else format(row[name], how) for name, how in formats.items()]
        for row in map(asdict, standings)
    ]
    title = "Forecast of hidden answers (mean log probability, best first)"
    note = (
        "lead %: what a method forecasts beyond each worker's habits (null), the best is 100; "
        "behind: the best, in standard errors; differs: items that it labels unlike the best"
    )
    return Table(title, header, rows, notes=[note], spare=("±", "seconds"))


def comparison_table(found: Comparison) -> Table:
    """Return methods × datasets, the best rank first; * marks what may be as good as the best."""
    columns = found.columns()
    digits = dict.fromkeys((*found.datasets, "mean"), 2 if found.measure == "error" else 4)
    digits |= {"rank": 1, "p": 3}
    rows = []
    for at, name in enumerate(columns["method"]):
        values = {column: columns[column][at] for column in digits}
        cells = [f"{v:.{digits[c]}f}" if v == v else "–" for c, v in values.items()]
        rows.append([f"{name} *" if columns["among_best"][at] else name, *cells])
    what = "Error in %" if found.measure == "error" else "Mean log probability of hidden answers"
    best = columns["method"][0]
    notes = [f"* not shown to rank worse than {best} (p of Nemenyi's test at least 0.05)"]
    spare = ("p", *reversed(found.datasets))
    return Table(what, ("method", *digits), rows, notes=notes, spare=spare)


REPRODUCE = """
misc datasets fetch && misc reproduce
misc reproduce --datasets web,bluebirds --completers none,tucker --aggregators ds-em
"""
CELLS = options.table(
    "Which cells",
    {
        "--datasets A,B": "[default: all six]",
        "--completers A,B": "none is the pure row [default: all].",
        "--aggregators A,B": "[default: all]",
        "--from DIR": "A folder that has the datasets [default: what was fetched].",
        "-o --output FILE": "As CSV, TSV, Parquet, Markdown or LaTeX.",
        **options.THREADS,
    },
)


@options.command(REPRODUCE, *CELLS, *options.talking)
def reproduce(**parameters: Any) -> None:
    """Run the 120 cells of the paper's Table 1 and print ours beside the paper's.

    Pure rows use the paper's settings. Mixed rows use settings that we ship and that were found
    with the truth, as the paper's must have been: they show what the methods can reach, not what a
    user without truth gets (misc compare shows that).
    """
    from misc_cli.cli.console import Console
    from misc_cli.data.resources import limits
    from misc_cli.paper import table

    console = Console(**parameters)
    place = tables.place_of(parameters["output"], [], *FILES[:-1])
    cells = table.choose(*(parameters[name] for name in ("datasets", "completers", "aggregators")))
    folder = None if parameters["from"] is None else Path(parameters["from"])
    with console.watching(), limits(parameters["threads"]):
        told = console.steps(len({cell.dataset for cell in cells}))
        ours = table.reproduce(cells, folder, told).cells()
    paper = table.paper_table()
    errors = {cell: ours[cell.method, cell.dataset] for cell in cells}
    columns = {
        **{name: [getattr(cell, name) for cell in cells] for name in vars(cells[0])},
        "paper": [paper[cell] for cell in cells],
        "ours": list(errors.values()),
    }
    shown = list(dict.fromkeys(cell.dataset for cell in cells))
    rows = []
    for method in dict.fromkeys(cell.method for cell in cells):
        own = {cell.dataset: cell for cell in cells if cell.method == method}
        for name, figures in (("ours", errors), ("paper", paper)):
            values = [f"{figures[own[dataset]]:.2f}" for dataset in shown]
            rows.append([method if name == "ours" else "", name, *values])
    reached = sum(round(error, 2) <= paper[cell] for cell, error in errors.items())
    notes = [f"{reached} of {len(cells)} cells at or below the paper's error"]
    _deliver(Table("Error in %", ("method", "", *shown), rows, left=2, notes=notes), columns, place)
