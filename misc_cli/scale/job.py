"""One run on an engine: fit, judge the labels, and the record of it all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from misc_cli.data.decide import decide
from misc_cli.data.encode import Encoding
from misc_cli.data.parallel import thread_limit
from misc_cli.data.parameters import AUTO
from misc_cli.data.types import Aggregation, Floats, KnownLabels, Labels, OnIteration
from misc_cli.engines.local import LocalEngine
from misc_cli.engines.partitioned import Counts, Part, PartsEngine, Vocabulary
from misc_cli.engines.protocol import POSTERIORS, Engine
from misc_cli.engines.views import gathered_labels
from misc_cli.errors import ConfigError, InputError
from misc_cli.quality.figures import figures
from misc_cli.readers.chunks import Batch
from misc_cli.run.diagnostics import Recorder
from misc_cli.run.pipeline import (
    aggregated,
    known_classes,
    warn_of_conflicts,
    warn_of_gold,
    warn_of_little,
)
from misc_cli.run.request import Stopwatch
from misc_cli.run.result import Outcome
from misc_cli.run.settings import BASELINE, NO_COMPLETER, Methods, Settings
from misc_cli.scale import choice, completion
from misc_cli.scale.copies import Compared, compare_pairs
from misc_cli.scale.here import LocalPartsEngine
from misc_cli.scale.labels import Wanted
from misc_cli.scale.pace import Expecting
from misc_cli.scale.settle import CountKnown
from misc_cli.scale.truth import judged

# What runs on every engine; the rest is for one machine's memory.
METHODS = ("mv", "one-coin", "ds-em", "ds-mf", "ebcc", "mmce-c", "mmce-o")


class SpreadEngine(Engine, Protocol):
    """An engine whose parts may be anywhere."""

    @property
    def vocabulary(self) -> Vocabulary: ...
    @property
    def counts(self) -> Counts: ...
    @property
    def inputs(self) -> Sequence[Mapping[str, Any]]:
        """Name, size and SHA-256 of every file that was read."""

    def facts(self) -> dict[str, Any]:
        """What the manifest says of the engine."""

    def refuse_one_file(self) -> None:
        """Raise if so many labels cannot become one file."""

    def tables(self, wanted: Wanted) -> Iterator[Any]:
        """The labels as arrow tables, sorted by item from the first row to the last."""

    def write_parts(self, folder: Path, suffix: str, wanted: Wanted) -> dict[str, str]:
        """The labels as files in a folder, each written where its part is: SHA-256 by name."""


@dataclass(frozen=True)
class Elsewhere:
    """How many votes there are; they themselves are on an engine."""

    n_items: int
    n_workers: int
    n_classes: int
    n_votes: int

    @property
    def blocks(self) -> list[slice]:
        return []

    def block(self, rows: slice) -> Any:
        raise InputError("the votes are on an engine; they are not in memory")

    def class_totals(self, rows: slice) -> Floats:
        raise InputError("the votes are on an engine; they are not in memory")


def check(engine: str, settings: Settings, methods: Methods, *, item_details: bool = False) -> None:
    """Refuse what only one machine's memory can do, and say what to do instead."""
    where = f"--engine {engine}"
    if settings.completer not in (None, NO_COMPLETER, AUTO):
        completion.refuse(where, methods, METHODS)
    name = methods.names.get("aggregator", BASELINE)
    if name not in METHODS:
        raise ConfigError(
            f"{where} does not run {name}, which is for --engine local; "
            f"it runs {', '.join(METHODS)}: ds-em comes closest"
        )


@dataclass(frozen=True)
class Given:
    """What is known beforehand: labels of some items, to teach (`gold`) or to judge (`truth`)."""

    gold: KnownLabels | None = None
    truth: KnownLabels | None = None


