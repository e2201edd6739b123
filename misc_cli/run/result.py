"""The result of a run, the records of its iterations, and its tables as named columns."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from misc_cli.data.posteriors import Decision, decide, entropy
from misc_cli.data.types import (
    Codes,
    Floats,
    Iteration,
    Labels,
    Names,
    OnIteration,
    ignore_iteration,
)
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.protocol import POSTERIORS, TRUTH, Block, Columns, RowArrays, WriteRows
from misc_cli.engines.views import gathered_engine
from misc_cli.quality.figures import Figure
from misc_cli.run.settings import BASELINE, Methods
from misc_cli.selection.ensemble import FitResult

if TYPE_CHECKING:
    from misc_cli.quality.verdicts import Verdicts
    from misc_cli.quality.worker_dependence import WorkerPairs


Record = dict[str, Any]


@dataclass
class Recorder:
    """Keeps one plain record per iteration, with the error in % where truth is known."""

    truth: Codes | None = None
    forward: OnIteration = ignore_iteration
    records: list[Record] = field(default_factory=list)

    def judged(self, iteration: Iteration) -> Iteration:
        """Return the line with the error in place of the posteriors, where truth is known."""
        extra = dict(iteration.extra)
        if self.truth is not None and iteration.posteriors is not None:
            from misc_cli.quality.evaluation import expected_error

            extra["error"] = round(100.0 * expected_error(iteration.posteriors, self.truth), 6)
        return replace(iteration, posteriors=None, extra=extra)

    def __call__(self, iteration: Iteration) -> None:
        self.records.append(
            {
                "stage": iteration.stage,
                "pass": iteration.pass_number,
                "iteration": iteration.iteration,
                "objective": iteration.objective,
                "change": iteration.change,
                "seconds": round(iteration.seconds, 6),
                **(iteration if self.truth is None else self.judged(iteration)).extra,
            }
        )
        self.forward(iteration)


@dataclass(frozen=True)
class RunResult:
    """Result of a run: the fit, its figures, warnings and timings.

    fit      confusions, members, calibration and reasons; its engine holds votes and posteriors
    methods  the methods as they were asked for
    records  one for each iteration
    figures  the numbers that --fail-if can judge
    pairs    the workers two by two
    timings  seconds by stage
    seconds  the median of each worker's answers, NaN where unknown; None where no file tells
    decided  the labels of a run that is read back; None: they follow from the posteriors
    """

    fit: FitResult
    methods: Methods
    records: list[Record]
    figures: dict[str, Figure]
    pairs: WorkerPairs
    timings: dict[str, float] = field(default_factory=dict)
    seconds: Floats | None = None
    decided: Decision | None = None

    @cached_property
    def memory(self) -> MemoryEngine:
        """Return the engine, gathered into memory if it is not there already."""
        return gathered_engine(self.fit.engine, (POSTERIORS,))

    @property
    def labels(self) -> Labels:
        return self.memory.labels

    @property
    def posteriors(self) -> Floats:
        """Return the posteriors, (n_items, n_classes), in memory."""
        return self.memory.whole(POSTERIORS)

    @property
    def truth(self) -> Codes | None:
        """Return known classes for judging, (n_items,), -1 where unknown; None without truth."""
        return self.memory.whole(TRUTH) if TRUTH in self.memory.arrays else None

    @cached_property
    def decision(self) -> Decision:
        return decide(self.posteriors) if self.decided is None else self.decided

    @cached_property
    def verdicts(self) -> Verdicts:
        """Return the verdicts of workers."""
        from misc_cli.quality.verdicts import judge
        from misc_cli.quality.worker_scores import peer_agreement

        return judge(peer_agreement(self.fit.engine), self.pairs)


def method_in_words(result: RunResult) -> str:
    """Return the methods by name, each with the preset that it really ran under."""
    names, members = result.methods.names, result.fit.members
    preset = result.methods.settings.preset
    chosen = [member.name for member in members] or result.fit.selection.get("chosen", [])
    mean = "mean of " if len(chosen) > 1 else ""
    listed = mean + ", ".join(chosen)
    if chosen and not (members and members[0].completer):
        by_preset: dict[str, list[str]] = {}
        for member in members:
            by_preset.setdefault(member.preset, []).append(member.name)
        parts = [f"{', '.join(own)} (preset {of})" for of, own in by_preset.items()]
        return mean + ", ".join(parts) if members else listed
    aggregator = names.get("aggregator", BASELINE)
    if "completer" not in names:
        return f"{aggregator}, preset {preset}"
    last = " and ".join(sorted({member.loop.final for member in members}))
    own = f" ({listed})"
    if not members:
        last = str((result.fit.loop or {}).get("settings", {}).get("final", ""))
        own = f", judged by {aggregator}" if last == "completed" else ""
    starter = result.methods.resolved.get("start", {}).get("aggregator", aggregator)
    return f"{names['completer']} started by {starter}, last step: {last}{own}, preset {preset}"


# A class more is a column more of votes, and in a confusion matrix many more: a table that nobody
# reads and few programs open. The page and the API have the matrices all the same.
MOST_CONFUSED = 50
# A gain that six decimals would show as zero is rounding, or as good as none.
LEAST_GAIN = 5e-7


# Rows for the details of items: how many answers say each class, (…, n_classes).
TOTALS = "class totals"


def count_votes(block: Block, _: RowArrays) -> tuple[RowArrays, int]:
    """Count the answers of items by class, for `LabelColumns` with details."""
    return {TOTALS: block.class_totals()}, 0


@dataclass(frozen=True)
class LabelColumns:
    """Makes the columns item, label and confidence of some items, and what else was asked for."""

    classes: Names
    probabilities: bool = False
    details: bool = False

    def __call__(self, items: Names, rows: RowArrays) -> dict[str, Any]:
        posteriors = np.array(rows[POSTERIORS])
        decision = decide(posteriors)
        columns = {
            "item": items,
            "label": _named(decision.label, self.classes),
            "confidence": decision.confidence,
        }
        if self.details:
            totals = np.array(rows[TOTALS])
            answers = totals.sum(axis=1)
            same, pairs = (totals**2).sum(axis=1) - answers, answers * (answers - 1.0)
            agreement = np.full(len(answers), np.nan)
            np.divide(same, pairs, out=agreement, where=pairs > 0)
            columns["answers"] = answers.astype(np.int32)
            columns["tie"] = decision.tied.astype(np.int8)
            columns["runner_up"] = _named(decision.runner_up, self.classes)
            columns["entropy"] = entropy(posteriors)
            columns["agreement"] = pa.array(agreement, mask=np.isnan(agreement))
            if len(self.classes) <= MOST_CONFUSED:
                for code, name in enumerate(self.classes.to_pylist()):
                    columns[unused(f"votes_{name}", columns)] = totals[:, code].astype(np.int64)
        if self.probabilities:
            names = self.classes.to_pylist()
            columns.update({f"p_{name}": posteriors[:, c] for c, name in enumerate(names)})
        return columns

    def of_nothing(self, n_classes: int) -> dict[str, Any]:
        """Return the columns without rows, for their names and types."""
        nothing = np.zeros((0, n_classes))
        return self(pa.array([], pa.string()), {POSTERIORS: nothing, TOTALS: nothing})


def label_maker(
    fit: FitResult, probabilities: bool = False, item_details: bool = False
) -> LabelColumns:
    """Return what makes label columns of the engine's rows; count votes there if need be."""
    if item_details:
        fit.engine.sweep(WriteRows(count_votes, (), (TOTALS,)))
    return LabelColumns(fit.engine.vocabulary.classes, probabilities, item_details)


