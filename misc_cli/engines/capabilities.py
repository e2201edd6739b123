"""Capabilities of engines: the one table that refusals and docs/scale.md are made from."""

from __future__ import annotations

from collections.abc import Iterable

from misc_cli.data.parameters import flag
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
    "automatic choice": _ALL,
    "--time-budget": _KEEPS_ROWS,
    "calibration, --gold, --workers": _ALL,
    "--truth, --fail-if, --changes": _KEEPS_ROWS,
    "tucker with given ranks, --final answers": _KEEPS_ROWS,
    "other completers, chosen ranks, --final completed": frozenset({"local"}),
    "labels as a folder of parts": frozenset({"disk", "dask"}),
}
# Flags of a run that only the local engine heeds, by the field of their request.
LOCAL_FLAGS = (
    *("rejects", "each_question"),
    *("state", "accept", "rechoose", "keep_settled", "settled"),
)
# Flags of reading that every engine heeds; the others are the local one's.
READING_FLAGS = (
    *("worker_col", "item_col", "label_col", "delimiter", "header", "format"),
    *("where", "no_answer", "rename", "extract", "labels"),
    *("fold_case", "allow_odd", "duplicates"),
)
# Flags that one other engine heeds.
OWN_FLAGS = {"spill": "disk", "scheduler": "dask"}


def check_flags(engine: str, reading: Iterable[str], others: Iterable[str]) -> None:
    """Raise for the first flag that was given and that this engine does not heed.

    `reading` are those given of how to read, `others` of the rest, by field.
    """
    for name in others:
        if engine != OWN_FLAGS.get(name, engine):
            raise ConfigError(f"{flag(name)} is for --engine {OWN_FLAGS[name]}")
    if engine == "local":
        return
    lacking = [name for name in reading if name not in READING_FLAGS]
    for name in [*lacking, *(name for name in others if name in LOCAL_FLAGS)]:
        raise ConfigError(f"{flag(name)} is for --engine local, not {engine}")


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
