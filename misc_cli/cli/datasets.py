"""`misc datasets` and `misc simulate`: public datasets by name, and made-up crowds."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import click

from misc_cli.cli import options, tables
from misc_cli.cli.command import Group
from misc_cli.cli.parameters import SEED
from misc_cli.cli.tables import Table
from misc_cli.errors import ConfigError, InputError


@click.group(cls=Group)
def group() -> None:
    """List, fetch and find public datasets: the paper's six, and ten more.

    Copies are in the user's cache. misc holds none: files come from where they are published.
    """


group.places = {
    "list": ("datasets:list_datasets", "Names, sizes and where the copies are."),
    "fetch": ("datasets:fetch", "Download datasets, check their SHA-256 and keep them."),
}
group.titles = {"list": "Commands"}


@options.command("misc datasets list --json", *options.json_output)
def list_datasets(json: bool) -> None:
    """Names, sizes and where the copies on this machine are."""
    from misc_cli.paper import datasets

    counts = ("workers", "items", "classes", "answers", "items_with_truth")
    entries, rows = [], []
    for name, known in datasets.registry().items():
        found = None
        with suppress(InputError):
            found = datasets.locate(name)
        facts = {key: getattr(known, key) for key in ("name", "about", *counts)}
        entries.append({**facts, "repository": known.repository, "commit": known.commit})
        entries[-1]["path"] = found and str(found)
        rows.append((name, known.about, str(found or "–"), *(f"{facts[one]:,}" for one in counts)))
    header = ("name", "about", "copy", "workers", "items", "classes", "answers", "with truth")
    table = Table("", header, rows, left=3, spare=("about", "with truth", "classes"))
    tables.deliver([table], None, {"datasets": entries}, as_json=json)


@options.command(
    "misc compare $(misc datasets fetch web rte)",
    click.Argument(["names"], nargs=-1, metavar="[NAME]..."),
)
def fetch(names: tuple[str, ...]) -> None:
    """Download datasets (all if none is named), check their SHA-256 and keep them.

    Prints the folder of each copy. Nothing is kept that is not exactly the published data.
    """
    from misc_cli.paper import datasets

    for name in names:
        datasets.get(name)
    for name in names or datasets.registry():
        click.echo(str(datasets.fetch(name)))


SIMULATE = """
misc simulate --workers 2000 --items 200000 --classes 5 -o answers.csv.gz --truth truth.csv
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


@options.command(SIMULATE, *CROWD, *OUTPUT)
def simulate(
    class_names: tuple[str, ...] | None, output: str | None, truth: str | None, **parameters: Any
) -> None:
    """Make up a crowd and its answers, with the truth, to try things on.

    Workers are experts, honest, biased, spammers, adversaries, constants, beginners or copiers;
    the same seed gives the same bytes. Files are CSV, or TSV, gzipped or Parquet by their
    extension.
    """
    from misc_cli.cli.console import Console
    from misc_cli.simulate import Simulation, answer_columns, truth_columns
    from misc_cli.simulate import simulate as simulated
    from misc_cli.writers.output_paths import check_writable, output_file
    from misc_cli.writers.output_set import write_all
    from misc_cli.writers.tables import write_table

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
    crowd = simulated(settings)
    answers = answer_columns(crowd, class_names)
    tables = {place: answers, truth_place: truth_columns(crowd, class_names)}
    files = {path: partial(write_table, tables[path], name=path.name) for path in paths}
    write_all(files, stdout=partial(write_table, answers) if place is None else None)
    if paths:
        written = " and ".join(map(str, paths))
        Console().note(f"written: {written}, {len(answers['item']):,} answers")
