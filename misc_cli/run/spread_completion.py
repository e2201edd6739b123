"""Completion on an engine: what of it runs there, and the loop with its calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from misc_cli.completers.completion_loop import CompletedAnswers
from misc_cli.completers.parameters import Loop
from misc_cli.data.parameters import AUTO
from misc_cli.data.types import OnIteration
from misc_cli.engines.capabilities import check_aggregator, methods_of
from misc_cli.engines.protocol import POSTERIORS, CopyRows, Engine, Fitted
from misc_cli.errors import ConfigError
from misc_cli.run.fitting import loop_record
from misc_cli.run.settings import BASELINE, NO_COMPLETER, Methods, Settings
from misc_cli.selection.candidates import Method

# Where the posteriors wait while trials calibrate them.
FOUND = "found"


def check(engine: str, settings: Settings, methods: Methods) -> None:
    """Refuse what only one machine's memory can do, and say what to do instead."""
    if settings.completer not in (None, NO_COMPLETER, AUTO):
        refuse(f"--engine {engine}", methods, methods_of(engine))
    check_aggregator(engine, methods.names.get("aggregator", BASELINE))


def refuse(where: str, methods: Methods, runs: Sequence[str]) -> None:
    """Raise for what of completion needs one machine's memory; `runs` are aggregators that run."""
    name = methods.names["completer"]
    if not hasattr(methods.completer, "slice_table"):
        raise ConfigError(
            f"--completer {name} is for --engine local; {where} completes with tucker: "
            "say --completer tucker --ranks R1,R2,R3"
        )
    if methods.search_ranks:
        raise ConfigError(
            f"{where} does not choose ranks or passes: that is for --engine local; give one of "
            "each, --ranks R1,R2,R3 and --passes N (a rule of thumb: 5, 5 · classes, classes; 3)"
        )
    if Loop(**methods.loop).final != "answers":
        raise ConfigError(
            "--final completed (--preset paper, too) holds a label of every worker for every item "
            f"and is for --engine local; with {where} say --final answers"
        )
    if Loop(**methods.loop).strength < 1.0:
        raise ConfigError(f"--strength is for --engine local; with {where} leave it out")
    starter = methods.resolved.get("start", {}).get("aggregator")
    if starter is not None and starter not in runs:
        raise ConfigError(f"{where} does not run --start {starter}; it runs {', '.join(runs)}")


def fit(
    engine: Engine, methods: Methods, on_iteration: OnIteration
) -> tuple[Fitted, dict[str, Any]]:
    """The loop on an engine, and what the record says of it."""
    loop = Loop(**methods.loop)
    assert methods.completer is not None
    method = CompletedAnswers(methods.completer, methods.aggregator, loop)
    fitted, passes = method.run(engine, on_iteration)
    ranks, stopped = method.ranks(engine), fitted.stopped["pass"]
    return fitted, loop_record(loop, ranks=ranks, passes=passes, stopped=stopped)


def keep(engine: Engine) -> None:
    engine.sweep(CopyRows(POSTERIORS, FOUND))


def bring_back(engine: Engine) -> None:
    engine.sweep(CopyRows(FOUND, POSTERIORS))


def trials(methods: Methods, passes: int) -> tuple[Method, Method]:
    """What calibration tries: in memory, and on an engine; each with so many passes."""
    name, aggregator = methods.names["aggregator"], methods.aggregator
    assert methods.completer is not None
    loop = replace(Loop(**methods.loop), passes=passes)
    on_engine: Any = CompletedAnswers(methods.completer, aggregator, loop, tol=0.0)
    return Method(name, aggregator, methods.completer, loop), Method(name, on_engine)
