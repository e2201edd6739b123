"""`misc verify`: are these files one whole set?"""

from __future__ import annotations

from pathlib import Path

import click

from misc_cli.cli import options, outputs
from misc_cli.errors import NotWhole

EXAMPLES = """
misc verify labels.run.json
misc aggregate answers.csv -o labels.csv && misc verify labels.run.json && cp labels.csv loaded/
misc verify labels.run.json --json
misc verify labels/
"""


@click.command(cls=options.Command, examples=EXAMPLES)
@click.argument("run_files", nargs=-1, required=True, metavar="RUN.JSON...")
@options.option("--json", "as_json", section="Output", is_flag=True, help="One JSON object.")
def command(run_files: tuple[str, ...], as_json: bool) -> None:
    """Check that the files of a run are the ones that its run.json describes.

    Of labels in a folder (-o labels/), name the folder.
    Exits with 0 if every file is there and has the SHA-256 that run.json says, else with 4: a
    machine that stopped between two renames, or a hand that changed a file.
    """
    from misc_cli.writers.output_set import WHOLE, verify

    found = [member for name in run_files for member in verify(Path(name))]
    if as_json:
        rows = [{"name": m.name, "file": str(m.file), "state": m.state} for m in found]
        whole = all(member.state == WHOLE for member in found)
        outputs.write_bytes(outputs.json_bytes(whole=whole, files=rows))
    wrong = [f"{member.file} is {member.state}" for member in found if member.state != WHOLE]
    if wrong:
        raise NotWhole(f"not a whole set: {'; '.join(wrong)}")
