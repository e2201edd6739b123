"""A run's tables as named columns, for files and for DataFrames alike."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.aggregators.confusion_kernels import crowd_rows, expected_counts
from misc_cli.data.decide import Decision, entropy
from misc_cli.data.types import Codes, Floats, Names
from misc_cli.data.votes import votes_per_item
from misc_cli.quality.agreement import count_ballots
from misc_cli.quality.relabel_priority import gain_per_answer
from misc_cli.quality.verdicts import verdict_texts
from misc_cli.quality.worker_scores import report_workers
from misc_cli.run.result import Outcome
from misc_cli.run.settings import BASELINE

if TYPE_CHECKING:
    from misc_cli.selection.candidates import Candidate


# More members than this are counted, not listed.
LISTED = 6


def method_in_words(outcome: Outcome) -> str:
    """The methods by name, each with the preset that it really ran under."""
    names, members = outcome.methods.names, outcome.members
    preset = outcome.methods.settings.preset
    if members and members[0].passes:
        starter = names.get("aggregator", BASELINE)
        lasts = sorted({member.method.loop.final for member in members})
        return (
            f"{names['completer']} started by {starter}, last step: {' and '.join(lasts)} "
            f"({_listed([member.name for member in members])}), preset {preset}"
        )
    if outcome.selection is not None:
        if not members:
            return _listed(outcome.selection["chosen"])
        return _mean(members)
    if "completer" not in names:
        return f"{names['aggregator']}, preset {preset}"
    loop = (outcome.loop or {}).get("settings", {})
    aggregator = names.get("aggregator", BASELINE)
    starter = outcome.methods.resolved.get("start", {}).get("aggregator", aggregator)
    last = str(loop.get("final", ""))
    own = f", judged by {aggregator}" if last == "completed" else ""
    return f"{names['completer']} started by {starter}, last step: {last}{own}, preset {preset}"


def _mean(members: Sequence[Candidate]) -> str:
    by_preset: dict[str, list[str]] = {}
    for member in members:
        by_preset.setdefault(member.method.preset, []).append(member.name)
    parts = [f"{', '.join(names)} (preset {preset})" for preset, names in by_preset.items()]
    return ("mean of " if len(members) > 1 else "") + ", ".join(parts)


def _listed(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    if len(names) <= LISTED:
        return f"mean of {', '.join(names)}"
    return f"mean of {len(names)}: {', '.join(names[:3])} and so on"


# A class more is a column more of votes, and in a confusion matrix many more: a table that nobody
# reads and few programs open. The page and the API have the matrices all the same.
MOST_CONFUSED = 50
# A gain that six decimals would show as zero is rounding, or as good as none.
LEAST_GAIN = 5e-7


@dataclass(frozen=True)
class ItemDetails:
    """What a table may tell of items besides their labels, (n_items,) each.

    answers    how many
    agreement  the share of their pairs that agree; NaN below two answers
    totals     (n_items, n_classes) of each class; None where there are too many classes
    own        what the method knows of them, by name
    """

    answers: Floats
    agreement: Floats
    totals: Floats | None
    own: Mapping[str, Floats]

    @classmethod
    def of(cls, outcome: Outcome) -> ItemDetails:
        votes, totals = outcome.labels.votes, None
        ballots = count_ballots(votes)
        if votes.n_classes <= MOST_CONFUSED:
            totals = np.concatenate([votes.class_totals(rows) for rows in votes.blocks])
        return cls(ballots.answers, ballots.agreement, totals, outcome.aggregation.item_details)


def label_columns(
    outcome: Outcome, *, probabilities: bool = False, item_details: bool = False
) -> dict[str, Any]:
    """item, label, confidence, in item order; then what was asked for."""
    return columns_of_labels(
        outcome.labels.items,
        outcome.labels.classes,
        outcome.aggregation.posteriors,
        outcome.decision,
        details=ItemDetails.of(outcome) if item_details else None,
        probabilities=probabilities,
    )


def columns_of_labels(
    items: Names,
    classes: Names,
    posteriors: Floats,
    decision: Decision,
    *,
    details: ItemDetails | None,
    probabilities: bool,
) -> dict[str, Any]:
    """The same of some items."""
    columns = {
        "item": items,
        "label": _named(decision.label, classes),
        "confidence": decision.confidence,
    }
    if details is not None:
        columns["answers"] = details.answers.astype(np.int32)
        columns["tie"] = decision.tied.astype(np.int8)
        columns["runner_up"] = _named(decision.runner_up, classes)
        columns["entropy"] = entropy(posteriors)
        columns["agreement"] = pa.array(details.agreement, mask=np.isnan(details.agreement))
        columns.update(details.own)
        if details.totals is not None:
            for code, name in enumerate(classes.to_pylist()):
                votes = details.totals[:, code].astype(np.int64)
                columns[unused(f"votes_{name}", columns)] = votes
    if probabilities:
        columns.update(
            {f"p_{name}": posteriors[:, c] for c, name in enumerate(classes.to_pylist())}
        )
    return columns


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
