"""`misc datasets`: public datasets by name, the paper's six and more."""

from __future__ import annotations

from pathlib import Path

import click

from misc_cli.cli import options, outputs
from misc_cli.cli.command import Group

_FROM = options.option(
    "--from",
    "folder",
    section="Where from",
    metavar="DIR",
    help="A folder that already has NAME/answers.csv and NAME/truth.csv [default: MISC_DATA_DIR].",
)


@click.group(cls=Group)
def group() -> None:
    """List, fetch and find public datasets: the paper's six, and ten more.

    A copy is looked for in the folder given with --from, in the one that the variable
    MISC_DATA_DIR names, and in the user's cache. misc holds no copies: files come from where they
    are published.
    """


@group.command(name="list", cls=options.Command, examples="misc datasets list --json")
@_FROM
@options.option("--json", "as_json", section="Output", is_flag=True, help="One JSON object.")
def list_datasets(folder: str | None, as_json: bool) -> None:
    """Names, sizes and where the copies on this machine are."""
    from misc_cli.cli.tables import Table, print_tables
    from misc_cli.paper import datasets

    counts = ("workers", "items", "classes", "answers", "items_with_truth")
    found = {name: _found(name, folder) for name in datasets.registry()}
    if as_json:
        shown = ("name", "about", *counts, "repository", "commit")
        entries = [
            {key: getattr(known, key) for key in shown} | {"path": found[name] and str(found[name])}
            for name, known in datasets.registry().items()
        ]
        outputs.write_bytes(outputs.json_bytes(datasets=entries))
        return
    rows = [
        (name, known.about, str(found[name] or "–"), *(f"{getattr(known, c):,}" for c in counts))
        for name, known in datasets.registry().items()
    ]
    header = ("name", "about", "copy", "workers", "items", "classes", "answers", "with truth")
    print_tables([Table("", header, rows, left=3, spare=("about", "with truth", "classes"))])


FETCH = """
misc datasets fetch
misc compare $(misc datasets fetch web rte)
"""


@group.command(cls=options.Command, examples=FETCH)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@_FROM
@options.option(
    "--base-url",
    section="Where from",
    metavar="URL",
    help="In place of https://raw.githubusercontent.com [default: MISC_DATA_URL].",
)
@options.option("--force", section="Where from", is_flag=True, help="Even if a copy is there.")
def fetch(names: tuple[str, ...], folder: str | None, base_url: str | None, force: bool) -> None:
    """Download datasets (all if none is named), check their SHA-256 and keep them.

    Prints the folder of each copy. Nothing is kept that is not exactly the published data.
    """
    from misc_cli.paper import datasets

    for name in names:
        datasets.get(name)
    for name in names or datasets.registry():
        copy = datasets.fetch(name, folder=_path(folder), base_url=base_url, force=force)
        click.echo(str(copy))


@group.command(cls=options.Command, examples="misc aggregate $(misc datasets path web)/answers.csv")
@click.argument("name")
@_FROM
def path(name: str, folder: str | None) -> None:
    """Print the folder of a copy; an error if there is none."""
    from misc_cli.paper import datasets

    click.echo(str(datasets.locate(name, _path(folder))))


def _found(name: str, folder: str | None) -> Path | None:
    """Return the folder of a dataset; None if it is not there."""
    from misc_cli.errors import InputError
    from misc_cli.paper import datasets

    try:
        return datasets.find(name, _path(folder))
    except InputError:
        return None


def _path(folder: str | None) -> Path | None:
    return None if folder is None else Path(folder)
