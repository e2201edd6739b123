"""The files of a run, written as one set: from the command line and from Python."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from misc_cli.engines.protocol import Columns
from misc_cli.run.run_record import ESCAPED, strict
from misc_cli.writers.output_set import Output, Staged, Write, flush_and_sync, sha256_of, write_all
from misc_cli.writers.render import write_pieces

After = Callable[[Callable[[], Mapping[Path, str]]], Sequence[Output]]

# Metrics are written anew by a run that has nothing to do: they are of no set.
METRICS = "metrics"


def beside(labels: Path) -> dict[str, Path]:
    """Return the paths of what appears beside a file of labels: diagnostics and run.json."""
    stem = labels.name.removesuffix(".gz")
    stem = Path(stem).stem or stem
    return {
        "diagnostics": labels.with_name(f"{stem}.diagnostics.jsonl"),
        "run": labels.with_name(f"{stem}.run.json"),
    }


def write_part(chunks: Iterable[Columns], path: Path) -> str:
    """Write chunks of a table to a file, as its name says; return its SHA-256."""
    with path.open("w+b") as stream:
        write_pieces(iter(chunks), stream, path.name)
        flush_and_sync(stream, path)
        stream.seek(0)
        return sha256_of(stream)


def with_question(path: Path, question: str) -> Path:
    """Return the path of one question's file: labels.csv → labels.mood.csv.

    A character that a file's name cannot hold becomes an underscore.
    """
    escaped = re.sub(r"[^\w.\-]+", "_", question).strip("._")[:100] or "question"
    stem, dot, suffix = path.name.partition(".")
    if path.name.endswith(".diagnostics.jsonl"):
        stem, dot, suffix = path.name.removesuffix(".diagnostics.jsonl"), ".", "diagnostics.jsonl"
    return path.with_name(f"{stem}.{escaped}{dot}{suffix}")


def write_set(
    outputs: Mapping[str, Output],
    run_file: Path | None,
    record: Callable[[], dict[str, Any]],
    *,
    stdout: Write | None = None,
    written: Mapping[Path, str] | None = None,
    folder: Staged | None = None,
    after: After | None = None,
) -> None:
    """Publish all files at once; run.json is written last and has the SHA-256 of each.

    outputs   files by name, "labels" or "labels.mood" where there are several questions
    record    makes the content of `run_file`, but for the list of files
    stdout    writes the labels, if they go there
    written   SHA-256 of labels that are there already, in parts; they wait in `folder`
    after     names files that appear with the set but are not of it, given a function that tells
              the SHA-256 of the set's files, once they are written
    """
    digests: dict[Path, str] = dict(written or {})
    names = {path: path.name for path in digests}
    names.update({output.path: name for name, output in outputs.items()})
    files = list(outputs.values())
    if run_file is not None:
        base = os.path.realpath(run_file.parent)  # paths from there: a set can be moved

        def write_run(stream: BinaryIO) -> None:
            content = record()
            listed = [
                {
                    "name": names[path],
                    "file": os.path.relpath(os.path.realpath(path), base),
                    "sha256": digest,
                }
                for path, digest in digests.items()
                if names[path].partition(".")[0] != METRICS
            ]
            whole = strict({**content, "files": listed})
            text = json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False)
            stream.write(f"{text}\n".encode(errors=ESCAPED))

        files.append(Output(run_file, write_run))
    others = []
    if after is not None:
        own = [file.path for file in files]
        others = list(after(lambda: {path: digests[path] for path in own if path in digests}))
    write_all([*files, *others], stdout=stdout, digests=digests, folder=folder)
