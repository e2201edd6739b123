"""Files that tell of a run: run.json, diagnostics.jsonl, and its figures for Prometheus."""

from __future__ import annotations

import dataclasses
import json
import math
import platform
import re
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from misc_cli import registry
from misc_cli.completers.parameters import Loop
from misc_cli.data.parameters import conforms
from misc_cli.data.resources import threads
from misc_cli.errors import EXIT_DONE, EXIT_GATE, InputError, nearest_file
from misc_cli.readers.addresses import redact_all
from misc_cli.run.request import AggregateRequest
from misc_cli.run.result import method_in_words
from misc_cli.selection.calibration import Calibration
from misc_cli.selection.candidates import Candidate, Method
from misc_cli.version import __version__

if TYPE_CHECKING:
    from misc_cli.quality.figures import Figure
    from misc_cli.run.result import Record, RunResult


# The shape of what is read back from a run.json, which may be a stranger's. There is more in it.
TABLE = list[dict[str, float | bool | str | None]]
BUILT = {"is": str, "parameters": dict[str, Any]}
MEMBER = {
    **{"name": str, "method": str, "preset": str, "passes": int},
    **{"aggregator": BUILT, "completer": (BUILT, None), "loop": dict[str, Any]},
}
SELECTION = {
    **{"chosen": list[str], "weights": dict[str, float], "why": str},
    **{"fallback?": str | None, "pure?": TABLE, "completed?": TABLE},
}
FILE = {"name": str, "sha256": str | None, "n_rows?": int}
RUN = {
    "misc": str,
    "command": list[str],
    "request": dict[str, Any],  # checked where it is used
    "outputs": {"labels?": str, "diagnostics?": str, "workers?": str, "parts?": list[str]},
    "files?": [{"name": str, "file": str, "sha256": str}],
}
QUESTION = {
    **RUN,
    "date": str,
    "options": {"duplicates": str, "class_order": list[str] | None},
    "method": str,
    "methods": dict[str, dict[str, Any]],
    "members": [MEMBER],
    "inputs": [FILE],
    "known": {"*": FILE},
    "engine": dict[str, Any],
    "state": ({"folder": str, "before": str | None, "now": float}, None),
    "counts": {"answers": int, "workers": int, "items": int, "classes": int},
    "classes": list[str],
    "class_prior": list[float],
    "selection": (SELECTION, None),
    "calibration": Calibration | None,
    "loop": dict[str, Any] | None,
    "iterations": dict[str, int],
    "converged": bool,
    "stopped": dict[str, str],
    "figures": dict[str, float | bool | None],
    "warnings": list[str],
    "seconds": dict[str, float],
    "peak_memory_bytes": int,
    "platform": dict[str, str],
}


def described(member: Candidate) -> dict[str, Any]:
    """Return a candidate as plain values."""
    method = member.method
    return {
        "name": member.name,
        "method": method.name,
        "preset": method.preset,
        "early_stopped": method.early_stopped,
        "passes": member.passes,
        "aggregator": _described("aggregator", method.aggregator),
        "completer": _described("completer", method.completer),
        "loop": {
            field.name: _described("aggregator", value) if field.name == "start" else value
            for field in dataclasses.fields(method.loop)
            if (value := getattr(method.loop, field.name)) is not None
        },
    }


def rebuilt(entry: Mapping[str, Any]) -> Candidate:
    """Return the candidate that was described."""
    aggregator = _rebuilt("aggregator", entry["aggregator"])
    completer = _rebuilt("completer", entry["completer"])
    loop = dict(entry["loop"])
    if "start" in loop:
        loop["start"] = _rebuilt("aggregator", loop["start"])
    passes = int(entry["passes"])
    method = Method(
        entry["method"],
        aggregator,
        completer,
        Loop(**loop),
        (passes,) if passes else (),
        entry["preset"],
        bool(entry.get("early_stopped", False)),
    )
    return Candidate(method, passes)


