"""`misc report`, `misc workers`, `misc items`: a run to look at, new or finished."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from misc_cli.cli import logs, options, outputs, startup
from misc_cli.cli.parameters import COUNT
from misc_cli.errors import ConfigError, InputError

if TYPE_CHECKING:
    from misc_cli.cli.console import Console
    from misc_cli.report.frames import Report

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT = "report.html"
TOP = 20
TEXTS = ("label", "runner_up", "majority", "truth", "verdict", "alike", "reason")
# Flags that a finished run heeds, besides --question where it is of several.
OF_A_FINISHED_RUN = (
    *("output", "title", "anonymize_workers", "sort", "top", "json", "budget"),
    *("quiet", "verbose", "log_format", "log_file", "config"),
)
RUN_SUFFIX = "run.json"

REPORT = """
misc report answers.csv
misc report answers.csv --truth truth.csv -o report.xlsx
misc report labels.run.json -o report.html --anonymize-workers
"""

WORKERS = """
misc workers answers.csv --top 10
misc workers labels.run.json --sort -answers
misc workers answers.csv --aggregator ds-em --json > workers.json
"""

ITEMS = """
misc items answers.csv --top 50
misc items labels.run.json --sort answers
misc items answers.csv --aggregator ds-em --json > items.json
"""


sources_argument = click.argument("sources", nargs=-1, required=True, metavar="ANSWERS...|RUN.JSON")


def source_options() -> Callable[[F], F]:
    """Return the options of a new run; a finished one takes none of them but --question."""
    known = {
        "--gold FILE": "Items whose label is known (item,label): they teach the rest.",
        "--truth FILE": "True labels (item,label) to judge the result by.",
    }
    return options.apply(
        options.table("Output", {"--anonymize-workers": options.ANONYMIZE}),
        options.table("Known labels", known),
        options.methods(),
        options.reading,
        options.talking,
    )


def finished_run(sources: Sequence[str]) -> str | None:
    """Return the run.json that the sources are; None if they are answers."""
    runs = [source for source in sources if source.endswith(RUN_SUFFIX)]
    if runs and len(sources) > 1:
        raise ConfigError(f"{runs[0]}: one run at a time; or name files of answers only")
    if not runs:
        return None
    from misc_cli.run.run_record import read_record

    several = "questions" in read_record(runs[0])
    options.refuse_flags(runs[0], [*OF_A_FINISHED_RUN, *(["question"] if several else [])])
    return runs[0]


def reports_from(
    sources: tuple[str, ...], parameters: dict[str, Any], console: Console, outputs: list[Path]
) -> dict[str | None, Report]:
    """Return the report of a finished run, or of a new one on these answers.

    They are by question where the run is of several; else there is one, by None.
    """
    from misc_cli.job.question_run import run_in_memory
    from misc_cli.report.frames import anonymized
    from misc_cli.report.load_run import read_runs
    from misc_cli.writers.output_paths import check_writable

    hidden = parameters["anonymize_workers"]
    run_file = finished_run(sources)
    if run_file is not None:
        check_writable(outputs, sources)
        with console.watching():
            found = read_runs(run_file, parameters["question"])
        return {name: anonymized(one) if hidden else one for name, one in found.items()}
    request = options.request_from(sources, parameters, "gold", "truth")
    check_writable(outputs, request.files)
    with console.watching():
        (run,) = run_in_memory(request, console, began=startup.since(), with_times=True)
        facts = run.record({}, console.warnings, options.command_line())
        return {None: run.report(facts, anonymize=hidden)}


@click.command(cls=options.Command, examples=REPORT)
@sources_argument
@options.option(
    "-o",
    "--output",
    section="Output",
    metavar="FILE",
    default=DEFAULT,
    show_default=True,
    help="A page (.html), or a workbook (.xlsx, needs misc-cli[excel]); - is the page on stdout.",
)
@options.table("Output", {"--title TEXT": options.TITLE})
@source_options()
def report(sources: tuple[str, ...], **parameters: Any) -> None:
    """Make one page that shows whom to trust, what to ask again and whether to believe a run.

    Of answers it makes a run first, as misc aggregate does; of a finished run's labels.run.json it
    shows what that found, without running it again: a page for each question if it was of several.
    The page needs no network: send it, print it.
    """
    from misc_cli.cli.console import Console
    from misc_cli.job.outputs import check_report_name, report_bytes
    from misc_cli.writers.output_set import Output, content, write_all
    from misc_cli.writers.run_outputs import with_question

    console = Console.of(parameters)
    place = None if parameters["output"] == "-" else Path(parameters["output"])
    if place is not None:
        check_report_name(place)
    found = reports_from(sources, parameters, console, [place] if place else [])
    title = parameters["title"] or ""
    reports = {question: replace(one, title=title) for question, one in found.items()}
    if place is None:
        if len(reports) > 1:
            raise ConfigError(
                f"{sources[0]}: of several questions, and stdout is for one page; pick one with "
                "--question, or name a file with -o"
            )
        (only,) = reports.values()
        outputs.write_bytes(report_bytes(only, Path(DEFAULT)))
        return
    pages = {
        place if question is None else with_question(place, question): report_bytes(one, place)
        for question, one in reports.items()
    }
    write_all([Output(path, content(page)) for path, page in pages.items()])
    for path, page in pages.items():
        logs.event("done", output=str(path), bytes=len(page))
        console.say(f"written: {path}, {len(page) / 1e6:.1f} MB")


def table_options(first: str) -> Callable[[F], F]:
    """Return the arguments and options of a command whose table has `first` rows on top."""
    rows = {
        "--sort COL": f"By this column; -COL from the largest down [default: {first} first].",
        "--top N": f"So many rows [default: {TOP}; all of them with --json].",
        "--json": "As JSON.",
    }
    return options.apply(
        sources_argument,
        options.table("Output", rows, top={"type": COUNT}),
        source_options(),
    )


@click.command(cls=options.Command, examples=WORKERS)
@table_options("worst")
def workers(sources: tuple[str, ...], **parameters: Any) -> None:
    """List workers, worst first: answers, accuracy, information, agreement and a verdict.

    Takes what misc report takes: answers, which it makes a run of first, or a finished run's
    labels.run.json.
    """
    show("workers", sources, parameters)


@click.command(cls=options.Command, examples=ITEMS)
@table_options("least sure")
def items(sources: tuple[str, ...], **parameters: Any) -> None:
    """List items, least sure first: label, confidence, answers, votes, overruled or tied.

    Takes what misc report takes: answers, which it makes a run of first, or a finished run's
    labels.run.json.
    """
    show("items", sources, parameters)


def show(name: str, sources: tuple[str, ...], parameters: dict[str, Any]) -> None:
    """Print the frame `name` of the report on these sources; of several questions, one each."""
    from misc_cli.cli.console import Console, Table, print_tables
    from misc_cli.report.frames import confusion_columns, visible
    from misc_cli.run.run_record import strict

    console = Console.of(parameters)
    reports = reports_from(sources, parameters, console, [])
    as_json, sort = parameters["json"], parameters["sort"]
    tables, records = [], {}
    for question, report in reports.items():
        frame = report.frames.get(name)
        if frame is None:
            raise InputError(f"{sources[0]}: {' '.join(report.missing)}")
        n_rows, column = len(frame), (sort or "").removeprefix("-")
        if sort is not None:
            if column not in frame:
                known = [one for one in frame.columns if one not in confusion_columns(frame)]
                raise ConfigError(f"--sort {sort}: choose from {', '.join(known)}")
            frame = frame.sort_values(column, ascending=sort == column, kind="stable")
        frame = frame.head(parameters["top"] or (n_rows if as_json else TOP))
        if as_json:
            plain = frame.astype(object).where(frame.notna(), None)
            records[question] = strict(plain.to_dict("records"))
            continue
        # the reason is long: it comes last, where a narrow terminal may break it
        last = [one for one in ("reason",) if one in frame]
        shown = frame.drop(columns=[*confusion_columns(frame), *last]).join(frame[last])
        rows = [[visible(_cell(value)) for value in row] for row in shown.itertuples(index=False)]
        more = f"{len(frame):,} of {n_rows:,} {name}; --top shows more"
        notes = [] if len(frame) == n_rows else [more]
        header = [str(one) for one in shown.columns]
        tables.append(Table(question or "", header, rows, notes=notes, texts=TEXTS))
        for said in report.missing:
            console.warn(said)
    if not as_json:
        print_tables(tables)
    elif None in records:
        outputs.write_bytes(outputs.json_bytes(**{name: records[None]}))
    else:
        found = [{"question": question, name: rows} for question, rows in records.items()]
        outputs.write_bytes(outputs.json_bytes(questions=found))


def _cell(value: Any) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)
