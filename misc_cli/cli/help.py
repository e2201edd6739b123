"""`misc help`: a command, a method or a topic; hints at what a wrong flag meant; completion."""

from __future__ import annotations

import inspect
from difflib import get_close_matches
from itertools import chain

import click

from misc_cli import registry
from misc_cli.cli import options, outputs
from misc_cli.cli.parameters import as_typed, default_in_words, kind_in_words
from misc_cli.cli.settings import all_commands, key_of
from misc_cli.completers.parameters import Loop
from misc_cli.data.parameters import parameters_of
from misc_cli.errors import EXIT_CODES, ConfigError, did_you_mean
from misc_cli.run.fail_if import METRICS

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
  <  the variable MISC_SEED  <  MISC_AGGREGATE_SEED  <  the flag --seed

--config FILE names the file. A misc.toml of the current folder that is not named so may not say
what is read, written or connected to.
"""
TEXTS = {"auto": AUTO, "settings": SETTINGS}
# Topics that are a section of the flags of `misc aggregate`, and a sentence before it.
SECTIONS = {
    "reading": (
        "Reading",
        "Rows of worker, item and label, however files spell them. misc inspect "
        "says how a file would be read, and why.",
    ),
    "output": ("Output", "Labels go to stdout unless -o names a file; the others go beside it."),
    "nightly": (
        "Every night",
        "A run that comes back every night starts where the last one ended.",
    ),
    "gates": ("Known labels and gates", "Labels that are known teach, judge, or stop a run."),
    "engines": (
        "Past one machine (docs/scale.md)",
        "The same labels, byte for byte, from answers in memory, on disk or on a cluster.",
    ),
}
TOPICS = ("methods", *TEXTS, *SECTIONS, "exit-codes")


@click.command(cls=options.Command, examples="misc help aggregate\nmisc help ds-em\nmisc help auto")
@click.argument("words", nargs=-1, metavar="[COMMAND|METHOD|TOPIC]")
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
    page = root.make_formatter()
    methods = {kind: registry.names(kind) for kind in registry.KINDS}
    for kind, names in methods.items():
        if (name := registry.canonical(kind, asked)) in names:
            _write_method(page, kind, name)
    topic = asked.lower()
    if topic in TEXTS:
        for at, paragraph in enumerate(TEXTS[topic].strip("\n").split("\n\n")):
            page.write("\n" if at else "")
            write = page.write if paragraph.startswith(" ") else page.write_text
            write(f"{paragraph}\n")
    elif topic in SECTIONS:
        from misc_cli.cli.aggregate import command as aggregate

        section, before = SECTIONS[topic]
        page.write_text(before)
        context = click.Context(aggregate, info_name="aggregate", parent=root)
        with page.section(section):
            page.write_dl(aggregate.records(context, brief=False)[section], col_max=34)
        if topic == "gates":
            page.write_paragraph()
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


COMPLETION = """
misc shell-completion bash > ~/.local/share/bash-completion/completions/misc
misc shell-completion zsh > "${fpath[1]}/_misc"
misc shell-completion fish > ~/.config/fish/completions/misc.fish
"""


@click.command(cls=options.Command, examples=COMPLETION)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes commands, flags and files in a shell."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    made = found(context.find_root().command, {}, "misc", "_MISC_COMPLETE")
    # not .source(): for bash that starts one to ask its version, and ours may be another machine's
    outputs.write((made.source_template % made.source_vars()).encode())


# What other tools call our flags.
MEANT = {
    **dict.fromkeys(("method", "methods", "algorithm", "algo", "model"), "aggregator"),
    **dict.fromkeys(("out", "outfile", "output-file", "save", "to", "out-file"), "output"),
    **dict.fromkeys(("sep", "separator", "delim"), "delimiter"),
    **dict.fromkeys(("annotator-col", "rater-col", "user-col", "worker-column"), "worker-col"),
    **dict.fromkeys(("task-col", "id-col", "item-column", "question-col"), "item-col"),
    **dict.fromkeys(("answer-col", "class-col", "label-column", "response-col"), "label-col"),
    **dict.fromkeys(("jobs", "n-jobs", "cores", "cpus", "processes", "workers-count"), "threads"),
    **dict.fromkeys(("iterations", "max-iterations", "n-iter", "iter", "epochs"), "max-iter"),
    **dict.fromkeys(("tolerance", "eps", "epsilon"), "tol"),
    **dict.fromkeys(("random-state", "random-seed"), "seed"),
    **dict.fromkeys(("ground-truth", "groundtruth", "gt", "true-labels"), "truth"),
    **dict.fromkeys(("golden", "known", "honeypots", "control"), "gold"),
    **dict.fromkeys(("proba", "probs", "probability", "posteriors"), "probabilities"),
    **dict.fromkeys(("html", "page", "dashboard"), "report"),
    **dict.fromkeys(("budget", "limit", "head", "n", "rows"), "top"),
    **dict.fromkeys(("filter", "query-rows"), "where"),
    **dict.fromkeys(("csv", "tsv", "xlsx", "excel", "file"), "output"),
    **dict.fromkeys(("threshold", "max-confidence"), "below"),
    **dict.fromkeys(("timeout", "time-limit", "max-time"), "time-budget"),
    **dict.fromkeys(("silent", "no-warnings"), "quiet"),
    **dict.fromkeys(("settings", "conf"), "config"),
}


def hint_for_flag(ctx: click.Context, flag: str) -> str:
    """Return "; did you mean …?" for a flag that a command does not have, or who has it."""
    word = flag.lstrip("-").lower().replace("_", "-")
    known = {key_of(one): one for one in ctx.command.params if isinstance(one, options.Option)}
    if word in known and known[word].rare:
        return f"; say {(known[word].get_help_record(ctx) or ('',))[0]}"
    own = [name for name, one in known.items() if not one.rare]
    elsewhere = [
        f"misc {' '.join(words)}"
        for words, command in all_commands(ctx.find_root()).items()
        if flag in [name for one in command.params for name in (*one.opts, *one.secondary_opts)]
    ]
    meant = word if word in own else MEANT.get(word, "")
    near = [meant] if meant in own else [] if elsewhere else get_close_matches(word, own, 2, 0.7)
    if near:
        return f"; did you mean {' or '.join(f'--{one}' for one in near)}?"
    return f"; it is a flag of {' and '.join(elsewhere[:3])}" if elsewhere else ""
