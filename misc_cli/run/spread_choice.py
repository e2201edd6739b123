"""What an engine's answers are given to: the method that is named, or a choice; then calibration.

Many answers are judged where they are. Fewer (`DRAWN_BY_NAME`) are gathered for it into this
process, where judging is what it is without an engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from misc_cli.aggregators.confusion_kernels import shrunk_rows
from misc_cli.data.solver import joined_stops
from misc_cli.data.types import Iteration, Labels, OnIteration
from misc_cli.engines.protocol import AnswerEngine, Engine, Fitted
from misc_cli.engines.views import gathered_engine
from misc_cli.run import spread_completion as completion
from misc_cli.run.fitting import few
from misc_cli.run.settings import Methods
from misc_cli.run.spread_judging import CrossValidation
from misc_cli.run.spread_settle import AddMember, Settle
from misc_cli.selection import roster as plan
from misc_cli.selection.calibration import Calibration
from misc_cli.selection.candidates import Candidate, Method
from misc_cli.selection.cross_validation import MANY_ANSWERS, calibration_of
from misc_cli.selection.dependence_check import SHRINKAGE
from misc_cli.selection.ensemble import finish_record, warn_of_the_null, weighed
from misc_cli.selection.scoring import parameters
from misc_cli.selection.search import ONE_ANSWER_EACH


@dataclass(frozen=True)
class Chosen:
    """What was fitted, and why; the posteriors to be written are the engine's."""

    fitted: Fitted
    members: Sequence[Candidate] = ()
    calibration: Calibration | None = None
    selection: dict[str, Any] | None = None
    loop: dict[str, Any] | None = None


def named(engine: AnswerEngine, methods: Methods, on_iteration: OnIteration) -> Chosen:
    """The method that is named, calibrated if that is asked for and can be."""
    if methods.completer is not None:
        return _completed(engine, methods, on_iteration)
    method = Method(methods.names["aggregator"], methods.aggregator)
    calibrate = methods.settings.calibrate and method.calibratable
    # where folds begin where the whole fit ended, they come after it
    after = calibrate and hasattr(method.aggregator, "refit_subset_on") and not few(engine)
    calibration, given = None, (engine, methods, method, method, on_iteration)
    if calibrate and not after:
        calibration = _calibration(*given)
    fitted: Fitted = methods.aggregator.solve(engine, on_iteration)
    if fitted.item_details is not None:  # before trials change the rows that it needs
        engine.sweep(fitted.item_details)
    if after:
        completion.keep(engine)
        calibration = _calibration(*given, whole=fitted)
        completion.bring_back(engine)
    if calibration is not None:
        engine.sweep(Settle(mean=False, by_votes=False, calibration=calibration))
    return Chosen(fitted, calibration=calibration)


def _completed(engine: AnswerEngine, methods: Methods, on_iteration: OnIteration) -> Chosen:
    """The loop; it says after how many passes its trials stop, so it goes first."""
    fitted, loop = completion.fit(engine, methods, on_iteration)
    if not methods.settings.calibrate:
        return Chosen(fitted, loop=loop)
    completion.keep(engine)
    here, there = completion.trials(methods, loop["passes"])
    calibration = _calibration(engine, methods, here, there, on_iteration)
    completion.bring_back(engine)
    if calibration is not None:
        engine.sweep(Settle(mean=False, by_votes=False, calibration=calibration))
    return Chosen(fitted, calibration=calibration, loop=loop)


def _calibration(
    engine: AnswerEngine,
    methods: Methods,
    here: Method,
    there: Method,
    on_iteration: OnIteration,
    whole: Fitted | None = None,
) -> Calibration | None:
    """Of one method, as it is `here` in memory, for few answers, or `there` on the engine.

    `whole` is its fit on all answers there, if that came first.
    """
    seed = methods.settings.seed
    if few(engine):
        return _calibration_here(gathered_engine(engine).labels, here, seed)
    most_folds = 1 if getattr(here.aggregator, "slow", False) else None
    work = CrossValidation(engine, [there], seed, on_iteration, whole, most_folds)
    return work.calibration([0], [there], [1.0]) if work.n_folds else None


