"""The summary of a run, for a person and for the log."""

from __future__ import annotations

import re
from collections.abc import Mapping
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

    figures, engine = outcome.figures, outcome.engine
    rows = []
    evidence = figures.get("evidence")
    if evidence is not None and evidence < GUESSES:  # answers show nothing of items
        rows.append(("evidence", GUESSES_SAID))
    rows += [
        ("method", plainly(method_in_words(outcome))),
        (
            "answers",
            f"{figures['answers']:,} by {_count(engine.n_workers, 'worker')} on "
            f"{_count(engine.n_items, 'item')} in {_count(engine.n_classes, 'class')}: "
            f"{figures['answers-per-item']:.1f} per item; a worker answered "
            f"{figures['density']:.1f} % of the items on average",
        ),
    ]
    aside = {
        **(read_aside or {}),
        "empty": engine.counts.n_empty,
        "repeated": engine.counts.n_repeats,
        "contradictory": engine.counts.n_conflicts,
    }
    if any(aside.values()):
        listing = ", ".join(f"{count:,} {what}" for what, count in aside.items() if count)
        rows.append(("set aside", f"{sum(aside.values()):,}: {listing}"))
    if outcome.fit.selection:
        rows.append(("because", plainly(str(outcome.fit.selection["why"]))))
    elif outcome.fit.loop is not None:
        rows.append(("completed", f"in {_count(outcome.fit.loop['passes'], 'pass')}"))
    rows.append(
        (
            "result",
            f"{_ending(outcome)}, "
            f"mean confidence {figures['confidence']:.3f}, {_count(figures['ties'] or 0, 'tie')}",
        )
    )
    if "error" in figures:
        rows.append(
            ("error", f"{figures['error']:.2f} % of {figures['items-with-truth']:,} known items")
        )
    if places:
        rows.append(("written", ", ".join(str(path) for path in places.values())))
    if closely:
        rows.append(("agree", _agreement(outcome)))
        rows.append(("sure", _histogram(outcome)))
        rows.append(("look at", _look_at(outcome, places)))
    seconds = sum(outcome.timings.values())
    rows.append(("took", f"{seconds:.2f} s, {peak_memory() / 2**20:,.0f} MiB of memory"))
    return rows


def plainly(text: str) -> str:
    """Return a text about methods with their short names spelled out."""
    text = re.sub(r"([\w-]+)\((\d+)\)", r"\1 (\2 steps)", text)
    text = re.sub(r"([\w-]+)\((\d+,\d+,\d+)\)( × (\d+))?", _ranks_in_words, text)
    text = text.replace(" started by ", " on top of ").replace(", last step: answers", "")
    text = text.replace(" (preset robust)", "").replace(", preset robust", "")
    return text.replace("preset paper", "the paper's settings")


def _ranks_in_words(found: re.Match[str]) -> str:
    passes = f", {found[4]} {'pass' if found[4] == '1' else 'passes'}" if found[4] else ""
    return f"{found[1]} (ranks {found[2]}{passes})"


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


def _agreement(outcome: RunResult) -> str:
    """Return the agreement of answers, and the number of independent ones that they count as."""
    figures = outcome.figures
    alpha, agreement = figures.get("alpha"), figures.get("agreement")
    said = "no two answers to compare"
    if agreement is not None:
        known = "undefined" if alpha is None else f"{alpha:.3f}"
        said = f"two answers to an item agree in {100 * agreement:.0f} % (alpha {known})"
    effective, per_item = figures["effective-votes"], figures["answers-per-item"]
    if figures["alike-pairs"]:
        pairs = _count(figures["alike-pairs"] or 0, "pair")
        said += (
            f"; {pairs} of workers err together: {per_item:.1f} answers count as {effective:.1f}"
        )
    if figures["overruled"]:
        said += f"; {figures['overruled']:.1f} % of unanimous items overruled"
    return said


def _histogram(outcome: RunResult) -> str:
    """Return a histogram of confidences, ten bars from 0 to 1."""
    from functools import partial

    from misc_cli.engines.protocol import SumOver
    from misc_cli.quality.figures import count_sure

    *counts, below = outcome.engine.sweep(SumOver(partial(count_sure, limit=UNSURE))).tolist()
    # an empty bar is a dot: the lowest of the others still has some items
    heights = [ceil(count / max(counts) * len(BARS)) for count in counts]
    bars = "".join("·" if height == 0 else BARS[height - 1] for height in heights)
    unsure = 100.0 * below / outcome.engine.n_items
    return f"0 {bars} 1; {unsure:.0f} % of the items have a confidence below {UNSURE:g}"


def _look_at(outcome: RunResult, places: Mapping[str, Path]) -> str:
    """Return the three workers whose answers spoil the most, each with its verdict."""
    from misc_cli.quality.verdicts import words, worst

    verdicts, labels = outcome.verdicts, outcome.engine.vocabulary
    chosen = worst(verdicts)
    if not len(chosen):
        return "no worker stands out"
    names = [
        f"{labels.workers[int(at)].as_py()} ({words(verdicts, int(at), labels)})"
        for at in chosen[:LOOK_AT]
    ]
    more = f" and {_count(len(chosen) - LOOK_AT, 'more worker')}" if len(chosen) > LOOK_AT else ""
    hint = f"; misc workers {places['run']}" if "run" in places else ""
    return ", ".join(names) + more + hint


def _ending(outcome: RunResult) -> str:
    """Return in words that the run converged, or which loops met their limit or a set number."""
    aggregation = outcome.fit
    if not aggregation.stopped:
        return "nothing to iterate"
    after = f"after {_count(aggregation.iterations, 'iteration')}"
    if aggregation.converged:
        return f"converged {after}"
    met = [stage for stage, reason in aggregation.stopped.items() if reason == "limit"]
    if met:
        return f"NOT converged {after} ({', '.join(met)}: the limit came first)"
    asked = [stage for stage, reason in aggregation.stopped.items() if reason == "fixed"]
    named = ", ".join("passes" if stage == "pass" else stage for stage in asked)
    return f"done {after} ({named}: as many as were set)"


def _count(number: float, noun: str) -> str:
    plural = noun + ("es" if noun.endswith("s") else "s")
    return f"{number:,} {noun if number == 1 else plural}"
