"""The one way through, on every engine: encode → [complete ⇄ slice] → aggregate → decide.

The command line and the Python API both call `run`; what they do before (reading) and after
(writing) is theirs. `fit` is from labels to posteriors: the methods as given, or an automatic
choice; then calibration.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from misc_cli import registry
from misc_cli.completers.parameters import LOOP_OPTIONS, RANK_OPTIONS, Loop
from misc_cli.data import holdout
from misc_cli.data.encode import distinct, encode, encode_known
from misc_cli.data.parameters import AUTO, DUPLICATES, flag
from misc_cli.data.resources import limits, require_for
from misc_cli.data.types import (
    Aggregator,
    Answers,
    Floats,
    KnownLabels,
    Lighten,
    OnIteration,
    ignore_iteration,
    without_posteriors,
)
from misc_cli.engines.capabilities import check_aggregator
from misc_cli.engines.local import MemoryEngine, solved
from misc_cli.engines.protocol import (
    POSTERIORS,
    TRUTH,
    AnswerEngine,
    Engine,
    SumOver,
    copy_rows,
    count_known,
)
from misc_cli.engines.views import behind, gathered_engine
from misc_cli.errors import ConfigError, MiscWarning
from misc_cli.quality.evidence import doubt, evidence_of
from misc_cli.quality.figures import figures, mark_truth
from misc_cli.quality.worker_dependence import compare_workers, judged_by_all_answers, once_per_copy
from misc_cli.run.request import Fitter, Stopwatch
from misc_cli.run.result import Recorder, RunResult
from misc_cli.run.settings import BASELINE, NO_COMPLETER, Methods, Settings, build, with_methods
from misc_cli.selection.candidates import SIGNIFICANT, Method
from misc_cli.selection.ensemble import FitResult, combine, member_row

if TYPE_CHECKING:
    from misc_cli.data.types import Completer
    from misc_cli.run.settings import OwnMethod

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
        A function in place of `fit`: an incremental run with a saved state.
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
        if fitter is not None or (methods.automatic and engine.n_votes < holdout.DRAWN_BY_NAME):
            engine = gathered_engine(engine)
    known = (
        engine.whole(TRUTH) if isinstance(engine, MemoryEngine) and TRUTH in engine.arrays else None
    )
    recorder = Recorder(known, on_iteration)
    with limits(settings.threads):
        with watch.stage("compare"):
            pairs = compare_workers(engine)
            counted: Engine = engine
            if methods.automatic:
                counted = once_per_copy(engine, pairs)
        with watch.stage("fit"):
            in_time = methods
            if settings.time_budget is not None:
                left = max(settings.time_budget - (time.monotonic() - watch.began), 0.0)
                in_time = replace(methods, settings=replace(settings, time_budget=left))
            found = (fitter or fit)(counted, in_time, recorder, recorder.judged)
            if found.engine is not engine:  # bring the posteriors to the one with all answers
                assert isinstance(engine, MemoryEngine)
                assert isinstance(found.engine, MemoryEngine)
                engine.arrays[POSTERIORS] = found.engine.whole(POSTERIORS)
                found = replace(found, engine=engine)
            if counted is not engine:
                judged = judged_by_all_answers(found.confusions, engine, pairs)
                found = replace(found, confusions=judged)
        with watch.stage("decide"):
            evidence = evidence_of(counted)
            if evidence.weight < 1.0 or evidence.probability is None:
                doubt(found.engine, evidence, settings.calibrate)
            numbers = figures(
                found.engine,
                pairs,
                evidence.probability,
                iterations=found.iterations,
                converged=found.converged,
            )
            numbers["cut-short"] = bool(found.selection.get("cut_short"))
    _LOGGER.info("aggregated", extra={"fields": {"figures": numbers, "timings": watch.seconds}})
    took = None
    if isinstance(source, Answers) and source.seconds is not None:
        from misc_cli.quality.worker_scores import median_seconds

        took = median_seconds(source, engine.vocabulary.workers)
    return RunResult(found, methods, recorder.records, numbers, pairs, watch.seconds, took)


def memory_engine(
    answers: Answers, settings: Settings, gold: KnownLabels | None = None
) -> MemoryEngine:
    """Encode answers and known labels into an engine in memory; warn of what is hardly meant."""
    encoding = encode(
        answers,
        duplicates=settings.duplicates or DUPLICATES[0],
        class_order=settings.class_order,
    )
    labels = encoding.labels
    votes = labels.votes
    require_for(votes.n_items, votes.n_workers, votes.n_classes)
    if gold is not None:
        codes = encode_known(labels, gold, "gold")
        labels = replace(labels, gold=codes)
    engine = MemoryEngine(labels, counts=encoding.counts)
    _warn_of_answers(engine, settings, gold)
    return engine


def _warn_of_answers(engine: AnswerEngine, settings: Settings, gold: KnownLabels | None) -> None:
    """Warn of what is no error, but hardly meant."""
    conflicts = engine.counts.n_conflicts
    alone = {
        "class: every label is the same": engine.n_classes,
        "worker: there is nobody to compare it with": engine.n_workers,
        "item: workers cannot be told apart by it": engine.n_items,
    }
    found = [f"only one {what}" for what, count in alone.items() if count == 1]
    if engine.n_workers > 1 and 1 < engine.n_votes <= engine.n_items:
        found.append("only one answer per item: nothing tells good workers from bad ones")
    if settings.duplicates is None and conflicts:
        times = "once" if conflicts == 1 else f"{conflicts:,} times"
        found.append(
            f"{times} a worker gave an item more than one label; the last counts, unless "
            "--duplicates says otherwise"
        )
    if gold is not None:
        which, used = gold.called("gold"), engine.sweep(SumOver(count_known))
        named = len(distinct(gold.items, gold.labels, which)[0])
        if used < named:
            told = f"{named - used:,} of {named:,} items have no answers and do nothing"
            found.append(f"{which}: {told}")
    for text in found:
        warnings.warn(text, MiscWarning, stacklevel=3)


def fit(
    engine: Engine,
    methods: Methods,
    on_iteration: OnIteration,
    lighten: Lighten = without_posteriors,
    incumbent: Mapping[str, float] | None = None,
) -> FitResult:
    """Fit the methods as they are asked for on any engine; choose and calibrate if need be.

    `lighten` is what becomes of a line of diagnostics before it leaves the process it was made in;
    `incumbent` are the weights of an earlier choice, which only a clearly better one replaces.
    """
    if methods.automatic:
        found = _chosen(engine, methods, on_iteration, lighten, incumbent)
        if found is not None:
            return found
        from misc_cli.selection.search import LEAST_STRENGTH, MIN_ANSWERS

        few = engine.n_votes < MIN_ANSWERS
        why = f"fewer than {MIN_ANSWERS:,} answers" if few else "so many workers and items"
        rank = next((one for one in RANK_OPTIONS if one in methods.resolved["completer"]), "passes")
        told = f"{why} cannot choose {flag(rank)}: the rule of thumb does; give it to set it"
        warnings.warn(told, MiscWarning, stacklevel=2)
        baseline = registry.create("aggregator", BASELINE, methods.settings.preset)
        methods = replace(
            methods,
            names={"aggregator": BASELINE, **methods.names},
            aggregator=methods.aggregator or baseline,
            loop={"strength": LEAST_STRENGTH, **methods.loop},
        )
    found = fit_named(behind(engine), methods, on_iteration)
    if not methods.settings.calibrate:
        return found
    # Soften the posteriors by hidden answers: few are judged in this process's memory, many where
    # they are.
    from misc_cli.selection.candidates import MAX_TRIED_CELLS
    from misc_cli.selection.cross_validation import calibration_of

    holder, aggregator = found.engine, methods.aggregator
    assert aggregator is not None
    method = Method(methods.names["aggregator"], aggregator)
    judge_completion = False
    if methods.completer is not None and found.loop is not None:
        judge_completion = (holder.n_workers + 1) * holder.n_items <= MAX_TRIED_CELLS
        loop = Loop(**{**methods.loop, "passes": found.loop["passes"]})
        method = replace(method, completer=methods.completer, loop=loop)
    judged, in_place = holder, False
    if not isinstance(holder, MemoryEngine):
        in_place = holder.n_votes >= holdout.DRAWN_BY_NAME
        judged = holder if in_place else gathered_engine(holder)
    if in_place:  # trials change the rows
        holder.sweep(copy_rows(POSTERIORS, member_row(POSTERIORS)))
    calibration = calibration_of(
        method,
        judged,
        methods.settings.seed,
        found,
        judge_completion=judge_completion,
        on_iteration=on_iteration if in_place else ignore_iteration,
    )
    if in_place:
        holder.sweep(copy_rows(member_row(POSTERIORS), POSTERIORS))
    if calibration is not None:
        combine(holder, [POSTERIORS], [1.0], calibration=calibration)
    return replace(found, calibration=calibration)


def fit_named(engine: AnswerEngine, methods: Methods, on_iteration: OnIteration) -> FitResult:
    """Fit the methods as they are, without a choice and not calibrated."""
    aggregator = methods.aggregator
    assert aggregator is not None
    if methods.completer is None:
        return FitResult.of(engine, solved(aggregator, engine, on_iteration))
    from misc_cli.completers.completion_loop import run_loop

    loop = Loop(**methods.loop)
    ended = run_loop(engine, methods.completer, aggregator, loop, on_iteration=on_iteration)
    if loop.strength < 1.0:
        assert isinstance(engine, MemoryEngine)
        both = [engine.whole(POSTERIORS), np.asarray(ended.initial)]
        mixed: Floats = np.average(both, axis=0, weights=[loop.strength, 1 - loop.strength])
        engine.arrays[POSTERIORS] = mixed
    record = {
        # whose result started the loop stands among the methods, by name
        "settings": {name: getattr(loop, name) for name in LOOP_OPTIONS if name != "start"},
        "ranks": ended.ranks,
        "passes": ended.passes,
        "stopped": ended.fitted.stopped["pass"],
    }
    return FitResult.of(engine, ended.fitted, loop=record)


def check_engine(engine: str, settings: Settings, methods: Methods) -> None:
    """Refuse what only one machine's memory can do, and say what to do instead."""
    check_aggregator(engine, methods.names.get("aggregator", BASELINE))
    if settings.completer in (None, NO_COMPLETER, AUTO):
        return
    loop = Loop(**methods.loop)
    if (
        not hasattr(methods.completer, "slice_table")
        or methods.search_ranks
        or loop.final != "answers"
        or loop.strength < 1.0
    ):
        raise ConfigError(
            f"--engine {engine} completes with --completer tucker --ranks R1,R2,R3 --final answers "
            "(a rule of thumb: 5, 5 · classes, classes); anything else is for --engine local"
        )


