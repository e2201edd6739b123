"""Options that commands share, written once, and what a command makes of their values."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from misc_cli import registry
from misc_cli.cli import logs
from misc_cli.cli.method_options import COUNT, SEED, method_options
from misc_cli.cli.parameters import Duration
from misc_cli.cli.parameters import Names as Names
from misc_cli.cli.sections import LAST, F, is_of_method, shown
from misc_cli.cli.sections import Command as Command
from misc_cli.cli.sections import apply as apply
from misc_cli.cli.sections import option as option
from misc_cli.data.parameters import AUTO
from misc_cli.errors import ConfigError
from misc_cli.run.settings import AUTO_COMPLETER, BASELINE, NO_COMPLETER, Settings

if TYPE_CHECKING:
    from misc_cli.run.request import AggregateRequest

DEFAULTS = Settings()


def threads(section: str) -> Callable[[F], F]:
    return option(
        "--threads",
        section=section,
        type=COUNT,
        metavar="N",
        help="Never changes a result [default: all cores, at most 8].",
    )


def answers_argument() -> Callable[[F], F]:
    return click.argument("answers", nargs=-1, required=True, metavar="ANSWERS...")


def methods() -> Callable[[F], F]:
    """Which method, with which parameters."""
    section = "Method"
    method = partial(option, section=section)
    aggregators = ", ".join(registry.AGGREGATORS)
    completers = ", ".join([NO_COMPLETER, *registry.COMPLETERS])
    return apply(
        method(
            "--aggregator",
            default=DEFAULTS.aggregator,
            show_default=True,
            metavar="NAME",
            help=f"auto (hidden answers choose; {BASELINE} if a completer and its rank are given), "
            f"{aggregators}.",
        ),
        method(
            "--fast",
            is_flag=True,
            help=f"Do not choose: {BASELINE} alone, and no completion.",
        ),
        method(
            "--completer",
            default=DEFAULTS.completer,
            metavar="NAME",
            help=f"auto ({AUTO_COMPLETER} where hidden answers approve), {completers} "
            "[default: auto with --aggregator auto, else none].",
        ),
        method(
            "--preset",
            type=click.Choice(list(registry.PRESETS)),
            default=DEFAULTS.preset,
            show_default=True,
            help="Parameters for real data, or those of the paper's figures; flags override both.",
        ),
        method(
            "--seed",
            type=SEED,
            default=DEFAULTS.seed,
            show_default=True,
            help="Of every random start.",
        ),
        method(
            "--calibrate/--no-calibrate",
            default=DEFAULTS.calibrate,
            help="Temper confidences by hidden answers, or leave them raw [default: temper].",
        ),
        method(
            "--time-budget",
            type=Duration(),
            metavar="TIME",
            help="60s, 5m, 1h: an automatic choice uses what it has by then [default: none].",
        ),
        threads(section),
        *(option(f"--{flag}", **shown(row)) for flag, row in method_options().items()),
    )


def _remember(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """An option that every command has and none needs to know of."""
    ctx.meta[f"misc_cli.{parameter.name}"] = value


def talking() -> Callable[[F], F]:
    """How much to say on stderr."""
    message = partial(option, section=LAST)
    return apply(
        message("-q", "--quiet", is_flag=True, help="No warnings, no summary."),
        message(
            "-v",
            "--verbose",
            is_flag=True,
            help="The summary, the expected time and every ten seconds where the run is, also if "
            "stderr is no terminal; tracebacks of defects.",
        ),
        message(
            "--log-format",
            type=click.Choice(logs.FORMATS),
            expose_value=False,
            callback=_remember,
            help="Log with times and, every 10 s, where the run is [default: no log; text with "
            "--log-file].",
        ),
        message(
            "--log-file",
            metavar="FILE",
            expose_value=False,
            callback=_remember,
            help="Add the log to this file [default: stderr].",
        ),
    )


def settings_from(parameters: Mapping[str, Any]) -> Settings:
    """Return the settings of methods that a command's parameters hold."""
    own = {field.name for field in fields(Settings)} - {"options"}
    chosen = {name: parameters[name] for name in own if name in parameters}
    if parameters.get("fast", False):
        if chosen.get("aggregator", AUTO) not in (AUTO, BASELINE):
            raise ConfigError(
                f"--fast is {BASELINE}: leave out --aggregator {chosen['aggregator']}"
            )
        chosen["aggregator"] = BASELINE
    names = [
        str(known.name)
        for known in click.get_current_context().command.params
        if is_of_method(known)
    ]
    options = {name: parameters[name] for name in names if parameters.get(name) is not None}
    return Settings(**chosen, options=options)


def request_from(
    sources: tuple[str, ...], parameters: Mapping[str, Any], *names: str
) -> AggregateRequest:
    """Return the request that a command's parameters make.

    `names` are the fields besides settings and reading that are the command's, all unless given.
    """
    from misc_cli.cli.reading_options import read_options_from
    from misc_cli.run.request import AggregateRequest

    made = {"sources", "settings", "reading"}
    own = names or {field.name for field in fields(AggregateRequest)} - made
    return AggregateRequest(
        sources,
        settings_from(parameters),
        read_options_from(parameters),
        **{name: parameters[name] for name in own if name in parameters},
    )


def command_line() -> list[str]:
    """Return the words after `misc`; secrets of an address are left out."""
    from misc_cli.readers.remote import redact

    return [redact(word) for word in sys.argv[1:]]


def refuse_flags(run_file: str, allowed: Collection[str]) -> None:
    """Refuse flags of a new run, given on the command line, where the run is finished."""
    context = click.get_current_context()
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        given = source is click.core.ParameterSource.COMMANDLINE
        if given and isinstance(parameter, click.Option) and parameter.name not in allowed:
            raise ConfigError(
                f"{max(parameter.opts, key=len)} does nothing here: {run_file} is a finished run; "
                "leave it out, or name files of answers"
            )
