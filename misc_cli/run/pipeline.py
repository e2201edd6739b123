"""The one way through: encode → [complete ⇄ slice] → aggregate → decide.

The command line and the Python API both call `run`; what they do before (reading) and after
(writing) is theirs.
"""

from __future__ import annotations

import logging
import warnings
from dataclasses import asdict, replace

from misc_cli.data.decide import decide
from misc_cli.data.encode import Encoding, distinct, encode, encode_gold, encode_truth
from misc_cli.data.memory import require_for
from misc_cli.data.parallel import thread_limit
from misc_cli.data.types import Answers, Codes, KnownLabels, Labels, OnIteration, ignore_iteration
from misc_cli.engines.local import LocalEngine
from misc_cli.engines.protocol import POSTERIORS
from misc_cli.errors import MiscWarning
from misc_cli.quality.duplicate_workers import judged_by_all_answers, once_per_copy
from misc_cli.quality.evaluation import expected_error
from misc_cli.quality.figures import error_figures, figures
from misc_cli.quality.worker_dependence import compare_pairs
from misc_cli.run.diagnostics import Recorder
from misc_cli.run.fitting import fit
from misc_cli.run.request import Fitter, Request, Stopwatch
from misc_cli.run.result import Outcome
from misc_cli.run.settings import Methods, Settings

_LOGGER = logging.getLogger("misc_cli")


def run(request: Request) -> Outcome:
    """Aggregate answers."""
    with request.watch.stage("encode"):
        encoding = _with_gold(encoded(request.answers, request.methods.settings), request.gold)
        known = known_classes(encoding.labels, request.truth)
    return aggregated(
        encoding,
        request.methods,
        known,
        on_iteration=request.on_iteration,
        fitter=request.fitter,
        watch=request.watch,
    )


def aggregated(
    encoding: Encoding,
    methods: Methods,
    known: Codes | None = None,
    *,
    on_iteration: OnIteration = ignore_iteration,
    fitter: Fitter | None = None,
    watch: Stopwatch,
) -> Outcome:
    """What comes after encoding; `known` (n_items,) is truth, -1 where there is none."""
    labels, settings = encoding.labels, methods.settings
    require_for(labels.n_items, labels.n_workers, labels.n_classes)
    recorder = Recorder(known, on_iteration)
    with watch.stage("compare"):
        pairs = compare_pairs(labels.votes)
        counted = once_per_copy(labels, pairs) if methods.automatic else labels
    with watch.stage("fit"), thread_limit(settings.threads):
        in_time = _less(methods, watch.elapsed)
        found = (fitter or fit)(counted, in_time, recorder, recorder.judged)
    aggregation = found.aggregation
    if counted is not labels:
        aggregation = judged_by_all_answers(aggregation, labels, pairs)
    with watch.stage("decide"):
        decision = decide(aggregation.posteriors)
        engine = LocalEngine.of(labels, {POSTERIORS: aggregation.posteriors})
        numbers = figures(encoding, engine, aggregation, pairs)
        if known is not None and (known >= 0).any():
            share = expected_error(aggregation.posteriors, known)
            numbers.update(error_figures(share, int((known >= 0).sum())))
        numbers["cut-short"] = bool(found.selection.get("cut_short"))
    _LOGGER.info("aggregated", extra={"fields": {"figures": numbers, "timings": watch.seconds}})
    return Outcome(
        encoding=encoding,
        aggregation=aggregation,
        decision=decision,
        methods=methods,
        records=recorder.records,
        figures=numbers,
        truth=known,
        loop=found.loop,
        selection=found.selection or None,
        calibration=None if found.calibration is None else asdict(found.calibration),
        members=found.members,
        mixture=found.mixture,
        compared=pairs,
        timings=watch.seconds,
    )


def _less(methods: Methods, seconds: float) -> Methods:
    """The same methods with a time budget, if there is one, that is so many seconds shorter."""
    settings = methods.settings
    if settings.time_budget is None:
        return methods
    left = max(settings.time_budget - seconds, 0.0)
    if not left:
        warnings.warn(
            f"reading alone took {seconds:.1f} s, more than --time-budget allows: the quickest "
            "method is used, and nothing is judged",
            MiscWarning,
            stacklevel=3,
        )
    return replace(methods, settings=replace(settings, time_budget=left))


def encoded(answers: Answers, settings: Settings) -> Encoding:
    """The answers as codes; warns of what a user hardly means."""
    order = list(settings.class_order) if settings.class_order is not None else None
    encoding = encode(answers, duplicates=settings.duplicates_rule, class_order=order)
    warn_of_little(encoding)
    if settings.duplicates is None:
        warn_of_conflicts(encoding.n_conflicts)
    return encoding


def _with_gold(encoding: Encoding, gold: KnownLabels | None) -> Encoding:
    if gold is None:
        return encoding
    which = gold.called("gold")
    codes = encode_gold(encoding.labels, gold.items, gold.labels, which=which)
    warn_of_gold(gold, int((codes >= 0).sum()))
    return replace(encoding, labels=replace(encoding.labels, gold=codes))


def warn_of_gold(gold: KnownLabels, n_used: int) -> None:
    """Some of it is of items that nobody answered, if only so many items of it were found."""
    which = gold.called("gold")
    n_named = len(distinct(gold.items, gold.labels, which)[0])
    if not n_used:
        warnings.warn(
            "no gold item is among the answers' items: nothing is fixed", MiscWarning, stacklevel=3
        )
    elif n_used < n_named:
        warnings.warn(
            f"{which}: {n_named - n_used:,} of {n_named:,} items have no answers and do nothing",
            MiscWarning,
            stacklevel=3,
        )


def known_classes(labels: Labels, truth: KnownLabels | None) -> Codes | None:
    """Truth by item, (n_items,), -1 where there is none."""
    if truth is None:
        return None
    codes = encode_truth(labels, truth)
    if not (codes >= 0).any():
        warn_of_no_truth()
    return codes


def warn_of_no_truth() -> None:
    warnings.warn(
        "no item with truth is among the answers' items: there is no error to report",
        MiscWarning,
        stacklevel=3,
    )


def warn_of_little(encoding: Encoding) -> None:
    """A single class, worker, item or answer per item is no error, but hardly what was meant."""
    labels = encoding.labels
    meaning = {
        "class": (labels.n_classes, "every label is the same"),
        "worker": (labels.n_workers, "there is nobody to compare it with"),
        "item": (labels.n_items, "workers cannot be told apart by it"),
    }
    for what, (count, consequence) in meaning.items():
        if count == 1:
            warnings.warn(f"only one {what}: {consequence}", MiscWarning, stacklevel=3)
    if labels.n_workers > 1 and 1 < labels.votes.n_votes <= labels.n_items:
        warnings.warn(
            "only one answer per item: nothing tells a good worker from a bad one, and confidences "
            "mean nothing",
            MiscWarning,
            stacklevel=3,
        )


def warn_of_conflicts(n_conflicts: int) -> None:
    """For those who did not choose a rule: who did knows."""
    if n_conflicts:
        times = "once" if n_conflicts == 1 else f"{n_conflicts:,} times"
        warnings.warn(
            f"{times} a worker gave an item more than one label; the last counts, unless "
            "--duplicates says otherwise",
            MiscWarning,
            stacklevel=3,
        )
