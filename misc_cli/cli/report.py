"""`misc report`: a run to look at, as one page or one workbook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from misc_cli.cli import options, outputs, report_source
from misc_cli.errors import ConfigError

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
    shows what that found, without running it again: a page for each question if it was of several.
    The page needs no network: send it, print it.
    """
    from misc_cli.cli.console import Console
    from misc_cli.job import check_report_name, report_bytes
    from misc_cli.writers.output_set import Output, content, write_all
    from misc_cli.writers.run_outputs import with_question

    console = Console.of(parameters)
    place = None if parameters["output"] == "-" else Path(parameters["output"])
    if place is not None:
        check_report_name(place)
    reports = report_source.reports_from(sources, parameters, console, [place] if place else [])
    if place is None:
        if len(reports) > 1:
            raise ConfigError(
                f"{sources[0]}: of several questions, and stdout is for one page; pick one with "
                "--question, or name a file with -o"
            )
        (report,) = reports.values()
        outputs.write_bytes(report_bytes(report, Path(DEFAULT)))
        return
    pages = {
        place if question is None else with_question(place, question): report_bytes(report, place)
        for question, report in reports.items()
    }
    write_all([Output(path, content(page)) for path, page in pages.items()])
    for path, page in pages.items():
        facts = {"output": str(path), "bytes": len(page)}
        console.summary([("written", f"{path}, {len(page) / 1e6:.1f} MB")], facts)
