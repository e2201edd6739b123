"""The command `misc`: a group that loads a command only when it is called or listed.

A command is one module here and one line in `COMMANDS`. Nothing in this package may import
numpy, scipy, pandas, pyarrow or rich at its top: `misc --help` should answer at once.
"""

from __future__ import annotations

from importlib import import_module

import click

from misc_cli.version import __version__

COMMANDS: dict[str, str] = {
    "aggregate": "misc_cli.cli.aggregate:command",
    "evaluate": "misc_cli.cli.evaluate:command",
    "datasets": "misc_cli.cli.datasets:group",
    "reproduce": "misc_cli.cli.reproduce:command",
    "simulate": "misc_cli.cli.simulate:command",
}


class LazyGroup(click.Group):
    """Commands by name, imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with: misc aggregate answers.csv -o labels.csv",
)
@click.version_option(__version__, prog_name="misc", message="%(prog)s %(version)s")
def misc() -> None:
    """One trustworthy label per item from noisy, incomplete crowd labels.

    Answers are rows of worker, item and label. Every command reads CSV or TSV files, "-" is stdin,
    and the result goes to stdout unless -o names a file.
    """
