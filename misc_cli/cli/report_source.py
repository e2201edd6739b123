"""What `misc report`, `misc workers` and `misc items` share: where their report comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from misc_cli.cli import options, reading_options
from misc_cli.cli.job import Job
from misc_cli.errors import ConfigError

if TYPE_CHECKING:
    from misc_cli.cli.console import Console
    from misc_cli.readers.answer_table import ReadResult
    from misc_cli.readers.options import ReadOptions
    from misc_cli.report.frames import Report
    from misc_cli.run.result import Outcome

F = TypeVar("F", bound=Callable[..., Any])
AGGREGATE = "aggregate"
PAGE, WORKBOOK = ".html", ".xlsx"
_known = partial(options.option, section="Known labels")


def sources_argument() -> Callable[[F], F]:
    return click.argument("sources", nargs=-1, required=True, metavar="ANSWERS...|RUN.JSON")


def source_options() -> Callable[[F], F]:
    """How to make the report: the options of a run, which a finished run has behind it."""
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


def report_from(
    sources: tuple[str, ...], parameters: dict[str, Any], console: Console, outputs: list[Path]
) -> Report:
    """The report of a finished run, or of a new one on these answers."""
    from misc_cli.report.frames import anonymized
    from misc_cli.report.load_run import is_run, read_run
    from misc_cli.writers.output_paths import check_writable

    known = [parameters[name] for name in ("gold", "truth") if parameters[name] is not None]
    check_writable(outputs, [*sources, *known])
    runs = [source for source in sources if is_run(source)]
    if runs and len(sources) > 1:
        raise ConfigError(f"{runs[0]}: one run at a time; or name files of answers only")
    with console.watching():
        if not runs:
            return _new_run(sources, parameters, console)
        report = read_run(runs[0], _reading_of)
        return anonymized(report) if parameters["anonymize_workers"] else report


def _new_run(sources: tuple[str, ...], parameters: dict[str, Any], console: Console) -> Report:
    job = Job.of(sources, parameters)
    done = job.run(console, job.read(with_times=True))
    facts = done.manifest({}, console.warnings)
    return report_of(
        done.outcome, facts, done.materials.read, anonymize=parameters["anonymize_workers"]
    )


def _reading_of(facts: Mapping[str, Any]) -> ReadOptions:
    """How a finished run read its answers: what its own command said."""
    from misc_cli.cli.aggregate import command

    words = [str(word) for word in facts.get("command", [])]
    if words[:1] != [AGGREGATE]:
        words = [AGGREGATE, "-"]  # the Python API: answers that were read with no options
    context = command.make_context(AGGREGATE, words[1:], resilient_parsing=True)
    reading: ReadOptions = reading_options.read_options_from(dict(context.params))
    return reading


def report_of(
    outcome: Outcome, facts: dict[str, Any], read: ReadResult, *, anonymize: bool
) -> Report:
    """The report of a run that has just ended."""
    from misc_cli.report.frames import anonymized, build

    report = build(outcome, facts, read.answers, read.times)
    return anonymized(report) if anonymize else report


def check_report_name(path: Path) -> None:
    """A report is a page or a workbook, by its name; a workbook needs its library beforehand."""
    from misc_cli.writers.output_paths import check_suffix

    check_suffix(path, (PAGE, WORKBOOK))
    if path.suffix.lower() == WORKBOOK:
        from misc_cli.report.workbook import library

        library()


def report_bytes(report: Report, path: Path) -> bytes:
    """The page or the workbook, by the name of the file it goes to."""
    if path.suffix.lower() == WORKBOOK:
        from misc_cli.report.workbook import workbook

        return workbook(report)
    from misc_cli.report.page import render

    return render(report).encode()
