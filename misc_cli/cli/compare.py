"""`misc compare`: methods ranked on answers; of several datasets methods × datasets."""

from __future__ import annotations

import re
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from misc_cli import registry
from misc_cli.cli import options, outputs
from misc_cli.cli.parameters import COUNT, SEED, duration, names
from misc_cli.run.settings import NO_COMPLETER, Settings

if TYPE_CHECKING:
    from misc_cli.cli.tables import Table
    from misc_cli.data.types import Iteration
    from misc_cli.selection.candidates import Method
    from misc_cli.selection.compare import Comparison, Dataset, Standing

_output = partial(options.option, section="Output")

EXAMPLES = """
misc compare answers.csv
misc compare answers.csv --truth truth.csv -o leaderboard.csv
misc compare datasets/ --completers none -o table.tex
misc compare monday.csv tuesday.csv --as-one
misc compare answers.csv --json --time-budget 60s
"""
PAGES = (".md", ".tex", ".json")


@click.command(cls=options.Command, examples=EXAMPLES)
@click.argument("sources", nargs=-1, required=True, metavar="DATASETS...")
@options.table(
    "What is compared",
    {
        "--as-one": "All files are answers to the same items, not datasets of their own.",
        "--completers A,B": f"Of {', '.join([NO_COMPLETER, *registry.COMPLETERS])}; or all.",
        "--aggregators A,B": f"Of {', '.join(registry.AGGREGATORS)}; mmce-o only if the classes "
        "have an order.",
        "--preset": "Of every method's parameters.",
        "--seed": "Of folds.",
        **options.THREADS,
        "--time-budget TIME": "60s, 5m, 1h: methods that are not done by then are left out; for "
        "each dataset.",
        "--truth FILE": "True labels, to report each method's error.",
    },
    completers={"type": names, "default": "none,tucker", "show_default": True},
    aggregators={"type": names, "default": "all", "show_default": True},
    preset={
        "type": click.Choice(list(registry.PRESETS)),
        "default": Settings.preset,
        "show_default": True,
    },
    seed={"type": SEED, "default": 0, "show_default": True},
    threads={"type": COUNT},
    time_budget={"type": duration},
)
@options.reading
@_output("--json", "as_json", is_flag=True, help="One JSON object.")
@_output(
    "-o", "--output", metavar="FILE", help="The table as CSV, TSV, Parquet, JSON, Markdown, LaTeX."
)
@options.talking
def command(sources: tuple[str, ...], **parameters: Any) -> None:
    """Rank completers × aggregators on answers.

    Of one dataset: by how well they forecast answers that were hidden from them. The score is the
    mean log probability of a hidden answer: higher is better. The null knows only how often each
    worker says each label; what a method scores above it, in per cent of the leader's, is its
    lead. Truth, if given, is only reported.

    Of several datasets: methods × datasets, with mean and average rank. A folder with answers.csv
    is a dataset, truth.csv beside it its truth; a folder of such folders is several; every other
    file is one without truth. If all have truth, methods are compared by their error in per cent,
    else by their score. A method without * ranks worse than the best one by Nemenyi's test (5 %);
    the more methods, the more datasets it takes to show that.
    """
    from misc_cli.cli.console import Console
    from misc_cli.data.holdout import fold_plan
    from misc_cli.data.resources import thread_limit
    from misc_cli.job.datasets import find_datasets
    from misc_cli.readers.addresses import check_stdin_once
    from misc_cli.selection.compare import compare, compare_datasets
    from misc_cli.writers.output_paths import TABLES, check_writable

    console = Console.of(parameters)
    kinds = (".json",) if parameters["as_json"] else (*TABLES, *PAGES)
    output = outputs.output_file(parameters["output"], *kinds)
    known = [parameters["truth"]] if parameters["truth"] else []
    check_stdin_once([*sources, *known])
    check_writable([] if output is None else [output], [*sources, *known])
    reading = options.read_options_from(parameters)
    rules = Settings(duplicates=parameters["duplicates"], class_order=parameters["class_order"])
    asked = {name: parameters[name] for name in ("seed", "time_budget")}
    with console.watching(), thread_limit(parameters["threads"]):
        files = find_datasets(sources, as_one=parameters["as_one"], truth=parameters["truth"])
        datasets = [one.read(reading, rules) for one in files]
        if len(datasets) > 1:
            steps = len(datasets)
        else:
            methods = _methods(datasets[0], parameters)
            steps = len(methods) * (fold_plan(datasets[0].engine.n_votes)[0] + 1)
        with console.bar(steps) as tell:

            def advance(iteration: Iteration) -> None:
                if iteration.stage in ("dataset", "search", "fitted"):
                    tell(str(iteration.extra.get("candidate", "")))

            if len(datasets) > 1:
                methods_of = partial(_methods, parameters=parameters)
                table = compare_datasets(datasets, methods_of, on_iteration=advance, **asked)
                write_table(comparison_table(table), table.columns(), output, parameters["as_json"])
            else:
                one = datasets[0]
                found = compare(one.engine, methods, truth=one.truth, on_iteration=advance, **asked)
                rows = _columns(found)
                write_table(leaderboard(found), rows, output, parameters["as_json"])


