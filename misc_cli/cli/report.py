"""`misc report`: a run to look at, as one page or one workbook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from misc_cli.cli import options, outputs, report_source

DEFAULT = "report.html"

EXAMPLES = """
misc report answers.csv
misc report answers.csv --truth truth.csv -o report.xlsx
misc report labels.run.json -o report.html --anonymize-workers
"""


@click.command(cls=options.Command, examples=EXAMPLES)
@report_source.sources_argument()
@options.option(
    "-o",
    "--output",
    section="Output",
    metavar="FILE",
    default=DEFAULT,
    show_default=True,
    help="A page (.html), or a workbook (.xlsx, needs misc-cli[excel]); - is the page on stdout.",
)
@report_source.source_options()
def command(sources: tuple[str, ...], **parameters: Any) -> None:
    """Make one page that shows whom to trust, what to ask again and whether to believe a run.

    Of answers it makes a run first, as misc aggregate does; of a finished run's labels.run.json it
    shows what that found, without running it again. The page needs no network: send it, print it.
    """
    from misc_cli.cli.console import Console

    console = Console.of(parameters)
    place = None if parameters["output"] == "-" else Path(parameters["output"])
    if place is not None:
        report_source.check_report_name(place)
    report = report_source.report_from(sources, parameters, console, [place] if place else [])
    made = report_source.report_bytes(report, place or Path(DEFAULT))
    outputs.write_bytes(made, place)
    if place is not None:
        console.summary([("written", f"{place}, {len(made) / 1e6:.1f} MB")])
