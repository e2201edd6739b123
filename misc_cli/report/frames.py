"""Make the data frames of a report, from which page, workbook and terminal tables are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from misc_cli.aggregators.confusion_kernels import crowd_rows, expected_counts
from misc_cli.data.encode import text_frame
from misc_cli.data.types import Codes, Floats, Labels
from misc_cli.data.votes import votes_by_worker
from misc_cli.quality.agreement import agreement_intervals
from misc_cli.quality.evaluation import wilson
from misc_cli.quality.worker_dependence import effective_votes
from misc_cli.quality.worker_scores import (
    MOST_OF_PANEL,
    MOST_VOTES,
    labels_that_change,
    smallest_panel,
)
from misc_cli.run.result import RunResult, queue_columns, unused, worker_columns

Frames = dict[str, pd.DataFrame]

BANDS = np.array([0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0])  # of confidence
MOST_CONFUSIONS = 1_000
# Words that a verdict begins with, the worst first; one that is not listed comes after "check".
VERDICTS = ("spammer", "always says", "copies", "check", "", "fine", "too few")
# Stages of the search for a method: lines about trials, not about iterations of a method.
SEARCH_STAGES = ("search", "fitted")


@dataclass(frozen=True)
class Report:
    """The frames of a run and its facts (the content of run.json).

    `labels` are the encoded answers. `missing` says in sentences what the files of the run do not
    hold and how to get it. `carried` names the columns of items that --keep brought along.
    """

    frames: Frames
    facts: Mapping[str, Any]
    labels: Labels
    missing: tuple[str, ...] = ()
    title: str = ""
    carried: tuple[str, ...] = ()


def build(
    outcome: RunResult,
    facts: Mapping[str, Any],
    kept: Mapping[str, Mapping[str, str]] | None = None,
    title: str = "",
) -> Report:
    """Make the report of a run; `kept` are texts of items by column, then by item (--keep)."""
    found = frames(outcome)
    columns = found["items"].columns
    carried = {unused(name, columns): texts for name, texts in (kept or {}).items()}
    for name in {"items", "ask_again"} & set(found):
        texts = {column: found[name]["item"].map(own) for column, own in carried.items()}
        found[name] = found[name].assign(**texts).fillna(dict.fromkeys(carried, ""))
    return Report(found, facts, outcome.labels, title=title, carried=tuple(carried))


def frames(outcome: RunResult) -> Frames:
    """Return the frames of a run that are not empty, by name."""
    labels, decision = outcome.labels, outcome.decision
    counts = expected_counts(labels, outcome.posteriors).sum(axis=0)
    names = labels.classes.to_pylist()
    tried = [
        {"kind": kind, **row}  # the round of the search
        for kind, rows in (outcome.fit.selection or {}).items()
        if isinstance(rows, list) and rows and isinstance(rows[0], dict) and "candidate" in rows[0]
        for row in rows
    ]
    found = {
        "figures": pd.DataFrame(outcome.figures.items(), columns=["name", "value"], dtype=object),
        "convergence": convergence_frame(outcome.records),
        "tried": pd.DataFrame(tried),
    }
    alpha, agreement = agreement_intervals(labels.votes)
    measures = {"pairwise agreement": agreement, "alpha, classes without order": alpha}
    rows = [{"measure": measure, **interval._asdict()} for measure, interval in measures.items()]
    found["agreement"] = pd.DataFrame(rows).dropna(subset=["value"])
    found["confidence"] = confidence_frame(decision.confidence, decision.label, outcome.truth)
    given = np.bincount(decision.label, minlength=len(names))
    with np.errstate(invalid="ignore"):
        mean = np.bincount(decision.label, decision.confidence, len(names)) / given
    cast = votes_by_worker(labels.votes).sum(axis=0)
    shares = {"votes": cast, "votes_share": cast / cast.sum()}
    shares |= {"labels": given, "labels_share": given / given.sum(), "confidence": mean}
    classes = pd.DataFrame({"class": names, **shares})
    if outcome.truth is not None:
        inside = outcome.truth[(outcome.truth >= 0) & (outcome.truth < len(names))]
        classes["truth"] = np.bincount(inside, minlength=len(names))
    found["classes"] = classes
    crowd = crowd_rows(counts[None])
    found["crowd"] = pd.DataFrame(crowd, index=pd.Index(names, name="true"), columns=names)
    found["confusions"] = confusion_frame(counts, names)
    votes = effective_votes(outcome.fit.engine, outcome.pairs)
    workers = text_frame(worker_columns(outcome)).assign(effective_votes=votes)
    found["workers"] = worst_first(workers.assign(changes=labels_that_change(outcome.fit.engine)))
    found["panel"] = panel_frame(outcome, votes / np.maximum(outcome.pairs.answers, 1))
    found["items"] = item_frame(outcome)
    found["ask_again"] = text_frame(queue_columns(outcome, None))
    return {name: frame for name, frame in found.items() if len(frame)}


def convergence_frame(records: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the iterations of the methods, in the order they ran."""
    return pd.DataFrame([line for line in records if line["stage"] not in SEARCH_STAGES])


