"""`misc simulate`: answers of a made-up crowd, and the truth behind them."""

from __future__ import annotations

from functools import partial
from typing import Any

from misc_cli.cli import options
from misc_cli.cli.parameters import SEED
from misc_cli.errors import ConfigError

EXAMPLES = """
misc simulate -o answers.csv --truth truth.csv
misc simulate --workers 2000 --items 200000 --classes 5 -o answers.csv.gz
misc simulate --mix honest=0.7,spammers=0.3 --accuracy 0.8 | misc aggregate -
misc simulate --mix honest=0.8,constants=0.1,copiers=0.1 -o answers.csv
"""


def _mix(text: str) -> dict[str, float]:
    """Return the shares by kind that `honest=0.7,spammers=0.3` says."""
    pairs = [part.partition("=") for part in text.split(",")]
    try:
        return {kind.strip(): float(share) for kind, _, share in pairs}
    except ValueError:
        raise ConfigError(f"--mix {text!r}: write it like honest=0.7,spammers=0.3") from None


CROWD = options.table(
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
    answers_per_item={"default": 5.0, "show_default": True},
    accuracy={"default": 0.7, "show_default": True},
    mix={"type": _mix},
    activity_skew={"default": 1.0, "show_default": True},
    seed={"type": SEED},
)
OUTPUT = options.table(
    "Output",
    {
        "-o --output FILE": "Answers [default: stdout].",
        "--truth FILE": "The true label of every item.",
    },
)


@options.command(EXAMPLES, *CROWD, *OUTPUT)
def command(
    class_names: tuple[str, ...] | None, output: str | None, truth: str | None, **parameters: Any
) -> None:
    """Make up a crowd and its answers, with the truth, to try things on.

    Workers are experts, honest, biased, spammers, adversaries, constants, beginners or copiers;
    the same seed gives the same bytes. Files are CSV, or TSV, gzipped or Parquet by their
    extension.
    """
    from misc_cli.cli.console import Console
    from misc_cli.simulate import Simulation, answer_columns, simulate, truth_columns
    from misc_cli.writers.output_paths import check_writable, output_file
    from misc_cli.writers.output_set import write_all
    from misc_cli.writers.render import write_table

    if truth == "-":
        raise ConfigError("--truth -: stdout is for the answers; name a file")
    place, truth_place = output_file(output), None if truth is None else output_file(truth)
    given = {name: value for name, value in parameters.items() if value is not None}
    if class_names is not None:
        different = len(set(class_names)) == len(class_names) and "" not in class_names
        if not different or not ",".join(class_names).isprintable():
            raise ConfigError("--class-names: give different names, none empty, all of plain text")
        if given.setdefault("classes", len(class_names)) != len(class_names):
            said = f"names {len(class_names)} classes, --classes says {given['classes']}"
            raise ConfigError(f"--class-names {said}")
    settings = Simulation(**{"classes": 4, **given})
    paths = [path for path in (place, truth_place) if path is not None]
    check_writable(paths, [], stdout=place is None)
    crowd = simulate(settings)
    answers = answer_columns(crowd, class_names)
    tables = {place: answers, truth_place: truth_columns(crowd, class_names)}
    files = {path: partial(write_table, tables[path], name=path.name) for path in paths}
    write_all(files, stdout=partial(write_table, answers) if place is None else None)
    if paths:
        written = " and ".join(map(str, paths))
        Console().note(f"written: {written}, {len(answers['item']):,} answers")