def _methods(dataset: Dataset, parameters: dict[str, Any]) -> list[Method]:
    """Return every pair of a completer and an aggregator that these answers allow."""
    from misc_cli.run.fitting import combinations
    from misc_cli.selection import roster

    completers, aggregators = (
        None if parameters[name] == ("all",) else parameters[name]
        for name in ("completers", "aggregators")
    )
    return combinations(
        completers or [NO_COMPLETER, *registry.names("completer")],
        aggregators or roster.applicable(dataset.engine),
        parameters["preset"],
        parameters["seed"],
    )


def _columns(standings: list[Standing]) -> dict[str, Any]:
    """Return the leaderboard by columns; one of errors only if there is truth."""
    rows = [asdict(standing) for standing in standings]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    if all(error is None for error in columns["error"]):
        columns["error"] = []
    return {name: values for name, values in columns.items() if values}


def write_table(
    table: Table, columns: dict[str, Any], place: Path | None, as_json: bool = False
) -> None:
    """Write a table in the format of the file's name, or to stdout."""
    import numpy as np

    from misc_cli.cli.tables import markdown, print_tables
    from misc_cli.run.run_record import strict

    suffix = "" if place is None else place.suffix.lower()
    if as_json or suffix == ".json":
        plain = {name: np.asarray(values).tolist() for name, values in columns.items()}
        plain.setdefault("error", [None] * len(plain["method"]))
        rows = [dict(zip(plain, row, strict=True)) for row in zip(*plain.values(), strict=True)]
        outputs.write_bytes(outputs.json_bytes(methods=strict(rows)), place)
    elif suffix == ".md":
        outputs.write_bytes(markdown([table]).encode(), place)
    elif suffix == ".tex":
        outputs.write_bytes(latex(table).encode(), place)
    elif place is not None:
        outputs.write_columns({name: _array(values) for name, values in columns.items()}, place)
    else:
        print_tables([table])


def _array(values: Any) -> Any:
    """Return a column as text, or as numbers that are NaN where there is none."""
    import numpy as np
    import pyarrow as pa

    if isinstance(values[0], str):
        return pa.array(values, pa.string())
    return np.array([float("nan") if value is None else value for value in values], dtype=float)


def leaderboard(standings: list[Standing]) -> Table:
    """Return the methods on one dataset, best first."""
    from misc_cli.cli.tables import Table

    judged = any(standing.error is not None for standing in standings)
    header = ["method", "score", "±", "lead %", "behind", "differs", "seconds"]
    header += ["error %"] * judged
    rows = [
        [
            standing.method,
            f"{standing.score:.4f}",
            f"{standing.standard_error:.4f}",
            f"{standing.share:.1f}",
            f"{standing.behind:.1f} SE",
            "" if standing.differs is None else f"{standing.differs:,}",
            f"{standing.seconds:.1f}",
            *(["" if standing.error is None else f"{standing.error:.2f}"] * judged),
        ]
        for standing in standings
    ]
    title = "Forecast of hidden answers (mean log probability, best first)"
    note = (
        "lead %: what a method forecasts beyond each worker's habits (null), the best is 100; "
        "behind: the best, in standard errors; differs: items that it labels unlike the best"
    )
    return Table(title, header, rows, notes=[note], spare=("±", "seconds"))


def comparison_table(found: Comparison) -> Table:
    """Return methods × datasets, the best rank first; * marks what may be as good as the best."""
    from misc_cli.cli.tables import Table

    columns = found.columns()
    digits = 2 if found.measure == "error" else 4
    shown = (*found.datasets, "mean", "rank")
    rows = []
    for at, name in enumerate(columns["method"]):
        marked = f"{name} *" if columns["among_best"][at] else name
        cells = [_number(columns[column][at], digits) for column in (*found.datasets, "mean")]
        rest = [_number(columns["rank"][at], 1), _number(columns["p"][at], 3)]
        rows.append([marked, *cells, *rest])
    what = "Error in %" if found.measure == "error" else "Mean log probability of hidden answers"
    best = columns["method"][0]
    notes = [f"* not shown to rank worse than {best} (p of Nemenyi's test at least 0.05)"]
    spare = ("p", *reversed(found.datasets))
    return Table(what, ("method", *shown, "p"), rows, notes=notes, spare=spare)


def _number(value: float, digits: int) -> str:
    return "–" if value != value else f"{value:.{digits}f}"


_SPECIAL = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    **{"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "–": "--", "±": r"$\pm$", "×": r"$\times$"},
}


def latex(table: Table) -> str:
    """Return a table for LaTeX, which needs no package."""
    rows = [
        [re.sub(r".", lambda sign: _SPECIAL.get(sign[0], sign[0]), cell) for cell in row]
        for row in (table.header, *table.rows)
    ]
    lines = [" & ".join(row).replace(" *", "$^{*}$") + r" \\" for row in rows]
    columns = "l" + "r" * (len(table.header) - 1)
    return "\n".join(
        [
            f"% {table.title}",
            f"\\begin{{tabular}}{{{columns}}}",
            *("\\hline", lines[0], "\\hline", *lines[1:], "\\hline"),
            "\\end{tabular}",
            *(f"% {note}" for note in table.notes),
            "",
        ]
    )