def run(
    engine: SpreadEngine,
    settings: Settings,
    methods: Methods,
    on_iteration: OnIteration,
    watch: Stopwatch,
    given: Given,
) -> tuple[Outcome, SpreadEngine]:
    """Fit and judge; the labels stay on the engine that comes back."""
    counts, vocabulary = engine.counts, engine.vocabulary
    encoding = counted(engine, vocabulary, counts)
    warn_of_little(encoding)
    if settings.duplicates is None:
        warn_of_conflicts(counts.n_conflicts)
    if given.gold is not None:
        warn_of_gold(given.gold, engine.sweep(CountKnown()))
    if methods.automatic and choice.few(engine):
        here = gathered_labels(engine, vocabulary)
        gathered = replace(encoding, labels=here)
        known = known_classes(here, given.truth)
        outcome = aggregated(gathered, methods, known, on_iteration=on_iteration, watch=watch)
        return outcome, _gathered(engine, here, outcome.aggregation)
    if not methods.automatic and hasattr(methods.aggregator, "max_iter"):
        limits = methods.aggregator
        on_iteration = Expecting(on_iteration, limits.tol, limits.max_iter)
    recorder = Recorder(None, on_iteration)
    with thread_limit(settings.threads):
        with watch.stage("compare"):
            compared = compare_pairs(engine)
        with watch.stage("fit"):
            if methods.automatic:
                found = choice.automatic(engine, encoding.labels, compared, methods, recorder)
            else:
                found = choice.named(engine, vocabulary, methods, recorder)
        with watch.stage("decide"):
            outcome = concluded(engine, encoding, methods, found, compared)
            if given.truth is not None:
                outcome.figures.update(judged(engine, vocabulary.classes, given.truth))
            outcome.figures["cut-short"] = False  # there is no time budget here
    return replace(outcome, records=recorder.records, timings=watch.seconds), engine


def counted(engine: Engine, vocabulary: Vocabulary, counts: Counts) -> Encoding:
    """The engine's answers in numbers and names; they themselves are not in it."""
    votes = Elsewhere(engine.n_items, engine.n_workers, engine.n_classes, engine.n_votes)
    labels = Labels(
        votes, vocabulary.workers, vocabulary.workers[:0], vocabulary.classes, vocabulary.ordered
    )
    return Encoding(labels, counts.n_rows, counts.n_empty, counts.n_repeats, counts.n_conflicts)


def concluded(
    engine: Engine, encoding: Encoding, methods: Methods, found: choice.Chosen, compared: Compared
) -> Outcome:
    """What a run on an engine found out; the posteriors are there."""
    fitted, details = found.fitted, found.fitted.item_details
    aggregation = Aggregation(
        posteriors=np.zeros((0, engine.n_classes)),
        confusions=fitted.confusions,
        class_prior=fitted.class_prior,
        iterations=fitted.iterations,
        stopped=fitted.stopped,
        objective=fitted.objective,
        item_details={} if details is None else dict.fromkeys(details.writes, np.zeros(0)),
    )
    return Outcome(
        encoding=encoding,
        aggregation=aggregation,
        decision=decide(aggregation.posteriors),
        methods=methods,
        records=[],
        figures=figures(encoding, engine, aggregation, compared.pairs),
        selection=found.selection,
        calibration=None if found.calibration is None else asdict(found.calibration),
        members=found.members,
        loop=found.loop,
        compared=compared.pairs,
        spread=engine,
    )


def _gathered(engine: SpreadEngine, labels: Labels, found: Aggregation) -> LocalPartsEngine:
    """Answers that came into this process, and what was made of them here."""
    rows = {POSTERIORS: found.posteriors, **found.item_details}
    part = Part(labels.items, LocalEngine(labels.votes, rows))
    facts = {**engine.facts(), "gathered": True}
    return LocalPartsEngine(
        PartsEngine([part], engine.vocabulary), engine.counts, engine.inputs, facts
    )


class Tally:
    """Batches on their way to an engine, their rows counted."""

    def __init__(self, batches: Iterable[Batch]) -> None:
        self.batches, self.counts = batches, Counts()

    def __iter__(self) -> Iterator[Any]:
        for batch in self.batches:
            self.counts += Counts(batch.n_rows, batch.n_empty)
            yield batch.answers


def names_of(sources: Sequence[str]) -> str:
    """What errors call the input."""
    shown = ", ".join(sources[:3])
    return shown if len(sources) <= 3 else f"{shown} and {len(sources) - 3:,} more"
