"""Files that tell of a run: run.json, diagnostics.jsonl, and its figures for Prometheus."""

from __future__ import annotations

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
from typing import TYPE_CHECKING, Any

import numpy as np

from misc_cli import registry
from misc_cli.completers.parameters import Loop
from misc_cli.data.parameters import AUTO, DUPLICATES, conforms
from misc_cli.data.resources import THREADS
from misc_cli.errors import EXIT_DONE, EXIT_GATE, InputError, nearest_file
from misc_cli.redaction import redact_all
from misc_cli.run.request import AggregateRequest
from misc_cli.run.result import method_in_words
from misc_cli.run.settings import NO_COMPLETER
from misc_cli.selection.candidates import Method
from misc_cli.version import __version__

if TYPE_CHECKING:
    from misc_cli.quality.figures import Figure
    from misc_cli.run.result import RunResult


# The shape of what is read back from a run.json, which may be a stranger's. There is more in it.
TABLE = list[dict[str, float | bool | str | None]]
BUILT = {"is": str, "parameters": dict[str, Any]}
MEMBER = {
    **{"name": str, "preset": str},
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
    "outputs": {"labels?": str, "workers?": str, "parts?": list[str]},
    "files?": [{"name": str, "file": str, "sha256": str}],
}
QUESTION = {
    **RUN,
    "date": str,
    "options": {"duplicates": str, "class_order": list[str] | None},
    "method": str,
    "methods": dict[str, dict[str, Any]],
    "inputs": [FILE],
    "known": {"*": FILE},
    "state": ({"folder": str, "night": int, "now": float}, None),
    "counts": {"answers": int, "workers": int, "items": int, "classes": int},
    "classes": list[str],
    "class_prior": list[float],
    "selection": (SELECTION, None),
    "stopped": dict[str, str],
    "figures": dict[str, float | bool | None],
    "warnings": list[str],
    "platform": dict[str, str],
}


def described(method: Method) -> dict[str, Any]:
    """Return a method as plain values."""
    start = method.loop.start and _described("aggregator", method.loop.start)
    return {
        "name": method.name,
        "preset": method.preset,
        "early_stopped": method.early_stopped,
        "aggregator": _described("aggregator", method.aggregator),
        "completer": method.completer and _described("completer", method.completer),
        "loop": {**asdict(method.loop), "start": start},
    }


def rebuilt(entry: Mapping[str, Any]) -> Method:
    """Return the method that was described."""
    start = entry["loop"]["start"] and _rebuilt("aggregator", entry["loop"]["start"])
    return Method(
        entry["name"],
        _rebuilt("aggregator", entry["aggregator"]),
        entry["completer"] and _rebuilt("completer", entry["completer"]),
        Loop(**{**entry["loop"], "start": start}),
        entry["preset"],
        bool(entry.get("early_stopped", False)),
    )


def _described(kind: str, method: Any) -> dict[str, Any]:
    return {"is": registry.name_of(kind, method), "parameters": asdict(method)}


def _rebuilt(kind: str, entry: Mapping[str, Any]) -> Any:
    given = entry["parameters"].items()
    values = {key: tuple(one) if isinstance(one, list) else one for key, one in given}
    return registry.load(kind, entry["is"])(**values)


# Of run.json: raised when something that a script may read changes its meaning or its place.
SCHEMA = 2
TABLES = ("labels", "workers")  # that a report reads
LAST = DUPLICATES[0]
# Figures that every run has.
ALWAYS_THERE = ("answers", "items", "workers", "classes", "iterations", "confidence", "density")


