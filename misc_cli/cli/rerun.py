"""`misc rerun` and `misc verify`: a recorded run once more, and whether its files are whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from misc_cli.cli import options, outputs, startup
from misc_cli.cli.tables import is_terminal
from misc_cli.errors import ConfigError, NotWhole
from misc_cli.version import __version__

if TYPE_CHECKING:
    from misc_cli.cli.console import Console
    from misc_cli.job.replay import RecordedRun

EXAMPLES = """
misc rerun labels.run.json > again.csv
misc rerun labels.run.json -o again.csv
misc rerun labels.run.json --with monday.csv tuesday.csv -o week.csv
"""


@click.command(cls=options.Command, examples=EXAMPLES)
@click.argument("run", metavar="RUN.JSON")
@click.argument("more", metavar="", nargs=-1)
@options.table(
    "Method",
    {
        "--with ANSWERS...": "Aggregate these answers by the methods, weights and calibration that "
        "the run chose, without choosing again; -o writes a set as misc aggregate does.",
        "--yes": "Trust the record: it may have a query, addresses, an engine's scheduler or "
        "folder.",
    },
    switch=False,
    **{"with": {"multiple": True}},
)
@options.table(
    "Output", {"-o --output FILE": "Labels [default: stdout, unless that is a terminal]."}
)
@options.talking
def command(
    run: str,
    more: tuple[str, ...],
    output: str | None,
    yes: bool,
    quiet: bool,
    verbose: bool,
    **given: tuple[str, ...],
) -> None:
    """Make the labels of a recorded run again: the same inputs, settings and state.

    Says what it reads and writes and which input or state changed or is gone, before any work; and
    whether the labels are those of the record, byte for byte.
    """
    from misc_cli.cli.aggregate import show
    from misc_cli.cli.console import Console
    from misc_cli.job.perform import performed
    from misc_cli.job.replay import RecordedRun
    from misc_cli.writers.output_paths import protect

    if more and not given["with"]:
        raise ConfigError(f"{more[0]}: one run at a time; new answers go after --with")
    answers = (*given["with"], *more)
    recorded = RecordedRun.read(run)
    protect([run, *recorded.request.files, *answers])  # before anything is logged
    console = Console(quiet=quiet, verbose=verbose)
    old = recorded.content["misc"]
    if old != __version__:
        console.warn(f"{run} is of misc {old}, this is {__version__}: labels may differ")
    if answers:
        recorded = replace(recorded, request=replace(recorded.request.stateless(), sources=()))
    if not yes:
        recorded.refuse_untrusted("add --yes")
    told = ", ".join(dict.fromkeys((*recorded.reads, *answers)))
    shown = is_terminal() and not answers
    where = output or ("nothing, unless -o names a file" if shown else "stdout")
    console.say(f"{run}: reads {told}; writes {where}")
    if not answers:
        _again(recorded, output, console)
        return
    finished_run = performed(
        recorded.with_answers(answers, output),
        console,
        command=options.command_line(),
        began=startup.since(),
        fitter=recorded.fitter(choose=False),
    )
    with console.watching(), finished_run as finished:
        show(finished, console)


def _again(recorded: RecordedRun, output: str | None, console: Console) -> None:
    """Repeat a run, write its labels and say whether they are those of the record."""
    from misc_cli.cli.console import Console as Silent
    from misc_cli.job.replay import repeated
    from misc_cli.writers.output_paths import check_writable, output_file
    from misc_cli.writers.output_set import with_question, write_all

    place = output_file(output)
    paths = [] if place is None else [place]
    if recorded.questions:
        if place is None:
            raise ConfigError(f"{recorded.path}: of several questions; name a file with -o")
        paths = [with_question(place, question) for question in recorded.questions]
    check_writable(paths, [recorded.path, *recorded.request.files], stdout=place is None)
    silent = Silent(quiet=True)
    silent.progress.live = console.progress.live
    with silent.watching():
        labels, same = repeated(recorded, silent)
    if place is None and not is_terminal():
        outputs.write(labels[0])
    elif place is not None:
        write_all(dict(zip(paths, labels, strict=True)))
    if same is None:
        console.say(f"{recorded.path} has its labels in parts; these are in one file")
    elif same:
        console.say("the labels are those of the record, byte for byte")
    else:
        console.warn(f"the labels differ from those that {recorded.path} records")


VERIFY = """
misc verify labels.run.json
misc aggregate answers.csv -o labels.csv && misc verify labels.run.json && cp labels.csv loaded/
misc verify labels.run.json --json
misc verify labels/
"""


@click.command(cls=options.Command, examples=VERIFY)
@click.argument("run_files", nargs=-1, required=True, metavar="RUN.JSON...")
@options.table("Output", options.JSON)
def verify(run_files: tuple[str, ...], json: bool) -> None:
    """Check that the files of a run are the ones that its run.json describes.

    Of labels in a folder (-o labels/), name the folder.
    Exits with 0 if every file is there and has the SHA-256 that run.json says, else with 4: a
    machine that stopped between two renames, or a hand that changed a file.
    """
    from misc_cli.cli.console import Console
    from misc_cli.writers.output_set import WHOLE
    from misc_cli.writers.output_set import verify as members_of

    found = [member for name in run_files for member in members_of(Path(name))]
    wrong = [f"{member.file} is {member.state}" for member in found if member.state != WHOLE]
    if json:
        rows = [{"name": m.name, "file": str(m.file), "state": m.state} for m in found]
        outputs.write(outputs.json_bytes(whole=not wrong, files=rows))
    else:
        shown = f"{len(found):,} {'file' if len(found) == 1 else 'files'}"
        Console().note(f"{shown} looked at, each compared with the SHA-256 in its run.json")
    if wrong:
        raise NotWhole(f"not a whole set: {'; '.join(wrong)}")
