"""`misc queue`: which items to ask again first."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from misc_cli.cli import options, outputs, reading_options
from misc_cli.cli.job import Job

_output = partial(options.option, section="Output")

EXAMPLES = """
misc queue answers.csv --budget 200 -o ask_again.csv
misc queue answers.csv --budget 50 --aggregator ds-em
"""


@click.command(cls=options.Command, examples=EXAMPLES)
@options.answers_argument()
@_output(
    "--budget",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many items at most [default: every item that an answer could help].",
)
@_output("-o", "--output", metavar="FILE", help="[default: stdout]")
@_output("--gold", metavar="FILE", help="Items whose label is known: never asked again.")
@options.methods()
@reading_options.flags()
@options.talking()
def command(answers: tuple[str, ...], **parameters: Any) -> None:
    """List the items whose label gains most from one more answer, best first, as CSV.

    The gain is the expected rise in the probability that the label is right, per further answer of
    a typical worker, looking up to three answers ahead. That is not the lowest confidence: an item
    on which no answer will settle anything is not worth asking about.
    """
    from misc_cli.cli.console import Console
    from misc_cli.run.tables import queue_columns
    from misc_cli.writers.output_paths import check_writable

    console = Console.of(parameters)
    place = outputs.output_file(parameters["output"])
    job = Job.of(answers, parameters)
    check_writable([] if place is None else [place], job.files)
    with console.watching():
        materials = job.read()
        reading_options.with_workers(materials.read)
        outcome = job.run(console, materials).outcome
    outputs.write_columns(queue_columns(outcome, parameters["budget"]), place)
