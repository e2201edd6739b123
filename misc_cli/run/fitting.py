"""From labels to posteriors: the methods as given, or an automatic choice; then calibration."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from misc_cli import registry
from misc_cli.completers.parameters import LOOP_OPTIONS, RANK_OPTIONS, Loop
from misc_cli.data import holdout
from misc_cli.data.parameters import AUTO, flag
from misc_cli.data.types import (
    Aggregation,
    Aggregator,
    Labels,
    Lighten,
    OnIteration,
    without_posteriors,
)
from misc_cli.engines.capabilities import check_aggregator, methods_of
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.protocol import POSTERIORS, AnswerEngine, CopyRows, Engine, Fitted
from misc_cli.errors import ConfigError, MiscWarning
from misc_cli.run.settings import BASELINE, NO_COMPLETER, Methods, Settings, build
from misc_cli.selection.candidates import Method
from misc_cli.selection.ensemble import Fit, FitResult

if TYPE_CHECKING:
    from misc_cli.selection.calibration import Calibration


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
    if not isinstance(engine, MemoryEngine):
        return _fit_on_engine(engine, methods, on_iteration)
    return _fit_in_memory(engine.labels, engine, methods, on_iteration, lighten, incumbent)


def few(engine: Engine) -> bool:
    """Tell if the answers are few enough to be judged in this process's memory."""
    return engine.n_votes < holdout.DRAWN_BY_NAME


def in_memory(engine: Engine) -> MemoryEngine:
    """Return the engine with all answers in memory."""
    from misc_cli.engines.views import gathered_engine

    return gathered_engine(_whole(engine))


def _whole(engine: Engine) -> AnswerEngine:
    """Return the engine with all answers behind a view."""
    from misc_cli.engines.views import View

    return cast(AnswerEngine, engine.engine if isinstance(engine, View) else engine)


def _fit_on_engine(engine: Engine, methods: Methods, on_iteration: OnIteration) -> FitResult:
    """Fit where the answers are: the methods that are named, or a choice among pure ones."""
    whole = _whole(engine)
    if methods.automatic:
        return _searched(engine, methods, [], on_iteration).on(whole)
    if methods.completer is None:
        loop, trial = None, Method(methods.names["aggregator"], methods.aggregator)
        fitted: Fitted = methods.aggregator.solve(whole, on_iteration)
    else:
        fitted, loop = _completed_on_engine(whole, methods, on_iteration)
        trial = _completed_trial(methods, loop["passes"])
    if fitted.item_details is not None:  # before trials change the rows that it needs
        whole.sweep(fitted.item_details)
    calibration = None
    if methods.settings.calibrate:
        calibration = _calibrated_on_engine(whole, methods, trial, fitted, on_iteration)
    return FitResult.of(whole, fitted, calibration=calibration, loop=loop)


def _completed_on_engine(
    engine: AnswerEngine, methods: Methods, on_iteration: OnIteration
) -> tuple[Fitted, dict[str, Any]]:
    """Return the fit of the completion loop on an engine, and what the record says of it."""
    from misc_cli.completers.completion_loop import CompletedAnswers

    loop, completer = Loop(**methods.loop), cast(Any, methods.completer)
    method = CompletedAnswers(completer, methods.aggregator, loop)
    fitted, passes = method.run(engine, on_iteration)
    ranks, stopped = method.ranks(engine), fitted.stopped["pass"]
    return fitted, loop_record(loop, ranks=ranks, passes=passes, stopped=stopped)


def _completed_trial(methods: Methods, passes: int) -> Method:
    loop = Loop(**{**methods.loop, "passes": passes})
    return Method(methods.names["aggregator"], methods.aggregator, methods.completer, loop)


