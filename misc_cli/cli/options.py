"""Options that commands share, and the request that their values make."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from misc_cli import registry
from misc_cli.cli import logs
from misc_cli.cli.command import LAST, F, is_of_method, shown
from misc_cli.cli.command import Command as Command
from misc_cli.cli.command import apply as apply
from misc_cli.cli.command import option as option
from misc_cli.cli.parameters import (
    COUNT,
    SEED,
    Duration,
    DurationOr,
    Names,
    Numbers,
    Size,
    method_options,
)
from misc_cli.data.parameters import AUTO, DUPLICATES
from misc_cli.errors import ConfigError, InputError
from misc_cli.run.settings import AUTO_COMPLETER, BASELINE, NO_COMPLETER, Settings

if TYPE_CHECKING:
    from misc_cli.readers.answer_table import AnswerTable
    from misc_cli.readers.options import ReadOptions
    from misc_cli.run.request import AggregateRequest

NEVER = "never"
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
    """Return the flags of methods and of their parameters."""
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


def reading() -> Callable[[F], F]:
    """Return the flags of how to read: every field of `ReadOptions`."""
    read = partial(option, section="Reading")
    return apply(
        read(
            "--worker-col",
            metavar="COL",
            help="Worker column: a name, a position, or a pattern such as 'rater_*' with --layout "
            "wide; none if nobody knows who answered.",
        ),
        read(
            "--item-col",
            metavar="COL",
            help="Item column; a,b joins columns, row is the row itself.",
        ),
        read("--label-col", metavar="COL", help="Label column; of counts, a column per class."),
        read(
            "--layout",
            type=click.Choice(["long", "wide", "form", "matrix", "counts"]),
            help="A row per answer, a column per worker, a column per item, the same without "
            "names, or votes counted per class [default: where that is certain].",
        ),
        read(
            "--delimiter",
            metavar="C",
            help="Character, or comma, tab, semicolon, pipe, space [default: sniffed].",
        ),
        read(
            "--header/--no-header",
            default=None,
            help="Whether the first row names the columns [default: sniffed].",
        ),
        read("--encoding", metavar="NAME", help="[default: utf-8]"),
        read(
            "--format",
            metavar="NAME",
            help="csv, tsv, json, jsonl or parquet, or a platform's name [default: by content].",
        ),
        read(
            "--question",
            metavar="NAME",
            help="Which of several questions in the file to read.",
        ),
        read(
            "--group-by",
            metavar="COL",
            help="A question for each value of this column; with --question, that one.",
        ),
        read(
            "--multi",
            type=click.Choice(["split", "set"]),
            help="Several choices per answer: a yes/no question for each option, or each set one "
            "class [default: refused].",
        ),
        read(
            "--worker-from",
            type=click.Choice(["filename", "folder"]),
            help="One file per worker, called by its file's name or by its folder's.",
        ),
        read(
            "--where",
            metavar="COND",
            multiple=True,
            help="Only rows where COLUMN OP VALUE holds; OP is = != < <= > >= ~ in. Repeatable.",
        ),
        read("--since", metavar="TIME", help="Only answers from then on."),
        read("--until", metavar="TIME", help="Only answers up to then."),
        read("--time-col", metavar="COL", help="The column of times for these."),
        read(
            "--no-answer",
            metavar="A,B",
            help="Labels that mean: no answer. 'n/a,skip,?' or -1 for instance.",
        ),
        read(
            "--fold-case",
            is_flag=True,
            default=None,
            help="Labels that differ only in case and spaces are one, spelled as most often.",
        ),
        read(
            "--labels",
            metavar="A,B,C",
            help="All labels there are: another is an error, or set aside (--max-bad-rows).",
        ),
        read(
            "--extract",
            metavar="REGEX",
            help="The label is what this finds in the cell (its first group), as 'Verdict: (.)'.",
        ),
        read(
            "--max-bad-rows",
            metavar="N|P%",
            help="Set so many broken rows or unknown labels aside, into --rejects [default: 0].",
        ),
        read(
            "--keep",
            metavar="COL",
            help="Carry columns along into the labels, 'Input.*' for instance.",
        ),
        read(
            "--rename",
            metavar="OLD=NEW",
            multiple=True,
            help="Call a label by another name. Repeatable.",
        ),
        read(
            "--skip-empty-files",
            is_flag=True,
            default=None,
            help="Pass over files without answers.",
        ),
        read(
            "--allow-odd",
            is_flag=True,
            default=None,
            help="Read also what is likely read wrong.",
        ),
        read(
            "--query",
            metavar="SQL",
            help="What to select from sqlite:///…, postgresql://… or a DuckDB file.",
        ),
        read("--sheet", metavar="NAME", help="Which sheet of an .xlsx workbook."),
        read(
            "--max-download",
            type=Size(),
            metavar="SIZE",
            help="500M, 2G: the most one address, query or workbook may bring [default: 1G].",
        ),
        read(
            "--max-input",
            type=Size(),
            metavar="SIZE",
            help="The most that a pipe or a packed file may bring, unpacked [default: 2G].",
        ),
        read(
            "--quotes-span-lines",
            is_flag=True,
            default=None,
            help="Quoted cells may hold any number of lines, even such as look like rows.",
        ),
        read(
            "--net-timeout",
            type=Duration(),
            metavar="TIME",
            help="How long a connection may stall [default: 30s].",
        ),
        read(
            "--duplicates",
            type=click.Choice(DUPLICATES),
            help="Which answer counts when a worker contradicts itself on an item "
            f"[default: {Settings().duplicates_rule}, with a warning].",
        ),
        read(
            "--class-order",
            type=Names(),
            metavar="A,B,C",
            help="Order of the classes [default: numeric if all are numbers, else alphabetical].",
        ),
    )


def state() -> Callable[[F], F]:
    """Return the flags of a run among many: --state and its like."""
    nightly = partial(option, section="Every night")
    return apply(
        nightly(
            "--state",
            metavar="DIR",
            help="Start where the last run with this folder ended: methods and calibration are "
            "kept, fits start warm, and nothing is done if nothing changed. Needs -o.",
        ),
        nightly(
            "--rechoose",
            type=DurationOr(NEVER),
            metavar="TIME",
            help="How old a choice of methods may get: 30d, 2w, never [default: 30d]. It is also "
            "made anew when the data has clearly moved.",
        ),
        nightly(
            "--keep-settled",
            is_flag=True,
            help="Items that are settled keep their label until they get new answers.",
        ),
        nightly(
            "--settled",
            type=Numbers(float, count=2),
            metavar="C,N",
            help="Settled means a confidence from C and at least N answers [default: 0.95,3].",
        ),
        nightly(
            "--workers-prior",
            metavar="FILE",
            help="What is known of workers, as --workers wrote it, also in another project; for "
            "ds-em, ds-mf, ebcc and one-coin.",
        ),
        nightly(
            "--prior-weight",
            type=click.FloatRange(min=0.0, min_open=True),
            metavar="N",
            help="Answers per class that it counts for, at most those it rests on [default: 10].",
        ),
    )


def anonymize() -> Callable[[F], F]:
    return option(
        "--anonymize-workers",
        section="Output",
        is_flag=True,
        help="A number in place of each worker's name: for a report that leaves the house.",
    )


def _remember(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Keep the value of an option that every command has and none needs to know of."""
    ctx.meta[f"misc_cli.{parameter.name}"] = value


def talking() -> Callable[[F], F]:
    """Return the flags of messages and logs."""
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


def read_options_from(parameters: Mapping[str, Any]) -> ReadOptions:
    """Return the reading options that a command's parameters hold."""
    from misc_cli.readers.options import ReadOptions

    names = [field.name for field in fields(ReadOptions)]
    return ReadOptions(**{name: parameters[name] for name in names if name in parameters})


def with_workers(read: AnswerTable) -> AnswerTable:
    """Refuse answers that do not say who gave them: workers cannot be judged."""
    if read.anonymous:
        raise InputError(
            f"{read.files[0].name}: nobody says who answered; misc aggregate takes a plain "
            "majority vote of this, nothing more can be had"
        )
    return read


def request_from(
    sources: tuple[str, ...], parameters: Mapping[str, Any], *names: str
) -> AggregateRequest:
    """Return the request that a command's parameters make.

    `names` are the fields besides settings and reading that are the command's, all unless given.
    """
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
