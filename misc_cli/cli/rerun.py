"""`misc rerun`: the labels of a recorded run once more."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from misc_cli.cli import options, outputs, state_options
from misc_cli.errors import InputError
from misc_cli.version import __version__

EXAMPLES = """
misc rerun labels.run.json > again.csv
misc rerun labels.run.json -o again.csv
"""

# Outputs of the run that have nothing to do with its labels, and what is only said about them.
NOT_AGAIN = {
    **dict.fromkeys(("workers", "changes", "metrics", "report", "rejects", "diagnostics"), None),
    **{"fail_if": (), "anonymize_workers": False, "verbose": False},
}


@click.command(cls=options.Command, examples=EXAMPLES)
@click.argument("run", metavar="RUN.JSON")
@options.option(
    "-o", "--output", section="Output", metavar="FILE", help="Labels [default: stdout]."
)
@options.talking()
def command(run: str, output: str | None, quiet: bool, verbose: bool) -> None:
    """Make the labels of a recorded run again: the same inputs, settings and state.

    Says which input or state changed or is gone, before any work; and whether the labels are those
    of the record, byte for byte.
    """
    from misc_cli import cleanup
    from misc_cli.cli.console import Console
    from misc_cli.writers.output_paths import check_writable
    from misc_cli.writers.run_outputs import beside

    record = _read(run)
    place = outputs.output_file(output)
    check_writable([] if place is None else [place], [run], stdout=place is None)
    console = Console(quiet=quiet, verbose=verbose)
    wrong = [*_changed_inputs(record)]
    if wrong:
        raise InputError(f"{run} cannot be repeated: {'; '.join(wrong)}")
    labels = next(file for file in record["files"] if file["name"] == "labels")
    if record["misc"] != __version__:
        console.warn(f"{run} is of misc {record['misc']}, this is {__version__}: labels may differ")
    with cleanup.folder("misc-rerun-") as folder:
        made = folder / Path(labels["file"]).name
        with _earlier_state(record, folder) as store:
            asked = _parameters(record)
            asked |= {**NOT_AGAIN, "output": str(made), "state": store, "quiet": True}
            _aggregate(asked)
        data = made.read_bytes()
        again = json.loads(beside(made)["run"].read_bytes())
    same = next(f for f in again["files"] if f["name"] == "labels")["sha256"] == labels["sha256"]
    outputs.write_bytes(data, place)
    if same:
        console.say("the labels are those of the record, byte for byte")
    else:
        console.warn(f"the labels differ from those that {run} records")


def _aggregate(asked: Mapping[str, Any]) -> None:
    """`misc aggregate` with these parameters and no others: no file of settings, no variable."""
    from misc_cli.cli.aggregate import command as aggregate

    context = click.Context(aggregate, info_name="aggregate")
    context.params = {
        parameter.name: asked[parameter.name]
        for parameter in aggregate.params
        if parameter.name in asked
    }
    with context:
        context.invoke(aggregate, **context.params)


def _read(path: str) -> dict[str, Any]:
    try:
        record = json.loads(Path(path).read_bytes())
        found = {key: record[key] for key in ("misc", "asked", "inputs", "known", "files", "state")}
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    except (ValueError, TypeError, KeyError):
        raise InputError(
            f"{path}: no record that can be repeated; give the .run.json of a misc aggregate -o"
        ) from None
    return found


def _parameters(record: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for then, with the very files that were read."""
    asked = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in record["asked"].items()
    }
    return {**asked, "answers": tuple(source["name"] for source in record["inputs"])}


def _changed_inputs(record: Mapping[str, Any]) -> Iterator[str]:
    """What is no longer as it was, in words."""
    from misc_cli.writers.output_set import sha256_of

    for source in [*record["inputs"], *record["known"].values()]:
        name = source["name"]
        if name == "<stdin>":
            yield "it read standard input, which is gone"
            continue
        if "://" in name:
            continue  # read again; the labels will tell
        try:
            with open(name, "rb") as stream:
                if sha256_of(stream) != source["sha256"]:
                    yield f"{name} has changed"
        except OSError:
            yield f"{name} is gone"


@contextmanager
def _earlier_state(record: Mapping[str, Any], folder: Path) -> Iterator[str | None]:
    """A copy of the state that the run started from, and its clock; None if it had none."""
    from misc_cli.state import store

    if record["state"] is None:
        yield None
        return
    then, place = record["state"], folder / "state"
    place.mkdir()
    if then["before"] is not None and not store.copy(Path(then["folder"]), then["before"], place):
        raise InputError(
            f"it cannot be repeated: the state that it started from is gone from {then['folder']}"
        )
    clock = state_options.clock
    state_options.clock = lambda: float(then["now"])
    try:
        yield str(place)
    finally:
        state_options.clock = clock
