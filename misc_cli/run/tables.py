"""A run's tables as named columns, for files and for DataFrames alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from misc_cli.aggregators.confusion.em import crowd_rows, expected_counts
from misc_cli.core.decide import Decision, entropy
from misc_cli.core.types import Codes, Floats, Names
from misc_cli.run.outcome import Outcome
from misc_cli.run.queueing import gain_per_answer
from misc_cli.run.workers import report_workers

# A gain that six decimals would show as zero is rounding, or as good as none.
LEAST_GAIN = 5e-7


def label_columns(
    outcome: Outcome, *, probabilities: bool = False, item_details: bool = False
) -> dict[str, Any]:
    """item, label, confidence, in item order; then what was asked for."""
    labels, decision = outcome.labels, outcome.decision
    posteriors = outcome.aggregation.posteriors
    columns = plain_columns(labels.items, labels.classes, decision)
    if item_details:
        columns["answers"] = _answers_per_item(outcome)
        columns["tie"] = decision.tied.astype(np.int8)
        columns["runner_up"] = _named(decision.runner_up, labels.classes)
        columns["entropy"] = entropy(posteriors)
        columns.update(outcome.aggregation.item_details)
    if probabilities:
        columns.update(probability_columns(labels.classes, posteriors))
    return columns


def plain_columns(items: Names, classes: Names, decision: Decision) -> dict[str, Any]:
    """What every table of labels has."""
    return {
        "item": items,
        "label": _named(decision.label, classes),
        "confidence": decision.confidence,
    }


def probability_columns(classes: Names, posteriors: Floats) -> dict[str, Any]:
    """p_<class>, in class order."""
    return {f"p_{name}": posteriors[:, c] for c, name in enumerate(classes.to_pylist())}


def worker_columns(outcome: Outcome) -> dict[str, Any]:
    """One row per worker, its confusion matrix as columns true_<class>_said_<class>."""
    labels = outcome.labels
    report = report_workers(labels, outcome.aggregation, outcome.decision)
    columns: dict[str, Any] = {
        "worker": labels.workers,
        "answers": report.answers.astype(np.int64),
        "accuracy": report.accuracy,
        "agreement": report.agreement,
        "information": report.information,
    }
    names = labels.classes.to_pylist()
    for true, true_name in enumerate(names):
        for said, said_name in enumerate(names):
            columns[f"true_{true_name}_said_{said_name}"] = report.confusions[:, true, said]
    return columns


def queue_columns(outcome: Outcome, budget: int | None) -> dict[str, Any]:
    """Items worth another answer, most gain first; then the least sure; then by name."""
    labels, decision = outcome.labels, outcome.decision
    posteriors = outcome.aggregation.posteriors
    gain = gain_per_answer(posteriors, crowd_rows(expected_counts(labels, posteriors)))
    order = np.lexsort((np.arange(len(gain)), decision.confidence, -gain))
    chosen = order[gain[order] > LEAST_GAIN][:budget]
    return {
        "item": labels.items.take(chosen),
        "gain": gain[chosen],
        "label": _named(decision.label[chosen], labels.classes),
        "confidence": decision.confidence[chosen],
        "runner_up": _named(decision.runner_up[chosen], labels.classes),
        "answers": _answers_per_item(outcome)[chosen],
    }


def _named(codes: Codes, classes: Names) -> Any:
    """Class names by code, dictionary-encoded; -1 has no name."""
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), classes)


def _answers_per_item(outcome: Outcome) -> Any:
    votes = outcome.labels.votes
    return np.concatenate([np.diff(votes.block(rows).indptr) for rows in votes.blocks])
