"""`misc rerun` and `misc verify`: a recorded run once more, and whether its files are whole."""

from __future__ import annotations

from pathlib import Path

import click

from misc_cli.cli import options, tables
from misc_cli.cli.tables import is_terminal
from misc_cli.errors import EXIT_NOT_WHOLE, ConfigError, MiscError
from misc_cli.version import __version__

EXAMPLES = """
misc rerun labels.run.json > again.csv
misc rerun labels.run.json -o again.csv
"""


OUTPUT = options.table(
    "Output",
    {
        "-o --output FILE": "Labels [default: stdout, unless that is a terminal].",
        "--yes": "Trust the record: it may have a query, addresses, an engine's scheduler or "
        "folder.",
    },
)


@options.command(EXAMPLES, click.Argument(["run"], metavar="RUN.JSON"), *OUTPUT, *options.talking)
def command(run: str, output: str | None, yes: bool, quiet: bool, verbose: bool) -> None:
    """Make the labels of a recorded run again: the same inputs and settings.

    Says what it reads and writes and which input changed or is gone, before any work; and whether
    the labels are those of the record, byte for byte.
    """
    from misc_cli.cli.console import Console
    from misc_cli.job.replay import RecordedRun, repeated
    from misc_cli.writers.output_paths import check_writable, output_file, protect
    from misc_cli.writers.output_set import with_question, write_all

    recorded = RecordedRun.read(run)
    protect([run, *recorded.request.files])  # before anything is logged
    console = Console(quiet=quiet, verbose=verbose)
    old = recorded.content["misc"]
    if old != __version__:
        console.warn(f"{run} is of misc {old}, this is {__version__}: labels may differ")
    if not yes:
        recorded.refuse_untrusted()
    where = output or ("nothing, unless -o names a file" if is_terminal() else "stdout")
    console.say(f"{run}: reads {', '.join(dict.fromkeys(recorded.request.files))}; writes {where}")
    place = output_file(output)
    paths = [] if place is None else [place]
    if recorded.questions:
        if place is None:
            raise ConfigError(f"{run}: of several questions; name a file with -o")
        paths = [with_question(place, question) for question in recorded.questions]
    check_writable(paths, [run, *recorded.request.files], stdout=place is None)
    with console.watching():
        labels, same = repeated(recorded, console)
    if place is None and not is_terminal():
        tables.write(labels[0])
    elif place is not None:
        write_all(dict(zip(paths, labels, strict=True)))
    if same is None:
        console.say(f"{run} has its labels in parts; these are in one file")
    elif same:
        console.say("the labels are those of the record, byte for byte")
    else:
        console.warn(f"the labels differ from those that {run} records")


VERIFY = """
misc aggregate answers.csv -o labels.csv && misc verify labels.run.json && cp labels.csv loaded/
misc verify labels.run.json --json
misc verify labels/
"""


@options.command(
    VERIFY,
    click.Argument(["run_files"], nargs=-1, required=True, metavar="RUN.JSON..."),
    *options.json_output,
)
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
        tables.write(tables.json_bytes(whole=not wrong, files=rows))
    else:
        shown = f"{len(found):,} {'file' if len(found) == 1 else 'files'}"
        Console().note(f"{shown} looked at, each compared with the SHA-256 in its run.json")
    if wrong:
        raise MiscError(f"not a whole set: {'; '.join(wrong)}", EXIT_NOT_WHOLE)