def _calibration_here(labels: Labels, method: Method, seed: int) -> Calibration | None:
    whole = None
    if hasattr(method.aggregator, "refit_subset") and labels.votes.n_votes >= MANY_ANSWERS:
        whole = method.aggregator(labels)
    return calibration_of(method, labels, seed, whole)


def automatic(engine: Engine, methods: Methods, on_iteration: OnIteration) -> Chosen:
    """Choose among pure methods by many hidden answers, as `selection.search` does in memory."""
    settings = methods.settings
    if methods.aggregator is not None:
        pure = [Method(methods.names["aggregator"], methods.aggregator, preset=settings.preset)]
    else:
        roster = plan.roster(engine, settings.preset, methods.roster_options, settings.seed)
        pure = [method for method in roster if not getattr(method.aggregator, "slow", False)]
    fallback = plan.fallback(settings.preset, settings.seed)
    work = CrossValidation(engine, pure, settings.seed, on_iteration)
    if work.n_folds == 0:
        return _unjudged(engine, [m for m in pure if m.name in plan.FEW] or pure[:1], on_iteration)
    scores = work.scores(pure)
    kept, shares, reasons = weighed(
        scores, work.null, work.workers, work.n_folds, work.one_label, work.blind
    )
    by_votes = not reasons["null"]["beaten"] and len(pure) > 1
    calibration = None
    if by_votes:
        warn_of_the_null(fallback, reasons["null"]["one_label_share"])
        members, shares = [Candidate(fallback)], [1.0]
        reasons["fallback"] = fallback.name
    else:
        members = [score.candidate for score in kept]
        chosen = [member.method for member in members]
        if settings.calibrate and any(method.calibratable for method in chosen):
            places = [pure.index(method) for method in chosen]
            calibration = work.calibration(places, chosen, shares)
    fitted = _fit(engine, members, shares, by_votes, calibration, on_iteration)
    finish_record(reasons, members, shares)
    reasons["methods"] = parameters([*pure, fallback])
    return Chosen(fitted, members, calibration, reasons)


def _unjudged(engine: Engine, methods: Sequence[Method], on_iteration: OnIteration) -> Chosen:
    """Equal shares for all: nothing tells them apart."""
    members = [Candidate(method) for method in methods]
    shares = [1.0 / len(members)] * len(members)
    fitted = _fit(engine, members, shares, False, None, on_iteration)
    selection = {
        "chosen": [member.name for member in members],
        "weights": {member.name: share for member, share in zip(members, shares, strict=True)},
        "why": ONE_ANSWER_EACH,
        "methods": parameters(methods),
    }
    return Chosen(fitted, members, selection=selection)


def _fit(
    engine: Engine,
    members: Sequence[Candidate],
    shares: Sequence[float],
    by_votes: bool,
    calibration: Calibration | None,
    on_iteration: OnIteration,
) -> Fitted:
    """The members on all answers, and of their weighted mean what is written."""
    found = []
    for at, (member, share) in enumerate(zip(members, shares, strict=True)):

        def observe(iteration: Iteration, name: str = member.name) -> None:
            on_iteration(replace(iteration, extra={**iteration.extra, "candidate": name}))

        fitted: Fitted = member.method.aggregator.solve(engine, observe)  # type: ignore[attr-defined]
        found.append(replace(fitted, stopped={}) if member.method.early_stopped else fitted)
        done: dict[str, Any] = {"candidate": member.name, "of": len(members)}
        on_iteration(Iteration("fitted", at + 1, extra=done))
        if len(members) > 1:
            engine.sweep(AddMember(share, at == 0))
    settled = engine.sweep(Settle(len(members) > 1, by_votes, calibration))
    if len(members) == 1:
        return found[0]
    return Fitted(
        confusions=shrunk_rows(settled.by_worker, SHRINKAGE),
        class_prior=settled.class_sizes / engine.n_items,
        iterations=sum(fitted.iterations for fitted in found),
        stopped=joined_stops(*(fitted.stopped for fitted in found)),
    )
