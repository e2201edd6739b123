"""`misc help`: a command, a method or a topic."""

from __future__ import annotations

import inspect
from itertools import chain

import click

from misc_cli import registry
from misc_cli.cli import options
from misc_cli.cli.parameters import default_in_words, method_options
from misc_cli.completers.parameters import Loop
from misc_cli.data.parameters import parameters_of
from misc_cli.errors import EXIT_CODES, ConfigError, did_you_mean
from misc_cli.run.fail_if import METRICS
from misc_cli.version import __version__

AUTO = """
auto hides some of the answers, lets every method forecast them, and takes the mean of those that
forecast about as well as the best. It tries a few pure methods and, where a completer may help,
completion too, which it takes only if that is ahead by three standard errors. Workers who copy
another count once. No true label is ever looked at.

misc compare shows the scores of all methods; --time-budget 60s bounds the search; --fast skips it
(ds-em alone). What was tried and why is in labels.run.json and on the page of misc report.
More: docs/choosing.md
"""
# Topics that are a section of the flags of `misc aggregate`.
SECTIONS = {
    "reading": "Reading",
    "gates": "Known labels and gates",
    "engines": "Past one machine (docs/scale.md)",
}
TOPICS = ("auto", *SECTIONS, "exit-codes")


@options.command(
    "misc help aggregate\nmisc help ds-em\nmisc help auto",
    click.Argument(["words"], nargs=-1, metavar="[COMMAND|METHOD|TOPIC]"),
)
@click.pass_context
def command(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Explain a command, a method (its parameters, defaults and reference) or a topic."""
    root = ctx.find_root()
    group = root.command
    assert isinstance(group, click.Group)
    asked = " ".join(words)
    found: click.Command | None = group
    for word in words:
        found = found.get_command(root, word) if isinstance(found, click.Group) else None
    if found is not None:
        here = root if found is group else click.Context(found, info_name=asked, parent=root)
        click.echo(found.get_help(here))
        return
    page, topic = root.make_formatter(), asked.lower()
    methods = {kind: registry.names(kind) for kind in registry.KINDS}
    for kind, names in methods.items():
        if (name := registry.canonical(kind, asked)) in names:
            _write_method(page, ctx, kind, name)
    if topic == "auto":
        page.write(AUTO.lstrip())
    elif topic in SECTIONS:
        from misc_cli.cli.aggregate import command as aggregate

        section = SECTIONS[topic]
        context = click.Context(aggregate, info_name="aggregate", parent=root)
        with page.section(section):
            page.write_dl(aggregate.records(context, brief=False)[section], col_max=34)
        if topic == "gates":
            page.write_text(f"Figures: {', '.join(METRICS)}. Signs: < <= > >= = !=")
    elif topic == "exit-codes":
        page.write_dl([(str(code), meaning) for code, meaning in EXIT_CODES.items()])
    if not page.getvalue():
        known = [*group.list_commands(root), *chain(*methods.values()), *TOPICS]
        guess = did_you_mean(asked, known) or f"; topics are {', '.join(TOPICS)}"
        raise ConfigError(f"misc help knows nothing of {asked!r}{guess}")
    click.echo(page.getvalue().rstrip("\n"))


def _write_method(page: click.HelpFormatter, ctx: click.Context, kind: str, name: str) -> None:
    """Write a method in words, its parameters with their defaults, and where it comes from."""
    method = registry.load(kind, name)
    plain, *more = inspect.cleandoc(method.__doc__ or "").split("\n\n")
    own = parameters_of(method) | (parameters_of(Loop) if kind == "completer" else {})
    known = [one for one in (*method_options(), *method_options(plugins=True)) if one.name in own]
    page.write_text(f"{name}, {kind}. {plain}".strip())
    page.write_paragraph()
    page.write_text(f"misc aggregate answers.csv --{kind} {name} -o labels.csv")
    if known:
        with page.section("Parameters"):
            page.write_dl([one.get_help_record(ctx) or ("", "") for one in known], col_max=34)
    usual, paper = (registry.settings(kind, name, preset) for preset in registry.PRESETS)
    changed = [f"{n} {default_in_words(own[n], v)}" for n, v in paper.items() if v != usual[n]]
    said = [f"--preset paper sets {', '.join(changed)}."] if changed else []
    for text in (*said, *(one for one in more if one.startswith("Reference:"))):
        page.write_paragraph()
        page.write_text(text)


@click.command(cls=options.Command)
def version() -> None:
    """Print the version."""
    click.echo(f"misc {__version__}")
