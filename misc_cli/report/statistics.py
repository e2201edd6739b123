"""What a report shows, as data frames: for the page, the workbook, the terminal and a notebook.

figures      name, value: the run in numbers, by the names that --fail-if knows
agreement    measure, value, low, high: how far the answers agree with each other
confidence   from, to, items; with truth also known, sum_confidence, right
classes      class, votes, votes_share, labels, labels_share, confidence; with truth also truth
crowd        true class × said class: what a typical worker answers, rows sum to 1
workers      one row per worker, worst first; its confusion matrix as true_<class>_said_<class>
items        one row per item, least sure first
convergence  one row per iteration
progress     from, answers, workers, agreement: over time, where the answers have times
tried        what an automatic choice looked at, best first
changed      item, label, confidence, before: what completion changed (completed runs)
worker_map   worker, x, y, accuracy: workers in the space of the factors (completed runs)
item_map     item, label, confidence, x, y: items there
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from misc_cli.aggregators.confusion.counts import crowd_rows, expected_counts
from misc_cli.core.types import Codes, Floats, Labels
from misc_cli.core.votes import votes_by_worker
from misc_cli.evaluate.agreement import agreement_intervals
from misc_cli.evaluate.metrics import wilson
from misc_cli.report.completion import completion_frames
from misc_cli.run.outcome import Outcome
from misc_cli.run.tables import worker_columns

Frames = dict[str, pd.DataFrame]

HISTOGRAM_BINS = 20
RELIABILITY_BINS = 10
CONFUSION = ("true_", "_said_")
# Words that a verdict begins with, the worst first; one that is not listed comes after "check".
VERDICTS = ("spammer", "always says", "copies", "check", "", "fine", "too few")
# Stages of the search for a method: lines about trials, not about iterations of a method.
SEARCH_STAGES = ("search", "fitted")


def frames(outcome: Outcome) -> Frames:
    """Every frame that this run can fill."""
    crowd = crowd_rows(expected_counts(outcome.labels, outcome.aggregation.posteriors))
    classes = outcome.labels.classes.to_pylist()
    found: Frames = {
        "figures": figures_frame(outcome.figures),
        "agreement": agreement_frame(outcome),
        "confidence": _confidence(outcome),
        "classes": _classes(outcome),
        "crowd": pd.DataFrame(crowd, index=pd.Index(classes, name="true"), columns=classes),
        "workers": worst_first(text_frame(worker_columns(outcome))),
        "items": _items(outcome),
        "convergence": convergence_frame(outcome.records),
        "tried": tried_frame(outcome.selection),
        **completion_frames(outcome),
    }
    return {name: frame for name, frame in found.items() if len(frame)}


def figures_frame(figures: Mapping[str, Any]) -> pd.DataFrame:
    return pd.DataFrame({"name": list(figures), "value": list(figures.values())}, dtype=object)


def agreement_frame(outcome: Outcome) -> pd.DataFrame:
    """Without labels or truth; alpha also for ordered classes where the classes have an order."""
    labels = outcome.labels
    nominal = agreement_intervals(labels.votes)
    found = {
        "pairwise agreement": nominal.agreement,
        "alpha, classes without order": nominal.alpha,
    }
    if labels.ordered:
        found["alpha, ordered classes"] = agreement_intervals(labels.votes, ordered=True).alpha
    rows = [{"measure": measure, **asdict(interval)} for measure, interval in found.items()]
    return pd.DataFrame(rows).dropna(subset=["value"])


def convergence_frame(records: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The iterations of every method that ran, in the order they ran."""
    return pd.DataFrame([line for line in records if line["stage"] not in SEARCH_STAGES])


def tried_frame(selection: Mapping[str, Any] | None) -> pd.DataFrame:
    """The candidates of an automatic choice; `kind` says in which round they were tried."""
    rounds = {
        kind: rows
        for kind, rows in (selection or {}).items()
        if isinstance(rows, list) and rows and isinstance(rows[0], dict) and "candidate" in rows[0]
    }
    return pd.DataFrame([{"kind": kind, **row} for kind, rows in rounds.items() for row in rows])


def worst_first(workers: pd.DataFrame) -> pd.DataFrame:
    """By verdict where there is one, then by accuracy."""
    keys = pd.DataFrame({"accuracy": workers["accuracy"], "worker": workers["worker"]})
    keys.insert(0, "severity", _severity(workers["verdict"]) if "verdict" in workers else 0)
    order = keys.sort_values(["severity", "accuracy", "worker"], kind="stable").index
    return workers.loc[order].reset_index(drop=True)


def _severity(verdicts: pd.Series[Any]) -> pd.Series[Any]:
    def place(verdict: str) -> int:
        starts = [at for at, word in enumerate(VERDICTS) if word and verdict.startswith(word)]
        return starts[0] if starts else VERDICTS.index("")

    return verdicts.map({verdict: place(verdict) for verdict in verdicts.unique()})


def confusion_columns(workers: pd.DataFrame) -> list[str]:
    """The columns that hold confusion matrices, true class by true class."""
    start, middle = CONFUSION
    return [name for name in workers.columns if name.startswith(start) and middle in name]


def text_frame(columns: Mapping[str, Any]) -> pd.DataFrame:
    """Named columns (numpy, or arrow text) as a frame of plain text and numbers."""
    return pd.DataFrame({name: _series(column) for name, column in columns.items()})


def _series(column: Any) -> Any:
    if not isinstance(column, pa.Array | pa.ChunkedArray):
        return column
    plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    return plain.to_pandas()


