"""`misc aggregate`: answers in, one label per item out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from misc_cli.cli import (
    options,
    outputs,
    previous_outputs,
    reading_options,
    replay,
    report_source,
    scaled,
    several_questions,
    state_options,
)
from misc_cli.cli.extra_outputs import companions
from misc_cli.cli.fail_if import METRICS, Gate, holding, parse_gates, refuse
from misc_cli.cli.job import Job, Performed, command_line
from misc_cli.cli.scaled import ENGINES
from misc_cli.errors import ConfigError

if TYPE_CHECKING:
    from misc_cli.cli.console import Console
    from misc_cli.quality.changes import Changes
    from misc_cli.writers.run_outputs import After

_output = partial(options.option, section="Output")
_judging = partial(options.option, section="Known labels and gates")
_scale = partial(options.option, section="Past one machine (docs/scale.md)")

EXAMPLES = """
misc aggregate answers.csv -o labels.csv
misc aggregate answers.csv --aggregator one-coin --probabilities > labels.csv
zcat answers.csv.gz | misc aggregate - --workers workers.csv -o labels.csv
misc aggregate answers.csv --truth truth.csv --fail-if 'error>5' -o labels.csv
misc aggregate exports/*.csv -o labels.csv --changes changes.csv --fail-if 'flips>2%'
misc aggregate day1.csv day2.csv --worker-col annotator --item-col url --label-col 3
"""


@click.command(cls=options.Command, examples=EXAMPLES)
@options.answers_argument()
@options.methods()
@options.option(
    "--as-chosen",
    section="Method",
    metavar="RUN.JSON",
    help="The methods, weights and calibration that this earlier run chose, without choosing "
    "again: the same answers give the same bytes.",
)
@reading_options.flags()
@_output(
    "-o",
    "--output",
    metavar="FILE",
    help="Labels; beside it appear FILE's .diagnostics.jsonl and .run.json [default: stdout].",
)
@_output("--probabilities", is_flag=True, help="A column p_<class> per class.")
@_output(
    "--item-details",
    is_flag=True,
    help="Columns answers, tie, runner_up, entropy and what else the method knows of items.",
)
@_output(
    "--workers",
    metavar="FILE",
    help="Per worker: answers, accuracy with its interval, a verdict and its reason, whom it errs "
    "together with, confusion matrix.",
)
@_output(
    "--report",
    metavar="FILE",
    help="The run to look at: one page (.html), or a workbook (.xlsx, needs misc-cli[excel]).",
)
@report_source.anonymize()
@_output(
    "--diagnostics",
    metavar="FILE",
    help="One JSON object per iteration [default: beside the output, if that is a file].",
)
@_output(
    "--changes",
    metavar="FILE",
    help="What changed since the labels (and --workers) that this run replaces: items flipped, "
    "new and gone, workers that fell and rose.",
)
@_output(
    "--metrics",
    metavar="FILE",
    help="The run in numbers in Prometheus' text format, for its node exporter to collect.",
)
@state_options.flags()
@_judging(
    "--gold",
    metavar="FILE",
    help="Items whose label is known (item,label): kept as they are, and they teach the rest; "
    "auto takes the gold that the answers' files carry.",
)
@_output(
    "--each-question",
    is_flag=True,
    help="Every question of the files; its name goes before the suffix, labels.mood.csv.",
)
@_output(
    "--rejects",
    metavar="FILE",
    help="Rows that were set aside, as CSV: file, line, reason.",
)
@_judging(
    "--truth",
    metavar="FILE",
    help="True labels (item,label) to judge the result by; never used to make it.",
)
@_judging(
    "--fail-if",
    metavar="COND",
    multiple=True,
    help="Exit with 3, after writing everything, if METRIC OP VALUE holds; OP is < <= > >= = !=, "
    f"METRIC one of {', '.join(METRICS)}. Repeatable.",
)
@_scale(
    "--engine",
    type=click.Choice(ENGINES),
    default="local",
    show_default=True,
    help="Where the answers live: in memory, in files (disk) or on a Dask cluster; the latter two "
    "take -o FOLDER/ for labels in parts.",
)
@_scale(
    "--spill",
    metavar="DIR",
    help="disk: where its files go while it runs [default: the system's temporary folder].",
)
@_scale(
    "--scheduler",
    metavar="tcp://…",
    help="dask: the cluster's address [default: a cluster of this machine's cores].",
)
@options.talking()
def command(answers: tuple[str, ...], **parameters: Any) -> None:
    """Turn answers into one label per item.

    Answers are rows of worker, item and label; the result is item,label,confidence, sorted by
    item. Files may be CSV, TSV or what crowd platforms export, plain or compressed; several count
    as one; "-" is stdin.
    """
    if parameters["engine"] != "local":
        scaled.run(answers, parameters)
        return
    from misc_cli.cli.console import Console
    from misc_cli.writers.output_paths import check_writable

    console = Console.of(parameters)
    for name, owner in scaled.OWNERS.items():
        if parameters[name] is not None:
            raise ConfigError(f"--{name} is for --engine {owner}")
    asked = {"answers": answers, **parameters}
    job = Job.of(answers, parameters)
    gates = parse_gates(parameters["fail_if"], parameters["truth"])
    places = outputs.places_of(parameters)
    if parameters["each_question"]:
        several_questions.check(parameters, places)
        with console.watching():
            several_questions.run(job, parameters, places, gates, console)
        return
    check_writable(places.values(), job.files, stdout="labels" not in places)
    with console.watching():
        tonight = state_options.open_state(asked, places)
        _run(job, parameters, places, gates, console, tonight, state_options.plain(asked))


def _run(
    job: Job,
    parameters: dict[str, Any],
    places: dict[str, Path],
    gates: list[Gate],
    console: Console,
    tonight: state_options.StateSession | None,
    asked: Mapping[str, Any],
) -> None:
    from misc_cli.cli.summary import summary

    fitter = state_options.fitter(tonight, parameters, job.methods.settings.aggregator)
    if parameters["as_chosen"] is not None:
        if tonight is not None or parameters["workers_prior"] is not None:
            raise ConfigError("--as-chosen repeats a run; --state, --workers-prior change it")
        fitter = replay.fitter_of(parameters["as_chosen"])
    written = {} if tonight is None else tonight.written
    earlier = previous_outputs.read_previous(parameters["changes"], gates, places, written)
    materials = job.read(with_times="report" in places)
    if tonight is not None and (figures := tonight.unchanged(materials.files)) is not None:
        console.say(f"nothing to do: no input, flag or output changed since {tonight.last}")
        tripped = holding(gates, figures)
        figures = {**figures, "gates-tripped": len(tripped)}
        tonight.nothing_done(figures, materials.watch.seconds)
        refuse(tripped, figures, "nothing to do")
        return
    done = job.run(console, materials, fitter)
    outcome = done.outcome
    changes = None
    if earlier is not None:
        changes = earlier.of(outcome)
        outcome.figures.update(changes.figures)
    tripped = holding(gates, outcome.figures)
    outcome.figures["gates-tripped"] = len(tripped)
    again = {"asked": asked, "state": None if tonight is None else tonight.record}
    after = None
    if tonight is not None:
        after = partial(tonight.outputs, outcome, materials.files)
    _write(done, parameters, places, console.warnings, changes, again, after)
    at_terminal = console.terminal and not console.quiet
    rows = summary(outcome, places, materials.read.set_aside, closely=at_terminal)
    if tonight is not None:
        tonight.written_down()
        rows.insert(-1, tonight.summary())
    console.summary(rows)
    refuse(tripped, outcome.figures, "done and written")


def _write(
    done: Performed,
    parameters: dict[str, Any],
    places: dict[str, Path],
    warnings: list[str],
    changes: Changes | None,
    again: Mapping[str, Any],
    after: After | None,
) -> None:
    """All files at once, and stdout: a reader who leaves early costs no file.

    `again` is what `misc rerun` needs besides the inputs; `after` are the files of a state.
    """
    from misc_cli.writers.run_outputs import write_set

    outcome = done.outcome

    def facts(outputs: Mapping[str, str]) -> dict[str, Any]:
        repeat = replay.repeating(command_line(), outcome.members, places)
        return {**done.manifest(outputs, warnings), "repeat": repeat, **again}

    hidden = parameters["anonymize_workers"]
    write_set(
        outcome,
        places,
        facts,
        probabilities=parameters["probabilities"],
        item_details=parameters["item_details"],
        more=companions(done, places, facts, changes, anonymize=hidden),
        after=after,
    )
