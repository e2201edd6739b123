"""Commands and groups of `misc`: help in sections, settings, guesses at what was meant."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from misc_cli.cli import settings, startup
from misc_cli.cli.parameters import method_options, table
from misc_cli.errors import did_you_mean, printable

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
# What other tools call our flags.
MEANT = {
    **dict.fromkeys(("method", "algorithm", "model"), "aggregator"),
    **dict.fromkeys(("filter", "since", "until", "time-col"), "where"),
    **{"out": "output", "sep": "delimiter", "jobs": "threads", "n-iter": "max-iter"},
    **{"ground-truth": "truth", "budget": "top", "random-state": "seed"},
}


class Group(click.Group):
    """A group whose commands are imported on demand, and that guesses which one was meant.

    `places` are "module:attribute" and the summary of each command; `titles` are those of sections
    of the help, by their first command.
    """

    places: Mapping[str, tuple[str, str]] = {}
    titles: Mapping[str, str] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.places:
            return None
        module, _, attribute = self.places[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(f"misc_cli.cli.{module}"), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        found = self.get_command(ctx, args[0])
        if found is None and not ctx.resilient_parsing:  # a shell may ask about anything
            guess = did_you_mean(args[0], self.list_commands(ctx))
            raise click.UsageError(f"No such command {args[0]!r}{guess}", ctx)
        return args[0], found, args[1:]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        title = ""
        for name, (_, summary) in self.places.items():
            title = self.titles.get(name, title)
            sections.setdefault(title, []).append((name, summary))
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows, col_max=18)


def _show_all(ctx: click.Context, option: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta[ALL_FLAGS] = True
        click.echo(ctx.get_help())
        ctx.exit()


def _use_settings(ctx: click.Context, option: click.Parameter, value: str | None) -> None:
    """Find the file of settings, before any other option looks for its default."""
    if not ctx.resilient_parsing:
        ctx.meta[CONFIG] = file = settings.find(value)
        if file.content:
            ctx.default_map = settings.default_map(ctx, file)


_EAGER = {"is_eager": True, "expose_value": False, "allow_from_autoenv": False}
CONFIG_OPTION, HELP_ALL = table(
    LAST,
    {
        "--config FILE": "Settings, TOML (docs/nightly.md) [default: ./misc.toml, else "
        "~/.config/misc/misc.toml].",
        "--help-all": "Every flag.",
    },
    config={**_EAGER, "envvar": "MISC_CONFIG", "callback": _use_settings},
    help_all={**_EAGER, "callback": _show_all},
)


class Command(click.Command):
    """A command whose help has sections, and examples as they were typed."""

    def __init__(self, *args: Any, examples: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples
        self.params.append(CONFIG_OPTION)
        self.is_long = len(self.params) > MANY
        if self.is_long:
            self.params.append(HELP_ALL)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; `-p NAME=VALUE` is `--NAME=VALUE`, also of another package's method."""
        end = args.index("--") if "--" in args else len(args)
        if "-p" in args[:end]:
            words = iter(args[:end])
            given = [f"--{next(words, 'param')}" if word == "-p" else word for word in words]
            args = [*given, *args[end:]]
            known = {settings.key_of(one) for one in self.params}
            theirs = method_options(plugins=True) if "aggregator" in known else []
            self.params += [one for one in theirs if settings.key_of(one) not in known]
        try:
            return super().parse_args(ctx, args)
        except click.BadParameter as error:
            file = ctx.meta.get(CONFIG, settings.File())
            where = "" if error.param is None else settings.origin(ctx, error.param, file)
            said = f"{error.message} (from {where})" if where else error.message
            raise click.BadParameter(said, error.ctx, error.param) from None
        except click.NoSuchOption as error:
            from difflib import get_close_matches

            word = error.option_name.lstrip("-").lower().replace("_", "-")
            own = settings.settable(self)
            same = MEANT.get(word, "")
            near = [same] if same in own else get_close_matches(word, own, 2, 0.7)
            meant = " or ".join(f"--{one}" for one in near)
            guess = f"; did you mean {meant}?" if near else ""
            raise click.UsageError(f"No such option {error.option_name}{guess}", ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run with the log that was asked for; no output may replace the file of settings."""
        startup.load_arrow(ctx.params.get("threads"))
        config = ctx.meta.get(CONFIG, settings.File())
        told = ctx.params.get("verbose") and not ctx.params.get("quiet")
        if told and (found := settings.sources_in_words(ctx, config)):
            print(f"misc: settings: {printable(found)}", file=sys.stderr)
        if (log := ctx.params.pop("log_file", None)) is not None:
            from misc_cli.cli.logs import Log

            Log(log, ctx.params.values())
        if config.name:
            from misc_cli.writers.output_paths import protect

            protect([config.name])
        from misc_cli.data.resources import limits

        with limits(processes=True):
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
                f"{ctx.command_path} --help-all has all flags; misc help explains methods and "
                "topics: misc help ds-em, misc help reading."
            )
