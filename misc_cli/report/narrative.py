"""Describe a run in sentences: what was done, what came out, what a person should check."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from misc_cli.quality.evaluation import wilson
from misc_cli.quality.evidence import GUESSES, GUESSES_SAID
from misc_cli.report.frames import Report

# Krippendorff (2004, p. 241): rely on data from .800 on, draw tentative conclusions from .667 on.
RELIABLE, TENTATIVE = 0.8, 0.667
UNSURE = 0.6
SUSPECT = ("spammer", "always says", "copies")


@dataclass(frozen=True)
class Sentence:
    """One sentence of the report.

    `kind` is fact, good, look (a person should look at it) or warning (do not trust the labels);
    `link` names the section of the page that shows more.
    """

    kind: str
    text: str
    link: str = ""


def sentences(report: Report) -> list[Sentence]:
    """Say what was done, how far to trust the labels, what to check and what is missing."""
    parts = (_guesses, _done, _warnings, _trust, _to_check)
    said = [sentence for part in parts for sentence in part(report)]
    return [*said, *(Sentence("fact", text) for text in report.missing)]


def method(facts: Any) -> str:
    """Return the name of the method that made the labels."""
    selection = facts.get("selection")
    if selection and selection.get("chosen"):
        chosen = selection["chosen"]
        return str(chosen[0]) if len(chosen) == 1 else f"the mean of {listed(chosen)}"
    options = facts.get("options", {})
    completer = options.get("completer")
    aggregator = str(options.get("aggregator", "an unknown method"))
    return aggregator if completer in (None, "none") else f"{completer} + {aggregator}"


def listed(names: list[str]) -> str:
    """Join names as in "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def count(number: float, noun: str) -> str:
    plural = noun + ("es" if noun.endswith("s") else "s")
    return f"{number:,.0f} {noun if number == 1 else plural}"


def _guesses(report: Report) -> Iterator[Sentence]:
    evidence = report.facts["figures"].get("evidence")
    if evidence is not None and evidence < GUESSES:
        yield Sentence("warning", f"{GUESSES_SAID[:1].upper()}{GUESSES_SAID[1:]}.", "agreement")


def _warnings(report: Report) -> Iterator[Sentence]:
    for warning in report.facts.get("warnings", []):
        text = str(warning).rstrip(".")
        if not text.startswith(GUESSES_SAID):  # which stands first
            yield Sentence("warning", f"{text[:1].upper()}{text[1:]}.")


def _done(report: Report) -> Iterator[Sentence]:
    figures = report.facts["figures"]
    yield Sentence(
        "fact",
        f"{count(figures['workers'], 'worker')} gave {count(figures['answers'], 'answer')} on "
        f"{count(figures['items'], 'item')}, {figures['answers-per-item']:.1f} per item. "
        f"Each item got one of {count(figures['classes'], 'class')} by {method(report.facts)}.",
        "run",
    )
    selection = report.facts.get("selection")
    if selection and selection.get("why"):
        yield Sentence("fact", f"Why this method: {selection['why']}.", "choice")
    if figures.get("converged") is False:
        yield Sentence(
            "warning",
            "The computation had not converged when it stopped. More iterations (--max-iter) may "
            "change labels.",
            "convergence",
        )


def _trust(report: Report) -> Iterator[Sentence]:
    figures = report.facts["figures"]
    n_items = figures["items"]
    confidence, error = figures["confidence"], figures.get("error")
    if error is not None:
        yield _judged(confidence, error, figures["items-with-truth"])
    elif _comparable(report):
        raw = "" if report.facts.get("options", {}).get("calibrate") else "raw "
        yield Sentence(
            "fact",
            f"The labels are {100 * confidence:.0f} % sure on average: if these {raw}confidences "
            f"hold, about {(1.0 - confidence) * n_items:,.0f} of {n_items:,} are wrong.",
            "confidence",
        )
    yield from _agreement(report)


def _judged(confidence: float, error: float, known: int) -> Sentence:
    """Compare the mean confidence with the share of known labels that are right."""
    right = 1.0 - error / 100.0
    low, high = (float(bound[0]) for bound in wilson(np.array([right]), np.array([known])))
    said = (
        f"Of {count(known, 'label')} whose truth is known {100 * right:.1f} % are right; the "
        f"labels say {100 * confidence:.0f} % on average"
    )
    if confidence > high:
        return Sentence("look", f"{said}. They are less sure than they say.", "confidence")
    cautious = ". They are better than they say." if confidence < low else ": as they say."
    return Sentence("good", f"{said}{cautious}", "confidence")


def _comparable(report: Report) -> bool:
    """Return True if some item has two answers: otherwise confidences mean nothing."""
    figures = report.facts["figures"]
    return bool(figures["answers"] > figures["items"] and figures["workers"] > 1)


def _agreement(report: Report) -> Iterator[Sentence]:
    frame = report.frames.get("agreement")
    if frame is None:
        return
    alphas = frame[frame["measure"].str.startswith("alpha")]
    if alphas.empty or math.isnan(alphas["value"].max()):
        return
    row = alphas.iloc[-1]  # that of the ordered classes, where the classes have an order
    alpha = float(row["value"])
    said = f"Workers agree with each other beyond chance by alpha = {alpha:.2f}"
    if alpha >= RELIABLE:
        yield Sentence("good", f"{said}: answers that one can rely on.", "agreement")
    elif alpha >= TENTATIVE:
        yield Sentence("fact", f"{said}: enough for tentative conclusions.", "agreement")
    else:
        low = "low. The question is hard, unclear, or answered carelessly. Read some of the items"
        yield Sentence("look", f"{said}: {low} below before you trust single answers.", "agreement")


def _to_check(report: Report) -> Iterator[Sentence]:
    items, workers = report.frames.get("items"), report.frames.get("workers")
    if workers is not None and "verdict" in workers:
        verdicts = workers["verdict"].astype(str)
        bad = verdicts.str.startswith(SUSPECT)
        if bad.any():
            share = workers["answers"][bad].sum() / max(workers["answers"].sum(), 1)
            yield Sentence(
                "look",
                f"{count(int(bad.sum()), 'worker')} gave answers that tell nothing or are not "
                f"their own ({100 * share:.0f} % of all answers). Look at them first.",
                "workers",
            )
        check = int((verdicts == "check").sum())
        if check:
            yield Sentence("look", f"{count(check, 'worker')} should be checked.", "workers")
        few = int(verdicts.str.startswith("too few").sum())
        if few:
            yield Sentence(
                "fact", f"{count(few, 'worker')} gave too few answers to tell how good.", "workers"
            )
        if not bad.any() and not check and few < len(workers):
            yield Sentence("good", "No worker stands out as careless.", "workers")
    if items is not None and _comparable(report):
        yield from _items(items)


def _items(items: Any) -> Iterator[Sentence]:
    unsure = int((items["confidence"] < UNSURE).sum())
    if unsure:
        yield Sentence(
            "look",
            f"{count(unsure, 'label')} ({100 * unsure / len(items):.0f} %) are less than "
            f"{100 * UNSURE:.0f} % sure. The command misc queue lists where another answer helps "
            "most.",
            "items",
        )
    else:
        yield Sentence("good", f"Every label is at least {100 * UNSURE:.0f} % sure.", "items")
    for name, said in (
        ("outvoted", "went against the most frequent answer"),
        ("tie", "have two classes that are equally likely; the first in class order is written"),
    ):
        number = int(items[name].sum()) if name in items else 0
        if number:
            one = said.replace("have", "has", 1) if number == 1 else said
            yield Sentence("look", f"{count(number, 'label')} {one}.", "items")
