"""Say in plain words what a run found: the answers to the three questions that a reader has.

Can I trust these labels? Whom should I look at? What should I do next?
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from misc_cli.quality.evaluation import wilson
from misc_cli.quality.evidence import GUESSES, GUESSES_SAID
from misc_cli.report.frames import Report, verdict_kind

UNSURE, TRUSTED = 0.6, 0.9
# What each kind of verdict says of one worker and of several, the worst first.
SUSPECT = {
    "spammer": ("Spammers", "answers without looking at items", "answer without looking at items"),
    "always says": ("One answer", "always gives the same answer", "always give the same answer"),
    "copies": ("Copies", "gives another worker's answers", "give another worker's answers"),
}
LOOK_AT = {**SUSPECT, "check": ("To check", "should be checked", "should be checked")}
NAMED = 12  # workers named in a sentence; more are counted
ROUND = 50  # items that a round of asking again, or of deciding, is about
LEAST_WORTH = 0.95  # of a label: below, asking again is not worth a word
OFTEN = 0.1  # share of a class's answers from which a confusion is worth a word


@dataclass(frozen=True)
class Sentence:
    """One sentence of the report.

    kind   fact, good, look (a person should look at it) or warning (do not trust the labels)
    names  what it names at its end, workers for instance; `title` is what these are, in a word
    link   the part of the page that shows more
    """

    kind: str
    text: str
    names: Sequence[str] = ()
    link: str = ""
    title: str = ""

    def __str__(self) -> str:
        more = [f"{len(self.names) - NAMED:,} more"] if len(self.names) > NAMED else []
        return f"{self.text}: {listed([*self.names[:NAMED], *more])}." if self.names else self.text


@dataclass(frozen=True)
class Answer:
    """The answer to one question: a figure, the words that follow it, and sentences."""

    question: str
    link: str
    kind: str
    figure: str
    headline: str
    sentences: Sequence[Sentence]


def answers(report: Report) -> tuple[Answer, Answer, Answer]:
    """Answer the three questions: trust, workers, next steps."""
    return _trust(report), _workers(report), _next(report)


def title(report: Report) -> str:
    """Return the report's own title, or the number of labels and the names of the files."""
    files = [Path(source["name"]).name for source in report.facts.get("inputs", [])]
    shown = listed(files if len(files) <= 3 else [*files[:2], "more"]) if files else "a data frame"
    return report.title or f"{count(report.facts['figures']['items'], 'label')} from {shown}"


def how_made(report: Report) -> list[str]:
    """Say how the labels were made, and what the files of the run do not hold."""
    figures, selection = report.facts["figures"], report.facts.get("selection")
    said = [
        f"{count(figures['workers'], 'worker')} gave {count(figures['answers'], 'answer')} on "
        f"{count(figures['items'], 'item')}, {figures['answers-per-item']:.1f} per item. "
        f"Each item got one of {count(figures['classes'], 'class')}. Method: "
        f"{report.facts.get('method', 'unknown')}."
    ]
    if selection and selection.get("why"):
        said.append(f"Why this method: {selection['why']}.")
    return [*said, *report.missing]


