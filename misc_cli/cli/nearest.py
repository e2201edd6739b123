"""A group of commands that guesses which name was meant."""

from __future__ import annotations

import sys

import click

from misc_cli.cli import logs
from misc_cli.errors import did_you_mean

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