def _calibrated_on_engine(
    engine: AnswerEngine,
    methods: Methods,
    trial: Method,
    whole: Fitted,
    on_iteration: OnIteration,
) -> Calibration | None:
    """Soften the engine's posteriors by hidden answers; return what they were softened by.

    Few answers are judged in this process's memory, many where they are.
    """
    from misc_cli.completers.completion_loop import CompletedAnswers
    from misc_cli.engines.views import gathered_engine
    from misc_cli.selection.cross_validation import MANY_ANSWERS, calibration_of
    from misc_cli.selection.engine_validation import EngineValidation
    from misc_cli.selection.ensemble import combine, member_row

    seed, row = methods.settings.seed, POSTERIORS
    calibration = None
    if few(engine):
        labels, known = gathered_engine(engine).labels, None
        if hasattr(trial.aggregator, "refit_subset") and engine.n_votes >= MANY_ANSWERS:
            known = trial.aggregator(labels)
        calibration = calibration_of(trial, labels, seed, known)
    elif trial.calibratable:
        row = member_row(trial.name)
        engine.sweep(CopyRows(POSTERIORS, row))
        most_folds = 1 if getattr(trial.aggregator, "slow", False) else None
        if trial.completer is not None:
            completer: Any = trial.completer
            looped: Any = CompletedAnswers(completer, methods.aggregator, trial.loop, tol=0.0)
            trial = Method(trial.name, looped)
        work = EngineValidation(engine, seed=seed, on_iteration=on_iteration, most_folds=most_folds)
        if work.n_folds:
            (score,) = work.score([trial], whole=whole)
            calibration = work.calibration([score], [1.0], score)
    if calibration is not None or row != POSTERIORS:
        combine(engine, [row], [1.0], calibration=calibration)
    return calibration


def check_engine(engine: str, settings: Settings, methods: Methods) -> None:
    """Refuse what only one machine's memory can do, and say what to do instead."""
    if settings.completer not in (None, NO_COMPLETER, AUTO):
        _refuse_completion(f"--engine {engine}", methods, methods_of(engine))
    check_aggregator(engine, methods.names.get("aggregator", BASELINE))


def _refuse_completion(where: str, methods: Methods, runs: Sequence[str]) -> None:
    """Raise for what of completion needs one machine's memory; `runs` are aggregators that run."""
    name = methods.names["completer"]
    if not hasattr(methods.completer, "slice_table"):
        raise ConfigError(
            f"--completer {name} is for --engine local; {where} completes with tucker: "
            "say --completer tucker --ranks R1,R2,R3"
        )
    if methods.search_ranks:
        raise ConfigError(
            f"{where} does not choose ranks or passes: that is for --engine local; give one of "
            "each, --ranks R1,R2,R3 and --passes N (a rule of thumb: 5, 5 · classes, classes; 3)"
        )
    if Loop(**methods.loop).final != "answers":
        raise ConfigError(
            "--final completed (--preset paper, too) holds a label of every worker for every item "
            f"and is for --engine local; with {where} say --final answers"
        )
    if Loop(**methods.loop).strength < 1.0:
        raise ConfigError(f"--strength is for --engine local; with {where} leave it out")
    starter = methods.resolved.get("start", {}).get("aggregator")
    if starter is not None and starter not in runs:
        raise ConfigError(f"{where} does not run --start {starter}; it runs {', '.join(runs)}")


def _fit_in_memory(
    labels: Labels,
    engine: MemoryEngine,
    methods: Methods,
    on_iteration: OnIteration,
    lighten: Lighten,
    incumbent: Mapping[str, float] | None,
) -> FitResult:
    if methods.automatic:
        rank = _rank_of_named(methods)
        completed = [] if rank is None else _ranks_to_try(labels, methods)
        if rank is None or completed:
            return _searched(engine, methods, completed, on_iteration, lighten, incumbent).on(
                engine
            )
        methods = _by_rule_of_thumb(labels, methods, rank)
    found = fit_named(labels, methods, on_iteration)
    if methods.settings.calibrate:
        found = _calibrated(found, labels, methods)
    return found.on(engine)


