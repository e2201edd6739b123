"""A finished run in Prometheus' text format (version 0.0.4), for a node exporter's text folder."""

from __future__ import annotations

import time
from collections.abc import Mapping

from misc_cli.run.result import Figure, Outcome
from misc_cli.run.run_record import peak_memory
from misc_cli.version import __version__

# Help texts of what is no figure; figures are named as --fail-if names them.
FIXED = {
    "run_timestamp_seconds": "When the last run ended, also one that had nothing to do",
    "run_did_nothing": "1 if that run found nothing changed and left the labels as they were",
    "run_seconds": "How long each stage of it took",
    "run_peak_memory_bytes": "The most memory it held",
    "info": "Version and method of the labels",
}


def exposition(outcome: Outcome, now: float | None = None) -> str:
    """Gauges: every figure of the run, its stages, its gates. A run that fails writes none."""
    return gauges(outcome.figures, method_of(outcome), outcome.timings, now)


def method_of(outcome: Outcome) -> str:
    """What made the labels, in a word or a few."""
    if outcome.selection is not None:
        return ", ".join(map(str, outcome.selection["chosen"]))
    return " + ".join(outcome.methods.names[kind] for kind in sorted(outcome.methods.names))


def gauges(
    figures: Mapping[str, Figure],
    method: str,
    timings: Mapping[str, float],
    now: float | None = None,
    *,
    did_nothing: bool = False,
) -> str:
    """The same of a run that had nothing to do: the figures are those of the labels there are."""
    rows = [
        _gauge(name, {"": float(figure)}, f"The figure {name} of run.json")
        for name, figure in sorted(figures.items())
        if figure is not None
    ]
    about = ",".join([_label("version", __version__), _label("method", method)])
    fixed: dict[str, dict[str, float]] = {
        "run_timestamp_seconds": {"": round(time.time() if now is None else now, 3)},
        "run_did_nothing": {"": int(did_nothing)},
        "run_seconds": {_label("stage", stage): seconds for stage, seconds in timings.items()},
        "run_peak_memory_bytes": {"": peak_memory()},
        "info": {about: 1},
    }
    rows += [_gauge(name, values, FIXED[name]) for name, values in fixed.items()]
    return "".join(rows)


def _gauge(name: str, values: dict[str, float], about: str) -> str:
    full = "misc_" + name.replace("-", "_")
    rows = [
        f"{full}{{{labels}}} {value!r}\n" if labels else f"{full} {value!r}\n"
        for labels, value in values.items()
    ]
    return f"# HELP {full} {about}.\n# TYPE {full} gauge\n{''.join(rows)}"


def _label(name: str, value: str) -> str:
    escaped = value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'{name}="{escaped}"'
