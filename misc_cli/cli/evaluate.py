"""`misc evaluate` and `misc diff`: labels against the truth, and against those of yesterday."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from misc_cli.cli import options, tables
from misc_cli.cli.tables import Table
from misc_cli.errors import EXIT_GATE, ConfigError, MiscError
from misc_cli.run.fail_if import CHANGES, parse_gate

if TYPE_CHECKING:
    from misc_cli.quality.changes import Changes
    from misc_cli.quality.evaluation import Evaluation

MOST_CLASSES = 12  # a wider confusion matrix fits no screen; --json has it whole
SHOWN = 10  # changes of each kind on a screen; --changes has them all

EVALUATE = """
misc evaluate labels.csv truth.csv
misc evaluate labels.csv truth.csv --json | jq .error
misc aggregate answers.csv --probabilities | misc evaluate - truth.csv
"""
OFF = (
    "calibration error: how far a confidence is from the share of labels like it that are right, "
    "on average; 0 is best, 0.05 means that 90 % sure is 85 or 95 % right"
)


@options.command(
    EVALUATE, click.Argument(["labels"]), click.Argument(["truth"]), *options.json_output
)
def evaluate(labels: str, truth: str, json: bool) -> None:
    """Compare LABELS (item,label, as `misc aggregate` writes them) with TRUTH (item,label).

    Prints the error rate, precision, recall and F1 of every class, the confusion matrix and, where
    there is a confidence, how far it can be believed. With the columns of --probabilities an item
    whose top classes tie counts as the expected error of a random pick among them.
    """
    from misc_cli.cli.console import Console
    from misc_cli.quality.evaluation import evaluate as judge
    from misc_cli.readers.known_labels import read_known
    from misc_cli.writers.read_back import read_labels

    tables.place_of(None, [labels, truth])
    with Console().watching():
        found = judge(read_labels(labels), read_known(truth).labels)
    tables.deliver(list(_judged(found)), None, found.to_json(), as_json=json)


def _judged(found: Evaluation) -> Iterator[Table]:
    """Yield the figures, the classes and the confusions as tables."""
    figures = [("items", f"{found.n_items:,}"), ("error", _percent(found.error))]
    notes = []
    if found.n_ties:
        figures += [("ties", f"{found.n_ties:,}")]
        figures += [("error as written", _percent(found.error_as_written))]
    if found.calibration_error is not None:
        figures.append(("calibration error", f"{found.calibration_error:.4f}"))
        notes.append(OFF)
    for names, what in ((found.unlabelled, "no label"), (found.unjudged, "no truth")):
        few = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        if names:
            items = "1 item has" if len(names) == 1 else f"{len(names):,} items have"
            notes.append(f"{items} {what}: {few}")
    yield Table("Labels against truth", ("figure", "value"), figures, notes=notes)
    totals, scores = found.confusion.sum(axis=1), found.scores.values()
    classes = [
        (name, f"{totals[at]:,}", *(_percent(column[at]) for column in scores))
        for at, name in enumerate(found.classes)
    ]
    yield Table("By class", ("class", "items", "precision", "recall", "F1"), classes)
    if len(found.classes) <= MOST_CLASSES:
        counts = [
            (name, *(f"{count:,}" for count in row))
            for name, row in zip(found.classes, found.confusion.tolist(), strict=True)
        ]
        yield Table("True class (rows) by label (columns)", ("true", *found.classes), counts)


def _percent(share: float) -> str:
    return "–" if share != share else f"{100 * share:.2f} %"


DIFF = """
misc diff yesterday.csv labels.csv
misc diff yesterday.csv labels.csv --workers workers_yesterday.csv workers.csv
misc diff yesterday.csv labels.csv --json | jq .items.flipped
misc diff yesterday.csv labels.csv --changes changes.csv --fail-if 'flips>2%'
"""


DIFF_OPTIONS = [
    *options.table(
        "Input",
        {"--workers OLD NEW": "Also compare workers, two files of misc aggregate --workers."},
        workers={"nargs": 2},
    ),
    *options.table(
        "Output",
        {
            "--changes FILE": "Every change as a row: flipped, new and gone items; workers that "
            "fell and rose.",
            "--json": "Counts, as JSON.",
            "--fail-if COND": "Exit with 3 if METRIC OP VALUE holds; OP is < <= > >= = !=, METRIC "
            f"one of {', '.join(CHANGES)}. Repeatable.",
        },
    ),
]


@options.command(DIFF, click.Argument(["old"]), click.Argument(["new"]), *DIFF_OPTIONS)
def diff(
    old: str,
    new: str,
    workers: tuple[str, str] | None,
    changes: str | None,
    json: bool,
    fail_if: Sequence[str],
) -> None:
    """Compare two files of labels, OLD and NEW (item,label and, where there is one, confidence).

    An item is flipped if it is in both and its label is another. A worker fell if the interval of
    its accuracy (95 %) now lies below the old one, and rose if it lies above.
    """
    from misc_cli.cli.console import Console
    from misc_cli.quality.changes import compare
    from misc_cli.readers.addresses import check_stdin_once
    from misc_cli.writers.output_paths import check_writable, output_file
    from misc_cli.writers.read_back import read_labels, read_workers

    gates = [parse_gate(text) for text in fail_if]
    for gate in gates:
        if gate.metric not in CHANGES:
            raise ConfigError(f"--fail-if {gate.text}: a comparison knows {', '.join(CHANGES)}")
        if gate.metric == "worker-drop" and workers is None:
            raise ConfigError("--fail-if worker-drop needs --workers OLD NEW")
    if changes == "-":
        raise ConfigError("--changes -: stdout is for the summary; name a file")
    inputs = [old, new, *(workers or ())]
    check_stdin_once(inputs)
    place = None if changes is None else output_file(changes)
    check_writable([] if place is None else [place], inputs, stdout=True)
    console = Console()
    with console.watching():
        known = None if workers is None else (read_workers(workers[0]), read_workers(workers[1]))
        found = compare(read_labels(old), read_labels(new), known)
    tables.deliver(list(_changed(found)), None, found.counts, as_json=json)
    n_flipped = found.counts["items"]["flipped"]
    if n_flipped > SHOWN and not json:
        console.say(f"{SHOWN} of {n_flipped:,} flipped items; --changes FILE has them all")
    if place is not None:
        tables.write_columns(found.columns, place)
    held = [gate.told(found.figures) for gate in gates if gate.trips(found.figures)]
    if held:
        raise MiscError(f"compared, but --fail-if {'; '.join(held)}", EXIT_GATE)


def _changed(found: Changes) -> Iterator[Table]:
    """Yield counts, the first items that flipped and the first workers that fell."""
    import pyarrow.compute as pc

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
    yield Table("Changes", rows=rows)

    def first(change: str, *names: str) -> list[tuple[str, ...]]:
        """Return the first rows of this change: texts, and numbers with three decimals."""
        own = found.rows.filter(pc.equal(found.rows["change"], change)).slice(0, SHOWN)
        columns = [own[name].to_pylist() for name in names]
        return [tuple(map(_cell, row)) for row in zip(*columns, strict=True)]

    names = ("item", "old_label", "new_label", "old_confidence", "new_confidence")
    if flips := first("flipped", *names):
        header = ("item", "was", "is", "confidence before", "after")
        yield Table("Flipped", header, flips, left=3, spare=header[4:2:-1])
    if fallen := first("fell", "worker", "old_accuracy", "new_accuracy"):
        yield Table("Workers that fell", ("worker", "accuracy before", "after"), fallen)


def _cell(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3f}" if value == value else "–"