def _rank_of_named(methods: Methods) -> str | None:
    """The flag of the rank of a completer that was asked for by its name; None if none was."""
    if methods.settings.completer in (None, NO_COMPLETER, AUTO):
        return None
    ranks = (name for name in RANK_OPTIONS if name in methods.resolved["completer"])
    return flag(next(ranks, "passes"))


def _ranks_to_try(labels: Labels, methods: Methods) -> list[Method]:
    """Return the variants of a named completer that hidden answers choose from: rank, last step."""
    from misc_cli.selection import roster
    from misc_cli.selection.search import MIN_ANSWERS

    if labels.votes.n_votes < MIN_ANSWERS:
        return []
    return roster.completions(
        labels,
        methods.names["completer"],
        methods.completer,
        _builds_on(methods),
        methods.loop,
        methods.settings.preset,
        tries=methods.tries,
    )


def _builds_on(methods: Methods) -> Aggregator:
    """Return the method of the first slice: the aggregator, or the baseline if none is named."""
    if methods.aggregator is not None:
        named: Aggregator = methods.aggregator
        return named
    baseline: Aggregator = registry.create("aggregator", BASELINE, methods.settings.preset)
    return baseline


def _by_rule_of_thumb(labels: Labels, methods: Methods, rank: str) -> Methods:
    """A completer that was asked for is used, also where hidden answers cannot choose its rank.

    Of several ranks or passes that were given, the first counts.
    """
    from misc_cli.selection.search import LEAST_STRENGTH, MIN_ANSWERS

    few = labels.votes.n_votes < MIN_ANSWERS
    why = f"fewer than {MIN_ANSWERS:,} answers" if few else "so many workers and items"
    several = " or ".join(flag(name) for name, values in methods.tries.items() if len(values) > 1)
    if several:
        instead = f"{why} cannot choose from several {several}: the first counts"
    else:
        instead = f"{why} cannot choose {rank}: the rule of thumb does; give {rank} to set it"
    warnings.warn(instead, MiscWarning, stacklevel=3)
    first = {name: values[0] for name, values in methods.tries.items()}
    loop = {name: value for name, value in first.items() if name in LOOP_OPTIONS}
    own = {name: value for name, value in first.items() if name not in LOOP_OPTIONS}
    completer: Any = methods.completer
    return replace(
        methods,
        names={"aggregator": BASELINE, **methods.names},
        aggregator=_builds_on(methods),
        completer=replace(completer, **own),
        loop={"strength": LEAST_STRENGTH, **methods.loop, **loop},
    )


def mean_of_members(
    labels: Labels,
    fitted: Mapping[str, Aggregation],
    calibration: Calibration | None,
    selection: Mapping[str, Any],
) -> Fit:
    """The result of methods that were chosen earlier."""
    from misc_cli.selection.ensemble import mean_of

    shares = selection.get("weights", {})
    aggregation = mean_of(
        labels,
        list(fitted.values()),
        [shares.get(name, 1.0) for name in fitted],
        by_votes=bool(selection.get("fallback")),
        calibration=calibration,
    )
    return Fit(aggregation, selection=selection, calibration=calibration)


def fit_as_chosen(facts: Mapping[str, Any], where: str) -> Any:
    """Return a fitter of the methods that an earlier run chose; `where` is its run.json."""
    from misc_cli.run.run_record import fit_members, rebuilt
    from misc_cli.selection.calibration import Calibration

    members = [rebuilt(entry) for entry in facts["members"]]
    softened = facts.get("calibration")
    calibration = None if softened is None else Calibration(**softened)
    kept = ("chosen", "weights", "fallback", "methods")
    selection = {key: facts["selection"][key] for key in kept if key in facts["selection"]}
    selection["why"] = f"{where} says so: {facts['selection']['why']}"

    def fit(
        engine: Engine, methods: Methods, on_iteration: OnIteration, lighten: Lighten
    ) -> FitResult:
        here = in_memory(engine)
        labels = here.labels
        fitted = fit_members(members, {member.name: labels for member in members}, on_iteration)
        found = mean_of_members(labels, fitted, calibration, selection)
        return replace(found, members=members).on(here)

    return fit