def _chosen(
    engine: Engine,
    methods: Methods,
    on_iteration: OnIteration,
    lighten: Lighten,
    incumbent: Mapping[str, float] | None,
) -> FitResult | None:
    """Choose by hidden answers; None if they cannot choose the rank of a completer that is named.

    A completer that was asked for by its name is used, whatever they say of it.
    """
    from misc_cli.selection import candidates
    from misc_cli.selection.search import MIN_ANSWERS, search

    settings, preset, seed = methods.settings, methods.settings.preset, methods.settings.seed
    insist = settings.completer not in (None, NO_COMPLETER, AUTO)
    local = isinstance(engine, MemoryEngine)
    start = methods.aggregator or registry.create("aggregator", BASELINE, preset)
    completed: list[Method] = []
    if engine.n_votes >= MIN_ANSWERS if insist else methods.completer is not None and local:
        completed = candidates.completions(
            engine,
            methods.names["completer"],
            methods.completer,
            start,
            methods.loop,
            preset,
            candidates.MAX_COMPLETED_CELLS if insist else candidates.MAX_TRIED_CELLS,
        )
    if insist and not completed:
        return None
    pure = [Method(methods.names.get("aggregator", BASELINE), start, preset=preset)]
    few: list[Method] = []
    if methods.aggregator is None and not insist:
        pure = candidates.roster(engine, preset, methods.roster_options, seed)
        if not local:
            pure = [one for one in pure if not getattr(one.aggregator, "slow", False)]
        few = [method for method in pure if method.name in candidates.FEW]
    found = search(
        engine,
        pure,
        completed,
        few=few,
        fallback=candidates.fallback(preset, seed),
        insist=insist,
        strength=methods.loop.get("strength"),
        incumbent=incumbent,
        calibrate=settings.calibrate,
        seed=seed,
        time_budget=settings.time_budget,
        on_iteration=on_iteration,
        lighten=lighten,
    )
    if insist and found.members[0].completer is not None:
        why = _completion_in_words(found, methods)
        found = replace(found, selection={**found.selection, "why": why})
    return found


