"""`misc compare`: which method suits these answers, without ground truth."""

from __future__ import annotations

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
    from misc_cli.engines.protocol import Engine
    from misc_cli.selection.candidates import Method
    from misc_cli.selection.compare import Standing

_output = partial(options.option, section="Output")

EXAMPLES = """
misc compare answers.csv
misc compare answers.csv --truth truth.csv -o leaderboard.csv
misc compare answers.csv --completers none,tucker,lrtc --aggregators ds-em,mv
misc compare answers.csv --json --time-budget 60s
"""


@click.command(cls=options.Command, examples=EXAMPLES)
@options.answers_argument
@options.table(
    "What is compared",
    {
        "--completers A,B": f"Of {', '.join([NO_COMPLETER, *registry.COMPLETERS])}; or all.",
        "--aggregators A,B": f"Of {', '.join(registry.AGGREGATORS)}; mmce-o only if the classes "
        "have an order.",
        "--preset": "Of every method's parameters.",
        "--seed": "Of folds.",
        **options.THREADS,
        "--time-budget TIME": "60s, 5m, 1h: methods that are not done by then are left out.",
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
@_output("-o", "--output", metavar="FILE", help="The table as CSV, TSV, Parquet or JSON.")
@options.talking
def command(answers: tuple[str, ...], **parameters: Any) -> None:
    """Rank completers × aggregators by how well they forecast answers that were hidden from them.

    The score is the mean log probability of a hidden answer: higher is better. The null knows only
    how often each worker says each label; what a method scores above it, in per cent of the
    leader's, is its share. Truth, if given, is only reported.
    """
    from misc_cli.cli.console import Console
    from misc_cli.data.encode import encode_truth
    from misc_cli.data.holdout import fold_plan
    from misc_cli.data.resources import thread_limit
    from misc_cli.readers.known_labels import read_known
    from misc_cli.readers.read import read_answer_columns
    from misc_cli.readers.source import check_stdin_once
    from misc_cli.run.pipeline import memory_engine
    from misc_cli.selection.compare import compare
    from misc_cli.writers.output_paths import TABLES, check_writable

    console = Console.of(parameters)
    as_json = parameters["as_json"]
    output = outputs.output_file(parameters["output"], *([] if as_json else TABLES), ".json")
    places = [] if output is None else [output]
    known = [parameters["truth"]] if parameters["truth"] else []
    check_stdin_once([*answers, *known])
    check_writable(places, [*answers, *known])
    reading = options.read_options_from(parameters)
    with console.watching(), thread_limit(parameters["threads"]):
        columns = options.with_workers(read_answer_columns(answers, reading)).answers
        # warns of what `aggregate` warns of
        rules = Settings(duplicates=parameters["duplicates"], class_order=parameters["class_order"])
        engine = memory_engine(columns, rules)
        labels = engine.labels
        truth = None
        if known:
            truth = encode_truth(labels, read_known(parameters["truth"], reading).labels)
        methods = _methods(engine, parameters)
        with console.bar(len(methods) * (fold_plan(labels.votes.n_votes)[0] + 1)) as tell:

            def advance(iteration: Iteration) -> None:
                if iteration.stage in ("search", "fitted"):
                    tell(str(iteration.extra.get("candidate", "")))

            standings = compare(
                engine,
                methods,
                truth=truth,
                seed=parameters["seed"],
                time_budget=parameters["time_budget"],
                on_iteration=advance,
            )
    _write(standings, output, as_json)


def _methods(engine: Engine, parameters: dict[str, Any]) -> list[Method]:
    """Return every pair of a completer and an aggregator that these answers allow."""
    from misc_cli.run.fitting import combinations
    from misc_cli.selection import roster

    completers, aggregators = (
        None if parameters[name] == ("all",) else parameters[name]
        for name in ("completers", "aggregators")
    )
    return combinations(
        completers or [NO_COMPLETER, *registry.names("completer")],
        aggregators or roster.applicable(engine),
        parameters["preset"],
        parameters["seed"],
    )


def _write(standings: list[Standing], place: Path | None, as_json: bool) -> None:
    """Write a table or a JSON list, to the file or to stdout."""
    import numpy as np
    import pyarrow as pa

    from misc_cli.cli.tables import print_tables

    if as_json or (place is not None and place.suffix.lower() == ".json"):
        data = outputs.json_bytes(methods=[asdict(standing) for standing in standings])
        outputs.write_bytes(data, place)
    elif place is not None:
        rows = [asdict(standing) for standing in standings]
        table: dict[str, Any] = {
            name: pa.array([row[name] for row in rows], pa.string())
            if name == "method"
            else np.array([float("nan") if row[name] is None else row[name] for row in rows])
            for name in (rows[0] if rows else {})
            if not (name == "error" and all(row["error"] is None for row in rows))
        }
        outputs.write_columns(table, place)
    else:
        print_tables([_table(standings)])


def _table(standings: list[Standing]) -> Table:
    from misc_cli.cli.tables import Table

    judged = any(standing.error is not None for standing in standings)
    header = ["method", "score", "±", "share %", "behind", "differs", "seconds"]
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
    return Table(title, header, rows)