def manifest(
    outcome: RunResult,
    request: AggregateRequest,
    inputs: Iterable[Mapping[str, Any]],
    known: Mapping[str, Any],
    **facts: Any,
) -> dict[str, Any]:
    """Return the content of run.json: what was asked for, what happened, what it cost.

    `facts` are what the caller knows: command, question, engine, state, warnings, outputs.
    """
    fit, settings, holder = outcome.fit, outcome.methods.settings, outcome.fit.engine
    options = {**asdict(settings), "threads": settings.threads or THREADS.get()}
    unset = AUTO if settings.aggregator == AUTO else NO_COMPLETER
    options |= {"completer": settings.completer or unset, "duplicates": settings.duplicates or LAST}
    del options["options"]  # they are among the methods
    sizes = {name: getattr(holder, f"n_{name}") for name in ("workers", "items", "classes")}
    return {
        "schema": SCHEMA,
        "misc": __version__,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "request": request.to_json(),
        "options": options,  # with what was left open filled in
        "method": method_in_words(outcome),
        "methods": outcome.methods.resolved,
        "members": [described(member) for member in fit.members],
        "inputs": redact_all([dict(source) for source in inputs]),
        "known": {name: asdict(source) for name, source in known.items()},
        "engine": {"name": request.engine},
        "state": None,
        "counts": {
            **{name.removeprefix("n_"): n for name, n in asdict(holder.counts).items()},
            **{"answers": holder.n_votes, **sizes},
        },
        "classes": holder.vocabulary.classes.to_pylist(),
        "class_prior": fit.class_prior,
        "selection": fit.selection or None,
        "calibration": None if fit.calibration is None else asdict(fit.calibration),
        "loop": fit.loop,
        "iterations": Counter(record["stage"] for record in outcome.records),
        "converged": fit.converged,
        "stopped": fit.stopped,
        "objective": fit.objective,
        "figures": outcome.figures,
        "seconds": outcome.timings,
        "peak_memory_bytes": peak_memory(),
        "platform": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "system": sys.platform,
        },
        **{"command": [], "warnings": [], "outputs": {}, **facts},
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
        raise InputError(f"{path}: made by another misc ({record['misc']}); run its command again")
    several = {**RUN, "questions": [{**QUESTION, "question": str}]}
    fits = conforms(record, several if "questions" in record else QUESTION)
    for one in questions_of(record) if fits else ():
        figures, n_classes = one["figures"], one["counts"]["classes"]
        fits &= len(one["class_prior"]) == len(one["classes"]) == n_classes
        fits &= all(figures.get(name) is not None for name in ALWAYS_THERE)
    if not fits:
        raise InputError(f"{path}: this run.json was changed, it does not fit together")
    return record


def questions_of(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the record of each question; one record if there is a single question."""
    return list(record.get("questions", [record]))


def inputs_of(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return what a question's record says of each file that was read: name and SHA-256."""
    return [*record["inputs"], *record["known"].values()]


def files_read(record: Mapping[str, Any]) -> list[str]:
    """Return the names of the files that a report of this run reads."""
    names = [file["name"] for one in questions_of(record) for file in inputs_of(one)]
    written = [one["outputs"].get(name) for one in questions_of(record) for name in TABLES]
    return [*names, *filter(None, written)]


def request_of(record: Mapping[str, Any], path: str) -> AggregateRequest:
    """Return the request that a run.json (`path`) holds."""
    try:
        return AggregateRequest.from_json(record["request"])
    except (TypeError, KeyError, ValueError, AttributeError):
        raise InputError(
            f"{path}: its request is not one that this misc knows; run its command again"
        ) from None


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
    if exit_code is None:
        exit_code = EXIT_GATE if figures.get("gates-tripped") else EXIT_DONE
    about = f"{{version={json.dumps(__version__)},method={json.dumps(method)}}}"
    values: dict[str, float] = {
        **{name: float(one) for name, one in sorted(figures.items()) if one is not None},
        "run_timestamp_seconds": round(time.time(), 3),
        "run_exit_code": exit_code,
        "run_did_nothing": int(did_nothing),
        **{f"run_seconds{{stage={json.dumps(at)}}}": spent for at, spent in seconds.items()},
        "run_peak_memory_bytes": peak_memory(),
        f"info{about}": 1,
    }
    lines = [f"misc_{name.replace('-', '_')} {one!r}" for name, one in values.items()]
    return "\n".join([*lines, ""]).encode()
