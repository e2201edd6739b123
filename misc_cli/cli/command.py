"""Commands and groups of `misc`: help in sections, settings, guesses at what was meant.

Every option has a variable and a key in the file of settings (settings.py); the methods of other
packages add theirs when they are needed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import click

from misc_cli import registry
from misc_cli.cli import logs, settings, startup
from misc_cli.cli.parameters import NumberType, Row, click_type, joined, method_options
from misc_cli.data.parameters import Parameter
from misc_cli.errors import MiscError, did_you_mean, printable

F = TypeVar("F", bound=Callable[..., Any])
LAST = "Messages"
# Sections of the flags that only a new run takes.
RUN_SECTIONS = ("Method", "Reading", "Known labels")
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


# Of every command, whatever context it is asked in: click keeps the first answer for ever.
HELP_FLAGS = ("-h", "--help")


class Group(click.Group):
    """A group that guesses which command was meant."""

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        return list(HELP_FLAGS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        if args and args[0] not in names and not args[0].startswith("-"):
            guess = did_you_mean(args[0], names)
            logs.begin_with_an_error(sys.argv, *logs.asked_for(args))
            raise click.UsageError(f"No such command {args[0]!r}{guess}", ctx)
        return super().resolve_command(ctx, args)


class Option(click.Option):
    """An option in a section of the help; `declared` is what it is of a method's parameters."""

    def __init__(
        self,
        *args: Any,
        section: str = "Options",
        declared: Parameter | None = None,
        **kwargs: Any,
    ) -> None:
        if isinstance(kwargs.get("type"), NumberType):
            kwargs.setdefault("metavar", "N")
        super().__init__(*args, **kwargs)
        self.section = section
        self.declared = declared

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """Return the value of the option's variable, MISC_ and its name (see settings.py)."""
        names = settings.variables(settings.path_of(ctx), settings.key_of(self))
        return next((os.environ[name] for name in names if os.environ.get(name)), None)

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Leave out ranges: the help text says what matters, an error message the rest."""
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
                help="Settings, TOML (misc help settings) [default: misc.toml or pyproject.toml "
                "here, else ~/.config/misc/misc.toml].",
            )
        )
        if len(self.params) > MANY:
            self.params.append(
                Option(
                    ["--help-all"],
                    section=LAST,
                    is_flag=True,
                    is_eager=True,
                    expose_value=False,
                    callback=_show_all,
                    help="Every flag.",
                )
            )

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        return list(HELP_FLAGS)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; other packages' methods are looked up only for the help or a flag of theirs."""
        known = {flag for parameter in self.params for flag in parameter.opts} - {"--help-all"}
        unknown = {word.partition("=")[0] for word in args if word.startswith("-")} - known
        if "aggregator" in {parameter.name for parameter in self.params} and unknown:
            self._add_plugins()
        words = list(args)  # the parser uses them up
        try:
            return super().parse_args(ctx, args)
        except (click.UsageError, MiscError) as error:
            logs.begin_with_an_error(sys.argv, *self._log_asked_for(ctx, words))
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

    def _log_asked_for(self, ctx: click.Context, words: list[str]) -> tuple[str | None, str | None]:
        """Return the log that words, variables or settings ask for, whatever else is wrong."""
        style, file = logs.asked_for(words)
        if CONFIG not in ctx.meta:  # the words were not understood before it was its turn
            with suppress(click.UsageError, MiscError):
                _use_settings(ctx, self.params[-1], None)
        for parameter in self.params:
            if parameter.name == "log_format" and style is None:
                found = parameter.consume_value(ctx, {})[0]
                style = found if found in logs.FORMATS else None
            if parameter.name == "log_file" and file is None:
                found = parameter.consume_value(ctx, {})[0]
                file = found if isinstance(found, str) else None
        return style, file

    def _add_plugins(self) -> None:
        for parameter in self.params:
            if isinstance(parameter, click.Option) and parameter.name in registry.KINDS:
                theirs = [n for n in registry.plugin_names(parameter.name) if n not in self.plugins]
                self.plugins += theirs
                if theirs:
                    parameter.help = f"{parameter.help} Other packages add {', '.join(theirs)}."
        if self.plugins:
            last = max(at for at, known in enumerate(self.params) if of_method(known))
            taken = {flag for parameter in self.params for flag in parameter.opts}
            self.params[last + 1 : last + 1] = [
                Option([f"--{flag}"], **shown(row))
                for flag, row in method_options(plugins=True).items()
                if f"--{flag}" not in taken
            ]

    def invoke(self, ctx: click.Context) -> Any:
        """Run with the log that was asked for; no output may replace the file of settings."""
        startup.ask_for_memory()
        startup.load_arrow(ctx.params.get("threads"))
        style, file = (ctx.meta.get(f"misc_cli.{name}") for name in ("log_format", "log_file"))
        config = ctx.meta.get(CONFIG, settings.File())
        logged = style is not None and file is None  # then nothing else goes to stderr
        if ctx.params.get("verbose") and not ctx.params.get("quiet") and not logged:
            found = settings.sources_in_words(ctx, config)
            if found:
                print(f"misc: settings: {printable(found)}", file=sys.stderr)
            for name, guess in settings.unknown_variables(ctx.find_root()):
                print(f"misc: warning: the variable {name} sets nothing{guess}", file=sys.stderr)
        if config.name:
            from misc_cli.writers.output_paths import protect

            protect([config.name])
        given = [v if isinstance(v, tuple | list) else (v,) for v in ctx.params.values()]
        if not logged and "-" in _arguments(ctx) and startup.rows_are_typed():
            print("misc: waiting for rows to be typed or pasted; Ctrl-D ends them", file=sys.stderr)
        files = [config.name, *(word for words in given for word in words if isinstance(word, str))]
        from misc_cli.data.resources import processes

        with logs.writing(sys.argv, style, file, files), processes(True):
            return super().invoke(ctx)

    def records(self, ctx: click.Context, *, brief: bool) -> dict[str, list[tuple[str, str]]]:
        """Return flags and their help by section; `brief` leaves out what few people use."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            wanted = not brief or settings.key_of(parameter) in COMMON
            if wanted and record is not None and isinstance(parameter, click.Option):
                section = getattr(parameter, "section", LAST)
                sections.setdefault(section, []).append(record)
        return sections

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples.strip().splitlines():
                    formatter.write(f"{'':>{formatter.current_indent}}{line.strip()}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        brief = len(self.params) > MANY and not ctx.meta.get(ALL_FLAGS, False)
        for title, records in self.records(ctx, brief=brief).items():
            with formatter.section(title):
                formatter.write_dl(records, col_max=26 if brief else 34)
        if brief:
            formatter.write_paragraph()
            formatter.write_text(
                f"{ctx.command_path} --help-all has all {len(self.params)} flags; misc help "
                "explains methods and topics: misc help ds-em, misc help reading."
            )


def _show_all(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta[ALL_FLAGS] = True
        click.echo(ctx.get_help())
        ctx.exit()


def _arguments(ctx: click.Context) -> list[str]:
    """Return the words of the command line that are no options."""
    names = [one.name or "" for one in ctx.command.params if isinstance(one, click.Argument)]
    given = [ctx.params.get(name) or () for name in names]
    return [word for words in given for word in ([words] if isinstance(words, str) else words)]


def _use_settings(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Find the file of settings, before any other option looks for its default."""
    if not ctx.resilient_parsing:
        file = settings.find(value)
        ctx.meta[CONFIG] = file
        if file.content:
            ctx.default_map = settings.default_map(ctx, file)


