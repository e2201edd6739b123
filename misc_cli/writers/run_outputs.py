"""The files of a run, written as one set: from the command line and from Python."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from misc_cli.run.result import Outcome
from misc_cli.run.run_record import manifest, members, write_manifest, write_records
from misc_cli.run.tables import label_columns, worker_columns
from misc_cli.writers.output_set import Output, Staged, write_all
from misc_cli.writers.render import write_table

Write = Callable[[BinaryIO], None]
Facts = Callable[[Mapping[str, str]], dict[str, Any]]
After = Callable[[Callable[[], Mapping[Path, str]]], Sequence[Output]]


def beside(labels: Path) -> dict[str, Path]:
    """What appears beside a file of labels: the diagnostics and the manifest."""
    stem = labels.name.removesuffix(".gz")
    stem = Path(stem).stem or stem
    return {
        "diagnostics": labels.with_name(f"{stem}.diagnostics.jsonl"),
        "run": labels.with_name(f"{stem}.run.json"),
    }


def write_set(
    outcome: Outcome,
    places: Mapping[str, Path],
    facts: Facts,
    *,
    probabilities: bool = False,
    item_details: bool = False,
    more: Mapping[str, Write] | None = None,
    written: Mapping[Path, str] | None = None,
    folder: Staged | None = None,
    after: After | None = None,
) -> None:
    """All files at once; labels go to stdout where they have no place.

    `facts` makes the manifest, given the names of the outputs; `more` writes outputs by name.
    `written` are labels that are there already, in parts: SHA-256 by file; they wait in `folder`.
    `after` names files that appear together with the set but are not of it; it is given a function
    that tells the SHA-256 of the set's files, once they are written.
    """
    started = time.perf_counter()
    digests: dict[Path, str] = dict(written or {})

    def write_run(stream: BinaryIO) -> None:
        outcome.timings["write"] = round(time.perf_counter() - started, 6)
        content = facts({name: str(path) for name, path in places.items()})
        names = {path: path.name for path in digests}
        names.update({path: name for name, path in places.items()})
        # metrics are written anew by a run that has nothing to do: they are of no set
        of_set = {path: digest for path, digest in digests.items() if names[path] != "metrics"}
        content["files"] = members(places["run"], names, of_set)
        write_manifest(content, stream)

    details = {"probabilities": probabilities, "item_details": item_details}
    own = writers_of(outcome, places, **details)
    writers: dict[str, Write] = {**own, **(more or {}), "run": write_run}
    elsewhere = "labels" in places or written is not None
    # The manifest comes last: it records the checksums of the others and the time they took.
    order = [name for name in writers if name in places]
    files = [Output(places[name], writers[name]) for name in order]

    def of_these() -> dict[Path, str]:
        return {file.path: digests[file.path] for file in files if file.path in digests}

    write_all(
        [*files, *(after(of_these) if after is not None else [])],
        stdout=None if elsewhere else writers["labels"],
        digests=digests,
        folder=folder,
    )


def writers_of(
    outcome: Outcome, places: Mapping[str, Path], *, probabilities: bool, item_details: bool
) -> dict[str, Write]:
    """How labels, workers and diagnostics are written, each as its place's name says."""
    details = {"probabilities": probabilities, "item_details": item_details}

    def table(columns: Mapping[str, Any], kind: str, stream: BinaryIO) -> None:
        write_table(columns, stream, places[kind].name if kind in places else "")

    return {
        "labels": lambda stream: table(label_columns(outcome, **details), "labels", stream),
        "workers": lambda stream: table(worker_columns(outcome), "workers", stream),
        "diagnostics": lambda stream: write_records(outcome.records, stream),
    }


def save(outcome: Outcome, folder: Path, warnings: Sequence[str]) -> None:
    """labels.csv and its companions, and workers.csv, in a folder that is made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    labels = folder / "labels.csv"
    places = {"labels": labels, "workers": folder / "workers.csv", **beside(labels)}

    def facts(outputs: Mapping[str, str]) -> dict[str, Any]:
        return manifest(
            outcome, command=(), inputs=(), known={}, outputs=outputs, warnings=warnings
        )

    write_set(outcome, places, facts)
