"""The figures of a run in Prometheus' text format, for a node exporter's text folder."""

from __future__ import annotations

import time
from collections.abc import Mapping

from misc_cli.quality.figures import Figure
from misc_cli.run.result import RunResult
from misc_cli.run.run_record import peak_memory
from misc_cli.version import __version__


def method_of(outcome: RunResult) -> str:
    """Return the names of the methods that made the labels."""
    if outcome.fit.selection:
        return ", ".join(map(str, outcome.fit.selection["chosen"]))
    return " + ".join(outcome.methods.names[kind] for kind in sorted(outcome.methods.names))


def gauges(
    figures: Mapping[str, Figure],
    method: str,
    seconds: Mapping[str, float],
    *,
    did_nothing: bool = False,
) -> str:
    """Return every figure, named as --fail-if names it, and the cost of the run as gauges.

    `did_nothing` is for a run that found nothing changed: its figures are the last run's.
    """
    about = f"{_label('version', __version__)},{_label('method', method)}"
    values: dict[str, dict[str, float]] = {
        **{name: {"": float(one)} for name, one in sorted(figures.items()) if one is not None},
        "run_timestamp_seconds": {"": round(time.time(), 3)},
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
    return "\n".join(lines) + "\n"


def _label(name: str, value: str) -> str:
    escaped = value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'{name}="{escaped}"'
