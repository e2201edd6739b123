"""`misc help`: a command, a method or a topic."""

from __future__ import annotations

import inspect
from itertools import chain

import click

from misc_cli import registry
from misc_cli.cli import options
from misc_cli.cli.parameters import as_typed, default_in_words, kind_in_words
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
SETTINGS = """
Every flag, and every parameter of -p, can be set in a file, by its name without dashes: at the top
for all commands, or in the table of one. Later ones win:

  the default  <  ~/.config/misc/misc.toml or ./misc.toml  <  its table [aggregate]
  <  the variable MISC_AGGREGATE_SEED  <  the flag --seed

--config FILE names the file. A misc.toml of the current folder that is not named so may not say
what is read, written or connected to.
"""
TEXTS = {"auto": AUTO, "settings": SETTINGS}
# Topics that are a section of the flags of `misc aggregate`.
SECTIONS = {
    "reading": "Reading",
    "gates": "Known labels and gates",
    "engines": "Past one machine (docs/scale.md)",
}
TOPICS = ("methods", *TEXTS, *SECTIONS, "exit-codes")


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
            _write_method(page, kind, name)
    if topic in TEXTS:
        page.write(TEXTS[topic].lstrip())
    elif topic in SECTIONS:
        from misc_cli.cli.aggregate import command as aggregate

        section = SECTIONS[topic]
        context = click.Context(aggregate, info_name="aggregate", parent=root)
        with page.section(section):
            page.write_dl(aggregate.records(context, brief=False)[section], col_max=34)
        if topic == "gates":
            page.write_text(f"Figures: {', '.join(METRICS)}. Signs: < <= > >= = !=")
    elif topic == "methods":
        for kind, names in methods.items():
            with page.section(f"{kind.capitalize()}s"):
                ours = registry.OWN[kind]
                page.write_dl([(n, _paragraphs(kind, n)[0] if n in ours else "") for n in names])
    elif topic == "exit-codes":
        page.write_dl([(str(code), meaning) for code, meaning in EXIT_CODES.items()])
    if not page.getvalue():
        known = [*group.list_commands(root), *chain(*methods.values()), *TOPICS]
        guess = did_you_mean(asked, known) or f"; topics are {', '.join(TOPICS)}"
        raise ConfigError(f"misc help knows nothing of {asked!r}{guess}")
    click.echo(page.getvalue().rstrip("\n"))


def _write_method(page: click.HelpFormatter, kind: str, name: str) -> None:
    """Write a method in words, its parameters with their defaults, and where it comes from."""
    plain, *more = _paragraphs(kind, name)
    loop = parameters_of(Loop) if kind == "completer" else {}
    defaults = registry.settings(kind, name) | {one: getattr(Loop, one) for one in loop}
    declared = parameters_of(registry.load(kind, name)) | loop
    page.write_text(f"{name}, {kind}. {plain}".strip())
    page.write_paragraph()
    page.write_text(f"misc aggregate answers.csv --{kind} {name} -o labels.csv")
    rows = []
    for one, parameter in declared.items():
        default = default_in_words(parameter, defaults[one])
        text = f"{parameter.help or 'Of random starts.'} [default: {default}]"
        rows.append((as_typed(one, kind_in_words(parameter)), text))
    if rows:
        with page.section("Parameters"):
            page.write_dl(rows, col_max=34)
    paper = ", ".join(
        as_typed(one, default_in_words(declared[one], value))
        for one, value in registry.settings(kind, name, "paper").items()
        if value != defaults[one]
    )
    said = [f"--preset paper sets {paper}."] if paper else []
    for text in (*said, *(one for one in more if one.startswith("Reference:"))):
        page.write_paragraph()
        page.write_text(text)


def _paragraphs(kind: str, name: str) -> list[str]:
    """Return the paragraphs of a method's docstring: in plain words first, then a reference."""
    return inspect.cleandoc(registry.load(kind, name).__doc__ or "").split("\n\n")


@click.command(cls=options.Command)
def version() -> None:
    """Print the version."""
    click.echo(f"misc {__version__}")
