"""The one way through, on every engine: encode → [complete ⇄ slice] → aggregate → decide.

The command line and the Python API both call `run`; what they do before (reading) and after
(writing) is theirs.
"""

from __future__ import annotations

import logging
import warnings
from dataclasses import replace

from misc_cli.data.encode import distinct, encode, encode_gold
from misc_cli.data.resources import require_for, thread_limit
from misc_cli.data.types import Answers, KnownLabels, OnIteration, ignore_iteration
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.protocol import POSTERIORS, TRUTH, AnswerEngine, Engine, SumOver, count_known
from misc_cli.engines.views import gathered_engine
from misc_cli.errors import MiscWarning
from misc_cli.quality.evidence import evidence_of, warn_of, weigh
from misc_cli.quality.figures import figures, mark_truth
from misc_cli.quality.worker_dependence import compare_workers
from misc_cli.run.fitting import few, fit
from misc_cli.run.request import Fitter, Stopwatch
from misc_cli.run.result import Recorder, RunResult
from misc_cli.run.settings import Methods, Settings

_LOGGER = logging.getLogger("misc_cli")


def run(
    source: Answers | AnswerEngine,
    methods: Methods,
    *,
    gold: KnownLabels | None = None,
    truth: KnownLabels | None = None,
    on_iteration: OnIteration = ignore_iteration,
    fitter: Fitter | None = None,
    watch: Stopwatch | None = None,
) -> RunResult:
    """Aggregate answers: columns that are encoded here, or those that an engine holds.

    Parameters
    ----------
    gold
        Labels of known items: they are kept, and teach the rest. An engine has encoded them
        already; they are given once more to tell which of them do nothing.
    truth
        Labels that only judge the result and never steer it.
    fitter
        A function in place of `fitting.fit`: an incremental run with a saved state.
    watch
        Counts the seconds of each stage, those of reading too.
    """
    watch, settings = watch or Stopwatch(), methods.settings
    with watch.stage("encode"):
        if isinstance(source, Answers):
            engine: AnswerEngine = memory_engine(source, settings, gold)
        else:
            engine = source
            _warn_of_answers(engine, settings, gold)
        if truth is not None:
            mark_truth(engine, truth)
        if fitter is not None or (methods.automatic and few(engine)):
            engine = gathered_engine(engine)
    known = engine.whole(TRUTH) if isinstance(engine, MemoryEngine) and engine.has(TRUTH) else None
    recorder = Recorder(known, on_iteration)
    with thread_limit(settings.threads):
        with watch.stage("compare"):
            pairs = compare_workers(engine)
            counted: Engine = engine
            if methods.automatic:
                from misc_cli.quality.duplicate_workers import judged_by_all_answers, once_per_copy

                counted = once_per_copy(engine, pairs)
        with watch.stage("fit"):
            in_time = methods
            if settings.time_budget is not None:
                left = max(settings.time_budget - watch.elapsed, 0.0)
                if not left:
                    warnings.warn(
                        f"reading alone took {watch.elapsed:.1f} s, more than --time-budget "
                        "allows: the quickest method is used, and nothing is judged",
                        MiscWarning,
                        stacklevel=2,
                    )
                in_time = replace(methods, settings=replace(settings, time_budget=left))
            found = (fitter or fit)(counted, in_time, recorder, recorder.judged)
            if found.engine is not engine:  # bring the posteriors to the one with all answers
                assert isinstance(engine, MemoryEngine)
                assert isinstance(found.engine, MemoryEngine)
                for name in (POSTERIORS, *found.detail_rows):
                    engine.put(name, found.engine.whole(name))
                found = replace(found, engine=engine)
            if counted is not engine:
                judged = judged_by_all_answers(found.confusions, engine, pairs)
                found = replace(found, confusions=judged)
        with watch.stage("decide"):
            evidence = evidence_of(counted)
            warn_of(evidence)
            if settings.calibrate:
                weigh(found.engine, evidence)
            numbers = figures(
                found.engine,
                pairs,
                evidence.probability,
                iterations=found.iterations,
                converged=found.converged,
            )
            numbers["cut-short"] = bool(found.selection.get("cut_short"))
    _LOGGER.info("aggregated", extra={"fields": {"figures": numbers, "timings": watch.seconds}})
    return RunResult(found, methods, recorder.records, numbers, pairs, timings=watch.seconds)


def memory_engine(
    answers: Answers, settings: Settings, gold: KnownLabels | None = None
) -> MemoryEngine:
    """Encode answers and known labels into an engine in memory; warn of what is hardly meant."""
    encoding = encode(
        answers, duplicates=settings.duplicates_rule, class_order=settings.class_order_list
    )
    labels = encoding.labels
    require_for(labels.n_items, labels.n_workers, labels.n_classes)
    if gold is not None:
        codes = encode_gold(labels, gold.items, gold.labels, which=gold.called("gold"))
        labels = replace(labels, gold=codes)
    engine = MemoryEngine(labels, counts=encoding.counts)
    _warn_of_answers(engine, settings, gold)
    return engine


def _warn_of_answers(engine: AnswerEngine, settings: Settings, gold: KnownLabels | None) -> None:
    """Warn of what is no error, but hardly meant."""
    found, conflicts = [], engine.counts.n_conflicts
    for what, count, consequence in (
        ("class", engine.n_classes, "every label is the same"),
        ("worker", engine.n_workers, "there is nobody to compare it with"),
        ("item", engine.n_items, "workers cannot be told apart by it"),
    ):
        if count == 1:
            found.append(f"only one {what}: {consequence}")
    if engine.n_workers > 1 and 1 < engine.n_votes <= engine.n_items:
        found.append(
            "only one answer per item: nothing tells a good worker from a bad one, and confidences "
            "mean nothing"
        )
    if settings.duplicates is None and conflicts:
        times = "once" if conflicts == 1 else f"{conflicts:,} times"
        found.append(
            f"{times} a worker gave an item more than one label; the last counts, unless "
            "--duplicates says otherwise"
        )
    if gold is not None:
        which, used = gold.called("gold"), engine.sweep(SumOver(count_known))
        named = len(distinct(gold.items, gold.labels, which)[0])
        if not used:
            found.append("no gold item is among the answers' items: nothing is fixed")
        elif used < named:
            found.append(
                f"{which}: {named - used:,} of {named:,} items have no answers and do nothing"
            )
    for text in found:
        warnings.warn(text, MiscWarning, stacklevel=3)
