"""`misc diff`: what became of yesterday's labels."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from misc_cli.cli import options, outputs
from misc_cli.errors import ConfigError
from misc_cli.run.fail_if import CHANGES, parse_gate, refuse

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
    from misc_cli.quality.changes import compare
    from misc_cli.readers.addresses import check_stdin_once
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
        outputs.write_bytes(outputs.json_bytes(**found.counts))
    else:
        outputs.show(summary(found))
        n_flipped = found.counts["items"]["flipped"]
        if n_flipped > SHOWN:
            console.say(f"{SHOWN} of {n_flipped:,} flipped items; --changes FILE has them all")
    if place is not None:
        outputs.write_columns(found.columns, place)
    refuse(gates, found.figures, "compared")


def summary(found: Changes) -> list[Table]:
    """Return counts, the first items that flipped and the first workers that fell."""
    import pyarrow.compute as pc

    from misc_cli.cli.tables import Table

    items, workers = found.counts["items"], found.counts["workers"]
    share = f"{items['flips_percent']:.2f} % of the {items['both']:,} in both"
    rows = [
        ("items before", f"{items['old']:,}"),
        ("items now", f"{items['new']:,}"),
        ("new", f"{items['appeared']:,}"),
        ("gone", f"{items['gone']:,}"),
        ("flipped", f"{items['flipped']:,}, {share}"),
    ]
    if workers is not None:
        share = f"{workers['drop_percent']:.2f} % of the {workers['both']:,} in both"
        rows.append(("workers fell", f"{workers['fell']:,}, {share}"))
        rows.append(("workers rose", f"{workers['rose']:,}"))
    tables = [Table("Changes", rows=rows)]

    def first(change: str, *names: str) -> list[tuple[str, ...]]:
        """Return the first rows of this change: texts, and numbers with three decimals."""
        own = found.rows.filter(pc.equal(found.rows["change"], change)).slice(0, SHOWN)
        columns = [own[name].to_pylist() for name in names]
        return [tuple(map(_cell, row)) for row in zip(*columns, strict=True)]

    names = ("item", "old_label", "new_label", "old_confidence", "new_confidence")
    if flips := first("flipped", *names):
        header = ("item", "was", "is", "confidence before", "after")
        tables.append(Table("Flipped", header, flips, left=3, spare=header[4:2:-1]))
    if fallen := first("fell", "worker", "old_accuracy", "new_accuracy"):
        titles = ("worker", "accuracy before", "after")
        tables.append(Table("Workers that fell", titles, fallen))
    return tables


def _cell(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3f}" if value == value else "–"
