"""`misc aggregate --engine disk|dask`: the same command where the answers do not fit in memory."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any

import click

from misc_cli.cli import options, previous_outputs, reading_options
from misc_cli.cli.extra_outputs import of_any_engine
from misc_cli.cli.fail_if import holding, parse_gates, refuse
from misc_cli.cli.job import command_line
from misc_cli.cli.method_options import method_options
from misc_cli.data.parameters import AUTO
from misc_cli.errors import ConfigError, InputError

if TYPE_CHECKING:
    from misc_cli.quality.changes import Changes
    from misc_cli.run.result import Outcome
    from misc_cli.scale.job import SpreadEngine

ENGINES = ("local", "disk", "dask")
# What an engine takes besides the methods' own parameters; any other flag that is given is refused.
SUPPORTED = {
    *("answers", "output", "probabilities", "item_details", "gold", "truth", "fail_if"),
    *("workers", "diagnostics", "changes", "metrics"),
    *("engine", "spill", "scheduler"),
    *("aggregator", "completer", "preset", "seed", "threads", "calibrate", "quiet", "verbose"),
    *("worker_col", "item_col", "label_col", "delimiter", "header", "encoding", "format"),
    "allow_odd",
    *("duplicates", "class_order", *(flag.replace("-", "_") for flag in method_options())),
}
OWNERS = {"spill": "disk", "scheduler": "dask"}
INSTEAD = {"question": "give a file with that question's rows"}


def run(answers: tuple[str, ...], parameters: dict[str, Any]) -> None:
    """What `aggregate` does, on an engine; whatever it cannot do is refused by name."""
    from misc_cli.cli.console import Console
    from misc_cli.cli.scaled_target import Target
    from misc_cli.cli.summary import summary
    from misc_cli.readers.chunks import pieces_of
    from misc_cli.readers.known_labels import carried_gold, read_known
    from misc_cli.readers.source import refuse_changed, stamps
    from misc_cli.run.request import Stopwatch
    from misc_cli.run.settings import build
    from misc_cli.scale import job

    engine_name = parameters.pop("engine")
    _refuse_flags(engine_name, parameters)
    console = Console.of(parameters)
    settings = options.settings_from(parameters)
    reading = reading_options.read_options_from(parameters)
    gates = parse_gates(parameters["fail_if"], parameters["truth"])
    methods = build(settings)
    job.check(engine_name, settings, methods)
    files = {name: parameters[name] for name in ("gold", "truth") if parameters[name] is not None}
    carried = files.get("gold") == AUTO
    if carried:
        del files["gold"]
    target = Target.of(parameters, [*answers, *files.values()])
    watch = Stopwatch()
    with console.watching():
        earlier = previous_outputs.read_previous(parameters["changes"], gates, target.places, {})
        pieces = pieces_of(answers, reading)
        if not pieces:
            raise InputError(f"{answers[0]}: no rows; give files with answers in them")
        read = stamps(piece.path for piece in pieces)
        known = {name: read_known(file, reading) for name, file in files.items()}
        if carried:
            known["gold"] = carried_gold(pieces)
        labels = {name: found.labels for name, found in known.items()}
        order = None if settings.class_order is None else list(settings.class_order)
        common: dict[str, Any] = {
            "duplicates": settings.duplicates_rule,
            "class_order": order,
            "gold": labels.get("gold"),
            "name": job.names_of(answers),
        }
        with ExitStack() as stack:
            with watch.stage("read"):
                opening = _engine(engine_name, pieces, parameters, common, console)
                engine = stack.enter_context(opening)
            refuse_changed(read)
            target.check(engine)
            outcome, holder = job.run(
                engine, settings, methods, console.on_iteration, watch, job.Given(**labels)
            )
            refuse_changed(read)  # what a cluster's worker lost was read once more
            console.settle()
            outcome.figures["warnings"] = len(console.warnings)
            changes = None
            if earlier is not None:
                changes = _changes(earlier, outcome, holder)
                outcome.figures.update(changes.figures)
            tripped = holding(gates, outcome.figures)
            outcome.figures["gates-tripped"] = len(tripped)

            def facts(outputs: Mapping[str, str]) -> dict[str, Any]:
                engine = {"name": engine_name, **holder.facts()}
                record = _record(outcome, outputs, known, console.warnings)
                return {**record, "inputs": list(holder.inputs), "engine": engine}

            more = of_any_engine(outcome, target.places, changes)
            target.write(holder, outcome, facts, more)
            at_terminal = console.terminal and not console.quiet
            rows = summary(outcome, target.named, closely=at_terminal)
        console.summary(rows)
        refuse(tripped, outcome.figures, "done and written")


def _refuse_flags(engine: str, parameters: Mapping[str, Any]) -> None:
    """A flag that would be ignored is an error."""
    context = click.get_current_context()
    for name in context.params:
        source = context.get_parameter_source(name)
        if name not in SUPPORTED and source is not click.core.ParameterSource.DEFAULT:
            flag, instead = "--" + name.replace("_", "-"), INSTEAD.get(name)
            end = "" if instead is None else f": {instead}"
            raise ConfigError(f"{flag} is for --engine local, not {engine}{end}")
    for name, owner in OWNERS.items():
        if engine != owner and parameters[name] is not None:
            raise ConfigError(f"--{name} is for --engine {owner}")


def _engine(
    name: str,
    pieces: list[Any],
    parameters: Mapping[str, Any],
    common: dict[str, Any],
    console: Any,
) -> AbstractContextManager[SpreadEngine]:
    """Not entered yet: reading happens then."""
    if name == "disk":
        from misc_cli.engines import disk

        return disk.opened(pieces, spill=parameters["spill"], **common)
    from misc_cli.engines import dask

    return dask.opened(pieces, scheduler=parameters["scheduler"], say=console.note, **common)


def _changes(
    earlier: previous_outputs.PreviousOutputs, outcome: Outcome, engine: SpreadEngine
) -> Changes:
    """All labels in one table: as long as the items, like those that they are compared with."""
    from misc_cli.run.tables import worker_columns
    from misc_cli.scale.labels import Wanted, joined

    labels = joined(engine.tables(Wanted()))
    return earlier.against(labels, lambda: worker_columns(outcome))


def _record(
    outcome: Outcome, outputs: Mapping[str, str], known: Mapping[str, Any], warnings: list[str]
) -> dict[str, Any]:
    from misc_cli.run.run_record import manifest

    return manifest(
        outcome,
        command=command_line(),
        inputs=[],
        known={name: found.file for name, found in known.items()},
        outputs=outputs,
        warnings=warnings,
    )
