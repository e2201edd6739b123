"""A group of commands that guesses which name was meant."""

from __future__ import annotations

from collections.abc import Iterable

import click

# Of every command, whatever context it is asked in: click keeps the first answer for ever.
HELP_FLAGS = ("-h", "--help")


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """A question to put after a message; nothing if no name is near."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(names), n=3)
    return f"; did you mean {' or '.join(near)}?" if near else ""


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
            raise click.UsageError(f"No such command {args[0]!r}{guess}", ctx)
        return super().resolve_command(ctx, args)
