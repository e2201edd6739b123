"""`misc report`: a run on one page, new or finished."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from misc_cli.cli import logs, options, outputs, startup
from misc_cli.errors import ConfigError, InputError

if TYPE_CHECKING:
    from misc_cli.cli.console import Console
    from misc_cli.report.frames import Report

DEFAULT = "report.html"

REPORT = """
misc report answers.csv
misc report answers.csv --truth truth.csv -o report.xlsx
misc report labels.run.json -o report.html --anonymize-workers
"""

sources_argument = click.argument("sources", nargs=-1, required=True, metavar="ANSWERS...|RUN.JSON")


# The options of a new run; a finished one takes none of them but --question.
run_options = options.apply(
    options.method_names,
    options.table(
        "Known labels",
        {
            "--gold FILE": "Items whose label is known (item,label): they teach the rest.",
            "--truth FILE": "True labels (item,label) to judge the result by.",
        },
    ),
    options.reading,
    options.talking,
)


def reports_from(
    sources: tuple[str, ...],
    parameters: dict[str, Any],
    console: Console,
    outputs: list[Path],
    *,
    of_workers: bool = False,
) -> dict[str | None, Report]:
    """Return the report of a finished run, or of a new one on these answers.

    They are by question where the run is of several; else there is one, by None.
    """
    from misc_cli.job.perform import run_in_memory
    from misc_cli.report.frames import anonymized
    from misc_cli.report.load_run import read_runs
    from misc_cli.run.run_record import files_read, read_record
    from misc_cli.writers.output_paths import check_writable

    hidden = parameters.get("anonymize_workers", False)
    runs = [source for source in sources if source.endswith("run.json")]
    if runs and len(sources) > 1:
        raise ConfigError(f"{runs[0]}: one run at a time; or name files of answers only")
    if runs:
        record = read_record(runs[0])
        options.refuse_run_flags(runs[0], but=["question"] if "questions" in record else [])
        check_writable(outputs, [*sources, *files_read(record)])
        with console.watching():
            found = read_runs(runs[0], parameters["question"])
        return {name: anonymized(one) if hidden else one for name, one in found.items()}
    request = options.request_of_run(sources, parameters, "gold", "truth")
    check_writable(outputs, request.files)
    with console.watching():
        run = run_in_memory(request, console, began=startup.since())
        if of_workers and run.inputs.read is not None and run.inputs.read.anonymous:
            raise InputError(f"{sources[0]}: nobody says who answered; misc items shows its votes")
        facts = run.record(warnings=console.warnings, command=options.command_line())
        return {None: run.report(facts, anonymize=hidden)}


@click.command(cls=options.Command, examples=REPORT)
@sources_argument
@options.table(
    "Output",
    {
        "-o --output FILE": "A page (.html), or a workbook (.xlsx, needs the extra excel); - is "
        "the page on stdout.",
        "--title TEXT": options.TITLE,
        "--anonymize-workers": options.ANONYMIZE,
    },
    output={"default": DEFAULT, "show_default": True},
)
@run_options
def report(sources: tuple[str, ...], **parameters: Any) -> None:
    """Make one page that shows whom to trust, what to ask again and whether to believe a run.

    Of answers it makes a run first, as misc aggregate does; of a finished run's labels.run.json it
    shows what that found, without running it again: a page for each question if it was of several.
    The page needs no network: send it, print it.
    """
    from misc_cli.cli.console import Console
    from misc_cli.job.outputs import check_report_name, report_bytes
    from misc_cli.writers.output_set import with_question, write_all

    console = Console.of(parameters)
    place = Path(parameters["output"])
    places = [] if parameters["output"] == "-" else [place]
    for path in places:
        check_report_name(path)
    found = reports_from(sources, parameters, console, places)
    if not places and len(found) > 1:
        raise ConfigError(
            f"{sources[0]}: of several questions, and stdout is for one page; pick one with "
            "--question, or name a file with -o"
        )
    pages = {}
    for question, one in found.items():
        titled = replace(one, title=parameters["title"] or "")
        page = report_bytes(titled, place if places else Path(DEFAULT))
        pages[place if question is None else with_question(place, question)] = page
    if not places:
        outputs.write(page)
        return
    write_all(pages)
    for path, page in pages.items():
        logs.event("done", output=str(path), bytes=len(page))
        console.say(f"written: {path}, {len(page) / 1e6:.1f} MB")
