"""Options that commands share, written once, and help that shows them in sections."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import click

from misc_cli.cli import config, logs, startup
from misc_cli.cli.method_options import COUNT, SEED, Row, method_options
from misc_cli.cli.parameters import Duration, Size, Tries
from misc_cli.cli.parameters import Names as Names
from misc_cli.core.parameters import AUTO, DUPLICATES
from misc_cli.errors import ConfigError, InputError
from misc_cli.run import registry
from misc_cli.run.settings import AUTO_COMPLETER, BASELINE, NO_COMPLETER, Settings
from misc_cli.version import SCHEMA

F = TypeVar("F", bound=Callable[..., Any])
DEFAULTS = Settings()
LAST = "Messages"
CONFIG = "misc_cli.config"  # where a context keeps the file of settings


class Option(click.Option):
    """An option that knows its section of the help, and whether it is a method's parameter."""

    def __init__(
        self, *args: Any, section: str = "Options", of_method: bool = False, **kwargs: Any
    ) -> None:
        if isinstance(kwargs.get("type"), click.IntRange):
            kwargs.setdefault("metavar", "N")
        super().__init__(*args, **kwargs)
        self.section = section
        self.of_method = of_method

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """Every option has a variable, MISC_ and its name: see cli/config.py."""
        names = config.variables(config.path_of(ctx), config.key_of(self))
        return next((os.environ[name] for name in names if os.environ.get(name)), None)

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Without the ranges: the help text says what matters, an error message the rest."""
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra


class Command(click.Command):
    """A command whose help has sections, and examples as they were typed."""

    def __init__(self, *args: Any, examples: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples
        self.plugins: list[str] = []
        self.params.append(
            Option(
                ["--config"],
                section=LAST,
                metavar="FILE",
                is_eager=True,
                expose_value=False,
                callback=_use_settings,
                help="Settings, TOML: every flag by its name, at the top for all commands or in "
                "the table of one [default: misc.toml here, else tool.misc in pyproject.toml].",
            )
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Other packages' methods are looked up only for the help or for a flag of theirs."""
        known = {flag for parameter in self.params for flag in parameter.opts}
        unknown = {word.partition("=")[0] for word in args if word.startswith("-")} - known
        if "aggregator" in {parameter.name for parameter in self.params} and unknown:
            self._add_plugins()
        with telling_origin(ctx):
            return super().parse_args(ctx, args)

    def _add_plugins(self) -> None:
        for parameter in self.params:
            if isinstance(parameter, click.Option) and parameter.name in registry.KINDS:
                theirs = [n for n in registry.plugin_names(parameter.name) if n not in self.plugins]
                self.plugins += theirs
                if theirs:
                    parameter.help = f"{parameter.help} Other packages add {', '.join(theirs)}."
        if self.plugins:
            last = max(at for at, known in enumerate(self.params) if _is_of_method(known))
            taken = {flag for parameter in self.params for flag in parameter.opts}
            self.params[last + 1 : last + 1] = [
                Option([f"--{flag}"], **_shown(row))
                for flag, row in method_options(plugins=True).items()
                if f"--{flag}" not in taken
            ]

    def invoke(self, ctx: click.Context) -> Any:
        startup.load_arrow()
        if ctx.params.get("threads") is not None:
            startup.limit_arrow(ctx.params["threads"])
        log = [ctx.meta.get(f"misc_cli.{name}") for name in ("log_format", "log_file")]
        from misc_cli.core.parallel import processes

        with logs.writing(sys.argv, *log), processes(True):
            return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                sections.setdefault(getattr(parameter, "section", LAST), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records, col_max=34)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples.strip().splitlines():
                    formatter.write(f"{'':>{formatter.current_indent}}{line.strip()}\n")