def _described(kind: str, method: Any) -> dict[str, Any] | None:
    if method is None:
        return None
    return {"is": registry.name_of(kind, method), "parameters": dataclasses.asdict(method)}


def _rebuilt(kind: str, entry: Mapping[str, Any] | None) -> Any:
    if entry is None:
        return None
    given = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in entry["parameters"].items()
    }
    return registry.load(kind, entry["is"])(**given)


# Of run.json: raised when something that a script may read changes its meaning or its place.
SCHEMA = 2


def manifest(
    outcome: RunResult,
    request: AggregateRequest,
    *,
    command: Iterable[str],
    inputs: Iterable[Mapping[str, Any]],
    known: Mapping[str, Any],
    outputs: Mapping[str, Any],
    warnings: Iterable[str],
    engine: Mapping[str, Any] | None = None,
    state: Mapping[str, Any] | None = None,
    question: str | None = None,
) -> dict[str, Any]:
    """Return the content of run.json: what was asked for, what happened, what it cost.

    `question` names the one that the record is about, where a run is of several.
    """
    softened, settings, holder = outcome.fit.calibration, outcome.methods.settings, outcome.engine
    return {
        "schema": SCHEMA,
        "misc": __version__,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": list(command),
        "request": request.to_json(),
        **({} if question is None else {"question": question}),
        "options": {  # with what was left open filled in
            "preset": settings.preset,
            "completer": settings.completer_name,
            "aggregator": settings.aggregator,
            "duplicates": settings.duplicates_rule,
            "class_order": settings.class_order,
            "seed": settings.seed,
            "calibrate": settings.calibrate,
            "time_budget": settings.time_budget,
            "threads": settings.threads or threads(),
        },
        "method": method_in_words(outcome),
        "methods": outcome.methods.resolved,
        "members": [described(member) for member in outcome.fit.members],
        "inputs": redact_all([dict(source) for source in inputs]),
        "known": {name: asdict(source) for name, source in known.items()},
        "engine": {"name": request.engine, **(engine or {})},
        "state": state,
        "counts": {
            "rows": holder.counts.n_rows,
            "empty": holder.counts.n_empty,
            "repeats": holder.counts.n_repeats,
            "conflicts": holder.counts.n_conflicts,
            "answers": holder.n_votes,
            "workers": holder.n_workers,
            "items": holder.n_items,
            "classes": holder.n_classes,
        },
        "classes": holder.vocabulary.classes.to_pylist(),
        "class_prior": outcome.fit.class_prior,
        "selection": outcome.fit.selection or None,
        "calibration": None if softened is None else asdict(softened),
        "loop": outcome.fit.loop,
        "iterations": Counter(record["stage"] for record in outcome.records),
        "converged": outcome.fit.converged,
        "stopped": outcome.fit.stopped,
        "objective": outcome.fit.objective,
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


def read_record(path: str) -> dict[str, Any]:
    """Return the content of a run.json; one of an older misc is refused."""
    try:
        record = json.loads(Path(path).read_bytes())
    except OSError as error:
        near = nearest_file(path) or "; check the path"
        raise InputError(f"{path}: cannot be read ({error.strerror}){near}") from None
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or not {"misc", "schema"} <= set(record):
        raise InputError(f"{path}: this is no run.json of misc aggregate; name one")
    if record["schema"] != SCHEMA:
        age = "an older" if record["schema"] == 1 else "another"
        raise InputError(f"{path}: made by {age} misc ({record['misc']}); run its command again")
    several = {**RUN, "questions": [{**QUESTION, "question": str}]}
    shape = several if "questions" in record else QUESTION
    if not conforms(record, shape) or not all(map(_fits_together, questions_of(record))):
        raise InputError(f"{path}: this run.json was changed, it does not fit together")
    return record


def _fits_together(record: Mapping[str, Any]) -> bool:
    """Tell whether the figures that every run has are there, and a prior for each class."""
    return (
        len(record["class_prior"]) == len(record["classes"]) == record["counts"]["classes"]
        and (record["selection"] is not None or not record["members"])
        and all(record["figures"].get(name) is not None for name in ALWAYS_THERE)
    )


ALWAYS_THERE = ("answers", "items", "workers", "classes", "iterations", "confidence", "density")


def questions_of(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the record of each question; one record if there is a single question."""
    return list(record.get("questions", [record]))


def files_read(record: Mapping[str, Any]) -> list[str]:
    """Return the names of the files that a report of this run reads."""
    names = []
    for one in questions_of(record):
        outputs = one["outputs"]
        names += [file["name"] for file in [*one["inputs"], *one["known"].values()]]
        names += [outputs[name] for name in ("labels", "diagnostics", "workers") if name in outputs]
    return names


def request_of(record: Mapping[str, Any], path: str) -> AggregateRequest:
    """Return the request that a run.json (`path`) holds."""
    try:
        return AggregateRequest.from_json(record["request"])
    except (TypeError, KeyError, ValueError, AttributeError):
        raise InputError(
            f"{path}: its request is not one that this misc knows; run its command again"
        ) from None


def write_records(records: Iterable[Record], stream: BinaryIO) -> None:
    """Write the lines of diagnostics."""
    stream.writelines(json_bytes(record) for record in records)


def json_bytes(value: Any, indent: int | None = None) -> bytes:
    """Return strict JSON with a line end.

    A file's name need not be UTF-8: what is not is written as JSON's own escape, \\udc80 and so on.
    """
    text = json.dumps(strict(value), indent=indent, ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode(errors="backslashreplace")


def strict(value: Any) -> Any:
    """Return the value for strict JSON: no NaN or infinity, no numpy, no tuples."""
    if isinstance(value, dict):
        return {str(key): strict(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [strict(entry) for entry in value]
    if hasattr(value, "tolist"):
        return strict(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def peak_memory() -> int:
    """Return the most memory that this process or one of its trials ever held, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    with suppress(OSError):  # Linux's getrusage also counts the program before this one
        status = Path("/proc/self/status").read_text()
        if found := re.search(r"^VmHWM:\s*(\d+) kB$", status, re.MULTILINE):
            own = int(found[1]) * 1024
    return max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit)


def gauges(
    figures: Mapping[str, Figure],
    method: str,
    seconds: Mapping[str, float],
    *,
    did_nothing: bool = False,
    exit_code: int | None = None,
) -> bytes:
    """Return every figure, as --fail-if names it, and the cost in Prometheus' text format.

    `did_nothing` is for a run that found nothing changed: its figures are the last run's. The
    exit code is that of the figures unless it is given.
    """
    gated = EXIT_GATE if figures.get("gates-tripped") else EXIT_DONE
    about = f"{_label('version', __version__)},{_label('method', method)}"
    values: dict[str, dict[str, float]] = {
        **{name: {"": float(one)} for name, one in sorted(figures.items()) if one is not None},
        "run_timestamp_seconds": {"": round(time.time(), 3)},
        "run_exit_code": {"": gated if exit_code is None else exit_code},
        "run_did_nothing": {"": int(did_nothing)},
        "run_seconds": {_label("stage", stage): spent for stage, spent in seconds.items()},
        "run_peak_memory_bytes": {"": peak_memory()},
        "info": {about: 1},
    }
    lines = []
    for name, by_label in values.items():
        full = "misc_" + name.replace("-", "_")
        lines += [f"# HELP {full} {name} of the last run.", f"# TYPE {full} gauge"]
        lines += [
            f"{full}{{{at}}} {one!r}" if at else f"{full} {one!r}" for at, one in by_label.items()
        ]
    return "\n".join([*lines, ""]).encode()


def _label(name: str, value: str) -> str:
    escaped = value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'{name}="{escaped}"'
