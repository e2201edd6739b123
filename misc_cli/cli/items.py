"""`misc items`: the items of a run, least sure first."""

from __future__ import annotations

from typing import Any

import click

from misc_cli.cli import options, report_table

EXAMPLES = """
misc items answers.csv --top 50
misc items labels.run.json --sort answers
misc items answers.csv --aggregator ds-em --json > items.json
"""


@click.command(cls=options.Command, examples=EXAMPLES)
@report_table.parameters("items")
def command(sources: tuple[str, ...], **parameters: Any) -> None:
    """List items, least sure first: label, confidence, answers, votes, overruled or tied.

    Takes what misc report takes: answers, which it runs on first, or a finished run's
    labels.run.json.
    """
    report_table.show("items", sources, parameters)