def fit_named(labels: Labels, methods: Methods, on_iteration: OnIteration) -> Fit:
    """The methods as they are, without a choice and not calibrated."""
    assert methods.aggregator is not None
    if methods.completer is None:
        return Fit(methods.aggregator(labels, on_iteration))
    from misc_cli.completers.completion_loop import run_loop

    loop = Loop(**methods.loop)
    mixture = run_loop(
        labels, methods.completer, methods.aggregator, loop, on_iteration=on_iteration
    )
    if loop.strength < 1.0:
        pure = mixture.initial
        if loop.start is not None:
            pure = methods.aggregator(labels, on_iteration)
        mixture = mixture.weakened(loop.strength, pure)
    ended = loop_record(
        loop,
        ranks=mixture.ranks,
        passes=mixture.passes,
        stopped=mixture.aggregation.stopped["pass"],
        completed_workers=mixture.n_completed_workers,
        columns=mixture.columns,
    )
    return Fit(mixture.aggregation, loop=ended, mixture=mixture)


def loop_record(
    loop: Loop,
    *,
    ranks: tuple[int, ...] | None,
    passes: int,
    stopped: str,
    completed_workers: int = 0,
    columns: int = 0,
) -> dict[str, Any]:
    """Return the end of the complete ⇄ slice loop, for run.json."""
    return {
        # whose result started the loop stands among the methods, by name
        "settings": {name: getattr(loop, name) for name in LOOP_OPTIONS if name != "start"},
        "ranks": ranks,
        "passes": passes,
        "stopped": stopped,
        "completed_workers": completed_workers,
        "columns": columns,
    }


def _calibrated(found: Fit, labels: Labels, methods: Methods) -> Fit:
    from misc_cli.selection import roster
    from misc_cli.selection.cross_validation import calibration_of

    name, aggregator = methods.names["aggregator"], methods.aggregator
    if methods.completer is None or found.loop is None:
        method = Method(name, aggregator)
    else:
        loop = Loop(**{**methods.loop, "passes": found.loop["passes"]})
        method = Method(name, aggregator, methods.completer, loop)
    cells = (labels.n_workers + 1) * labels.n_items
    calibration = calibration_of(
        method,
        labels,
        methods.settings.seed,
        found.in_memory,
        judge_completion=cells <= roster.MAX_TRIED_CELLS,
    )
    return calibrated_by(found, labels, calibration)


def calibrated_by(found: Fit, labels: Labels, calibration: Calibration | None) -> Fit:
    """Return the fit with its posteriors softened."""
    if calibration is None:
        return found
    posteriors = calibration(found.in_memory.posteriors, labels)
    aggregation = replace(found.in_memory, posteriors=posteriors)
    return replace(found, aggregation=aggregation, calibration=calibration)


