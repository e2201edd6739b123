"""`misc help`: a command, a method or a topic; hints at what a wrong flag meant; completion."""

from __future__ import annotations

from difflib import get_close_matches

import click

from misc_cli import registry
from misc_cli.cli import options, outputs
from misc_cli.cli.parameters import as_typed, default_in_words, kind_in_words
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
Every flag can be set in a file, by its name without dashes: at the top for all commands, or in the
table of one. Later ones win:

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
    if not words:
        click.echo(group.get_help(root))
        return
    found: click.Command | None = group
    for word in words:
        found = found.get_command(root, word) if isinstance(found, click.Group) else None
    if found is not None:
        path = click.Context(found, info_name=asked, parent=root)
        click.echo(found.get_help(path))
        return
    formatter = root.make_formatter()
    for kind in registry.KINDS:
        if (name := registry.canonical(kind, asked)) in registry.names(kind):
            _write_method(formatter, kind, name)
    topic = asked.lower()
    if topic in TEXTS:
        for at, paragraph in enumerate(TEXTS[topic].strip("\n").split("\n\n")):
            formatter.write("\n" if at else "")
            if paragraph.startswith(" "):
                formatter.write(f"{paragraph}\n")
            else:
                formatter.write_text(paragraph)
    elif topic in SECTIONS:
        from misc_cli.cli.aggregate import command as aggregate

        section, before = SECTIONS[topic]
        formatter.write_text(before)
        context = click.Context(aggregate, info_name="aggregate", parent=root)
        with formatter.section(section):
            formatter.write_dl(aggregate.records(context, brief=False)[section], col_max=34)
        if topic == "gates":
            formatter.write_paragraph()
            formatter.write_text(f"Figures: {', '.join(METRICS)}. Signs: < <= > >= = !=")
    elif topic == "methods":
        for kind in registry.KINDS:
            with formatter.section(f"{kind.capitalize()}s"):
                names = registry.names(kind)
                rows = [(n, registry.ABOUT[n].plain if n in registry.ABOUT else "") for n in names]
                formatter.write_dl(rows)
    elif topic == "exit-codes":
        formatter.write_dl([(str(code), meaning) for code, meaning in EXIT_CODES.items()])
    if not formatter.getvalue():
        methods = [name for kind in registry.KINDS for name in registry.names(kind)]
        known = [*group.list_commands(root), *methods, *TOPICS]
        guess = did_you_mean(asked, known) or f"; topics are {', '.join(TOPICS)}"
        raise ConfigError(f"misc help knows nothing of {asked!r}{guess}")
    click.echo(formatter.getvalue().rstrip("\n"))


def _write_method(formatter: click.HelpFormatter, kind: str, name: str) -> None:
    """Write a method in words, its parameters with their defaults, and where it comes from."""
    about = registry.ABOUT.get(name)
    formatter.write_text(f"{name}, {kind}. {about.plain if about else ''}".strip())
    formatter.write_paragraph()
    formatter.write_text(f"misc aggregate answers.csv --{kind} {name} -o labels.csv")
    defaults = registry.settings(kind, name)
    declared = dict(registry.parameters(kind, name))
    if kind == "completer":
        declared |= parameters_of(Loop)
        defaults |= {one: getattr(Loop, one) for one in parameters_of(Loop)}
    rows = []
    for one, parameter in declared.items():
        default = default_in_words(parameter, defaults[one])
        text = f"{parameter.help or 'Of random starts.'} [default: {default}]"
        rows.append((as_typed(one, kind_in_words(parameter)), text))
    if rows:
        with formatter.section("Parameters"):
            formatter.write_dl(rows, col_max=34)
    other = [
        as_typed(one, default_in_words(declared[one], value))
        for one, value in registry.settings(kind, name, "paper").items()
        if value != defaults[one]
    ]
    for text in (
        f"--preset paper sets {', '.join(other)}." if other else "",
        f"Reference: {about.reference}." if about and about.reference else "",
    ):
        if text:
            formatter.write_paragraph()
            formatter.write_text(text)


SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_MISC_COMPLETE"
COMPLETION = """
misc shell-completion bash > ~/.local/share/bash-completion/completions/misc
misc shell-completion zsh > "${fpath[1]}/_misc"
misc shell-completion fish > ~/.config/fish/completions/misc.fish
"""


@click.command(cls=options.Command, examples=COMPLETION)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes commands, flags and files in a shell."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    made = found(context.find_root().command, {}, "misc", VARIABLE)
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
    from misc_cli.cli.settings import all_commands, key_of

    word = flag.lstrip("-").lower().replace("_", "-")
    known = {key_of(one): one for one in ctx.command.params if isinstance(one, options.Option)}
    if word in known and known[word].rare:
        record = known[word].get_help_record(ctx)
        return f"; say {record[0] if record else ''}"
    own = [name for name, one in known.items() if not one.rare]
    elsewhere = [
        " ".join(words)
        for words, command in all_commands(ctx.find_root()).items()
        if flag in [name for one in command.params for name in (*one.opts, *one.secondary_opts)]
    ]
    meant = word if word in own else MEANT.get(word, "")
    near = [meant] if meant in own else [] if elsewhere else get_close_matches(word, own, 2, 0.7)
    if near:
        return f"; did you mean {' or '.join(f'--{one}' for one in near)}?"
    return f"; it is a flag of misc {' and misc '.join(elsewhere[:3])}" if elsewhere else ""
