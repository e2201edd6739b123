"""A run's tables as named columns, for files and for DataFrames alike."""

from __future__ import annotations

from collections.abc import Collection
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.aggregators.confusion.counts import crowd_rows, expected_counts
from misc_cli.core.decide import Decision, entropy
from misc_cli.core.types import Codes, Floats, Names
from misc_cli.core.votes import votes_per_item
from misc_cli.evaluate.ballots import count_ballots
from misc_cli.run.outcome import Outcome
from misc_cli.run.queueing import gain_per_answer
from misc_cli.run.verdicts import verdict_texts
from misc_cli.run.workers import report_workers

# A class more is a column more of votes, and in a confusion matrix many more: a table that nobody
# reads and few programs open. The page and the API have the matrices all the same.
MOST_CONFUSED = 50
# A gain that six decimals would show as zero is rounding, or as good as none.
LEAST_GAIN = 5e-7


def label_columns(
    outcome: Outcome, *, probabilities: bool = False, item_details: bool = False
) -> dict[str, Any]:
    """item, label, confidence, in item order; then what was asked for."""
    labels, decision = outcome.labels, outcome.decision
    posteriors = outcome.aggregation.posteriors
    columns = plain_columns(labels.items, labels.classes, decision)
    more: dict[str, Any] = {}
    if item_details:
        more["answers"] = votes_per_item(outcome.labels.votes)
        more["tie"] = decision.tied.astype(np.int8)
        more["runner_up"] = _named(decision.runner_up, labels.classes)
        more["entropy"] = entropy(posteriors)
        agreement = count_ballots(labels.votes).agreement
        more["agreement"] = pa.array(agreement, mask=np.isnan(agreement))
        more.update(outcome.aggregation.item_details)
    if item_details and labels.n_classes <= MOST_CONFUSED:
        totals = np.concatenate([labels.votes.class_totals(rows) for rows in labels.votes.blocks])
        for code, name in enumerate(labels.classes.to_pylist()):
            more[unused(f"votes_{name}", [*columns, *more])] = totals[:, code].astype(np.int64)
    if probabilities:
        more.update(probability_columns(labels.classes, posteriors))
    return columns | more


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
    """One row per worker: how much, how well, a verdict, and its confusion matrix as columns."""
    labels, aggregation = outcome.labels, outcome.aggregation
    report = report_workers(outcome.engine, aggregation.confusions, aggregation.class_prior)
    verdicts = outcome.verdicts
    words, reasons = verdict_texts(verdicts, labels)
    partners = pa.array(verdicts.partner, mask=verdicts.partner < 0)
    columns: dict[str, Any] = {
        "worker": labels.workers,
        "answers": report.answers.astype(np.int64),
        "accuracy": report.accuracy,
        "accuracy_low": report.low,
        "accuracy_high": report.high,
        "agreement": report.agreement,
        "information": report.information,
        "verdict": pa.array(words, pa.string()),
        "reason": pa.array(reasons, pa.string()),
        "alike": pc.fill_null(labels.workers.take(partners), ""),
        "likeness": verdicts.likeness,
    }
    if labels.n_classes <= MOST_CONFUSED:
        names = labels.classes.to_pylist()
        for true, true_name in enumerate(names):
            for said, said_name in enumerate(names):
                name = unused(f"true_{true_name}_said_{said_name}", columns)
                columns[name] = report.confusions[:, true, said]
    return columns


def unused(name: str, taken: Collection[str]) -> str:
    """The name, with a number behind it if a column has it already: none is ever lost."""
    tries = (name if number == 1 else f"{name}_{number}" for number in count(1))
    return next(name for name in tries if name not in taken)


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
        "answers": votes_per_item(outcome.labels.votes)[chosen],
    }


def _named(codes: Codes, classes: Names) -> Any:
    """Class names by code, dictionary-encoded; -1 has no name."""
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), classes)
