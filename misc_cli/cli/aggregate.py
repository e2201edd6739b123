"""`misc aggregate`: answers in, one label per item out."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from misc_cli.cli import options, startup
from misc_cli.errors import MiscError

if TYPE_CHECKING:
    from misc_cli.cli.console import Console
    from misc_cli.job.perform import Finished

ENGINES = ("local", "disk", "dask")

EXAMPLES = """
misc aggregate answers.csv -o labels.csv
misc aggregate answers.csv --aggregator one-coin --probabilities > labels.csv
zcat answers.csv.gz | misc aggregate - --workers workers.csv -o labels.csv
misc aggregate answers.csv --truth truth.csv --fail-if 'error>5' -o labels.csv
misc aggregate exports/*.csv -o labels.csv --state state --fail-if 'flips>2%'
misc aggregate day1.csv day2.csv --worker-col who --item-col url --label-col 3
"""


@click.command(cls=options.Command, examples=EXAMPLES)
@options.answers_argument
@options.methods
@options.reading
@options.table(
    "Output",
    {
        "-o --output FILE": "Labels; beside it appear FILE's .diagnostics.jsonl and .run.json "
        "[default: stdout].",
        "--probabilities": "A column p_<class> per class.",
        "--item-details": "Columns answers, tie, runner_up, entropy and what else the method "
        "knows of items.",
        "--workers FILE": "Per worker: answers, accuracy, a verdict and its reason, confusions.",
        "--report FILE": "The run to look at: one page (.html), or a workbook (.xlsx, needs "
        "the extra excel).",
        "--title TEXT": options.TITLE,
        "--anonymize-workers": options.ANONYMIZE,
        "--diagnostics FILE": "One JSON object per iteration [default: beside the output, if that "
        "is a file].",
        "--changes FILE": "What changed since the labels (and --workers) that this run replaces: "
        "items flipped, new and gone, workers that fell and rose.",
        "--metrics FILE": "The run in numbers in Prometheus' text format, for its node exporter "
        "to collect.",
        "--each-question": "Every question of the files; its name goes before the suffix, "
        "labels.mood.csv.",
        "--rejects FILE": "Rows that were set aside, as CSV: file, line, reason.",
    },
)
@options.state
@options.table(
    "Known labels and gates",
    {
        "--gold FILE": "Items whose label is known (item,label): kept as they are, and they teach "
        "the rest; auto takes the gold that the answers' files carry.",
        "--truth FILE": "True labels (item,label) to judge the result by; never used to make it.",
        "--fail-if COND": "Publish nothing and exit with 3 if a figure is so: 'error>5', "
        "'confidence<0.8', 'flips>2%'; misc help gates lists them. Repeatable.",
        "--keep-rejected DIR|no": "Where a set goes that --fail-if keeps from being published "
        "[default: labels.rejected beside labels.csv].",
        "--publish-anyway": "Publish the set and the state although a --fail-if holds; the exit "
        "code is still 3.",
    },
    fail_if={"multiple": True},
)
@options.table(
    "Past one machine (docs/scale.md)",
    {
        "--engine": "Where the answers live: in memory, in files (disk) or on a Dask cluster; the "
        "latter two take -o FOLDER/ for labels in parts.",
        "--spill DIR": "disk: where its files go while it runs [default: the system's temporary "
        "folder].",
        "--scheduler tcp://…": "dask: the cluster's address [default: a cluster of this machine's "
        "cores].",
    },
    engine={"type": click.Choice(ENGINES), "default": "local", "show_default": True},
)
@options.talking
def command(answers: tuple[str, ...], **parameters: Any) -> None:
    """Turn answers into one label per item.

    Answers are rows of worker, item and label; the result is item,label,confidence, sorted by
    item. Files may be CSV, TSV or what crowd platforms export, plain or compressed; several count
    as one; "-" is stdin.
    """
    from misc_cli.cli.console import Console
    from misc_cli.job.perform import performed
    from misc_cli.run.run_record import gauges
    from misc_cli.writers.output_paths import check_writable
    from misc_cli.writers.output_set import write_all

    request = options.request_from(answers, parameters)
    console = Console.of(parameters)
    run = performed(request, console, command=options.command_line(), began=startup.since())
    try:
        with console.watching(), run as finished:
            show(finished, console)
    except MiscError as error:
        if request.metrics is not None:  # of a run that failed: its exit code and time, no figures
            place = Path(request.metrics)
            with suppress(MiscError, OSError):  # the first error is the one that counts
                check_writable([place], request.files, stdout=False)
                write_all({place: gauges({}, "", {}, exit_code=error.exit_code)})
        raise
    finished.refuse()


def show(finished: Finished, console: Console) -> None:
    """Show the summary of each question's run."""
    from misc_cli.cli.summary import log_facts, summary

    session, rejection = finished.session, finished.rejection
    if finished.unchanged is not None:
        assert session is not None
        date = session.last["date"]
        console.say(f"nothing to do: no input, flag or output changed since {date}")
    if not console.shows_summary:
        return
    several = len(finished.runs) > 1
    for run in finished.runs:
        read, question = run.inputs.read, run.inputs.question
        aside = None if read is None else read.set_aside
        rows = summary(run.outcome, run.places, aside, closely=console.tells and not several)
        if read is not None:
            rows.insert(1, ("read as", read.read_as))
        if rejection is not None:
            rows.insert(-1, ("rejected", rejection))
        elif session is not None:
            rows.insert(-1, session.summary())
        facts = {**log_facts(run.outcome, run.places), "published": rejection is None}
        if several:
            rows.insert(0, ("question", question))
            facts = {"question": question, **facts}
        console.summary(rows, facts)
