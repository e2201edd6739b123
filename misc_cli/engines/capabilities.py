"""What each engine can do: the one table that refusals and docs/scale.md are made from."""

from __future__ import annotations

from misc_cli.errors import ConfigError

ENGINES = ("local", "disk", "dask", "spark")
METHODS = ("mv", "one-coin", "ds-em", "ds-mf", "ebcc")
# Their rows follow from those of the round before: an engine that keeps none makes all again.
ROUNDS = ("mmce-c", "mmce-o")

_ALL = frozenset(ENGINES)
_KEEPS_ROWS = frozenset({"local", "disk", "dask"})
# What is asked for → the engines that do it.
CAPABILITIES: dict[str, frozenset[str]] = {
    ", ".join(METHODS): _ALL,
    ", ".join(ROUNDS): _KEEPS_ROWS,
    "other aggregators (plugins)": frozenset({"local"}),
    "automatic choice": _KEEPS_ROWS,
    "calibration, --gold, --workers": _ALL,
    "--truth, --fail-if, --changes": _KEEPS_ROWS,
    "tucker with given ranks, --final answers": _KEEPS_ROWS,
    "other completers, chosen ranks, --final completed": frozenset({"local"}),
    "labels as a folder of parts": frozenset({"disk", "dask"}),
}


def methods_of(engine: str) -> tuple[str, ...]:
    """Return the names of the aggregators that run on an engine."""
    return (*METHODS, *(ROUNDS if engine in _KEEPS_ROWS else ()))


def check_aggregator(engine: str, name: str) -> None:
    """Raise for an aggregator that does not run on this engine."""
    runs = methods_of(engine)
    if engine != "local" and name not in runs:
        raise ConfigError(
            f"--engine {engine} does not run {name}, which is for --engine local; "
            f"it runs {', '.join(runs)}: ds-em comes closest"
        )
