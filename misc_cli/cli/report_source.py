"""What `misc report`, `misc workers`, `misc items` and `misc queue` share: the run to look at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from misc_cli.cli import options, reading_options, startup
from misc_cli.errors import ConfigError

if TYPE_CHECKING:
    from misc_cli.cli.console import Console
    from misc_cli.report.frames import Report

F = TypeVar("F", bound=Callable[..., Any])
# Flags that a finished run heeds, besides --question where it is of several.
OF_A_FINISHED_RUN = (
    *("output", "anonymize_workers", "sort", "top", "as_json", "budget"),
    *("quiet", "verbose", "log_format", "log_file", "config"),
)
RUN_SUFFIX = "run.json"
_known = partial(options.option, section="Known labels")


def sources_argument() -> Callable[[F], F]:
    return click.argument("sources", nargs=-1, required=True, metavar="ANSWERS...|RUN.JSON")


def source_options() -> Callable[[F], F]:
    """Return the options of a new run; a finished one takes none of them but --question."""
    return options.apply(
        anonymize(),
        _known(
            "--gold",
            metavar="FILE",
            help="Items whose label is known (item,label): they teach the rest.",
        ),
        _known(
            "--truth",
            metavar="FILE",
            help="True labels (item,label) to judge the result by.",
        ),
        options.methods(),
        reading_options.flags(),
        options.talking(),
    )


def anonymize() -> Callable[[F], F]:
    return options.option(
        "--anonymize-workers",
        section="Output",
        is_flag=True,
        help="A number in place of each worker's name: for a report that leaves the house.",
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
    from misc_cli.job import run_in_memory
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
