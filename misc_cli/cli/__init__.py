"""The command line: a module per command, loaded only when it is called.

A command is one module here, one line in `COMMANDS` and one in `SUMMARIES`. Nothing in this package
may import numpy, scipy, pandas, pyarrow or rich at its top: `misc --help` should answer at once.
"""

from __future__ import annotations

from importlib import import_module

import click

from misc_cli.cli.command import Group
from misc_cli.errors import EXIT_CODES
from misc_cli.version import __version__

COMMANDS: dict[str, str] = {
    "aggregate": "misc_cli.cli.aggregate:command",
    "report": "misc_cli.cli.report:report",
    "workers": "misc_cli.cli.report:workers",
    "items": "misc_cli.cli.report:items",
    "inspect": "misc_cli.cli.inspect:command",
    "compare": "misc_cli.cli.compare:command",
    "queue": "misc_cli.cli.queue:command",
    "evaluate": "misc_cli.cli.evaluate:command",
    "diff": "misc_cli.cli.diff:command",
    "rerun": "misc_cli.cli.rerun:command",
    "shell-completion": "misc_cli.cli.completion:command",
    "datasets": "misc_cli.cli.datasets:group",
    "reproduce": "misc_cli.cli.reproduce:command",
    "simulate": "misc_cli.cli.simulate:command",
    "verify": "misc_cli.cli.verify:command",
}

# What `misc --help` says of them: read from the modules, these lines would double its time.
SUMMARIES: dict[str, str] = {
    "aggregate": "Turn answers into one label per item.",
    "report": "Show a run on one page: whom to trust, what to ask again.",
    "workers": "List workers, worst first.",
    "items": "List items, least sure first.",
    "inspect": "Say what is in files of answers and how they would be read.",
    "compare": "Rank methods by how well they forecast hidden answers.",
    "queue": "List the items to ask again first.",
    "evaluate": "Judge labels by the truth.",
    "diff": "Say which labels and workers changed between two runs.",
    "rerun": "Make the labels of a recorded run again.",
    "shell-completion": "Print the completion script of bash, zsh or fish.",
    "datasets": "List, fetch and find the public datasets.",
    "reproduce": "Run the paper's table, ours beside the paper's.",
    "simulate": "Make up a crowd and its answers, with the truth.",
    "verify": "Check that a run's files are one whole set.",
}


class LazyGroup(Group):
    """Commands by name, imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, SUMMARIES[name]) for name in COMMANDS])
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
