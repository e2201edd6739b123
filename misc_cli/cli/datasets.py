"""`misc datasets`: public datasets by name, the paper's six and more."""

from __future__ import annotations

from contextlib import suppress

import click

from misc_cli.cli import options, tables
from misc_cli.cli.command import Group
from misc_cli.cli.tables import Table
from misc_cli.errors import InputError


@click.group(
    cls=Group,
    places={
        "list": ("datasets:list_datasets", "Names, sizes and where the copies are."),
        "fetch": ("datasets:fetch", "Download datasets, check their SHA-256 and keep them."),
        "path": ("datasets:path", "Print the folder of a copy; an error if there is none."),
    },
    titles={"list": "Commands"},
)
def group() -> None:
    """List, fetch and find public datasets: the paper's six, and ten more.

    Copies are in the user's cache. misc holds none: files come from where they are published.
    """


@options.command("misc datasets list --json", *options.json_output)
def list_datasets(json: bool) -> None:
    """Names, sizes and where the copies on this machine are."""
    from misc_cli.paper import datasets

    counts = ("workers", "items", "classes", "answers", "items_with_truth")
    entries, rows = [], []
    for name, known in datasets.registry().items():
        found = None
        with suppress(InputError):
            found = datasets.locate(name)
        facts = {key: getattr(known, key) for key in ("name", "about", *counts)}
        entries.append({**facts, "repository": known.repository, "commit": known.commit})
        entries[-1]["path"] = found and str(found)
        rows.append((name, known.about, str(found or "–"), *(f"{facts[one]:,}" for one in counts)))
    header = ("name", "about", "copy", "workers", "items", "classes", "answers", "with truth")
    table = Table("", header, rows, left=3, spare=("about", "with truth", "classes"))
    tables.deliver([table], None, {"datasets": entries}, as_json=json)


FETCH = """
misc datasets fetch
misc compare $(misc datasets fetch web rte)
"""


@options.command(FETCH, click.Argument(["names"], nargs=-1, metavar="[NAME]..."))
def fetch(names: tuple[str, ...]) -> None:
    """Download datasets (all if none is named), check their SHA-256 and keep them.

    Prints the folder of each copy. Nothing is kept that is not exactly the published data.
    """
    from misc_cli.paper import datasets

    for name in names:
        datasets.get(name)
    for name in names or datasets.registry():
        click.echo(str(datasets.fetch(name)))


@options.command("misc aggregate $(misc datasets path web)/answers.csv", click.Argument(["name"]))
def path(name: str) -> None:
    """Print the folder of a copy; an error if there is none."""
    from misc_cli.paper import datasets

    click.echo(str(datasets.locate(name)))