def confidence_frame(confidence: Floats, label: Codes, truth: Codes | None = None) -> pd.DataFrame:
    """Return from, to and items of each band of confidence that has items, the surest first.

    Where truth is known also known (items), right (their share) and its interval low, high.
    """
    band = np.searchsorted(BANDS[1:-1], confidence, side="right")
    n_bands = len(BANDS) - 1
    items = np.bincount(band, minlength=n_bands)
    found = pd.DataFrame({"from": BANDS[:-1], "to": BANDS[1:], "items": items})
    if truth is not None and (known := truth >= 0).any():
        n_known = np.bincount(band[known], minlength=n_bands)
        right = np.bincount(band[known & (label == truth)], minlength=n_bands)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = right / n_known
            low, high = wilson(share, n_known.astype(float))
        found = found.assign(known=n_known, right=share, low=low, high=high)
    return found[items > 0][::-1].reset_index(drop=True)


def confusion_frame(counts: Floats, classes: list[str]) -> pd.DataFrame:
    """Return true, said, share (of the answers to that class) and answers, most answers first.

    counts  (n_classes, n_classes) expected answers, [true, said]; right ones are left out.
    """
    wrong = np.where(np.eye(len(classes), dtype=bool), 0.0, counts)
    true, said = np.nonzero(wrong >= 0.5)
    order = np.argsort(-wrong[true, said], kind="stable")[:MOST_CONFUSIONS]
    true, said = true[order], said[order]
    names, own = np.array(classes, dtype=object), wrong[true, said]
    found = pd.DataFrame({"true": names[true], "said": names[said]})
    answers = np.rint(own).astype(np.int64)
    return found.assign(share=own / counts.sum(axis=1)[true], answers=answers)


def worst_first(workers: pd.DataFrame) -> pd.DataFrame:
    """Sort workers by verdict, the redundant after others, then by accuracy."""
    keys = workers[["accuracy", "worker"]].assign(redundant=workers["alike"] != "")
    keys["severity"] = workers["verdict"].map(lambda text: VERDICTS.index(verdict_kind(text)))
    order = keys.sort_values(["severity", "redundant", "accuracy", "worker"], kind="stable").index
    return workers.loc[order].reset_index(drop=True)


def verdict_kind(verdict: str) -> str:
    """Return the words of VERDICTS that a verdict begins with: "copies" of "copies anna"."""
    return next((kind for kind in VERDICTS if kind and verdict.startswith(kind)), "")


def confusion_columns(workers: pd.DataFrame) -> list[str]:
    """Return the names of the columns that hold confusion matrices, row by row."""
    return [name for name in workers.columns if name.startswith("true_") and "_said_" in name]


def panel_frame(outcome: RunResult, votes: Floats) -> pd.DataFrame:
    """Return a row per worker of a small panel: worker, kept, votes, its likeness with each.

    Those who are kept give the same labels alone, up to one in a hundred; `votes`, (n_workers,), is
    what an answer of each counts. A crowd has no rows.
    """
    labels = outcome.labels
    if not 2 < labels.n_workers <= MOST_OF_PANEL or labels.votes.n_votes > MOST_VOTES:
        return pd.DataFrame()
    kept = smallest_panel(labels, outcome.posteriors)
    likeness = outcome.pairs.matrix(outcome.pairs.shared > 0).toarray().clip(0.0, 1.0)
    found = pd.DataFrame({"worker": labels.workers.to_pandas()})
    found = found.assign(kept=found.index.isin(kept), votes=votes)
    return found.join(pd.DataFrame(likeness))


def item_frame(outcome: RunResult) -> pd.DataFrame:
    """Return a row per item: its label, confidence, runner-up and how its answers voted.

    Outvoted: the label is not the most frequent answer. Overruled: all answers agree on another.
    """
    labels, decision, truth = outcome.labels, outcome.decision, outcome.truth
    classes = np.array([*labels.classes.to_pylist(), None], dtype=object)
    parts = []
    for rows in labels.votes.blocks:
        totals = labels.votes.class_totals(rows)
        own = totals[np.arange(len(totals)), decision.label[rows]]
        parts.append([totals.sum(axis=1), own, totals.argmax(axis=1), totals.max(axis=1)])
    answers, votes, majority, most = np.hstack(parts).astype(np.int32)
    columns: dict[str, Any] = {
        "item": labels.items.to_pandas(),
        "label": classes[decision.label],
        "confidence": decision.confidence,
        "runner_up": classes[decision.runner_up],
        "answers": answers,
        "votes": votes,
        "majority": classes[majority],
        "outvoted": votes < most,
        "overruled": (votes == 0) & (most == answers),
        "tie": decision.tied,
    }
    if truth is not None:
        columns["truth"] = classes[np.where(truth < labels.n_classes, truth, -1)]
        columns["right"] = np.where(truth >= 0, decision.label == truth, None)
    if labels.gold is not None:
        columns["gold"] = labels.gold >= 0
    found = pd.DataFrame(columns)
    return found.sort_values("confidence", kind="stable").reset_index(drop=True)