def _confidence(outcome: Outcome) -> pd.DataFrame:
    """Items by confidence; with truth, how many of them are right."""
    truth, decision = outcome.truth, outcome.decision
    known = np.zeros(len(decision.label), dtype=bool) if truth is None else truth >= 0
    right = known & (decision.label == truth) if truth is not None else known
    return confidence_frame(decision.confidence, known, right)


def confidence_frame(confidence: Floats, known: Any, right: Any) -> pd.DataFrame:
    """Twenty steps of a twentieth; what is known of the truth is added where there is any."""
    bins = HISTOGRAM_BINS
    which = np.minimum((confidence * bins).astype(np.int64), bins - 1)

    def per_bin(weights: Any) -> Floats:
        return np.bincount(which, weights, minlength=bins).astype(np.float64)

    edges = np.arange(bins + 1) / bins
    columns = {
        "from": edges[:-1],
        "to": edges[1:],
        "items": np.bincount(which, minlength=bins),
    }
    if known.any():
        n_known, hits = per_bin(known), per_bin(right)
        columns["known"] = n_known.astype(np.int64)
        columns["sum_confidence"] = per_bin(confidence * known)
        columns["right"] = hits.astype(np.int64)
    return pd.DataFrame(columns)


def reliability_frame(confidence: pd.DataFrame) -> pd.DataFrame:
    """mean_confidence, accuracy, low, high, known: tenths of confidence that have items."""
    if "known" not in confidence:
        return pd.DataFrame()
    tenth = np.arange(len(confidence)) * RELIABILITY_BINS // len(confidence)
    sums = confidence[["known", "sum_confidence", "right"]].groupby(tenth).sum()
    sums = sums[sums["known"] > 0]
    known, right = (sums[name].to_numpy(float) for name in ("known", "right"))
    low, high = wilson(right / known, known)
    return pd.DataFrame(
        {
            "mean_confidence": sums["sum_confidence"].to_numpy() / known,
            "accuracy": right / known,
            "low": low,
            "high": high,
            "known": known.astype(np.int64),
        }
    )


def _classes(outcome: Outcome) -> pd.DataFrame:
    """Votes against labels, class by class."""
    labels, decision = outcome.labels, outcome.decision
    votes = labels.votes
    cast = votes_by_worker(votes).sum(axis=0)
    columns = class_columns(labels.classes.to_pylist(), decision.label, decision.confidence)
    columns = {
        "class": columns.pop("class"),
        "votes": cast,
        "votes_share": cast / max(cast.sum(), 1),
        **columns,
    }
    if outcome.truth is not None:
        inside = outcome.truth[(outcome.truth >= 0) & (outcome.truth < votes.n_classes)]
        columns["truth"] = np.bincount(inside, minlength=votes.n_classes)
    return pd.DataFrame(columns)


def class_columns(classes: list[str], label: Codes, confidence: Floats) -> dict[str, Any]:
    """class, labels, labels_share, confidence (mean; missing where a class has no label)."""
    given = np.bincount(label, minlength=len(classes))
    sums = np.bincount(label, confidence, minlength=len(classes))
    with np.errstate(invalid="ignore"):
        mean = sums / given
    return {
        "class": classes,
        "labels": given,
        "labels_share": given / max(given.sum(), 1),
        "confidence": mean,
    }


def _items(outcome: Outcome) -> pd.DataFrame:
    """item, label, confidence, runner_up, answers, votes, majority, outvoted, overruled, tie; …

    Outvoted: the label is not the most frequent answer. Overruled: all answers agree on another.
    """
    labels, decision = outcome.labels, outcome.decision
    classes = np.array([*labels.classes.to_pylist(), None], dtype=object)
    answers, votes, majority, most = _counted(labels, decision.label)
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
    if outcome.truth is not None:
        known = outcome.truth >= 0
        inside = np.where(known & (outcome.truth < labels.n_classes), outcome.truth, -1)
        columns["truth"] = classes[inside]
        columns["right"] = np.where(known, decision.label == outcome.truth, None)
    if labels.gold is not None:
        columns["gold"] = labels.gold >= 0
    columns.update(outcome.aggregation.item_details)
    order = np.lexsort((np.arange(len(answers)), decision.confidence))
    return pd.DataFrame(columns).iloc[order].reset_index(drop=True)


def _counted(labels: Labels, chosen: Codes) -> tuple[Codes, Codes, Codes, Codes]:
    """Per item: answers, votes for its label, the class with most votes, and how many it has."""
    votes = labels.votes
    parts: list[tuple[Any, ...]] = []
    for rows in votes.blocks:
        totals = votes.class_totals(rows)
        own = totals[np.arange(len(totals)), chosen[rows]]
        parts.append((totals.sum(axis=1), own, totals.argmax(axis=1), totals.max(axis=1)))
    joined: list[Codes] = [
        np.concatenate(part).astype(np.int32) for part in zip(*parts, strict=True)
    ]
    return joined[0], joined[1], joined[2], joined[3]


def who_said_what(labels: Labels, items: Sequence[str]) -> pd.DataFrame:
    """item, worker, label: every answer on these items, in their order."""
    import pyarrow.compute as pc

    rows = pc.index_in(pa.array(items, pa.string()), labels.items).to_numpy()
    matrix: Any = labels.votes.matrix[rows]  # type: ignore[attr-defined]
    worker, said = np.divmod(matrix.indices, labels.n_classes)
    return pd.DataFrame(
        {
            "item": np.repeat(np.array(items, dtype=object), np.diff(matrix.indptr)),
            "worker": labels.workers.take(pa.array(worker)).to_pandas(),
            "label": np.array(labels.classes.to_pylist(), dtype=object)[said],
        }
    )