def _searched(
    engine: Engine,
    methods: Methods,
    completed: list[Method],
    on_iteration: OnIteration,
    lighten: Lighten = without_posteriors,
    incumbent: Mapping[str, float] | None = None,
) -> Fit:
    """The automatic choice; `completed` are the candidates of a completer that was asked for."""
    from misc_cli.selection import roster
    from misc_cli.selection.search import search

    settings = methods.settings
    source = engine.labels if isinstance(engine, MemoryEngine) else engine
    seed, preset = settings.seed, settings.preset
    few: list[Method] = []
    insist = bool(completed)
    if insist:
        name = methods.names.get("aggregator", BASELINE)
        pure = [Method(name, _builds_on(methods), preset=preset)]
    elif methods.aggregator is None:
        pure = roster.roster(engine, preset, methods.roster_options, seed)
        if not isinstance(engine, MemoryEngine):
            pure = [one for one in pure if not getattr(one.aggregator, "slow", False)]
        few = [method for method in pure if method.name in roster.FEW]
    else:
        pure = [Method(methods.names["aggregator"], methods.aggregator, preset=preset)]
    if methods.completer is not None and not insist and isinstance(engine, MemoryEngine):
        completed = roster.completions(
            engine.labels,
            methods.names["completer"],
            methods.completer,
            _builds_on(methods),
            methods.loop,
            preset,
            roster.MAX_TRIED_CELLS,
            tries=methods.tries,
        )
    found = search(
        source,
        pure,
        completed,
        few=few,
        fallback=roster.fallback(preset, seed),
        insist=insist,
        strength=methods.loop.get("strength"),
        incumbent=incumbent,
        calibrate=settings.calibrate,
        seed=seed,
        time_budget=settings.time_budget,
        on_iteration=on_iteration,
        lighten=lighten,
    )
    if insist and found.members[0].passes:
        why = completion_in_words(found, methods)
        found = replace(found, selection={**found.selection, "why": why})
        _warn_of_better_without(settings.completer, found.selection)
    return found


def completion_in_words(found: Fit, methods: Methods) -> str:
    """Return what was chosen of a completer that was asked for, and the flags that repeat it."""
    member, names = found.members[0], methods.names
    alone = names.get("aggregator", BASELINE)
    completer: Any = member.method.completer
    ranks = {name: getattr(completer, name) for name in RANK_OPTIONS if hasattr(completer, name)}
    shown = " ".join(f"{flag(name)} {_comma(rank)}" for name, rank in ranks.items())
    strength = float(found.selection["weights"][member.name])
    ahead = next(row["lead"] for row in found.selection["completed"] if row["chosen"])
    by = f"{abs(ahead):.1f} standard errors"
    so = f"ahead of {alone} alone by {by}" if ahead >= 0 else f"behind {alone} alone by {by}"
    counts = f"it counts {100 * strength:.0f} %, {alone} alone the rest"
    if strength == 1.0:
        counts = "it counts alone"
    again = [
        f"--completer {names['completer']} --aggregator {alone}",
        *([shown] if shown else []),
        f"--passes {member.passes} --final {member.method.loop.final} --strength {strength:g}",
    ]
    return (
        f"{member.name} forecasts hidden answers best of its ranks, {so}: {counts}; "
        f"the same labels: {' '.join(again)}"
    )


def _comma(rank: Any) -> str:
    return ",".join(map(str, rank)) if isinstance(rank, tuple | list) else str(rank)


def _warn_of_better_without(completer: str | None, selection: Mapping[str, Any]) -> None:
    """For a completer that was asked for: it is used, but hidden answers may advise against it."""
    from misc_cli.selection.scoring import SIGNIFICANT

    ahead = max((row["lead"] for row in selection["completed"] if row["chosen"]), default=0.0)
    if ahead <= -SIGNIFICANT:
        warnings.warn(
            f"hidden answers advise against --completer {completer}: without it they are forecast "
            f"better, by {-ahead:.1f} standard errors; --completer auto would decline it",
            MiscWarning,
            stacklevel=4,
        )


def combinations(
    completers: Sequence[str], aggregators: Sequence[str], preset: str, seed: int
) -> list[Method]:
    """Return every completer with every aggregator, with a preset's parameters; "none" is pure."""

    methods = []
    for completer in completers:
        for aggregator in aggregators:
            settings = Settings(preset, completer, aggregator, seed=seed)
            built = build(settings)
            methods.append(
                Method(aggregator, built.aggregator, preset=preset)
                if built.completer is None
                else Method(
                    f"{completer} + {aggregator}",
                    built.aggregator,
                    built.completer,
                    Loop(**built.loop),
                    preset=preset,
                )
            )
    return methods