def _completion_in_words(found: FitResult, methods: Methods) -> str:
    """Return what was chosen of a completer that was asked for, and the flags that repeat it.

    It is used, but hidden answers may advise against it: then that is a warning.
    """
    member, names = found.members[0], methods.names
    alone, completer = names.get("aggregator", BASELINE), member.completer
    strength = float(found.selection["weights"][member.name])
    ahead = next(row["lead"] for row in found.selection["completed"] if row["chosen"])
    by = f"{abs(ahead):.1f} standard errors"
    if ahead <= -SIGNIFICANT:
        warnings.warn(
            f"hidden answers advise against --completer {names['completer']}: without it they are "
            f"forecast better, by {by}; --completer auto would decline it",
            MiscWarning,
            stacklevel=4,
        )
    counts = f"it counts {100 * strength:.0f} %, {alone} alone the rest"
    again = f"--completer {names['completer']} --aggregator {alone}"
    for name in RANK_OPTIONS:
        if (rank := getattr(completer, name, None)) is not None:
            shown = ",".join(map(str, rank)) if isinstance(rank, tuple | list) else rank
            again += f" {flag(name)} {shown}"
    return (
        f"{member.name} forecasts hidden answers best of its ranks, "
        f"{'ahead of' if ahead >= 0 else 'behind'} {alone} alone by {by}: "
        f"{'it counts alone' if strength == 1.0 else counts}; the same labels: {again} "
        f"--passes {member.loop.passes} --final {member.loop.final} -p strength={strength:g}"
    )


def combinations(
    completers: Sequence[str | Completer],
    aggregators: Sequence[str | Aggregator | OwnMethod],
    preset: str,
    seed: int,
) -> list[Method]:
    """Return every completer with every aggregator, with a preset's parameters; "none" is pure."""
    methods = []
    for completer in completers:
        for aggregator in aggregators:
            settings, own = with_methods(Settings(preset, seed=seed), aggregator, completer)
            built = build(settings, own)
            if built.aggregator is None:
                raise ConfigError("auto chooses among methods; compare the methods themselves")
            given = ", ".join(f"{key}={value}" for key, value in settings.options.items())
            name = " + ".join(built.names[kind] for kind in sorted(built.names, reverse=True))
            method = Method(f"{name} ({given})" if given else name, built.aggregator, preset=preset)
            if built.completer is not None:
                method = replace(method, completer=built.completer, loop=Loop(**built.loop))
            methods.append(method)
    return methods
