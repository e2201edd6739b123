"""`misc inspect`: say what is in files of answers and how they would be read."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from misc_cli.cli import options, tables
from misc_cli.cli.tables import Table, facts_of, print_tables

EXAMPLES = """
misc inspect answers.csv --worker-col annotator
misc inspect exports/ --json
"""

Facts = dict[str, Any]


@options.command(
    EXAMPLES, options.answers_argument, *options.reading, *options.json_output, *options.talking
)
def command(answers: tuple[str, ...], **parameters: Any) -> None:
    """Say what is in files of answers and how they would be read, before any modelling.

    The format and how it was told; who is worker, item and label; the questions and the flag that
    picks each; what is left out and why; the classes; how far the answers agree. What the other
    commands would refuse is reported here: the exit code is 0 unless a file cannot be opened.
    """
    from misc_cli.cli.console import Console
    from misc_cli.job.inspection import inspected

    console = Console(**parameters, sources=answers)
    with console.watching():
        found = inspected(answers, options.read_options_from(parameters))
    advice = _advice(found["files"], found["questions"])
    if parameters["json"]:
        tables.write(tables.json_bytes(**found, command=advice))
        return
    shown = []
    for file in found["files"]:
        rows = facts_of(file, hidden=("name", "readings"))
        for flags, samples in file["readings"]:
            rows.append(("or", f"misc aggregate {shlex.quote(file['name'])} {flags}"))
            rows += [("", " | ".join(sample)) for sample in samples]
        shown.append(Table(file["name"], rows=rows))
    for question in found["questions"]:
        rows = facts_of(question, hidden=("name", "n_answers", "ordered"))
        shown.append(Table(f"question {question['name']!r}", rows=rows))
    refused = "to settle first: what stands above as refused"
    print_tables([*shown, Table("", notes=[f"to run: {advice}" if advice else refused])])


def _advice(files: Sequence[Facts], questions: Sequence[Facts]) -> str | None:
    """Return the command to run next; None if something must be decided first."""
    readable = [one for one in questions if one["kind"] in ("choice", "choices", "number")]
    doubts = [one["refused"] for one in (*files, *readable) if one.get("kind") != "choices"]
    if any(doubts) or not readable:
        return None
    words = [word for word in options.command_line()[1:] if word not in ("--json", "-v", "-q")]
    command = ["misc", "aggregate", *map(shlex.quote, words)]
    if len(readable) > 1 and "--question" not in words:
        command.append("--each-question")
    if any(one["kind"] == "choices" and "items" not in one for one in readable):
        command.append("" if "--multi" in words else "--multi split --each-question")
    if any(one["n_gold"] for one in readable):
        command.append("--gold auto")
    return " ".join(dict.fromkeys(filter(None, [*command, "-o labels.csv"])))
