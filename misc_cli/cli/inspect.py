"""`misc inspect`: say what is in files of answers and how they would be read."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from misc_cli.cli import options, tables
from misc_cli.cli.tables import Table, print_tables

EXAMPLES = """
misc inspect export.json
misc inspect answers.csv --worker-col annotator
misc inspect exports/ --json
"""
SHOWN = 12  # classes, columns and workers in the tables; --json has all of them
MOST_OF_CELL = 80  # letters

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
    shown = [Table(file["name"], rows=_file_rows(file), left=2) for file in found["files"]]
    for question in found["questions"]:
        title = f"question {question['name']!r}"
        shown.append(Table(title, rows=_question_rows(question), left=2))
    refused = "to settle first: what stands above as refused"
    print_tables([*shown, Table("", notes=[f"to run: {advice}" if advice else refused])])


def _advice(files: Sequence[Facts], questions: Sequence[Facts]) -> str | None:
    """Return the command to run next; None if something must be decided first."""
    readable = [one for one in questions if one["kind"] in ("choice", "choices", "number")]
    if any(file["refused"] for file in files) or not readable:
        return None
    if any(one["refused"] for one in readable if one["kind"] != "choices"):
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


def _file_rows(file: Facts) -> list[tuple[str, str]]:
    rows = [("format", file["format"] + (f", {file['title']}" if file["title"] else ""))]
    if file["how"]:
        rows.append(("told by", file["how"]))
    rows.append(("columns", _few(file["columns"])))
    if file["set_aside"]:
        rows.append(("left out", _aside(file["set_aside"])))
    rows += [("note", note) for note in file["notes"]]
    if file["refused"]:
        rows.append(("refused", file["refused"]))
    for flags, samples in file["readings"]:
        rows.append(("or", f"misc aggregate {shlex.quote(file['name'])} {flags}"))
        rows += [("", " | ".join(map(_short, sample))) for sample in samples]
    return rows


def _question_rows(facts: Facts) -> list[tuple[str, str]]:
    rows = [("kind", facts["kind"]), ("answers", f"{facts['n_answers']:,}")]
    if facts["flag"]:
        rows.append(("picked by", facts["flag"]))
    rows += list(facts["columns"].items())
    rows += [("sample", " | ".join(map(_short, sample))) for sample in facts["samples"]]
    if facts["options"]:
        rows.append(("options", _few(facts["options"])))
    rows += _figure_rows(facts) if "items" in facts else []
    if facts["n_gold"]:
        rows.append(("gold", f"{facts['n_gold']:,} items; --gold auto takes it"))
    return rows + [("refused", reason) for reason in facts["refused"]]


def _figure_rows(figures: Facts) -> list[tuple[str, str]]:
    classes = [f"{name} {count:,}" for name, count in figures["classes"].items()]
    who = "nobody says who answered" if figures["anonymous"] else f"{figures['workers']:,}"
    rows = [("workers", who), ("items", f"{figures['items']:,}")]
    rows.append(("classes", f"{len(classes):,}: {_few(classes)}"))
    for of in ("item", "worker"):
        counts = figures[f"answers_per_{of}"]
        spread = f"{counts['least']} to {counts['most']} answers, {counts['mean']} on average"
        rows.append((f"per {of}", spread))
    alike = [" and ".join(map(repr, names)) for names in figures["spellings"]]
    rows += [("spelled", f"{names}; --fold-case makes them one") for names in alike]
    if figures["agreement"] is not None:
        alpha = "" if figures["alpha"] is None else f" (alpha {figures['alpha']:.3f})"
        said = f"two answers to an item agree in {100 * figures['agreement']:.0f} %{alpha}"
        rows.append(("agreement", said))
    if figures["one_label_workers"]:
        rows.append(("one label", f"is all that {_few(figures['one_label_workers'])} ever gave"))
    return rows + ([("set aside", _aside(figures["set_aside"]))] if figures["set_aside"] else [])


def _aside(counts: dict[str, int]) -> str:
    listed = ", ".join(f"{n:,} {reason}" for reason, n in counts.items())
    return f"{sum(counts.values()):,}: {listed}"


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(" ".join(str(name).split())[:40] for name in names[:SHOWN])
    return shown + (f", … ({len(names):,} in all)" if len(names) > SHOWN else "")


def _short(cell: str) -> str:
    return cell if len(cell) <= MOST_OF_CELL else f"{cell[:MOST_OF_CELL]}…"
