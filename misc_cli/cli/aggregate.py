"""`misc aggregate`: answers in, one label per item out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from misc_cli.cli import options, startup
from misc_cli.errors import EXIT_GATE, MiscError

if TYPE_CHECKING:
    from misc_cli.cli.console import Console, Row
    from misc_cli.job.perform import Finished
    from misc_cli.run.result import RunResult

LOOK_AT = 3

EXAMPLES = """
misc aggregate answers.csv -o labels.csv
zcat answers.csv.gz | misc aggregate - --workers workers.csv -o labels.csv
misc aggregate answers.csv --truth truth.csv --fail-if 'error>5' -o labels.csv
misc aggregate exports/*.csv -o labels.csv --state state --fail-if 'flips>2%'
misc aggregate day1.csv day2.csv --worker-col who --item-col url --label-col 3
"""


OUTPUT = options.table(
    "Output",
    {
        "-o --output FILE": "Labels; beside it appear FILE's .diagnostics.jsonl and .run.json "
        "[default: stdout].",
        "--probabilities": "A column p_<class> per class.",
        "--item-details": "Columns answers, tie, runner_up, entropy, agreement and votes.",
        "--workers FILE": "Per worker: answers, accuracy, a verdict and its reason, confusions.",
        "--report FILE": "The run to look at: one page (.html), or a workbook (.xlsx, needs "
        "the extra excel).",
        "--title TEXT": options.TITLE,
        "--diagnostics FILE": "One JSON object per iteration [default: beside the output, if that "
        "is a file].",
        "--changes FILE": "What changed since the labels that this run replaces: items flipped, "
        "new and gone.",
        "--metrics FILE": "The run in numbers in Prometheus' text format, for its node exporter "
        "to collect.",
        "--each-question": "Every question of the files; its name goes before the suffix, "
        "labels.mood.csv.",
        "--rejects FILE": "Rows that were set aside, as CSV: file, line, reason.",
    },
)
GATES = options.table(
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
)
ENGINES = options.table(
    "Past one machine (docs/scale.md)",
    {
        "--engine local|disk|dask": "Where the answers live: in memory, in files (disk) or on a "
        "Dask cluster; the latter two take -o FOLDER/ for labels in parts.",
        "--spill DIR": "disk: where its files go while it runs [default: the system's temporary "
        "folder].",
        "--scheduler tcp://…": "dask: the cluster's address [default: a cluster of this machine's "
        "cores].",
    },
    engine={"default": "local", "show_default": True},
)


@options.command(
    EXAMPLES,
    options.answers_argument,
    *options.methods,
    *options.reading,
    *OUTPUT,
    *options.state,
    *GATES,
    *ENGINES,
    *options.talking,
)
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
    console = Console(**parameters, sources=answers)
    run = performed(request, console, command=options.command_line(), began=startup.began)
    try:
        with console.watching(), run as finished:
            if console.shows_summary or finished.unchanged is not None:
                show(finished, console)
    except MiscError as error:
        if request.metrics is not None:  # of a run that failed: its exit code and time, no figures
            place = Path(request.metrics)
            with suppress(MiscError, OSError):  # the first error is the one that counts
                check_writable([place], request.files, stdout=False)
                write_all({place: gauges({}, "", {}, exit_code=error.exit_code)})
        raise
    if finished.tripped:
        done = "done and written" if finished.unchanged is None else "nothing to do"
        if finished.rejection is not None:
            done = f"not published, {finished.rejection}"
        raise MiscError(f"--fail-if {'; '.join(finished.tripped)}: {done}", EXIT_GATE)


def show(finished: Finished, console: Console) -> None:
    """Show the summary of each question's run."""
    from misc_cli.run.result import method_in_words
    from misc_cli.run.run_record import peak_memory

    session, rejection = finished.session, finished.rejection
    if finished.unchanged is not None:
        date = finished.unchanged["date"]
        console.say(f"nothing to do: no input, flag or output changed since {date}")
    several = len(finished.runs) > 1
    for run in finished.runs:
        read, outcome = run.read, run.outcome
        aside = None if read is None else read.set_aside
        is_named = run.read is None or not run.read.anonymous  # nobody is no spammer
        closely = console.tells and is_named and not several
        rows = summary(outcome, run.places, aside, closely=closely)
        if read is not None:
            rows.insert(1, ("read as", read.files[0].read_as or ""))
        if rejection is not None:
            rows.insert(-1, ("rejected", rejection))
        elif session is not None:
            rows.insert(-1, session.summary())
        facts = {
            "method": method_in_words(outcome),
            "seconds": round(sum(outcome.timings.values()), 6),
            "timings": dict(outcome.timings),
            "peak_memory_bytes": peak_memory(),
            "figures": dict(outcome.figures),
            "outputs": {name: str(path) for name, path in run.places.items()},
            "published": rejection is None,
        }
        if several:
            rows.insert(0, ("question", run.question))
            facts = {"question": run.question, **facts}
        console.summary(rows, facts)


def summary(
    outcome: RunResult,
    places: Mapping[str, Path],
    read_aside: Mapping[str, int] | None = None,
    *,
    closely: bool = False,
) -> list[Row]:
    """Return the run in a few lines: what was asked, what went in, what came out, its cost.

    `closely` adds the workers to look at.
    """
    from misc_cli.quality.evidence import GUESSES, GUESSES_SAID
    from misc_cli.quality.verdicts import words, worst
    from misc_cli.run.result import method_in_words
    from misc_cli.run.run_record import peak_memory

    figures, engine, fit = outcome.figures, outcome.fit.engine, outcome.fit
    rows: dict[str, str] = {}
    if (evidence := figures.get("evidence")) is not None and evidence < GUESSES:
        rows["evidence"] = GUESSES_SAID  # answers show nothing of items
    rows["method"] = _plainly(method_in_words(outcome))
    rows["answers"] = (
        f"{figures['answers']:,} by {_count(engine.n_workers, 'worker')} on "
        f"{_count(engine.n_items, 'item')} in {_count(engine.n_classes, 'class')}: "
        f"{figures['answers-per-item']:.1f} per item; a worker answered "
        f"{figures['density']:.1f} % of the items on average"
    )
    counts = engine.counts
    aside = {**(read_aside or {}), "empty": counts.n_empty, "repeated": counts.n_repeats}
    aside["contradictory"] = counts.n_conflicts
    if any(aside.values()):
        listing = ", ".join(f"{count:,} {what}" for what, count in aside.items() if count)
        rows["set aside"] = f"{sum(aside.values()):,}: {listing}"
    if fit.selection:
        rows["because"] = _plainly(str(fit.selection["why"]))
    elif fit.loop is not None:
        rows["completed"] = f"in {_count(fit.loop['passes'], 'pass')}"
    ties, after = _count(figures["ties"] or 0, "tie"), _count(fit.iterations, "iteration")
    met = [stage for stage, reason in fit.stopped.items() if reason == "limit"]
    ending = f"converged after {after}"
    if not fit.stopped:
        ending = "nothing to iterate"
    elif met and not fit.converged:
        ending = f"NOT converged after {after} ({', '.join(met)}: the limit came first)"
    elif not fit.converged:
        ending = f"done after {after}, as many as were set"
    rows["result"] = f"{ending}, mean confidence {figures['confidence']:.3f}, {ties}"
    if "error" in figures:
        known = f"{figures['items-with-truth']:,} known items"
        rows["error"] = f"{figures['error']:.2f} % of {known}"
    if places:
        rows["written"] = ", ".join(map(str, places.values()))
    if closely:
        verdicts, labels = outcome.verdicts, engine.vocabulary
        chosen = [int(at) for at in worst(verdicts)]
        said = [f"{labels.workers[at].as_py()} ({words(verdicts, at, labels)})" for at in chosen]
        more = f" and {_count(len(said) - LOOK_AT, 'more worker')}" if len(said) > LOOK_AT else ""
        hint = f"; misc workers {places['run']}" if "run" in places else ""
        shown = f"{', '.join(said[:LOOK_AT])}{more}{hint}"
        rows["look at"] = shown if said else "no worker stands out"
    seconds, memory = sum(outcome.timings.values()), peak_memory() / 2**20
    rows["took"] = f"{seconds:.2f} s, {memory:,.0f} MiB of memory"
    return list(rows.items())


def _plainly(text: str) -> str:
    """Return a text about methods with their short names spelled out."""
    text = re.sub(r"([\w-]+)\((\d+)\)", r"\1 (\2 steps)", text)
    text = re.sub(r"\((\d+,\d+,\d+)\) × (\d+)", r" (ranks \1, passes \2)", text)
    text = re.sub(r"\((\d+,\d+,\d+)\)", r" (ranks \1)", text)
    text = text.replace(" started by ", " on top of ").replace(", last step: answers", "")
    text = text.replace(" (preset robust)", "").replace(", preset robust", "")
    return text.replace("preset paper", "the paper's settings")


def _count(number: float, noun: str) -> str:
    plural = noun + ("es" if noun.endswith("s") else "s")
    return f"{number:,} {noun if number == 1 else plural}"
