"""What a run may write besides labels, workers and diagnostics: by the name of its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from misc_cli.cli import report_source

if TYPE_CHECKING:
    from misc_cli.cli.job import Performed
    from misc_cli.quality.changes import Changes
    from misc_cli.run.result import Outcome
    from misc_cli.writers.run_outputs import Write


def of_any_engine(
    outcome: Outcome, places: Mapping[str, Path], changes: Changes | None
) -> dict[str, Write]:
    """Writers of changes and metrics."""
    from misc_cli.quality.changes import change_columns
    from misc_cli.run.prometheus import exposition
    from misc_cli.writers.render import write_table

    def write_changes(stream: BinaryIO) -> None:
        rows = change_columns(changes) if changes is not None else {}
        write_table(rows, stream, places["changes"].name)

    return {
        "changes": write_changes,
        "metrics": lambda stream: _say(stream, exposition(outcome).encode()),
    }


def companions(
    done: Performed,
    places: Mapping[str, Path],
    facts: Callable[[Mapping[str, str]], dict[str, Any]],
    changes: Changes | None,
    *,
    anonymize: bool,
) -> dict[str, Write]:
    """The same, and of rejects and the report; `facts` makes the manifest."""
    from misc_cli.readers.answer_table import reject_columns
    from misc_cli.writers.render import write_table

    read = done.materials.read

    def write_report(stream: BinaryIO) -> None:
        made = report_source.report_of(done.outcome, facts({}), read, anonymize=anonymize)
        stream.write(report_source.report_bytes(made, places["report"]))

    return {
        **of_any_engine(done.outcome, places, changes),
        "rejects": lambda stream: write_table(
            reject_columns(read.rejects), stream, places["rejects"].name
        ),
        "report": write_report,
    }


def _say(stream: BinaryIO, text: bytes) -> None:
    stream.write(text)
