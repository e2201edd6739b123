"""A finished run in Prometheus' text format (version 0.0.4), for a node exporter's text folder."""

from __future__ import annotations

import time
from collections.abc import Iterator

from misc_cli.run.manifest import peak_memory
from misc_cli.run.outcome import Outcome
from misc_cli.version import __version__

# Help texts of what is no figure; figures are named as --fail-if names them.
FIXED = {
    "run_timestamp_seconds": "When the last run that wrote labels ended",
    "run_seconds": "How long each stage of it took",
    "run_peak_memory_bytes": "The most memory it held",
    "info": "Version and method of the last run",
}


def exposition(outcome: Outcome, now: float | None = None) -> str:
    """Gauges: every figure of the run, its stages, its gates. A run that fails writes none."""
    return "".join(_gauges(outcome, time.time() if now is None else now))


def _gauges(outcome: Outcome, now: float) -> Iterator[str]:
    for name, figure in sorted(outcome.figures.items()):
        if figure is not None:
            yield _gauge(name, {"": float(figure)}, f"The figure {name} of run.json")
    stages = {_label("stage", stage): seconds for stage, seconds in outcome.timings.items()}
    method = " + ".join(outcome.methods.names[kind] for kind in sorted(outcome.methods.names))
    if outcome.selection is not None:
        method = ", ".join(map(str, outcome.selection["chosen"]))
    about = ",".join([_label("version", __version__), _label("method", method)])
    fixed: dict[str, dict[str, float]] = {
        "run_timestamp_seconds": {"": round(now, 3)},
        "run_seconds": stages,
        "run_peak_memory_bytes": {"": peak_memory()},
        "info": {about: 1},
    }
    for name, values in fixed.items():
        yield _gauge(name, values, FIXED[name])


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
