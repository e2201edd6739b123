"""The command line: a module per command, loaded only when it is called.

A command is one module here and one line in `COMMANDS`. Nothing in this package may import numpy,
scipy, pandas or pyarrow at its top: `misc --help` should answer at once.
"""

from __future__ import annotations

import click

from misc_cli.cli.command import Group
from misc_cli.version import __version__

# Where each command is, and what `misc --help` says of it: read from the modules, these lines
# would double its time.
COMMANDS: dict[str, tuple[str, str]] = {
    "aggregate": ("aggregate:command", "Turn answers into one label per item."),
    "inspect": ("inspect:command", "Say what is in files of answers and how they would be read."),
    "compare": ("compare:command", "Rank methods by how well they forecast hidden answers."),
    "report": ("report:report", "Show a run on one page: whom to trust, what to ask again."),
    "workers": ("report:workers", "List workers, worst first."),
    "items": ("report:items", "List items, least sure first."),
    "queue": ("report:queue", "List the items to ask again first."),
    "evaluate": ("evaluate:evaluate", "Judge labels by the truth."),
    "diff": ("evaluate:diff", "Say which labels and workers changed between two runs."),
    "verify": ("evaluate:verify", "Check that a run's files are one whole set."),
    "rerun": ("evaluate:rerun", "Make the labels of a recorded run again."),
    "simulate": ("datasets:simulate", "Make up a crowd and its answers, with the truth."),
    "datasets": ("datasets:group", "List, fetch and find the public datasets."),
    "reproduce": ("compare:reproduce", "Run the paper's table, ours beside the paper's."),
    "help": ("help:command", "Explain a command, a method such as ds-em, or a topic."),
    "version": ("help:version", "Print the version."),
}
# The first command of each section of the help.
GROUPS = {
    "aggregate": "Label",
    "report": "Look",
    "diff": "Every night",
    "simulate": "Research",
    "help": "Help",
}


@click.group(
    cls=Group,
    context_settings={
        "auto_envvar_prefix": "MISC",
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
    },
    epilog="Start with: misc aggregate answers.csv -o labels.csv",
)
@click.version_option(
    __version__,
    "-V",
    "--version",
    prog_name="misc",
    message="%(prog)s %(version)s",
    allow_from_autoenv=False,
)
def misc() -> None:
    """One trustworthy label per item from noisy, incomplete crowd labels.

    Answers are rows of worker, item and label, in CSV, TSV, JSON or Parquet files; "-" is stdin.
    Results go to stdout unless -o names a file.
    """


misc.places, misc.titles = COMMANDS, GROUPS
