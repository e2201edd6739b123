"""`misc evaluate`, `diff`, `verify`, `rerun`: labels against truth, yesterday and their record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from misc_cli.cli import options, tables
from misc_cli.cli.console import screen_width
from misc_cli.cli.tables import Table, facts_of
from misc_cli.errors import EXIT_GATE, EXIT_NOT_WHOLE, ConfigError, MiscError
from misc_cli.run.fail_if import CHANGES, parse_gate
from misc_cli.version import __version__

if TYPE_CHECKING:
    from misc_cli.quality.evaluation import Changes, Evaluation

MOST_CLASSES = 12  # a wider confusion matrix fits no screen; --json has it whole
SHOWN = 10  # changes of each kind on a screen; --changes has them all

EVALUATE = """
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
    from misc_cli.writers.tables import read_labels

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


DIFF = "misc diff yesterday.csv labels.csv --changes changes.csv --fail-if 'flips>2%'"
DIFFER = options.table(
    "Output",
    {
        "--changes FILE": "Every change as a row: flipped, new and gone items.",
        "--json": "Counts, as JSON.",
        "--fail-if COND": "Exit with 3 if METRIC OP VALUE holds; OP is < <= > >= = !=, METRIC one "
        f"of {', '.join(CHANGES)}. Repeatable.",
    },
)


@options.command(DIFF, click.Argument(["old"]), click.Argument(["new"]), *DIFFER)
def diff(old: str, new: str, changes: str | None, json: bool, fail_if: Sequence[str]) -> None:
    """Compare two files of labels, OLD and NEW (item,label and, where there is one, confidence).

    An item is flipped if it is in both and its label is another.
    """
    from misc_cli.cli.console import Console
    from misc_cli.quality.evaluation import compare
    from misc_cli.readers.addresses import check_stdin_once
    from misc_cli.writers.output_paths import check_writable, output_file
    from misc_cli.writers.tables import read_labels

    gates = [parse_gate(text) for text in fail_if]
    for gate in gates:
        if gate.metric not in CHANGES:
            raise ConfigError(f"--fail-if {gate.text}: a comparison knows {', '.join(CHANGES)}")
    if changes == "-":
        raise ConfigError("--changes -: stdout is for the summary; name a file")
    check_stdin_once([old, new])
    place = None if changes is None else output_file(changes)
    check_writable([] if place is None else [place], [old, new], stdout=True)
    console = Console()
    with console.watching():
        found = compare(read_labels(old), read_labels(new))
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
    """Yield counts of items, and the first that flipped."""
    yield Table("Items", rows=facts_of(found.counts["items"]))
    rows = found.rows.slice(0, min(SHOWN, found.counts["items"]["flipped"])).to_pylist()
    if rows:
        cells = [(row["item"], row["old_label"], row["new_label"]) for row in rows]
        yield Table("Flipped", ("item", "was", "is"), cells, left=3)


AGAIN = "misc rerun labels.run.json -o again.csv"


OUTPUT = options.table(
    "Output",
    {
        "-o --output FILE": "Labels [default: stdout, unless that is a terminal].",
        "--yes": "Trust the record: it may have a query, addresses, an engine's scheduler or "
        "folder.",
    },
)


@options.command(AGAIN, click.Argument(["run"], metavar="RUN.JSON"), *OUTPUT, *options.talking)
def rerun(run: str, output: str | None, yes: bool, quiet: bool, verbose: bool) -> None:
    """Make the labels of a recorded run again: the same inputs and settings.

    Says what it reads and writes, which input changed, and whether the labels are those of the
    record, byte for byte.
    """
    from misc_cli.cli.console import Console
    from misc_cli.job.replay import RecordedRun, repeated
    from misc_cli.writers.output_paths import check_writable, output_file, protect
    from misc_cli.writers.output_set import with_question, write_all

    recorded = RecordedRun.read(run)
    protect([run, *recorded.request.files])  # before anything is logged
    console = Console(quiet=quiet, verbose=verbose)
    old = recorded.content["misc"]
    if old != __version__:
        console.warn(f"{run} is of misc {old}, this is {__version__}: labels may differ")
    if not yes:
        recorded.refuse_untrusted()
    where = output or ("nothing, unless -o names a file" if screen_width() else "stdout")
    console.say(f"{run}: reads {', '.join(dict.fromkeys(recorded.request.files))}; writes {where}")
    place = output_file(output)
    paths = [] if place is None else [place]
    questions = [str(one["question"]) for one in recorded.content.get("questions", [])]
    if questions:
        if place is None:
            raise ConfigError(f"{run}: of several questions; name a file with -o")
        paths = [with_question(place, question) for question in questions]
    check_writable(paths, [run, *recorded.request.files], stdout=place is None)
    with console.watching():
        labels, same = repeated(recorded, console)
    if place is None and screen_width() is None:
        tables.write(labels[0])
    elif place is not None:
        write_all(dict(zip(paths, labels, strict=True)))
    if same is None:
        console.say(f"{run} has its labels in parts; these are in one file")
    elif same:
        console.say("the labels are those of the record, byte for byte")
    else:
        console.warn(f"the labels differ from those that {run} records")


VERIFY = """
misc aggregate answers.csv -o labels.csv && misc verify labels.run.json && cp labels.csv loaded/
misc verify labels/
"""


@options.command(
    VERIFY,
    click.Argument(["run_files"], nargs=-1, required=True, metavar="RUN.JSON..."),
    *options.json_output,
)
def verify(run_files: tuple[str, ...], json: bool) -> None:
    """Check that the files of a run are the ones that its run.json describes.

    Of labels in a folder (-o labels/), name the folder.
    Exits with 0 if every file is there and has the SHA-256 that run.json says, else with 4: a
    machine that stopped between two renames, or a hand that changed a file.
    """
    from misc_cli.writers.output_set import WHOLE
    from misc_cli.writers.output_set import verify as members_of

    found = [member for name in run_files for member in members_of(Path(name))]
    wrong = [f"{file} is {state}" for _, file, state in found if state != WHOLE]
    if json:
        rows = [{"name": name, "file": str(file), "state": state} for name, file, state in found]
        tables.write(tables.json_bytes(whole=not wrong, files=rows))
    if wrong:
        raise MiscError(f"not a whole set: {'; '.join(wrong)}", EXIT_NOT_WHOLE)
