"""Labels and methods in, a fitted result and the reasons for it out; truth is never looked at.

1. Every pure method forecasts hidden answers: the quick ones all of them; a slow one stops as soon
   as it cannot come near the best of those. The mean of their posteriors, each weighted by its
   share of the best lead over the null, is the pure result. Without any lead, or where most answers
   are by workers who only ever say one label, hidden answers say nothing of items
   (candidates.holdout_uninformative): the votes decide.
2. Completed candidates (one per rank) build on the first of the pure methods and are scored by the
   labels they would write, against those of the pure result. If the surest is significantly ahead,
   all that are near it vote. A completer that was asked for is taken at one rank, alone if it is
   far ahead, else together with what it builds on.
3. What stayed is fitted on all answers. A pure result is calibrated on the hidden ones; majority
   vote and a vote of completed candidates are their own confidence.

Scores on the folds so far decide when to stop, never the clock; a deadline only skips methods.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import numpy as np

from misc_cli.data.types import (
    Codes,
    Floats,
    Lighten,
    OnIteration,
    ignore_iteration,
    without_posteriors,
)
from misc_cli.engines.protocol import Engine
from misc_cli.errors import MiscWarning
from misc_cli.quality.evidence import ONE_LABEL_SHARE
from misc_cli.selection import worker_pool
from misc_cli.selection.calibration import Calibration
from misc_cli.selection.candidates import (
    FULL_SHARE,
    NO_SHARE,
    SIGNIFICANT,
    Method,
    Score,
    Trial,
    holdout_uninformative,
    lead,
    parameters,
    weights,
    why,
    why_votes,
)
from misc_cli.selection.cross_validation import MANY_ANSWERS, CrossValidation, by_answers
from misc_cli.selection.ensemble import FitResult, mean_of
from misc_cli.selection.worker_pool import NEVER, OutOfTime, run_all, warn_of_time

# Below this many answers a choice would be luck: what is hidden of them proves nothing.
MIN_ANSWERS = 1_000
# A completer that was asked for counts by its lead: alone where it is this many standard errors
# ahead, in proportion below, and never less than a fifth.
LEAD_TO_COUNT_ALONE = 6.0
LEAST_STRENGTH = 0.2
# Of a time budget, judging may take the first part; what was chosen is fitted in the rest, which
# takes a fraction of the judging. Without a judgement, a fit must be done by the second.
JUDGING_SHARE = 0.6
FITTING_SHARE = 0.9
# A slow method that is this many standard errors short of the share it needs is given up.
HOPELESS = 2.0
# After so many folds those are given up.
ROUNDS = (1, 3, 6)
# Completion is tried on one fold, then on three, then on all: each time only if the best is so
# many standard errors ahead of everything that it has to beat.
FIRST_FOLDS = 3
PROMISING = 1.0

Weighed = Sequence[tuple[Score, float]]  # scores that count, with their shares
Members = tuple[Sequence[Trial], Sequence[float], Calibration | None]


def search(
    engine: Engine,
    pure: Sequence[Method],
    completed: Sequence[Method] = (),
    *,
    few: Sequence[Method] = (),
    fallback: Method | None = None,
    insist: bool = False,
    strength: float | None = None,
    incumbent: Mapping[str, float] | None = None,
    calibrate: bool = True,
    seed: int = 0,
    time_budget: float | None = None,
    on_iteration: OnIteration = ignore_iteration,
    lighten: Lighten = without_posteriors,
) -> FitResult:
    """Return the best we know how to give of these methods; the engine has its posteriors.

    `few` are averaged where there are too few answers to tell methods apart (the first of `pure`
    if there are none); `fallback` is weighed with the votes where the null is not beaten; `insist`
    takes the best completion whatever is said of it; `incumbent` are the weights of an earlier
    choice of pure methods, by name, which stays unless the new one is clearly better (`staying`).
    """
    now, budget = worker_pool.clock(), NEVER if time_budget is None else time_budget
    work = CrossValidation(
        engine,
        seed=seed,
        deadline=now + JUDGING_SHARE * budget,
        last=now + FITTING_SHARE * budget,
        on_iteration=on_iteration,
        lighten=lighten,
    )
    if work.late:
        return out_of_time_result(work, pure)
    votes_may_decide = fallback is not None and len(pure) > 1
    reasons: dict[str, Any] = {"completed": [], "fallback": None, "ahead_of_earlier": None}
    tried = [fallback] if fallback else []
    if not work.folds or (work.n_votes < MIN_ANSWERS and not (insist and completed)):
        # it is not for want of answers that workers of one label say nothing of items
        by_votes = votes_may_decide and work.one_label > ONE_LABEL_SHARE
        if not by_votes:
            found = unjudged(work, list(few) or [pure[0]], calibrate)
            return found or out_of_time_result(work, pure)
        reasons |= {"null": {"one_label_share": round(work.one_label, 6)}, "pure": []}
    else:
        scores = scored(work, pure)
        if not scores:
            return out_of_time_result(work, pure)
        choice, of_pure = weighed(work, scores, incumbent or {})
        reasons |= of_pure
        beaten = reasons["null"]["beaten"]
        taken: Sequence[Method] = ()
        if completed and (insist or beaten):
            rival = None if insist else choice
            taken, ahead, reasons["completed"] = completion_of(work, completed, scores[0], rival)
        judged = {score.method.name: score.method for score in scores}
        others = [method.other for method in completed if method.other is not None]
        tried = [*(judged.get(one.name, one) for one in pure), *completed, *others, *tried]
        by_votes = votes_may_decide and not beaten and not taken
        if taken:
            counts = strength_of(ahead) if strength is None else strength
            members = _of_completed(
                work, scores[0], taken, ahead, calibrate, counts if insist else 1.0
            )
        elif not by_votes:
            members = _of_pure(work, scores, choice, calibrate, reasons)
    if by_votes:
        assert fallback is not None
        members = work.fit([fallback]), [1.0], None
        reasons["fallback"] = fallback.name
        if members[0]:
            warnings.warn(why_votes(work.one_label, fallback.name), MiscWarning, stacklevel=2)
    if not members[0]:
        return out_of_time_result(work, pure)
    warn_of_time(work.left_out)
    reasons["chosen"] = [trial.method.name for trial in members[0]]
    reasons["cut_short"] = bool(work.left_out)
    reasons["why"] = why(reasons, work.left_out)
    return _concluded(work, members, reasons, tried, by_votes)


def _concluded(
    work: CrossValidation,
    members: Members,
    reasons: Mapping[str, Any],
    tried: Sequence[Method],
    by_votes: bool = False,
) -> FitResult:
    """Return the mean of the members, with the reasons for run.json."""
    fitted, shares, calibration = members
    names = [trial.method.name for trial in fitted]
    selection = {
        **reasons,
        "chosen": names,
        "weights": dict(zip(names, shares, strict=True)),
        "methods": parameters(tried),
    }
    return mean_of(
        work.engine, fitted, shares, selection, by_votes=by_votes, calibration=calibration
    )


def unjudged(work: CrossValidation, methods: Sequence[Method], calibrate: bool) -> FitResult | None:
    """Equal shares for all: nothing tells them apart. None if there was no time for all."""
    reason = "items with one answer each leave none to hide"
    if work.folds:
        reason = f"fewer than {MIN_ANSWERS:,} answers cannot tell methods apart"
    shares = [1.0 / len(methods)] * len(methods)
    calibration = None
    if work.folds and calibrate and any(method.calibratable for method in methods):
        scores = work.score(methods)
        if len(scores) < len(methods):
            return None
        calibration = work.calibration(scores, shares)
    fitted = work.fit(methods)
    if len(fitted) < len(methods):
        return None
    return _concluded(work, (fitted, shares, calibration), {"why": reason}, methods)


def out_of_time_result(work: CrossValidation, pure: Sequence[Method]) -> FitResult:
    """The first method as it is, or the votes if there is no time even for that."""
    votes = [method for method in pure if method.name == "mv"]
    methods = [*votes, pure[0]][-2:]
    fitted = work.fit(methods) or work.fit(methods[:1], deadline=NEVER)
    taken = fitted[-1].method
    warn_of_time(["choosing and calibrating"])
    reason = f"there was no time to judge methods: {taken.name} as it is"
    reasons = {"why": reason, "cut_short": True}
    return _concluded(work, (fitted[-1:], [1.0], None), reasons, [taken])


def scored(work: CrossValidation, methods: Sequence[Method]) -> list[Score]:
    """Return the scores of pure methods in their order; `work.left_out` gets those out of time."""
    slow = [method for method in methods if getattr(method.aggregator, "slow", False)]
    quick = [method for method in methods if method not in slow]
    if not quick:
        quick, slow = slow[:1], slow[1:]
    scores = work.score(quick)
    if scores and slow and independent(work, scores):
        # all that slow methods add is how workers err together
        slow = [
            replace(method, aggregator=cast(Any, method.aggregator).with_subtypes(1))
            for method in slow
            if hasattr(method.aggregator, "with_subtypes")
        ]
    scores += race(work, slow, scores) if scores else []
    by_name = {score.method.name: score for score in scores}
    work.left_out += [one.name for one in (*quick, *slow) if one.name not in by_name]
    return [by_name[method.name] for method in methods if method.name in by_name]


def independent(work: CrossValidation, scores: Sequence[Score]) -> bool:
    """Return True if workers do not err together, by the first quick method that counts."""
    leads = [float((score.best - work.blind[0]).mean()) for score in scores]
    if max(leads) <= 0.0:
        return False
    for score, share in zip(scores, weights(leads), strict=True):
        if share and score.method.calibratable and not score.method.early_stopped:
            return work.err_together(score) == 0.0
    return False


def race(work: CrossValidation, methods: Sequence[Method], rivals: Sequence[Score]) -> list[Score]:
    """Judge slow methods, each until it cannot reach the required share of the best lead.

    Some folds of all of them at a time, so that all cores have work. Those whose folds start from
    their fit on all answers, or depend on it (`cv_variant_of`), make that first.
    """
    best = max(rivals, key=lambda score: float(score.best.mean())).best
    needing = "refit_subset" if work.n_votes >= MANY_ANSWERS else "cv_variant_of"
    first_fitted = [one for one in methods if hasattr(one.aggregator, needing)]

    def fit(method: Method) -> Trial:
        return work.trial(method, deadline=work.deadline)

    made = run_all(fit, first_fitted, deadline=work.deadline, parallel=work.parallel)
    wholes = {whole.method.name: whole for whole in made}  # until the deadline
    methods = [one for one in methods if one not in first_fitted or one.name in wholes]
    running, starts = list(methods), {}
    if needing == "refit_subset":
        starts = {name: whole.fitted for name, whole in wholes.items()}
    else:
        for at, one in enumerate(methods):
            if one.name in wholes:
                variant = cast(Any, one.aggregator).cv_variant_of(wholes[one.name].fitted)
                running[at] = replace(one, aggregator=variant)
    scores = {one.name: Score(one, (), wholes.get(one.name)) for one in methods}
    edges = [0, *(edge for edge in ROUNDS if edge < len(work.folds)), len(work.folds)]
    for first, last in pairwise(edges):
        more = work.score(running, None, range(first, last), starts)
        found = {score.method.name: score.trials for score in more}
        for late in [one.name for one in running if one.name not in found]:
            del scores[late]
        for name, trials in found.items():
            scores[name] = replace(scores[name], trials=(*scores[name].trials, *trials))
        running = [
            one
            for one in running
            if one.name in found and not hopeless(work, scores[one.name].best, best)
        ]
    return list(scores.values())


def hopeless(work: CrossValidation, values: Floats, best: Floats) -> bool:
    """Tell if a method with these scores is clearly short of the share of the best that counts."""
    null = work.blind[0][: len(values)]
    needed = null + NO_SHARE * (best[: len(values)] - null)
    return lead(needed, values, work.workers) > HOPELESS


def weighed(
    work: CrossValidation, scores: Sequence[Score], incumbent: Mapping[str, float]
) -> tuple[Weighed, dict[str, Any]]:
    """Return the pure methods that count, with their weights, and the reasons for run.json.

    If the null is unbeaten, the best has all the weight. A slow method that was given up before
    the last fold is clearly behind. An earlier choice stays unless the new one is clearly better.
    """
    (null, crowd), workers, one_label = work.blind, work.workers, work.one_label
    whole = [score for score in scores if len(score.trials) == len(work.folds)]
    leads = [float((score.best - null).mean()) for score in whole]
    best = whole[int(np.argmax(leads))]
    ahead = lead(best.best, null, workers)
    unaware = max(float(null.mean()), float(crowd.mean()))
    beaten = not holdout_uninformative(float(best.best.mean()) - unaware, ahead, one_label)
    if beaten and ahead < SIGNIFICANT:
        warnings.warn(
            "what methods know of items beyond each worker's own label shares may be luck "
            f"({ahead:.2f} standard errors; {SIGNIFICANT:.0f} would not be): few workers give most "
            "of the answers, or they hardly look at the items",
            MiscWarning,
            stacklevel=3,
        )
    found = zip(whole, weights(leads), strict=True) if beaten else [(best, 1.0)]
    choice = [(score, weight) for score, weight in found if weight > 0.0]
    outpaced = None
    if beaten and incumbent.keys() != {score.method.name for score, _ in choice}:
        shares = [share for _, share in choice]
        rival = np.average([score.best for score, _ in choice], axis=0, weights=shares)
        stays = staying(whole, incumbent, rival, workers, null)
        choice, outpaced = stays or (choice, None)
    counted = {score.method.name: share for score, share in choice}
    table = []
    for score in scores:
        part = float((score.best - null[: len(score.best)]).mean())
        table.append(score.row(score.best, workers, part, counted))
    return choice, {
        "null": {
            "score": round(float(null.mean()), 6),
            "beaten": beaten,
            "one_label_share": round(one_label, 6),
        },
        "pure": sorted(table, key=lambda row: -row["lead"]),
        "ahead_of_earlier": None if outpaced is None else round(outpaced, 3),
    }


def staying(
    scores: Sequence[Score],
    incumbent: Mapping[str, float],
    rival: Floats,
    workers: Codes,
    null: Floats,
) -> tuple[list[tuple[Score, float]], float] | None:
    """Return the incumbents among these scores, if the rival is not clearly better; else None.

    With them the standard errors by which it is ahead. `incumbent` has weights by name; `rival`
    (n_hidden,) are the scores by hidden answer of the new choice, `null` those of the null
    forecaster: what has nearly all of the rival's lead over it stays. Methods that are no longer
    tried (the data outgrew them) are gone, and the others share their weight.
    """
    found = [score for score in scores if score.method.name in incumbent]
    if not found:
        return None
    shares = np.array([incumbent[score.method.name] for score in found])
    shares /= shares.sum()
    earlier = np.average([score.best for score in found], axis=0, weights=shares)
    ahead = lead(rival, earlier, workers)
    part = float((earlier - null).mean()) / max(float((rival - null).mean()), 1e-12)
    if ahead >= SIGNIFICANT and part < FULL_SHARE:
        return None
    return list(zip(found, shares.tolist(), strict=True)), ahead


def completion_of(
    work: CrossValidation, methods: Sequence[Method], base: Score, pure: Weighed | None
) -> tuple[list[Method], float, list[dict[str, Any]]]:
    """Return the completions to take, the lead of the surest of them, and the table for run.json.

    They build on the fits of `base`. Where one was asked for (no `pure`), each is judged on the
    first folds by its lead over `base` alone, and the surest is taken even if it is behind; the
    paper's last step instead of the quick one, if both are clearly ahead: where completing gains at
    all, that gains more. Else the surest must be significantly ahead of the `pure` result as well,
    on all folds: a gain that `base` has without completion is not completion's. Then all that are
    near it vote, with both last steps. Every other rank is tried first, and the try ends where the
    first folds promise nothing.
    """
    initial = [trial.posteriors for trial in base.trials]
    rivals = [work.hard_scores(initial)]
    if pure is not None:
        shares, each = [share for _, share in pure], [score.trials for score, _ in pure]
        by_fold = [[one.posteriors for one in trials] for trials in zip(*each, strict=True)]
        rivals.append(work.hard_scores([np.average(one, 0, shares) for one in by_fold]))
    n_folds, n_first = len(work.folds), min(FIRST_FOLDS, len(work.folds))
    tried: dict[str, Score] = {}

    def ahead(score: Score) -> float:
        return min(lead(score.hard, rival, work.workers) for rival in rivals)

    def surest(some: Sequence[Method], numbers: range) -> Score:
        """Try these methods on further folds; return the surest of all that were tried."""
        more = work.score(some, initial, numbers)
        if numbers and len(more) < len(some):
            raise OutOfTime
        for score in more:
            before = tried.get(score.method.name)
            trials = (*(before.trials if before else ()), *score.trials)
            tried[score.method.name] = replace(score, trials=trials)
        return max(tried.values(), key=ahead)

    others = {method.name: method.other for method in methods if method.other is not None}
    top: Score | None = None
    taken: list[Method] = []
    try:
        if pure is None:
            top = surest(methods, range(n_first))
            if ahead(top) >= SIGNIFICANT and others:
                quick = top
                tried_last = work.score(list(others.values()), initial, range(n_first))
                tried |= {score.method.name: score for score in tried_last}
                top = max(tried_last, key=ahead, default=quick)
                top = top if ahead(top) >= SIGNIFICANT else quick
            taken = [top.method]
        elif (
            ahead(surest(methods[::2], range(1))) >= 0.0
            and ahead(surest(methods[::2], range(1, n_first))) >= PROMISING
        ):
            best = surest(methods[1::2], range(n_first))
            surest([best.method], range(n_first, n_folds))
            top = tried[best.method.name]
            if ahead(top) >= SIGNIFICANT:
                for one in methods:
                    hard = tried[one.name].hard
                    if lead(top.hard[: len(hard)], hard, work.workers) < HOPELESS:
                        taken += [one, others[one.name]] if one.name in others else [one]
    except OutOfTime:
        work.left_out.append("completion")
        return [], 0.0, []
    counted = dict.fromkeys((one.name for one in taken), 1.0 / max(len(taken), 1))
    table = [one.row(one.hard, work.workers, ahead(one), counted) for one in tried.values()]
    table.sort(key=lambda row: (-row["folds"], -row["score"]))
    return taken, 0.0 if top is None else ahead(top), table


def strength_of(ahead: float) -> float:
    """Return how much of the posteriors are completion's, for its lead in standard errors."""
    return round(min(max(ahead / LEAD_TO_COUNT_ALONE, LEAST_STRENGTH), 1.0), 2)