def listed(names: Sequence[str]) -> str:
    """Join names as in "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def count(number: float, noun: str) -> str:
    plural = noun + ("es" if noun.endswith("s") else "s")
    return f"{number:,.0f} {noun if number == 1 else plural}"


def _per_cent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"


def comparable(report: Report) -> bool:
    """Return True if some item has two answers: otherwise confidences mean nothing."""
    figures = report.facts["figures"]
    return bool(figures["answers"] > figures["items"] and figures["workers"] > 1)


def _guessed(report: Report) -> bool:
    """Return True if the answers agree no more than chance would have it."""
    evidence = report.facts["figures"].get("evidence")
    return evidence is not None and evidence < GUESSES


def _trust(report: Report) -> Answer:
    figures = report.facts["figures"]
    confidence, error = figures.get("confidence"), figures.get("error")
    said = []
    if _guessed(report):
        kind, figure, headline = "warning", "Guesses", GUESSES_SAID
    elif not comparable(report):
        kind, figure = "look", "Unknown"
        headline = "no two workers answered the same item, so nothing tells right from wrong"
    elif error is not None:
        known, right = figures["items-with-truth"], 1.0 - error / 100.0
        low, high = (float(bound[0]) for bound in wilson(np.array([right]), np.array([known])))
        kind, figure = "good" if right >= TRUSTED else "fact", _per_cent(right, 1)
        headline = (
            f"of the {count(known, 'label')} whose truth is known are right (95 % interval "
            f"{100 * low:.1f} to {100 * high:.1f} %); they say {_per_cent(confidence)}"
        )
    else:
        n_items = figures["items"]
        kind = "good" if confidence >= TRUSTED else "fact"
        figure = _per_cent(confidence, 1 if 0.99 < confidence < 0.9995 else 0)
        likely = f"{confidence * n_items:,.0f} of {n_items:,}"
        headline = f"of the labels are likely right: about {likely}"
        text = "This is an estimate, the mean confidence; known labels (--truth) would check it."
        said.append(Sentence("fact", text, link="sure"))
    for text in report.facts.get("warnings", []):
        if not text.startswith(GUESSES_SAID):  # which is the headline
            said += [Sentence("warning", f"{text[:1].upper()}{text[1:].rstrip('.')}.")]
    if comparable(report):
        said += _doubtful_items(report.frames["items"])
    return Answer("Can I trust these labels?", "trust", kind, figure, headline, said)


def _doubtful_items(items: pd.DataFrame) -> Iterator[Sentence]:
    unsure = items["confidence"] < UNSURE
    for which, one, many, said, link in (
        (unsure, "is", "are", f"less than {_per_cent(UNSURE)} sure", "decide"),
        (items["outvoted"], "goes", "go", "against the most frequent answer", "against"),
        (items.get("tie"), "has", "have", "two equally likely classes", "decide"),
    ):
        if which is not None and (number := int(which.sum())):
            share = number / len(items)
            labels = f"{count(number, 'label')} ({_per_cent(share, 1 if share < 0.01 else 0)})"
            yield Sentence("look", f"{labels} {one if number == 1 else many} {said}.", link=link)


def _workers(report: Report) -> Answer:
    question, link = "Whom should I look at?", "workers"
    workers, said = report.frames["workers"], []
    kinds = workers["verdict"].map(verdict_kind)
    for kind, (title, *verbs) in LOOK_AT.items():
        own = workers["worker"][kinds == kind].astype(str).tolist()
        if own:
            text = f"{count(len(own), 'worker')} {verbs[len(own) > 1]}"
            said.append(Sentence("look", text, own, link, title))
    suspects = kinds.isin(list(LOOK_AT))
    few, fine = int((kinds == "too few").sum()), workers["accuracy"][kinds == "fine"]
    if len(fine):
        be = "is fine: it is" if len(fine) == 1 else "are fine: they are"
        low = "" if len(fine) == 1 else f"{100 * fine.min():.0f} to "
        text = f"{count(len(fine), 'worker')} {be} right {low}{_per_cent(fine.max())} of the time."
        said.append(Sentence("good", text))
    if few:
        text = f"{count(few, 'worker')} gave too few answers to tell how good they are."
        said.append(Sentence("fact", text))
    number = int(suspects.sum())
    if not number:
        kind, headline = "good", "stands out as careless"
        if few == len(workers):
            kind, headline = "fact", "gave enough answers to be judged"
        return Answer(question, link, kind, "Nobody", headline, said)
    share = workers["answers"][suspects].sum() / max(workers["answers"].sum(), 1)
    they, stand = ("it", "stands") if number == 1 else ("they", "stand")
    headline = f"of {len(workers):,} {stand} out; {they} gave {_per_cent(share)} of the answers"
    return Answer(question, link, "look", count(number, "worker"), headline, said)


def _next(report: Report) -> Answer:
    question, link = "What should I do next?", "next"
    said = []
    workers, asked = report.frames["workers"], report.frames.get("ask_again")
    if (careless := workers["verdict"].map(verdict_kind).isin(list(SUSPECT))).any():
        text = "Talk to these workers before you give them more work"
        own = workers["worker"][careless].astype(str).tolist()
        said.append(Sentence("look", text, own, "workers"))
    confusions = report.frames.get("confusions")
    if confusions is not None and len(often := confusions[confusions["share"] >= OFTEN]):
        pairs = [f"{row.true} → {row.said}" for row in often.head(3).itertuples()]
        text = "Make the instructions clearer where workers take one class for another"
        said.append(Sentence("look", text, pairs, "classes"))
    if _guessed(report):
        headline = "before anything else: workers do not see the same in the items"
        return Answer(question, link, "warning", "Check the question", headline, said)
    if not comparable(report):
        headline = "the least sure items yourself, and run again with them"
        return Answer(question, link, "fact", "Decide", headline, said)
    if asked is None:
        headline = "by asking again: no label is in doubt"
        return Answer(question, link, "good", "Little to gain", headline, said)
    first = asked.head(ROUND)
    kind, figure, gain = "look", f"Ask {count(len(first), 'item')}", first["gain_once"].sum()
    headline = f"once more: {worth(gain)}"
    if gain < LEAST_WORTH:
        kind, figure = "good", "Little to gain"
        headline = f"by asking {count(len(first), 'item')} again: {worth(gain)}"
    text = "Or decide the least sure items yourself: that teaches the rest."
    said.append(Sentence("fact", text, link="decide"))
    return Answer(question, link, kind, figure, headline, said)


def worth(gain: float) -> str:
    """Say how many more labels come out right where the gains of items sum up to this."""
    if gain < LEAST_WORTH:
        return "less than one more label comes out right"
    come = "label comes" if round(gain) == 1 else "labels come"
    return f"about {round(gain):,} more {come} out right"
