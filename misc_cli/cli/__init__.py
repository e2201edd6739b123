"""The command line: a module per command, loaded only when it is called.

A command is one module here and one line in `COMMANDS`. Nothing in this package may import numpy,
scipy, pandas or pyarrow at its top: `misc --help` should answer at once.
"""

from __future__ import annotations

from importlib import import_module

import click

from misc_cli.cli.command import Group
from misc_cli.errors import EXIT_CODES
from misc_cli.version import __version__

# Where each command is, and what `misc --help` says of it: read from the modules, these lines
# would double its time.
COMMANDS: dict[str, tuple[str, str]] = {
    "aggregate": ("aggregate:command", "Turn answers into one label per item."),
    "report": ("report:report", "Show a run on one page: whom to trust, what to ask again."),
    "workers": ("lists:workers", "List workers, worst first."),
    "items": ("lists:items", "List items, least sure first."),
    "inspect": ("inspect:command", "Say what is in files of answers and how they would be read."),
    "compare": ("compare:command", "Rank methods by how well they forecast hidden answers."),
    "queue": ("lists:queue", "List the items to ask again first."),
    "evaluate": ("evaluate:command", "Judge labels by the truth."),
    "diff": ("diff:command", "Say which labels and workers changed between two runs."),
    "rerun": ("rerun:command", "Make the labels of a recorded run again."),
    "shell-completion": ("completion:command", "Print the completion script of bash, zsh or fish."),
    "datasets": ("datasets:group", "List, fetch and find the public datasets."),
    "reproduce": ("reproduce:command", "Run the paper's table, ours beside the paper's."),
    "simulate": ("simulate:command", "Make up a crowd and its answers, with the truth."),
    "verify": ("verify:command", "Check that a run's files are one whole set."),
}


class LazyGroup(Group):
    """Commands by name, imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(f"misc_cli.cli.{module}"), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in EXIT_CODES.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"max_content_width": 100},
    epilog="Start with: misc aggregate answers.csv -o labels.csv",
)
@click.version_option(__version__, prog_name="misc", message="%(prog)s %(version)s")
def misc() -> None:
    """One trustworthy label per item from noisy, incomplete crowd labels.

    Answers are rows of worker, item and label, in CSV, TSV, JSON or Parquet files; "-" is stdin.
    Results go to stdout unless -o names a file.
    """
