"""The two JSON files of a run: what it was (run.json) and how it went (diagnostics.jsonl)."""

from __future__ import annotations

import json
import os
import platform
import re
import resource
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from misc_cli.core.parallel import threads
from misc_cli.run.diagnostics import Record, iterations_by_stage, strict
from misc_cli.run.members import described
from misc_cli.run.naming import method_in_words
from misc_cli.version import SCHEMA, __version__

if TYPE_CHECKING:
    from misc_cli.core.encode import Encoding
    from misc_cli.run.outcome import Outcome
    from misc_cli.run.settings import Settings


# A file's name need not be UTF-8: what is not is written as JSON's own escape, \udc80 and so on.
ESCAPED = "backslashreplace"


def manifest(
    outcome: Outcome,
    *,
    command: Iterable[str],
    inputs: Iterable[Any],
    known: Mapping[str, Any],
    outputs: Mapping[str, str],
    warnings: Iterable[str],
) -> dict[str, Any]:
    """Everything needed to know what a run did and to do it again."""
    return {
        "schema": SCHEMA,
        "misc": __version__,
        "command": list(command),
        "options": _options(outcome.methods.settings),
        "method": method_in_words(outcome),
        "methods": outcome.methods.resolved,
        "members": [described(member) for member in outcome.members],
        "inputs": [asdict(source) for source in inputs],
        "known": {name: asdict(source) for name, source in known.items()},
        "counts": _counts(outcome.encoding),
        "classes": outcome.labels.classes.to_pylist(),
        "class_prior": outcome.aggregation.class_prior,
        "selection": outcome.selection,
        "calibration": outcome.calibration,
        "loop": outcome.loop,
        "iterations": iterations_by_stage(outcome.records),
        "converged": outcome.aggregation.converged,
        "stopped": outcome.aggregation.stopped,
        "objective": outcome.aggregation.objective,
        "figures": outcome.figures,
        "warnings": list(warnings),
        "seconds": outcome.timings,
        "peak_memory_bytes": peak_memory(),
        "platform": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "system": sys.platform,
        },
        "outputs": dict(outputs),
    }


def _options(settings: Settings) -> dict[str, Any]:
    """The settings as they were meant, where one was left open."""
    return {
        "preset": settings.preset,
        "completer": settings.completer_name,
        "aggregator": settings.aggregator,
        "duplicates": settings.duplicates_rule,
        "class_order": settings.class_order,
        "seed": settings.seed,
        "calibrate": settings.calibrate,
        "time_budget": settings.time_budget,
        "threads": settings.threads or threads(),
    }


def _counts(encoding: Encoding) -> dict[str, int]:
    labels = encoding.labels
    return {
        "rows": encoding.n_rows,
        "empty": encoding.n_empty,
        "repeats": encoding.n_repeats,
        "conflicts": encoding.n_conflicts,
        "answers": labels.votes.n_votes,
        "workers": labels.n_workers,
        "items": labels.n_items,
        "classes": labels.n_classes,
    }


def write_manifest(content: Mapping[str, Any], stream: BinaryIO) -> None:
    text = json.dumps(strict(dict(content)), indent=2, ensure_ascii=False, allow_nan=False)
    stream.write(f"{text}\n".encode(errors=ESCAPED))


def members(
    run_file: Path, names: Mapping[Path, str], digests: Mapping[Path, str]
) -> list[dict[str, str]]:
    """The other files of a set, as seen from run.json's folder, so that a set can be moved."""
    folder = os.path.realpath(run_file.parent)
    return [
        {
            "name": names[path],
            "file": os.path.relpath(os.path.realpath(path), folder),
            "sha256": digest,
        }
        for path, digest in digests.items()
    ]


def write_records(records: Iterable[Record], stream: BinaryIO) -> None:
    for record in records:
        line = json.dumps(strict(record), ensure_ascii=False, allow_nan=False)
        stream.write(f"{line}\n".encode(errors=ESCAPED))


def peak_memory() -> int:
    """The most memory that this process or a trial of its own ever held, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    own = _high_water() or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit)


def _high_water() -> int | None:
    """This program's own peak. Linux's getrusage also counts the one it was started from."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    found = re.search(r"^VmHWM:\s*(\d+) kB$", status, re.MULTILINE)
    return None if found is None else int(found[1]) * 1024
