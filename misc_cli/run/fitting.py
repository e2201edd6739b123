"""From labels to posteriors: the methods as given, or an automatic choice; then calibration."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from misc_cli import registry
from misc_cli.completers.parameters import LOOP_OPTIONS, RANK_OPTIONS, Loop
from misc_cli.data import holdout
from misc_cli.data.parameters import AUTO, flag
from misc_cli.data.types import (
    Aggregator,
    Floats,
    Iteration,
    Labels,
    Lighten,
    OnIteration,
    ignore_iteration,
    without_posteriors,
)
from misc_cli.engines.capabilities import check_aggregator, methods_of
from misc_cli.engines.local import MemoryEngine, solved
from misc_cli.engines.protocol import POSTERIORS, AnswerEngine, CopyRows, Engine
from misc_cli.engines.views import behind, gathered_engine
from misc_cli.errors import ConfigError, MiscWarning
from misc_cli.run.settings import (
    BASELINE,
    NO_COMPLETER,
    Methods,
    Settings,
    build,
    with_methods,
)
from misc_cli.selection.calibration import Calibration
from misc_cli.selection.candidates import Candidate, Method, fits
from misc_cli.selection.ensemble import FitResult, combine, mean_of, member_row
from misc_cli.selection.scoring import Trial

if TYPE_CHECKING:
    from misc_cli.data.types import Completer
    from misc_cli.run.settings import OwnMethod


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
        rank = _rank_of_named(methods)
        completed = [] if rank is None else _ranks_to_try(engine, methods)
        if rank is None or completed:
            return _searched(engine, methods, completed, on_iteration, lighten, incumbent)
        methods = _by_rule_of_thumb(engine, methods, rank)
    found = fit_named(behind(engine), methods, on_iteration)
    return _calibrated(found, methods, on_iteration) if methods.settings.calibrate else found


def few(engine: Engine) -> bool:
    """Tell if the answers are few enough to be judged in this process's memory."""
    return engine.n_votes < holdout.DRAWN_BY_NAME


def in_memory(engine: Engine) -> MemoryEngine:
    """Return the engine with all answers in memory."""
    return gathered_engine(behind(engine))


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
        pure = ended.initial
        if loop.start is not None:
            here = engine.with_labels(engine.labels)
            solved(aggregator, here, on_iteration)
            pure = here.whole(POSTERIORS)
        both = [engine.whole(POSTERIORS), np.asarray(pure)]
        mixed: Floats = np.average(both, axis=0, weights=[loop.strength, 1 - loop.strength])
        engine.put(POSTERIORS, mixed)
    record = {
        # whose result started the loop stands among the methods, by name
        "settings": {name: getattr(loop, name) for name in LOOP_OPTIONS if name != "start"},
        "ranks": ended.ranks,
        "passes": ended.passes,
        "stopped": ended.fitted.stopped["pass"],
        "completed_workers": ended.n_completed_workers,
        "columns": ended.columns,
    }
    return FitResult.of(engine, ended.fitted, loop=record, completion=ended)


def _calibrated(found: FitResult, methods: Methods, on_iteration: OnIteration) -> FitResult:
    """Return the fit with its posteriors softened by hidden answers.

    Few answers are judged in this process's memory, many where they are.
    """
    from misc_cli.selection.cross_validation import calibration_of

    engine, aggregator = found.engine, methods.aggregator
    assert aggregator is not None
    method = Method(methods.names["aggregator"], aggregator)
    judge_completion = False
    if methods.completer is not None and found.loop is not None:
        from misc_cli.selection.roster import MAX_TRIED_CELLS

        judge_completion = (engine.n_workers + 1) * engine.n_items <= MAX_TRIED_CELLS
        loop = Loop(**{**methods.loop, "passes": found.loop["passes"]})
        method = replace(method, completer=methods.completer, loop=loop)
    judged = gathered_engine(engine) if few(engine) else engine
    rows = (POSTERIORS, *found.detail_rows)
    in_place = judged is engine and not isinstance(engine, MemoryEngine)
    if in_place:  # trials change the rows
        for name in rows:
            engine.sweep(CopyRows(name, member_row(name)))
    calibration = calibration_of(
        method,
        judged,
        methods.settings.seed,
        found,
        judge_completion=judge_completion,
        on_iteration=on_iteration if in_place else ignore_iteration,
    )
    if in_place:
        for name in rows:
            engine.sweep(CopyRows(member_row(name), name))
    return calibrated_by(found, calibration)


