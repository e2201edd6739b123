"""`misc workers`: the workers of a run, worst first."""

from __future__ import annotations

from typing import Any

import click

from misc_cli.cli import options, report_table

EXAMPLES = """
misc workers answers.csv --top 10
misc workers labels.run.json --sort -answers
misc workers answers.csv --aggregator ds-em --json > workers.json
"""


@click.command(cls=options.Command, examples=EXAMPLES)
@report_table.parameters("workers")
def command(sources: tuple[str, ...], **parameters: Any) -> None:
    """List workers, worst first: answers, accuracy, information, agreement and a verdict.

    Takes what misc report takes: answers, which it runs on first, or a finished run's
    labels.run.json.
    """
    report_table.show("workers", sources, parameters)