def apply(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return several options as one decorator, in this order in the help."""

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def option(*flags: str, section: str, **given: Any) -> Callable[[F], F]:
    """Return a click option in a section of the help."""
    return click.option(*flags, cls=Option, section=section, **given)


def table(
    section: str,
    rows: Mapping[str, str],
    *,
    switch: bool | None = False,
    **more: Mapping[str, Any],
) -> Callable[[F], F]:
    """Return the options of a section as one decorator.

    `rows` are "-s --flag METAVAR" and the help; an option that has no metavar and no type is a
    switch, whose default is `switch`. `more` are settings of click, by the parameter's name.
    """
    options = []
    for words, text in rows.items():
        flags = [word for word in words.split() if word.startswith("-")]
        metavar = words.split()[len(flags) :]
        given = more.get(flags[-1].partition("/")[0].strip("-").replace("-", "_"), {})
        if metavar:
            given = {"metavar": metavar[0], **given}
        elif "type" not in given:
            given = {"is_flag": True, "default": switch, **given}
        options.append(option(*flags, section=section, help=text, **given))
    return apply(*options)


def shown(row: Row) -> dict[str, Any]:
    """Return the settings of the option that a method's parameter is."""
    parameter = row.parameter
    several = " Several: hidden answers choose." if parameter.several else ""
    return {
        "section": row.section,
        "declared": parameter,
        "type": click_type(parameter),
        "metavar": row.metavar,
        "help": f"{parameter.help}{several} [default: {row.default}]".strip(),
        "multiple": parameter.several,
        "callback": (lambda ctx, option, words: joined(parameter, words)) if several else None,
    }


def of_method(parameter: click.Parameter) -> bool:
    return isinstance(parameter, Option) and parameter.declared is not None
