"""Guesses at what a wrong flag meant: by its letters, by its meaning, or whose flag it is."""

from __future__ import annotations

from difflib import get_close_matches

import click

# What other tools call our flags.
MEANT = {
    **dict.fromkeys(("method", "methods", "algorithm", "algo", "model"), "--aggregator"),
    **dict.fromkeys(("out", "outfile", "output-file", "save", "to", "out-file"), "--output"),
    **dict.fromkeys(("sep", "separator", "delim"), "--delimiter"),
    **dict.fromkeys(("annotator-col", "rater-col", "user-col", "worker-column"), "--worker-col"),
    **dict.fromkeys(("task-col", "id-col", "item-column", "question-col"), "--item-col"),
    **dict.fromkeys(("answer-col", "class-col", "label-column", "response-col"), "--label-col"),
    **dict.fromkeys(("jobs", "n-jobs", "cores", "cpus", "processes", "workers-count"), "--threads"),
    **dict.fromkeys(("iterations", "max-iterations", "n-iter", "iter", "epochs"), "--max-iter"),
    **dict.fromkeys(("tolerance", "eps", "epsilon"), "--tol"),
    **dict.fromkeys(("random-state", "random-seed"), "--seed"),
    **dict.fromkeys(("ground-truth", "groundtruth", "gt", "true-labels"), "--truth"),
    **dict.fromkeys(("golden", "known", "honeypots", "control"), "--gold"),
    **dict.fromkeys(("proba", "probs", "probability", "posteriors"), "--probabilities"),
    **dict.fromkeys(("html", "page", "dashboard"), "--report"),
    **dict.fromkeys(("budget", "limit", "head", "n", "rows"), "--top"),
    **dict.fromkeys(("filter", "query-rows"), "--where"),
    **dict.fromkeys(("csv", "tsv", "xlsx", "excel", "file"), "--output"),
    **dict.fromkeys(("threshold", "max-confidence"), "--below"),
    **dict.fromkeys(("timeout", "time-limit", "max-time"), "--time-budget"),
    **dict.fromkeys(("silent", "no-warnings"), "--quiet"),
    **dict.fromkeys(("settings", "conf"), "--config"),
}


def for_flag(ctx: click.Context, flag: str) -> str:
    """Return "; did you mean …?" for a flag that a command does not have, or who has it."""
    own = _flags(ctx.command)
    word = flag.lstrip("-").lower().replace("_", "-")
    meant = f"--{word}" if f"--{word}" in own else MEANT.get(word)
    if meant not in own:
        near = [] if _elsewhere(ctx, flag) else get_close_matches(word, _words(own), 2, 0.7)
        meant = " or ".join(f"--{one}" for one in near)
    if meant:
        return f"; did you mean {meant}?"
    elsewhere = _elsewhere(ctx, flag)
    return f"; it is a flag of misc {' and misc '.join(elsewhere[:3])}" if elsewhere else ""


def _elsewhere(ctx: click.Context, flag: str) -> list[str]:
    """Return the other commands that have a flag."""
    from misc_cli.cli.settings import all_commands

    commands = all_commands(ctx.find_root())
    return [" ".join(words) for words, command in commands.items() if flag in _flags(command)]


def _flags(command: click.Command) -> list[str]:
    options = [one for one in command.params if isinstance(one, click.Option)]
    return [flag for one in options for flag in (*one.opts, *one.secondary_opts)]


def _words(flags: list[str]) -> list[str]:
    return [flag.removeprefix("--") for flag in flags if flag.startswith("--")]