def label_columns(
    result: RunResult, *, probabilities: bool = False, item_details: bool = False
) -> Columns:
    """Return item, label, confidence, in item order; then what was asked for."""
    from misc_cli.engines.partitioned import joined_columns

    make = label_maker(result.fit, probabilities, item_details)
    return joined_columns(result.fit.engine.chunks(make))


def worker_columns(result: RunResult) -> dict[str, Any]:
    """Return a row per worker: how much, how well, a verdict, and its confusions as columns."""
    import pyarrow.compute as pc

    from misc_cli.quality.verdicts import verdict_texts
    from misc_cli.quality.worker_scores import report_workers

    labels, fit = result.fit.engine.vocabulary, result.fit
    verdicts = result.verdicts
    words, reasons = verdict_texts(verdicts, labels)
    partners = pa.array(verdicts.partner, mask=verdicts.partner < 0)
    columns: dict[str, Any] = {
        "worker": labels.workers,
        **report_workers(result.fit.engine, fit.confusions, fit.class_prior),
        "verdict": pa.array(words, pa.string()),
        "reason": pa.array(reasons, pa.string()),
        "alike": pc.fill_null(labels.workers.take(partners), ""),
        "likeness": verdicts.likeness,
    }
    columns["answers"] = columns["answers"].astype(np.int64)
    if result.seconds is not None:
        columns["seconds"] = pa.array(result.seconds, mask=np.isnan(result.seconds))
    if len(labels.classes) <= MOST_CONFUSED:
        names = labels.classes.to_pylist()
        for true, true_name in enumerate(names):
            for said, said_name in enumerate(names):
                name = unused(f"true_{true_name}_said_{said_name}", columns)
                columns[name] = fit.confusions[:, true, said]
    return columns


def unused(name: str, taken: Collection[str]) -> str:
    """Return the name, with a number behind it if a column has it already: none is ever lost."""
    tries = (name if number == 1 else f"{name}_{number}" for number in count(1))
    return next(name for name in tries if name not in taken)


def queue_columns(result: RunResult, budget: int | None) -> dict[str, Any]:
    """Return items worth another answer, most gain first; then the least sure; then by name."""
    from misc_cli.aggregators.confusion_kernels import crowd_rows, expected_counts
    from misc_cli.data.votes import votes_per_item
    from misc_cli.quality.asking import gain_of, gain_per_answer

    labels, decision = result.labels, result.decision
    posteriors = result.posteriors
    crowd = crowd_rows(expected_counts(labels, posteriors))
    gain = gain_per_answer(posteriors, crowd)
    order = np.lexsort((np.arange(len(gain)), decision.confidence, -gain))
    chosen = order[gain[order] > LEAST_GAIN][:budget]
    return {
        "item": labels.items.take(chosen),
        "gain": gain[chosen],
        "label": _named(decision.label[chosen], labels.classes),
        "confidence": decision.confidence[chosen],
        "runner_up": _named(decision.runner_up[chosen], labels.classes),
        "answers": votes_per_item(result.labels.votes)[chosen],
        "gain_once": gain_of(posteriors[chosen], crowd),
    }


def _named(codes: Codes, classes: Names) -> Any:
    """Return class names by code, dictionary-encoded; -1 has no name."""
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), classes)
