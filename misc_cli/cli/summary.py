"""The summary of a run, for a person and for the log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from misc_cli.cli.console import Row
    from misc_cli.run.result import RunResult

BARS = "▁▂▃▄▅▆▇█"
UNSURE = 0.6
LOOK_AT = 3


def summary(
    outcome: RunResult,
    places: Mapping[str, Path],
    read_aside: Mapping[str, int] | None = None,
    *,
    closely: bool = False,
) -> list[Row]:
    """Return the run in a few lines: what was asked, what went in, what came out, its cost.

    `closely` adds what a person wants to see: agreement, confidences, workers.
    """
    from misc_cli.quality.evidence import GUESSES, GUESSES_SAID
    from misc_cli.run.result import method_in_words
    from misc_cli.run.run_record import peak_memory

    figures, engine, fit = outcome.figures, outcome.engine, outcome.fit
    rows: dict[str, str] = {}
    if (evidence := figures.get("evidence")) is not None and evidence < GUESSES:
        rows["evidence"] = GUESSES_SAID  # answers show nothing of items
    rows["method"] = plainly(method_in_words(outcome))
    rows["answers"] = (
        f"{figures['answers']:,} by {_count(engine.n_workers, 'worker')} on "
        f"{_count(engine.n_items, 'item')} in {_count(engine.n_classes, 'class')}: "
        f"{figures['answers-per-item']:.1f} per item; a worker answered "
        f"{figures['density']:.1f} % of the items on average"
    )
    counts = engine.counts
    aside = {**(read_aside or {}), "empty": counts.n_empty, "repeated": counts.n_repeats}
    aside["contradictory"] = counts.n_conflicts
    if any(aside.values()):
        listing = ", ".join(f"{count:,} {what}" for what, count in aside.items() if count)
        rows["set aside"] = f"{sum(aside.values()):,}: {listing}"
    if fit.selection:
        rows["because"] = plainly(str(fit.selection["why"]))
    elif fit.loop is not None:
        rows["completed"] = f"in {_count(fit.loop['passes'], 'pass')}"
    ties = _count(figures["ties"] or 0, "tie")
    rows["result"] = f"{_ending(outcome)}, mean confidence {figures['confidence']:.3f}, {ties}"
    if "error" in figures:
        known = f"{figures['items-with-truth']:,} known items"
        rows["error"] = f"{figures['error']:.2f} % of {known}"
    if places:
        rows["written"] = ", ".join(map(str, places.values()))
    rows |= dict(_closely(outcome, places) if closely else [])
    seconds, memory = sum(outcome.timings.values()), peak_memory() / 2**20
    rows["took"] = f"{seconds:.2f} s, {memory:,.0f} MiB of memory"
    return list(rows.items())


def plainly(text: str) -> str:
    """Return a text about methods with their short names spelled out."""

    def passes(number: str | None) -> str:
        return f", {_count(int(number), 'pass')}" if number else ""

    text = re.sub(r"([\w-]+)\((\d+)\)", r"\1 (\2 steps)", text)
    text = re.sub(
        r"([\w-]+)\((\d+,\d+,\d+)\)(?: × (\d+))?",
        lambda one: f"{one[1]} (ranks {one[2]}{passes(one[3])})",
        text,
    )
    text = text.replace(" started by ", " on top of ").replace(", last step: answers", "")
    text = text.replace(" (preset robust)", "").replace(", preset robust", "")
    return text.replace("preset paper", "the paper's settings")


def log_facts(outcome: RunResult, places: Mapping[str, Path]) -> dict[str, Any]:
    """Return what the log says of a finished run: numbers as numbers."""
    from misc_cli.run.result import method_in_words
    from misc_cli.run.run_record import peak_memory

    return {
        "method": method_in_words(outcome),
        "seconds": round(sum(outcome.timings.values()), 6),
        "timings": dict(outcome.timings),
        "peak_memory_bytes": peak_memory(),
        "figures": dict(outcome.figures),
        "outputs": {name: str(path) for name, path in places.items()},
    }


def _closely(outcome: RunResult, places: Mapping[str, Path]) -> Iterator[Row]:
    """Yield what a person wants to see: agreement, confidences and the workers to look at."""
    from misc_cli.engines.protocol import SumOver
    from misc_cli.quality.figures import count_sure
    from misc_cli.quality.verdicts import words, worst

    figures, said = outcome.figures, "no two answers to compare"
    alpha, agreement = figures.get("alpha"), figures.get("agreement")
    if agreement is not None:
        known = "undefined" if alpha is None else f"{alpha:.3f}"
        said = f"two answers to an item agree in {100 * agreement:.0f} % (alpha {known})"
    if figures["alike-pairs"]:
        effective, per_item = figures["effective-votes"], figures["answers-per-item"]
        said += f"; {_count(figures['alike-pairs'] or 0, 'pair')} of workers err together: "
        said += f"{per_item:.1f} answers count as {effective:.1f}"
    if figures["overruled"]:
        said += f"; {figures['overruled']:.1f} % of unanimous items overruled"
    yield "agree", said
    *counts, below = outcome.engine.sweep(SumOver(partial(count_sure, limit=UNSURE))).tolist()
    # an empty bar is a dot: the lowest of the others still has some items
    heights = [ceil(count / max(counts) * len(BARS)) for count in counts]
    bars = "".join("·" if height == 0 else BARS[height - 1] for height in heights)
    unsure = 100.0 * below / outcome.engine.n_items
    yield "sure", f"0 {bars} 1; {unsure:.0f} % of the items have a confidence below {UNSURE:g}"
    verdicts, labels = outcome.verdicts, outcome.engine.vocabulary
    chosen = [int(at) for at in worst(verdicts)]
    first = chosen[:LOOK_AT]
    names = [f"{labels.workers[at].as_py()} ({words(verdicts, at, labels)})" for at in first]
    if len(chosen) > LOOK_AT:
        names[LOOK_AT - 1] += f" and {_count(len(chosen) - LOOK_AT, 'more worker')}"
    hint = f"; misc workers {places['run']}" if "run" in places else ""
    yield "look at", ", ".join(names) + hint if chosen else "no worker stands out"


def _ending(outcome: RunResult) -> str:
    """Return in words that the run converged, or which loops met their limit or a set number."""
    fit = outcome.fit
    if not fit.stopped:
        return "nothing to iterate"
    after = f"after {_count(fit.iterations, 'iteration')}"
    if fit.converged:
        return f"converged {after}"
    if met := [stage for stage, reason in fit.stopped.items() if reason == "limit"]:
        return f"NOT converged {after} ({', '.join(met)}: the limit came first)"
    asked = [stage for stage, reason in fit.stopped.items() if reason == "fixed"]
    named = ", ".join("passes" if stage == "pass" else stage for stage in asked)
    return f"done {after} ({named}: as many as were set)"


def _count(number: float, noun: str) -> str:
    plural = noun + ("es" if noun.endswith("s") else "s")
    return f"{number:,} {noun if number == 1 else plural}"
