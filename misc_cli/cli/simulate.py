"""`misc simulate`: answers of a made-up crowd, and the truth behind them."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from misc_cli.cli import options, outputs
from misc_cli.cli.parameters import COUNT, SEED, names
from misc_cli.errors import ConfigError

EXAMPLES = """
misc simulate -o answers.csv --truth truth.csv
misc simulate --workers 2000 --items 200000 --classes 5 -o answers.csv.gz
misc simulate --mix honest=0.7,spammers=0.3 --accuracy 0.8 | misc aggregate -
misc simulate --mix honest=0.8,constants=0.1,copiers=0.1 -o answers.csv
"""


def _mix(text: str | None) -> dict[str, float] | None:
    """Return the shares by kind that `honest=0.7,spammers=0.3` says."""
    if text is None:
        return None
    pairs = [part.partition("=") for part in text.split(",")]
    try:
        return {kind.strip(): float(share) for kind, _, share in pairs}
    except ValueError:
        raise ConfigError(f"--mix {text!r}: write it like honest=0.7,spammers=0.3") from None


@click.command(cls=options.Command, examples=EXAMPLES)
@options.table(
    "Crowd",
    {
        "--workers N": "[default: 100]",
        "--items N": "[default: 1000]",
        "--classes N": "[default: 4]",
        "--class-names A,B,…": "Their names, instead of a number of them.",
        "--answers-per-item X": "On average, each by another worker.",
        "--accuracy X": "Of honest workers.",
        "--mix KIND=SHARE,…": "Kinds of workers: experts, honest, biased, spammers, adversaries "
        "[default: in this order 0.1, 0.6, 0.15, 0.1, 0.05]; also constants, who always say the "
        "same, beginners, two thirds as far above chance as the honest, and copiers of honest "
        "workers.",
        "--activity-skew X": "How unevenly workers share the work; 0 is evenly.",
        "--groups N": "Workers of N groups, each with one confusion matrix for all its members: "
        "the structure that completion exists for [default: each worker has its own].",
        "--seed N": "[default: 0]",
    },
    workers={"type": COUNT},
    items={"type": COUNT},
    classes={"type": COUNT},
    groups={"type": COUNT},
    class_names={"type": names},
    answers_per_item={"default": 5.0, "show_default": True},
    accuracy={"default": 0.7, "show_default": True},
    activity_skew={"default": 1.0, "show_default": True},
    seed={"type": SEED},
)
@options.table(
    "Output",
    {
        "-o --output FILE": "Answers [default: stdout].",
        "--truth FILE": "The true label of every item.",
    },
)
def command(**parameters: Any) -> None:
    """Make up a crowd and its answers, with the truth, to try things on.

    Workers are experts, honest, biased, spammers, adversaries, constants, beginners or copiers;
    the same seed gives the same bytes. Files are CSV, or TSV, gzipped or Parquet by their
    extension.
    """
    from misc_cli.cli.console import Console
    from misc_cli.simulate import Simulation, answer_columns, simulate, truth_columns
    from misc_cli.writers.output_paths import check_writable
    from misc_cli.writers.output_set import write_all
    from misc_cli.writers.render import write_table

    if parameters["truth"] == "-":
        raise ConfigError("--truth -: stdout is for the answers; name a file")
    output = outputs.output_file(parameters.pop("output"))
    truth = parameters.pop("truth")
    truth = None if truth is None else outputs.output_file(truth)
    names = parameters.pop("class_names")
    if names is not None and not ",".join(names).isprintable():
        raise ConfigError("--class-names: a name has characters that are no text; spell it anew")
    parameters["classes"] = _n_classes(parameters["classes"], names)
    parameters["mix"] = _mix(parameters["mix"])
    given = {name: value for name, value in parameters.items() if value is not None}
    settings = Simulation(**given)
    check_writable([path for path in (output, truth) if path], [], stdout=output is None)
    crowd = simulate(settings)
    tables = [(output, answer_columns(crowd, names)), (truth, truth_columns(crowd, names))]
    files = {
        path: partial(write_table, table, name=path.name)
        for path, table in tables
        if path is not None
    }
    write_all(files, stdout=partial(write_table, tables[0][1]) if output is None else None)
    written = " and ".join(str(path) for path, _ in tables if path is not None)
    if written:
        Console().note(f"written: {written}, {len(tables[0][1]['item']):,} answers")


def _n_classes(count: int | None, names: tuple[str, ...] | None) -> int:
    if names is None:
        return 4 if count is None else count
    if count not in (None, len(names)):
        raise ConfigError(f"--class-names names {len(names)} classes, --classes says {count}")
    if len(set(names)) < len(names) or "" in names:
        raise ConfigError("--class-names must be different and not empty")
    return len(names)