def _use_settings(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Eager: before any other option looks for its default."""
    if not ctx.resilient_parsing:
        file = config.find(value)
        ctx.meta[CONFIG] = file
        if file.content:
            ctx.default_map = config.default_map(ctx, file)


@contextmanager
def telling_origin(ctx: click.Context, file: config.File | None = None) -> Iterator[None]:
    """A bad value that is not from the command line says where it is from."""
    try:
        yield
    except click.BadParameter as error:
        if error.param is not None:
            found = file or ctx.meta.get(CONFIG, config.File())
            where = config.origin(ctx, error.param, found)
            if where not in ("command line", "default"):
                message = f"{error.message} (from {where})"
                raise click.BadParameter(message, error.ctx, error.param) from None
        raise


def apply(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator, in this order in the help."""

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def option(*flags: str, section: str, **settings: Any) -> Callable[[F], F]:
    """A click option in a section of the help."""
    return click.option(*flags, cls=Option, section=section, **settings)


def _shown(row: Row) -> dict[str, Any]:
    """A method's parameter as the settings of an option."""
    kind = row.type
    several = {"multiple": True, "callback": kind.joined} if isinstance(kind, Tries) else {}
    return {
        "section": row.section,
        "type": kind,
        "metavar": row.metavar,
        "help": row.help,
        "of_method": True,
        **several,
    }


def _is_of_method(parameter: click.Parameter) -> bool:
    return isinstance(parameter, Option) and parameter.of_method


def threads(section: str) -> Callable[[F], F]:
    return option(
        "--threads",
        section=section,
        type=COUNT,
        metavar="N",
        help="Never changes a result [default: all cores, at most 8].",
    )


def output_file(given: str | None, *known: str) -> Path | None:
    """The file that an output option names; None is stdout, which "-" means too.

    `known` are the suffixes it may have, those of tables unless they are given.
    """
    if given is not None and given != "-":
        from misc_cli.io.places import STDOUT, stream_of
        from misc_cli.io.write import TABLES, check_suffix

        check_suffix(Path(given), known or TABLES)
        if stream_of(Path(given)) != STDOUT:
            return Path(given)
    if sys.stdout is None:
        raise ConfigError("stdout is closed; name a file with -o")
    return None


def write_stdout(data: bytes) -> None:
    """Data is UTF-8 whatever the locale of the terminal."""
    from misc_cli.io.write import content, to_stdout

    to_stdout(content(data))


def json_bytes(**value: Any) -> bytes:
    """What every --json prints and every .json file holds: one object, with a schema version."""
    text = json.dumps({"schema": SCHEMA, **value}, indent=2, ensure_ascii=False, default=str)
    return f"{text}\n".encode(errors="backslashreplace")


def answers_argument() -> Callable[[F], F]:
    return click.argument("answers", nargs=-1, required=True, metavar="ANSWERS...")


def reading() -> Callable[[F], F]:
    """How to read answer files: the fields of `io.read.ReadOptions`."""
    part = "Reading"
    return apply(
        option(
            "--worker-col", section=part, metavar="COL", help="Worker column, name or position."
        ),
        option("--item-col", section=part, metavar="COL", help="Item column."),
        option("--label-col", section=part, metavar="COL", help="Label column."),
        option(
            "--delimiter",
            section=part,
            metavar="C",
            help="Character, or comma, tab, semicolon, pipe, space [default: sniffed].",
        ),
        option(
            "--header/--no-header",
            section=part,
            default=None,
            help="Whether the first row names the columns [default: sniffed].",
        ),
        option("--encoding", section=part, metavar="NAME", help="[default: utf-8]"),
        option(
            "--format",
            section=part,
            metavar="NAME",
            help="csv, tsv, json, jsonl or parquet, or a platform's name [default: by content].",
        ),
        option(
            "--question",
            section=part,
            metavar="NAME",
            help="Which of several questions in the file to read.",
        ),
        option(
            "--group-by",
            section=part,
            metavar="COL",
            help="A question for each value of this column; with --question, that one.",
        ),
        option(
            "--multi",
            section=part,
            type=click.Choice(["split", "set"]),
            help="Several choices per answer: a yes/no question for each option, or each set one "
            "class [default: refused].",
        ),
        option(
            "--wide",
            section=part,
            is_flag=True,
            default=None,
            help="A row per item, a column per worker [default: where that is certain].",
        ),
        option(
            "--worker-cols",
            section=part,
            metavar="PATTERN",
            help="The columns of such a table that are workers, 'rater_*' for instance.",
        ),
        option(
            "--item-cols",
            section=part,
            metavar="PATTERN",
            help="A row per worker, a column per item, as forms have it: the columns of items.",
        ),
        option(
            "--worker-from",
            section=part,
            type=click.Choice(["filename", "folder"]),
            help="One file per worker, called by its file's name or by its folder's.",
        ),
        option(
            "--where",
            section=part,
            metavar="COND",
            multiple=True,
            help="Only rows where COLUMN OP VALUE holds; OP is = != < <= > >= ~ in. Repeatable.",
        ),
        option("--since", section=part, metavar="TIME", help="Only answers from then on."),
        option("--until", section=part, metavar="TIME", help="Only answers up to then."),
        option("--time-col", section=part, metavar="COL", help="The column of times for these."),
        option(
            "--no-answer",
            section=part,
            metavar="A,B",
            help="Labels that mean: no answer. 'n/a,skip,?' or -1 for instance.",
        ),
        option(
            "--fold-case",
            section=part,
            is_flag=True,
            default=None,
            help="Labels that differ only in case and spaces are one.",
        ),
        option(
            "--rename",
            section=part,
            metavar="OLD=NEW",
            multiple=True,
            help="Call a label by another name. Repeatable.",
        ),
        option(
            "--skip-empty-files",
            section=part,
            is_flag=True,
            default=None,
            help="Pass over files without answers.",
        ),
        option(
            "--allow-odd",
            section=part,
            is_flag=True,
            default=None,
            help="Read also what is likely read wrong.",
        ),
        option(
            "--query",
            section=part,
            metavar="SQL",
            help="What to select from sqlite:///…, postgresql://… or a DuckDB file.",
        ),
        option("--sheet", section=part, metavar="NAME", help="Which sheet of an .xlsx workbook."),
        option(
            "--max-download",
            section=part,
            type=Size(),
            metavar="SIZE",
            help="500M, 2G: the most one address, query or workbook may bring [default: 1G].",
        ),
        option(
            "--max-input",
            section=part,
            type=Size(),
            metavar="SIZE",
            help="The most that a pipe or a packed file may bring, unpacked [default: 2G].",
        ),
        option(
            "--quotes-span-lines",
            section=part,
            is_flag=True,
            default=None,
            help="Quoted cells may hold any number of lines, even such as look like rows.",
        ),
        option(
            "--net-timeout",
            section=part,
            type=Duration(),
            metavar="TIME",
            help="How long a connection may stall [default: 30s].",
        ),
        option(
            "--duplicates",
            section=part,
            type=click.Choice(DUPLICATES),
            help="Which answer counts when a worker contradicts itself on an item "
            f"[default: {DEFAULTS.duplicates_rule}, with a warning].",
        ),
        option(
            "--class-order",
            section=part,
            type=Names(),
            metavar="A,B,C",
            help="Order of the classes [default: numeric if all are numbers, else alphabetical].",
        ),
    )


def methods() -> Callable[[F], F]:
    """Which method, with which parameters."""
    part = "Method"
    aggregators = ", ".join(registry.AGGREGATORS)
    completers = ", ".join([NO_COMPLETER, *registry.COMPLETERS])
    return apply(
        option(
            "--aggregator",
            section=part,
            default=DEFAULTS.aggregator,
            show_default=True,
            metavar="NAME",
            help=f"auto (hidden answers choose; {BASELINE} if a completer and its rank are given), "
            f"{aggregators}.",
        ),
        option(
            "--fast",
            section=part,
            is_flag=True,
            help=f"Do not choose: {BASELINE} alone, and no completion.",
        ),
        option(
            "--completer",
            section=part,
            default=DEFAULTS.completer,
            metavar="NAME",
            help=f"auto ({AUTO_COMPLETER} where hidden answers approve), {completers} "
            "[default: auto with --aggregator auto, else none].",
        ),
        option(
            "--preset",
            section=part,
            type=click.Choice(list(registry.PRESETS)),
            default=DEFAULTS.preset,
            show_default=True,
            help="Parameters for real data, or those of the paper's figures; flags override both.",
        ),
        option(
            "--seed",
            section=part,
            type=SEED,
            default=DEFAULTS.seed,
            show_default=True,
            help="Of every random start.",
        ),
        option(
            "--calibrate/--no-calibrate",
            section=part,
            default=DEFAULTS.calibrate,
            help="Temper confidences by hidden answers, or leave them raw [default: temper].",
        ),
        option(
            "--time-budget",
            section=part,
            type=Duration(),
            metavar="TIME",
            help="60s, 5m, 1h: an automatic choice uses what it has by then [default: none].",
        ),
        threads(part),
        *(option(f"--{flag}", **_shown(row)) for flag, row in method_options().items()),
    )


def _remember(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """An option that every command has and none needs to know of."""
    ctx.meta[f"misc_cli.{parameter.name}"] = value


def talking() -> Callable[[F], F]:
    """How much to say on stderr."""
    part = LAST
    return apply(
        option("-q", "--quiet", section=part, is_flag=True, help="No warnings, no summary."),
        option(
            "-v",
            "--verbose",
            section=part,
            is_flag=True,
            help="The summary, the expected time and every ten seconds where the run is, also if "
            "stderr is no terminal; tracebacks of defects.",
        ),
        option(
            "--log-format",
            section=part,
            type=click.Choice(logs.FORMATS),
            expose_value=False,
            callback=_remember,
            help="Log with times and, every 10 s, where the run is [default: no log; text with "
            "--log-file].",
        ),
        option(
            "--log-file",
            section=part,
            metavar="FILE",
            expose_value=False,
            callback=_remember,
            help="Add the log to this file [default: stderr].",
        ),
    )


def settings_from(parameters: dict[str, Any]) -> Settings:
    """Take a run's settings out of a command's parameters."""
    own = {field.name for field in fields(Settings)} - {"options"}
    chosen = {name: parameters.pop(name) for name in own if name in parameters}
    if parameters.pop("fast", False):
        if chosen.get("aggregator", AUTO) not in (AUTO, BASELINE):
            raise ConfigError(
                f"--fast is {BASELINE}: leave out --aggregator {chosen['aggregator']}"
            )
        chosen["aggregator"] = BASELINE
    names = [
        str(known.name)
        for known in click.get_current_context().command.params
        if _is_of_method(known)
    ]
    given = {name: parameters.pop(name, None) for name in names}
    options = {name: value for name, value in given.items() if value is not None}
    return Settings(**chosen, options=options)


def read_options_from(parameters: dict[str, Any]) -> Any:
    """Take the reading options out of a command's parameters."""
    from misc_cli.io.read import ReadOptions

    said = click.get_current_context().params.get("duplicates")  # settings_from takes it away
    names = [field.name for field in fields(ReadOptions) if field.name != "duplicates"]
    return ReadOptions(**{name: parameters.pop(name, None) for name in names}, duplicates=said)


def with_workers(read: Any) -> Any:
    """What was read, if it says who answered: else workers cannot be judged."""
    if read.anonymous:
        raise InputError(
            f"{read.files[0].name}: nobody says who answered; misc aggregate takes a plain "
            "majority vote of this, nothing more can be had"
        )
    return read