def _of_completed(
    work: CrossValidation,
    base: Score,
    taken: Sequence[Method],
    ahead: float,
    calibrate: bool,
    strength: float,
) -> Members:
    """Return the completions that could be fitted in time, all alike.

    By their `strength` they stand with what they build on.
    """
    first = work.fit([base.method])
    fitted = work.fit(taken, first[0].posteriors) if first else []
    work.left_out += [method.name for method in taken[len(fitted) :]]
    if not fitted:
        return first, [1.0] * len(first), None
    calibration = by_answers(work, base) if calibrate and ahead < SIGNIFICANT else None
    shares = [strength / len(fitted)] * len(fitted)
    if strength == 1.0:
        return fitted, shares, calibration
    return [*fitted, *first], [*shares, round(1.0 - strength, 9)], calibration


def _of_pure(
    work: CrossValidation,
    scores: Sequence[Score],
    choice: Weighed,
    calibrate: bool,
    reasons: dict[str, Any],
) -> Members:
    """Return the weighted mean of the pure methods that count.

    Those that were not fitted in time leave the choice: the others are weighed anew, as if the late
    ones had never been tried.
    """
    members = [score.method for score, _ in choice]
    made = [score.whole for score, _ in choice if score.whole is not None]
    fitted = {trial.method.name: trial for trial in work.fit(members, made=made)}
    late = [member.name for member in members if member.name not in fitted]
    if late:
        work.left_out += late
        fitted |= {one.method.name: one.whole for one in scores if one.whole is not None}
        scores = [score for score in scores if score.method.name in fitted]
        if not any(len(score.trials) == len(work.folds) for score in scores):
            return [], [], None
        choice, again = weighed(work, scores, {})
        reasons |= again
    counted, shares = [score for score, _ in choice], [share for _, share in choice]
    calibration = None
    if calibrate and any(score.method.calibratable for score in counted):
        calibration = work.calibration(counted, shares, scores[0])
    return [fitted[score.method.name] for score in counted], shares, calibration