def calibrated_by(found: FitResult, calibration: Calibration | None) -> FitResult:
    """Return the fit with its engine's posteriors softened."""
    if calibration is not None:
        combine(found.engine, [POSTERIORS], [1.0], calibration=calibration)
    return replace(found, calibration=calibration)


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


def _rank_of_named(methods: Methods) -> str | None:
    """The flag of the rank of a completer that was asked for by its name; None if none was."""
    if methods.settings.completer in (None, NO_COMPLETER, AUTO):
        return None
    ranks = (name for name in RANK_OPTIONS if name in methods.resolved["completer"])
    return flag(next(ranks, "passes"))


def _ranks_to_try(engine: Engine, methods: Methods) -> list[Method]:
    """Return the variants of a named completer that hidden answers choose from: rank, last step."""
    from misc_cli.selection import roster
    from misc_cli.selection.search import MIN_ANSWERS

    if engine.n_votes < MIN_ANSWERS:
        return []
    return roster.completions(
        engine,
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


def _by_rule_of_thumb(engine: Engine, methods: Methods, rank: str) -> Methods:
    """A completer that was asked for is used, also where hidden answers cannot choose its rank.

    Of several ranks or passes that were given, the first counts.
    """
    from misc_cli.selection.search import LEAST_STRENGTH, MIN_ANSWERS

    few = engine.n_votes < MIN_ANSWERS
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


def fit_members(
    engine: MemoryEngine,
    members: Sequence[Candidate],
    on_iteration: OnIteration,
    start_of: Callable[[Candidate], Labels] | None = None,
) -> list[Trial]:
    """Fit methods that were chosen earlier, each on the labels that `start_of` gives."""
    fitted = []
    for member in members:

        def observe(iteration: Iteration, name: str = member.name) -> None:
            extra = {**iteration.extra, "candidate": name}
            on_iteration(replace(iteration, extra=extra))

        here = engine.with_labels(engine.labels if start_of is None else start_of(member))
        *_, (_, found) = fits(member.method, here, observe)
        rows = {name: here.whole(name) for name in (POSTERIORS, *found.detail_rows)}
        fitted.append(Trial(member, found, rows))
    return fitted


def mean_as_chosen(
    engine: MemoryEngine,
    fitted: Sequence[Trial],
    calibration: Calibration | None,
    selection: Mapping[str, Any],
) -> FitResult:
    """Return the mean of fits with the weights of an earlier choice."""
    weights = selection.get("weights", {})
    return mean_of(
        engine,
        fitted,
        [weights.get(trial.candidate.name, 1.0) for trial in fitted],
        selection,
        by_votes=bool(selection.get("fallback")),
        calibration=calibration,
    )


def fit_as_chosen(facts: Mapping[str, Any], where: str) -> Any:
    """Return a fitter of the methods that an earlier run chose; `where` is its run.json."""
    from misc_cli.run.run_record import rebuilt

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
        fitted = fit_members(here, members, on_iteration)
        return mean_as_chosen(here, fitted, calibration, selection)

    return fit


def _searched(
    engine: Engine,
    methods: Methods,
    completed: list[Method],
    on_iteration: OnIteration,
    lighten: Lighten = without_posteriors,
    incumbent: Mapping[str, float] | None = None,
) -> FitResult:
    """Choose by hidden answers; `completed` are candidates of a completer that was asked for."""
    from misc_cli.selection import roster
    from misc_cli.selection.search import search

    settings = methods.settings
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
            engine,
            methods.names["completer"],
            methods.completer,
            _builds_on(methods),
            methods.loop,
            preset,
            roster.MAX_TRIED_CELLS,
            tries=methods.tries,
        )
    found = search(
        engine,
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


def completion_in_words(found: FitResult, methods: Methods) -> str:
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
            parts = [
                built.names[kind] for kind in ("completer", "aggregator") if kind in built.names
            ]
            name = " + ".join(parts) + (f" ({given})" if given else "")
            methods.append(
                Method(name, built.aggregator, preset=preset)
                if built.completer is None
                else Method(
                    name, built.aggregator, built.completer, Loop(**built.loop), preset=preset
                )
            )
    return methods
