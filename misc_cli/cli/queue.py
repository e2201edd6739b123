"""`misc queue`: which items to ask again first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from misc_cli.cli import options, outputs, report, startup
from misc_cli.cli.parameters import COUNT

if TYPE_CHECKING:
    from misc_cli.run.request import AggregateRequest, FitterOf


EXAMPLES = """
misc queue answers.csv --budget 200 -o ask_again.csv
misc queue answers.csv --budget 50 --aggregator ds-em
misc queue labels.run.json --budget 50
"""


@click.command(cls=options.Command, examples=EXAMPLES)
@report.sources_argument
@options.table(
    "Output",
    {
        "--budget N": "How many items at most [default: every item that an answer could help].",
        "-o --output FILE": "[default: stdout]",
        "--gold FILE": "Items whose label is known: never asked again.",
    },
    budget={"type": COUNT},
)
@options.methods()
@options.reading
@options.talking
def command(sources: tuple[str, ...], **parameters: Any) -> None:
    """List the items whose label gains most from one more answer, best first, as CSV.

    The gain is the expected rise in the probability that the label is right, per further answer of
    a typical worker, looking up to three answers ahead. That is not the lowest confidence: an item
    on which no answer will settle anything is not worth asking about. Of a finished run's
    labels.run.json it repeats the run first.
    """
    from misc_cli.cli.console import Console
    from misc_cli.job.question_run import run_in_memory
    from misc_cli.run.tables import queue_columns
    from misc_cli.writers.output_paths import check_writable

    console = Console.of(parameters)
    place = outputs.output_file(parameters["output"])
    request, fitter = _asked(sources, parameters)
    check_writable([] if place is None else [place], [*sources, *request.files])
    with console.watching():
        runs = run_in_memory(request, console, began=startup.since(), fitter=fitter)
        (run,) = runs
        assert run.inputs.read is not None
        options.with_workers(run.inputs.read)
    outputs.write_columns(queue_columns(run.outcome, parameters["budget"]), place)


def _asked(
    sources: tuple[str, ...], parameters: dict[str, Any]
) -> tuple[AggregateRequest, FitterOf | None]:
    """Return the request of these answers, or that of a finished run, and how to fit it."""
    run_file = report.finished_run(sources)
    if run_file is None:
        return options.request_from(sources, parameters, "gold"), None
    from misc_cli.state.replay import RecordedRun

    recorded = RecordedRun.read(run_file).of_question(parameters["question"])
    recorded.refuse_untrusted("name its answers in its place")
    recorded.refuse_changed()
    return recorded.request.in_memory(), recorded.fitter()
