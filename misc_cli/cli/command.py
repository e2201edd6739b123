"""Commands and groups of `misc`: help in sections, settings, guesses at what was meant.

Every option has a variable and a key in the file of settings (settings.py); the methods of other
packages add theirs when they are needed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import click

from misc_cli import registry
from misc_cli.cli import logs, settings, startup
from misc_cli.cli.parameters import Row, Tries, method_options
from misc_cli.errors import MiscError, did_you_mean, printable

F = TypeVar("F", bound=Callable[..., Any])
LAST = "Messages"
CONFIG = "misc_cli.config"  # where a context keeps the file of settings


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
                help="Settings, TOML: every flag by its name, at the top for all commands or in "
                "the table of one [default: misc.toml here, else tool.misc in pyproject.toml "
                "(neither may name files or places), else ~/.config/misc/misc.toml].",
            )
        )

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        return list(HELP_FLAGS)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; other packages' methods are looked up only for the help or a flag of theirs."""
        known = {flag for parameter in self.params for flag in parameter.opts}
        unknown = {word.partition("=")[0] for word in args if word.startswith("-")} - known
        if "aggregator" in {parameter.name for parameter in self.params} and unknown:
            self._add_plugins()
        words = list(args)  # the parser uses them up
        try:
            with telling_origin(ctx):
                return super().parse_args(ctx, args)
        except (click.UsageError, MiscError):
            logs.begin_with_an_error(sys.argv, *self._log_asked_for(ctx, words))
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
            last = max(at for at, known in enumerate(self.params) if is_of_method(known))
            taken = {flag for parameter in self.params for flag in parameter.opts}
            self.params[last + 1 : last + 1] = [
                Option([f"--{flag}"], **shown(row))
                for flag, row in method_options(plugins=True).items()
                if f"--{flag}" not in taken
            ]

    def invoke(self, ctx: click.Context) -> Any:
        startup.load_arrow()
        if ctx.params.get("threads") is not None:
            startup.limit_arrow(ctx.params["threads"])
        style, file = (ctx.meta.get(f"misc_cli.{name}") for name in ("log_format", "log_file"))
        self._say_settings(ctx)
        from misc_cli.data.resources import processes

        with logs.writing(sys.argv, style, file, self._files_named(ctx)), processes(True):
            return super().invoke(ctx)

    def _files_named(self, ctx: click.Context) -> list[str]:
        """Return every word that may name a file, and the file of settings, for the log's sake.

        Protects the file of settings: no output may replace it.
        """
        settings = ctx.meta[CONFIG].name if CONFIG in ctx.meta else ""
        if settings:
            from misc_cli.writers.output_paths import protect

            protect([settings])
        values = [v if isinstance(v, tuple | list) else (v,) for v in ctx.params.values()]
        return [settings, *(word for value in values for word in value if isinstance(word, str))]

    def _say_settings(self, ctx: click.Context) -> None:
        """Say with --verbose which settings came from where, and which variables set nothing."""
        style, file = (ctx.meta.get(f"misc_cli.{name}") for name in ("log_format", "log_file"))
        logged = style is not None and file is None  # then nothing else goes to stderr
        if not ctx.params.get("verbose") or ctx.params.get("quiet") or logged:
            return
        found = settings.sources_in_words(ctx, ctx.meta.get(CONFIG, settings.File()))
        if found:
            print(f"misc: settings: {printable(found)}", file=sys.stderr)
        for name, guess in settings.unknown_variables(ctx.find_root()):
            print(f"misc: warning: the variable {name} sets nothing{guess}", file=sys.stderr)

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
    """Find the file of settings, before any other option looks for its default."""
    if not ctx.resilient_parsing:
        file = settings.find(value)
        ctx.meta[CONFIG] = file
        if file.content:
            ctx.default_map = settings.default_map(ctx, file)


@contextmanager
def telling_origin(ctx: click.Context, file: settings.File | None = None) -> Iterator[None]:
    """Make a bad value that is not from the command line say where it is from."""
    try:
        yield
    except click.BadParameter as error:
        if error.param is not None:
            found = file or ctx.meta.get(CONFIG, settings.File())
            where = settings.origin(ctx, error.param, found)
            if where not in ("command line", "default"):
                message = f"{error.message} (from {where})"
                raise click.BadParameter(message, error.ctx, error.param) from None
        raise


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


def shown(row: Row) -> dict[str, Any]:
    """Return a method's parameter as the settings of an option."""
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


def is_of_method(parameter: click.Parameter) -> bool:
    """Tell whether an option is a method's parameter."""
    return isinstance(parameter, Option) and parameter.of_method
