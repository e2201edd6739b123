"""Commands and groups of `misc`: help in sections, settings, guesses at what was meant.

Every option has a variable and a key in the file of settings (settings.py). An option that is
`rare` is no flag: `-p NAME=VALUE` sets it, of whatever kind it is.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import click

from misc_cli.cli import logs, parameters, settings, startup
from misc_cli.data.parameters import Parameter
from misc_cli.errors import ConfigError, MiscError, did_you_mean, printable

F = TypeVar("F", bound=Callable[..., Any])
LAST = "Messages"
CONFIG = "misc_cli.config"  # where a context keeps the file of settings
ALL_FLAGS = "misc_cli.all_flags"  # and whether its help is to have every flag
MANY = 24  # flags from which a command shows only those that people use, unless asked
COMMON = {
    *("aggregator", "aggregators", "completer", "completers", "fast", "gold", "truth", "fail-if"),
    *("worker-col", "item-col", "label-col", "question", "each-question", "where", "no-answer"),
    *("output", "probabilities", "item-details", "workers", "report", "json", "state"),
    *("top", "sort", "below", "verdict", "all-columns", "quiet", "verbose", "config", "help"),
    *("price", "reach", "keep"),
}
# Settings of click by the metavar of an option; any other is text.
TYPES: dict[str, dict[str, Any]] = {
    "A,B": {"type": parameters.names},
    "A,B,…": {"type": parameters.names},
    "N": {"type": parameters.COUNT},
    "SIZE": {"type": parameters.size},
    "COND": {"multiple": True},
}
# Of every command, whatever context it is asked in: click keeps the first answer for ever.
HELP_FLAGS = ("-h", "--help")


class Option(click.Option):
    """An option in a section of the help; `declared` is what it is of a method's parameters."""

    def __init__(
        self,
        *args: Any,
        section: str = "Options",
        declared: Parameter | None = None,
        rare: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.section, self.declared, self.rare = section, declared, rare
        if rare:
            parameters.RARE.add(settings.key_of(self))

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        if not self.rare:
            super().add_to_parser(parser, ctx)

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> Any:
        """Return the value that a flag or -p gives, else a variable, a file or the default."""
        pairs = [word.partition("=") for word in opts.get("param") or ()]
        given = [value or "true" for name, _, value in pairs if _key(name) == settings.key_of(self)]
        if given and self.name not in opts:
            opts = {**opts, str(self.name): given if self.multiple else given[-1]}
        return super().consume_value(ctx, opts)

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """Return the value of the option's variable, MISC_ and its name (see settings.py)."""
        names = settings.variables(settings.path_of(ctx), settings.key_of(self))
        return next((os.environ[name] for name in names if os.environ.get(name)), None)

    def get_error_hint(self, ctx: click.Context | None) -> str:
        hint = super().get_error_hint(ctx)
        return hint.replace("--", "-p ") if self.rare else hint

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        if record is None or not self.rare:
            return record
        name, _, kind = record[0].removeprefix("--").partition(" ")
        return f"-p {name}={kind or 'yes'}", record[1]


def _key(name: str) -> str:
    return name.strip().lower().replace("_", "-")


def check_names(ctx: click.Context, option: click.Parameter, words: tuple[str, ...]) -> None:
    """Refuse a -p of no parameter, and one without a value."""
    known = {
        settings.key_of(one): one
        for one in ctx.command.params
        if isinstance(one, Option) and (one.rare or one.declared)
    }
    for word in words:
        name, sign, value = word.partition("=")
        if _key(name) not in known:
            guess = did_you_mean(_key(name), known) or "; misc help METHOD lists those of a method"
            raise ConfigError(f"-p {word}: no parameter is called {name!r}{guess}")
        if not value and (sign or not known[_key(name)].is_flag):
            raise ConfigError(f"-p {word}: give it a value, -p {_key(name)}=…")


def _show_all(ctx: click.Context, option: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta[ALL_FLAGS] = True
        click.echo(ctx.get_help())
        ctx.exit()


def _use_settings(ctx: click.Context, option: click.Parameter, value: str | None) -> None:
    """Find the file of settings, before any other option looks for its default."""
    with suppress(*([MiscError] if ctx.resilient_parsing else [])):
        ctx.meta[CONFIG] = file = settings.find(value)
        if file.content:
            ctx.default_map = settings.default_map(ctx, file)


def _unseen(flag: str, text: str, **more: Any) -> Option:
    """Return an option of every command that none needs to know of."""
    return Option([flag], section=LAST, expose_value=False, help=text, **more)


CONFIG_OPTION = _unseen(
    "--config",
    "Settings, TOML (misc help settings) [default: misc.toml or pyproject.toml here, else "
    "~/.config/misc/misc.toml].",
    metavar="FILE",
    is_eager=True,
    callback=_use_settings,
)
HELP_ALL = _unseen("--help-all", "Every flag.", is_flag=True, is_eager=True, callback=_show_all)
LOG_OPTIONS = [
    _unseen(
        "--log-format",
        "Log with times and, every 10 s, where the run is [default: no log; text with --log-file].",
        type=click.Choice(logs.FORMATS),
    ),
    _unseen("--log-file", "Add the log to this file [default: stderr].", metavar="FILE"),
]


def open_log(ctx: click.Context, words: list[str], info_name: str | None = None) -> None:
    """Open the log that words, variables or settings ask for, whatever else is wrong with them."""
    if logs.current is None:
        lenient: dict[str, Any] = {"ignore_unknown_options": True, "allow_extra_args": True}
        asked = click.Command("log", params=[CONFIG_OPTION, *LOG_OPTIONS], add_help_option=False)
        parent = ctx if info_name is None else ctx.parent
        here = click.Context(asked, parent, info_name, resilient_parsing=True, **lenient)
        opts, _, _ = asked.make_parser(here).parse_args(list(words))
        _, *found = (one.handle_parse_result(here, opts, [])[0] for one in asked.params)
        style, file = (one if isinstance(one, str) else None for one in found)
        logs.open_log(sys.argv, style, file, words)


class Group(click.Group):
    """A group that guesses which command was meant."""

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        return list(HELP_FLAGS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        if args and args[0] not in names and not args[0].startswith("-"):
            open_log(ctx, args)
            guess = did_you_mean(args[0], names)
            raise click.UsageError(f"No such command {args[0]!r}{guess}", ctx)
        return super().resolve_command(ctx, args)


class Command(click.Command):
    """A command whose help has sections, and examples as they were typed."""

    def __init__(self, *args: Any, examples: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples
        self.params.append(CONFIG_OPTION)
        self.is_long = len(self.params) > MANY
        if self.is_long:
            self.params.append(HELP_ALL)

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        return list(HELP_FLAGS)

    @property
    def n_flags(self) -> int:
        """Return the number of flags, --help included."""
        options = [one for one in self.params if isinstance(one, click.Option)]
        return 1 + sum(not getattr(one, "rare", False) for one in options)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; parameters of other packages' methods are looked up only where -p may set one."""
        known = {settings.key_of(one) for one in self.params}
        named = {_key(word.removeprefix("-p").partition("=")[0]) for word in args if "=" in word}
        if "param" in known and "aggregator" in known and not named <= known:
            theirs = parameters.method_options(plugins=True).keys() - known
            self.params += [Option([f"--{f}"], **of_method(f, plugins=True)) for f in theirs]
        if not ctx.resilient_parsing:
            open_log(ctx, args, ctx.info_name)
        try:
            return super().parse_args(ctx, args)
        except (click.UsageError, MiscError) as error:
            if isinstance(error, click.BadParameter) and error.param is not None:
                where = settings.origin(ctx, error.param, ctx.meta.get(CONFIG, settings.File()))
                if where not in ("command line", "default"):
                    message = f"{error.message} (from {where})"
                    raise click.BadParameter(message, error.ctx, error.param) from None
            if isinstance(error, click.NoSuchOption):
                from misc_cli.cli.help import hint_for_flag

                guess = hint_for_flag(ctx, error.option_name)
                raise click.UsageError(f"No such option {error.option_name}{guess}", ctx) from None
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Run with the log that was asked for; no output may replace the file of settings."""
        startup.load_arrow(ctx.params.get("threads"))
        config = ctx.meta.get(CONFIG, settings.File())
        logged = logs.current is not None and logs.current.is_stderr  # nothing else goes there
        told = ctx.params.get("verbose") and not ctx.params.get("quiet") and not logged
        if told and (found := settings.sources_in_words(ctx, config)):
            print(f"misc: settings: {printable(found)}", file=sys.stderr)
        if config.name:
            from misc_cli.writers.output_paths import protect

            protect([config.name])
        arguments = [one.name or "" for one in self.params if isinstance(one, click.Argument)]
        read = [word for name in arguments for word in (ctx.params.get(name) or ())]
        if not logged and "-" in read and startup.rows_are_typed():
            print("misc: waiting for rows to be typed or pasted; Ctrl-D ends them", file=sys.stderr)
        from misc_cli.data.resources import processes

        with processes(True):
            return super().invoke(ctx)

    def records(self, ctx: click.Context, *, brief: bool) -> dict[str, list[tuple[str, str]]]:
        """Return flags and their help by section; `brief` leaves out what few people use."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            wanted = not brief or settings.key_of(option) in COMMON
            if wanted and record is not None and isinstance(option, click.Option):
                sections.setdefault(getattr(option, "section", LAST), []).append(record)
        return sections

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples.strip().splitlines():
                    formatter.write(f"{'':>{formatter.current_indent}}{line.strip()}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        brief = self.is_long and not ctx.meta.get(ALL_FLAGS, False)
        for title, records in self.records(ctx, brief=brief).items():
            with formatter.section(title):
                formatter.write_dl(records, col_max=26 if brief else 34)
        if brief:
            formatter.write_paragraph()
            formatter.write_text(
                f"{ctx.command_path} --help-all has all {self.n_flags} flags; misc help "
                "explains methods and topics: misc help ds-em, misc help reading."
            )


def apply(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return several options as one decorator, in this order in the help."""

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def table(
    section: str,
    rows: Mapping[str, str],
    *,
    switch: bool | None = False,
    **more: Mapping[str, Any],
) -> Callable[[F], F]:
    """Return the options of a section as one decorator.

    `rows` are "-s --flag METAVAR" and the help. The metavar says the type: `TYPES`, words to choose
    from (a|b), else text; without one it is a switch, whose default is `switch`. One of "-p
    name=METAVAR" is rare, a switch if that is "yes". `more` are settings of click, by name.
    """
    options = []
    for words, text in rows.items():
        flags = [word for word in words.split() if word.startswith("-")]
        metavar = " ".join(words.split()[len(flags) :])
        given: dict[str, Any] = {}
        if flags == ["-p"]:
            name, _, metavar = metavar.partition("=")
            flags, given = [f"--{name}"], {"rare": True}
            metavar = metavar.removesuffix("yes")
        if re.fullmatch(r"[a-z]+(\|[a-z]+)+", metavar):
            given |= {"type": click.Choice(metavar.split("|"))}
        elif metavar:
            given |= {"metavar": metavar, **TYPES.get(metavar, {})}
        else:
            given |= {"is_flag": True, "default": switch}
        given |= more.get(flags[-1].partition("/")[0].strip("-").replace("-", "_"), {})
        options.append(click.option(*flags, cls=Option, section=section, help=text, **given))
    return apply(*options)


def of_method(flag: str, *, plugins: bool = False) -> dict[str, Any]:
    """Return the settings of the option that a method's parameter is."""
    row = parameters.method_options(plugins=plugins)[flag]
    parameter = row.parameter
    return {
        "section": row.section,
        "declared": parameter,
        "rare": flag not in parameters.FLAGS,
        "type": parameters.click_type(parameter),
        "metavar": row.metavar,
        "help": f"{parameter.help} [default: {row.default}]".strip(),
    }
