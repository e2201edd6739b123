"""One table of a report on the terminal or as JSON: `misc workers` and `misc items`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from misc_cli.cli import options, outputs, report_source
from misc_cli.cli.method_options import COUNT
from misc_cli.errors import ConfigError, InputError

if TYPE_CHECKING:
    import pandas as pd

F = TypeVar("F", bound=Callable[..., Any])
TOP = 20
TEXTS = ("label", "runner_up", "majority", "truth", "verdict", "alike", "reason")
_output = partial(options.option, section="Output")


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


def parameters(first: str) -> Callable[[F], F]:
    """The arguments and options of a command whose table has the `first` rows on top."""
    return options.apply(
        report_source.sources_argument(),
        _output(
            "--sort",
            metavar="COL",
            help=f"By this column; -COL from the largest down [default: {first} first].",
        ),
        _output(
            "--top",
            type=COUNT,
            metavar="N",
            help=f"So many rows [default: {TOP}; all of them with --json].",
        ),
        _output("--json", "as_json", is_flag=True, help="As JSON."),
        report_source.source_options(),
    )


@click.command(cls=options.Command, examples=WORKERS)
@parameters("worst")
def workers(sources: tuple[str, ...], **parameters: Any) -> None:
    """List workers, worst first: answers, accuracy, information, agreement and a verdict.

    Takes what misc report takes: answers, which it makes a run of first, or a finished run's
    labels.run.json.
    """
    show("workers", sources, parameters)


@click.command(cls=options.Command, examples=ITEMS)
@parameters("least sure")
def items(sources: tuple[str, ...], **parameters: Any) -> None:
    """List items, least sure first: label, confidence, answers, votes, overruled or tied.

    Takes what misc report takes: answers, which it makes a run of first, or a finished run's
    labels.run.json.
    """
    show("items", sources, parameters)


def show(name: str, sources: tuple[str, ...], parameters: dict[str, Any]) -> None:
    """Print the frame `name` of the report on these sources; of several questions, one each."""
    from misc_cli.cli.console import Console, print_tables

    console = Console.of(parameters)
    reports = report_source.reports_from(sources, parameters, console, [])
    tables, records = [], {}
    for question, report in reports.items():
        frame = report.frames.get(name)
        if frame is None:
            raise InputError(f"{sources[0]}: {' '.join(report.missing)}")
        n_rows = len(frame)
        frame = _sorted(frame, parameters["sort"])
        top = parameters["top"] or (n_rows if parameters["as_json"] else TOP)
        frame = frame.head(top)
        records[question] = _records(frame)
        tables.append(_table(frame, n_rows, name, question or ""))
        if not parameters["as_json"]:
            for said in report.missing:
                console.warn(said)
    if not parameters["as_json"]:
        print_tables(tables)
    elif None in records:
        outputs.write_bytes(outputs.json_bytes(**{name: records[None]}))
    else:
        found = [{"question": question, name: rows} for question, rows in records.items()]
        outputs.write_bytes(outputs.json_bytes(questions=found))


def _sorted(frame: pd.DataFrame, column: str | None) -> pd.DataFrame:
    if column is None:
        return frame
    name = column.removeprefix("-")
    if name not in frame:
        from misc_cli.report.frames import confusion_columns

        known = [name for name in frame.columns if name not in confusion_columns(frame)]
        raise ConfigError(f"--sort {column}: choose from {', '.join(known)}")
    return frame.sort_values(name, ascending=column == name, kind="stable")


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    from misc_cli.run.diagnostics import strict

    rows: list[dict[str, Any]] = strict(
        frame.astype(object).where(frame.notna(), None).to_dict("records")
    )
    return rows


def _table(frame: pd.DataFrame, n_rows: int, name: str, title: str) -> Any:
    from misc_cli.cli.text_table import Table
    from misc_cli.report.frames import confusion_columns, visible

    # the reason is long: it comes last, where a narrow terminal may break it
    last = [name for name in ("reason",) if name in frame]
    shown = frame.drop(columns=[*confusion_columns(frame), *last]).join(frame[last])
    rows = [[visible(_cell(value)) for value in row] for row in shown.itertuples(index=False)]
    notes = (
        [] if len(frame) == n_rows else [f"{len(frame):,} of {n_rows:,} {name}; --top shows more"]
    )
    return Table(title, [str(column) for column in shown.columns], rows, notes=notes, texts=TEXTS)


def _cell(value: Any) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)
