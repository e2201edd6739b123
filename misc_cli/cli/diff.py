"""`misc diff`: what became of yesterday's labels."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from misc_cli.cli import options, outputs
from misc_cli.errors import ConfigError
from misc_cli.run.fail_if import CHANGES, holding, parse_gate, refuse

if TYPE_CHECKING:
    from misc_cli.cli.tables import Table
    from misc_cli.quality.changes import Changes

SHOWN = 10  # rows of each kind on a screen; --changes has them all

_output = partial(options.option, section="Output")

EXAMPLES = """
misc diff yesterday.csv labels.csv
misc diff yesterday.csv labels.csv --workers workers_yesterday.csv workers.csv
misc diff yesterday.csv labels.csv --json | jq .items.flipped
misc diff yesterday.csv labels.csv --changes changes.csv --fail-if 'flips>2%'
"""


@click.command(cls=options.Command, examples=EXAMPLES)
@click.argument("old")
@click.argument("new")
@options.option(
    "--workers",
    section="Input",
    nargs=2,
    metavar="OLD NEW",
    help="Also compare the workers, two files that misc aggregate --workers wrote.",
)
@_output(
    "--changes",
    metavar="FILE",
    help="Every change as a row: flipped, new and gone items; workers that fell and rose.",
)
@_output("--json", "as_json", is_flag=True, help="Counts, as JSON.")
@options.option(
    "--fail-if",
    section="Gates",
    metavar="COND",
    multiple=True,
    help="Exit with 3 if METRIC OP VALUE holds; OP is < <= > >= = !=, METRIC one of "
    f"{', '.join(CHANGES)}. Repeatable.",
)
def command(
    old: str,
    new: str,
    workers: tuple[str, str] | None,
    changes: str | None,
    as_json: bool,
    fail_if: tuple[str, ...],
) -> None:
    """Compare two files of labels, OLD and NEW (item,label and, where there is one, confidence).

    An item is flipped if it is in both and its label is another. A worker fell if the interval of
    its accuracy (95 %) now lies below the old one, and rose if it lies above.
    """
    from misc_cli.cli.console import Console
    from misc_cli.quality.changes import change_columns, compare
    from misc_cli.readers.source import check_stdin_once
    from misc_cli.writers.output_paths import check_writable
    from misc_cli.writers.read_back import read_labels, read_workers

    gates = [parse_gate(text) for text in fail_if]
    for gate in gates:
        if gate.metric not in CHANGES:
            raise ConfigError(f"--fail-if {gate.text}: a comparison knows {', '.join(CHANGES)}")
        if gate.metric == "worker-drop" and workers is None:
            raise ConfigError("--fail-if worker-drop needs --workers OLD NEW")
    inputs = [old, new, *(workers or ())]
    check_stdin_once(inputs)
    if changes == "-":
        raise ConfigError("--changes -: stdout is for the summary; name a file")
    place = outputs.output_file(changes) if changes is not None else None
    check_writable([] if place is None else [place], inputs, stdout=True)
    console = Console()
    with console.watching():
        tables = None if workers is None else (read_workers(workers[0]), read_workers(workers[1]))
        found = compare(read_labels(old), read_labels(new), tables)
    if as_json:
        outputs.write_bytes(outputs.json_bytes(**found.to_json()))
    else:
        outputs.show(summary(found))
        n_flipped = len(found.items.flipped.items)
        if n_flipped > SHOWN:
            console.say(f"{SHOWN} of {n_flipped:,} flipped items; --changes FILE has them all")
    if place is not None:
        outputs.write_columns(change_columns(found), place)
    refuse(holding(gates, found.figures), found.figures, "compared")


def summary(found: Changes) -> list[Table]:
    """Return counts, the first items that flipped and the first workers that fell."""
    from misc_cli.cli.tables import Table

    items, workers = found.items, found.workers
    n_flipped = len(items.flipped.items)
    rows = [
        ("items before", f"{items.n_old:,}"),
        ("items now", f"{items.n_new:,}"),
        ("new", f"{len(items.new.items):,}"),
        ("gone", f"{len(items.gone.items):,}"),
        ("flipped", f"{n_flipped:,}, {items.flips:.2f} % of the {items.n_both:,} in both"),
    ]
    if workers is not None:
        n_fell = int(workers.fell.sum())
        rows += [
            (
                "workers fell",
                f"{n_fell:,}, {workers.drops:.2f} % of the {workers.n_both:,} in both",
            ),
            ("workers rose", f"{len(workers.workers) - n_fell:,}"),
        ]
    tables = [Table("Changes", rows=rows)]
    if n_flipped:
        columns = [items.flipped.items[:SHOWN].to_pylist()]
        sides = (items.flipped, items.flipped_to)
        columns += [side.labels[:SHOWN].to_pylist() for side in sides]
        for side in sides:
            sure = [None] * n_flipped if side.confidence is None else side.confidence
            columns.append(["–" if value is None else f"{value:.3f}" for value in sure[:SHOWN]])
        flips = list(zip(*columns, strict=True))
        header = ("item", "was", "is", "confidence before", "after")
        tables.append(Table("Flipped", header, flips, left=3, spare=header[4:2:-1]))
    if workers is not None and workers.fell.any():
        chosen = workers.fell.nonzero()[0]
        fallen = [
            (workers.workers[int(at)].as_py(), f"{workers.old[at]:.3f}", f"{workers.new[at]:.3f}")
            for at in chosen[:SHOWN]
        ]
        titles = ("worker", "accuracy before", "after")
        tables.append(Table("Workers that fell", titles, fallen))
    return tables
