"""`misc evaluate`: labels against the truth."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from misc_cli.cli import options, outputs

if TYPE_CHECKING:
    from misc_cli.cli.tables import Table
    from misc_cli.quality.evaluation import Evaluation

MOST_CLASSES = 12  # a wider confusion matrix fits no screen; --json has it whole

_output = partial(options.option, section="Output")

EXAMPLES = """
misc evaluate labels.csv truth.csv
misc evaluate labels.csv truth.csv --json | jq .error
misc aggregate answers.csv --probabilities | misc evaluate - truth.csv
"""


@click.command(cls=options.Command, examples=EXAMPLES)
@click.argument("labels")
@click.argument("truth")
@_output("--json", "as_json", is_flag=True, help="One JSON object.")
@_output(
    "-o",
    "--output",
    metavar="FILE",
    help="Write there instead of to stdout: .json is JSON, .txt the report.",
)
def command(labels: str, truth: str, as_json: bool, output: str | None) -> None:
    """Compare LABELS (item,label, as `misc aggregate` writes them) with TRUTH (item,label).

    Prints the error rate, precision, recall and F1 of every class, the confusion matrix and, where
    there is a confidence, its calibration error. With the columns of --probabilities an item whose
    top classes tie counts as the expected error of a random pick among them.
    """
    from misc_cli.cli.console import Console
    from misc_cli.cli.tables import plain, print_tables
    from misc_cli.quality.evaluation import evaluate
    from misc_cli.readers.addresses import check_stdin_once
    from misc_cli.readers.known_labels import read_known
    from misc_cli.writers.output_paths import check_writable
    from misc_cli.writers.read_back import read_labels

    check_stdin_once([labels, truth])
    place = outputs.output_file(output, ".json", *([] if as_json else [".txt"]))
    check_writable([] if place is None else [place], [labels, truth])
    with Console().watching():
        found = evaluate(read_labels(labels), read_known(truth).labels)
    if as_json or (place is not None and place.suffix.lower() == ".json"):
        data = outputs.json_bytes(**found.to_json())
    else:
        data = plain(tables(found)).encode()
    if place is not None or as_json:
        outputs.write_bytes(data, place)
    else:
        print_tables(tables(found))


def tables(found: Evaluation) -> list[Table]:
    """Return the figures, the classes and the confusions as tables."""
    from misc_cli.cli.tables import Table

    figures = [("items", f"{found.n_items:,}"), ("error", _percent(found.error))]
    if found.n_ties:
        figures += [("ties", f"{found.n_ties:,}")]
        figures += [("error as written", _percent(found.error_as_written))]
    if found.calibration_error is not None:
        figures.append(("calibration error", f"{found.calibration_error:.4f}"))
    notes = []
    for names, what in ((found.unlabelled, "no label"), (found.unjudged, "no truth")):
        if names:
            few = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
            verb = "has" if len(names) == 1 else "have"
            notes.append(
                f"{len(names):,} {'item' if len(names) == 1 else 'items'} {verb} {what}: {few}"
            )
    classes = [
        (
            name,
            f"{found.confusion[at].sum():,}",
            *(_percent(column[at]) for column in found.scores.values()),
        )
        for at, name in enumerate(found.classes)
    ]
    shown = [
        Table("Labels against truth", ("figure", "value"), figures, notes=notes),
        Table("By class", ("class", "items", "precision", "recall", "F1"), classes),
    ]
    if len(found.classes) <= MOST_CLASSES:
        counts = [
            (name, *(f"{count:,}" for count in row))
            for name, row in zip(found.classes, found.confusion.tolist(), strict=True)
        ]
        shown.append(
            Table("True class (rows) by label (columns)", ("true", *found.classes), counts)
        )
    return shown


def _percent(share: float) -> str:
    return "–" if share != share else f"{100 * share:.2f} %"
