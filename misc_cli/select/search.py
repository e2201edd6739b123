"""Labels and methods in, a fitted result and the reasons for it out; truth is never looked at.

1. Every pure method forecasts hidden answers: the quick ones all of them; a slow one stops as soon
   as it cannot come near the best of those. The mean of their posteriors, each weighted by its
   share of the best lead over the null, is the pure result. If no lead is above the null's own
   luck, hidden answers say nothing of items, and the vote shares count.
2. Every completed candidate (ranks × passes) builds on the first of the pure methods and is scored
   by the labels it would write, against those of the pure result. If the best is significantly
   ahead, all candidates that cannot be told apart from it vote.
3. What stayed is fitted on all answers. A pure result is calibrated on the hidden ones; majority
   vote and a vote of completed candidates are their own confidence.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from misc_cli.aggregators.confusion.em import confusions_of
from misc_cli.aggregators.dawid_skene import DawidSkene
from misc_cli.core.logdomain import clamp
from misc_cli.core.solver import joined_stops
from misc_cli.core.types import (
    Aggregation,
    Codes,
    Floats,
    Labels,
    Lighten,
    OnIteration,
    ignore_iteration,
    without_posteriors,
)
from misc_cli.errors import MiscWarning
from misc_cli.select import racing
from misc_cli.select.calibrate import Calibration, pool, times, vote_shares
from misc_cli.select.choose import SIGNIFICANT, lead, weights
from misc_cli.select.fit import Fit
from misc_cli.select.incumbent import Staying, staying
from misc_cli.select.judging import MANY_ANSWERS, Judging
from misc_cli.select.leaderboard import (
    Score,
    completed_table,
    parameters,
    pure_table,
    why,
)
from misc_cli.select.processes import NO_DEADLINE, Deadline
from misc_cli.select.trial import SHRINKAGE, Candidate, Method, Trial

# Of a time budget, judging may take the first part; what was chosen is fitted in the rest, which
# takes a fraction of the judging. Without a judgement, a fit must be done by the second.
JUDGING_SHARE = 0.6
FITTING_SHARE = 0.9
# Below this many answers a choice would be luck: what is hidden of them proves nothing.
MIN_ANSWERS = 1_000
ONE_ANSWER_EACH = "items with one answer each leave none to hide"


def search(
    labels: Labels,
    pure: Sequence[Method],
    completed: Sequence[Method] = (),
    *,
    few: Sequence[Method] = (),
    fallback: Method | None = None,
    insist: bool = False,
    incumbent: Mapping[str, float] | None = None,
    calibrate: bool = True,
    seed: int = 0,
    time_budget: float | None = None,
    on_iteration: OnIteration = ignore_iteration,
    lighten: Lighten = without_posteriors,
) -> Fit:
    """The best we know how to give of these methods.

    `few` are averaged where there are too few answers to tell methods apart (the first of `pure`
    if there are none); `fallback` is weighed with the votes where the null is not beaten; `insist`
    takes the best completion whatever is said of it; `incumbent` are the weights of an earlier
    choice, by name, which stays unless the new one is clearly better (incumbent.py).
    """
    deadline, last = (
        Deadline(None if time_budget is None else share * time_budget)
        for share in (JUDGING_SHARE, FITTING_SHARE)
    )
    work = Judging(
        labels,
        seed=seed,
        deadline=deadline,
        last=last,
        on_iteration=on_iteration,
        lighten=lighten,
    )
    too_few = labels.votes.n_votes < MIN_ANSWERS and not (insist and completed)
    if work.late:
        return _hurried(work, pure)
    if not work.folds or too_few:
        return _unjudged(work, list(few) or [pure[0]], calibrate) or _hurried(work, pure)
    scores, left_out = racing.pure(work, pure)
    work.left_out += left_out
    if not scores:
        return _hurried(work, pure)
    kept, shares, reasons = weighed(scores, work.null, work.workers, len(work.folds))
    unbeaten = not reasons["null"]["beaten"]
    stays = None if unbeaten else _staying_pure(work, scores, kept, shares, incumbent or {})
    if stays is not None:
        kept, shares = stays.scores, stays.shares
        weight = dict(zip([score.candidate.name for score in kept], shares, strict=True))
        reasons["pure"] = pure_table(scores, work.null, work.workers, weight)
    voters: list[Score] = []
    tried: list[Score] = []
    if completed and (insist or not unbeaten):
        reference = work.hard_scores(work.mean_posteriors(kept, shares))
        tried = racing.completed(work, completed, scores[0].posteriors, reference, insist)
        # a gain that what it builds on has without it is not completion's
        rivals = [reference, _hard(scores[0])]
        voters = _voters(work, tried, rivals, insist)
        # some voters stopped after the first folds; the best is always among the others
        whole = [_hard(score) for score in voters if score.n_folds == len(work.folds)]
        hard = np.mean(whole, axis=0) if whole else reference
        before = staying(tried, incumbent or {}, _hard, hard, work.workers)
        if before is not None and set(incumbent or {}) != _names(voters):
            voters, stays = before.scores, before
        elif voters:
            stays = None
        reasons["completed"] = completed_table(tried, voters, rivals, work.workers)
        work.left_out += [] if tried else ["completion"]
    calibration, by_votes = None, False
    if voters:
        fitted = _fitted_voters(work, scores[0].candidate, voters)
        shares = [1.0 / len(fitted)] * len(fitted)
        whole = [_hard(score) for score in voters if score.n_folds == len(work.folds)]
        ahead = [lead(values, reference, work.workers) for values in whole]
        if calibrate and max(ahead, default=0.0) < SIGNIFICANT:
            calibration = _by_answers(work, scores[0])
    elif unbeaten and fallback is not None and len(pure) > 1:
        by_votes, shares = True, [1.0]
        warn_of_the_null(fallback)
        fitted = work.fit([Candidate(fallback)])
        if calibrate and labels.gold is not None:
            members = [Candidate(fallback)]
            calibration = work.by_gold(members, shares, Calibration(), by_votes=True)
    else:
        kept, shares, fitted = _fitted_in_time(work, scores, kept, shares, reasons)
        if calibrate and any(score.candidate.method.calibratable for score in kept):
            calibration = work.calibration(kept, shares, scores[0])
    if not fitted:
        return _hurried(work, pure)
    candidates = [trial.candidate for trial in fitted]
    found = [trial.aggregation for trial in fitted]
    result = mean_of(labels, found, shares, by_votes=by_votes, calibration=calibration)
    reasons["fallback"] = fallback.name if by_votes and fallback is not None else None
    warn_of_time(work.left_out)
    reasons["ahead_of_earlier"] = None if stays is None else round(stays.ahead, 3)
    conclude(reasons, candidates, shares, work.left_out, bool(completed))
    reasons["methods"] = parameters([*pure, *completed, *([fallback] if fallback else [])])
    return Fit(result, candidates, reasons, calibration)


def _fitted_voters(work: Judging, base: Candidate, voters: Sequence[Score]) -> list[Trial]:
    """Those of the completed candidates that could be fitted on all answers in time."""
    first = work.fit([base])
    members = [score.candidate for score in voters]
    fitted = work.fit(members, first[0].posteriors) if first else []
    work.left_out += [member.name for member in members[len(fitted) :]]
    return fitted


def _fitted_in_time(
    work: Judging,
    scores: Sequence[Score],
    kept: list[Score],
    shares: list[float],
    reasons: dict[str, Any],
) -> tuple[list[Score], list[float], list[Trial]]:
    """The pure methods that count, their weights and fits; without those there was no time for.

    Then the others are weighed anew, as if the late ones had never been tried, also in `reasons`.
    """
    fitted: dict[str, Trial] = {}
    while kept:
        new = [score for score in kept if score.candidate.name not in fitted]
        fitted |= {trial.candidate.name: trial for trial in work.refit(new)}
        names = [score.candidate.name for score in kept]
        late = [name for name in names if name not in fitted]
        if not late:
            return kept, shares, [fitted[name] for name in names]
        work.left_out += late
        scores = [score for score in scores if score.candidate.name not in late]
        if not any(score.n_folds == len(work.folds) for score in scores):
            break
        kept, shares, again = weighed(scores, work.null, work.workers, len(work.folds))
        reasons.update({key: again[key] for key in ("null", "pure")})
    return [], [], []


def weighed(
    scores: Sequence[Score], null: Floats, workers: Codes, n_folds: int
) -> tuple[list[Score], list[float], dict[str, Any]]:
    """The pure methods that count, their weights, and the reasons so far.

    If the null is unbeaten, the best has all the weight. `null` and `workers` as in `Judging`.
    """
    whole = [score for score in scores if score.n_folds == n_folds]
    leads = [float((score.best - null).mean()) for score in whole]
    best = whole[int(np.argmax(leads))]
    beaten = lead(best.best, null, workers) >= SIGNIFICANT
    found = zip(whole, weights(leads), strict=True) if beaten else [(best, 1.0)]
    chosen = {score.candidate.name: weight for score, weight in found}
    kept = [score for score in scores if chosen.get(score.candidate.name, 0.0) > 0.0]
    reasons: dict[str, Any] = {
        "null": {"score": round(float(null.mean()), 6), "beaten": beaten},
        "pure": pure_table(scores, null, workers, chosen),
        "completed": [],
        "fallback": None,
        "ahead_of_earlier": None,
        "cut_short": False,
    }
    return kept, [chosen[score.candidate.name] for score in kept], reasons


def conclude(
    reasons: dict[str, Any],
    members: Sequence[Candidate],
    shares: Sequence[float],
    left_out: Sequence[str] = (),
    completed: bool = False,
) -> None:
    """Add to the reasons what came of them."""
    reasons["chosen"] = [candidate.name for candidate in members]
    reasons["weights"] = dict(zip(reasons["chosen"], shares, strict=True))
    reasons["cut_short"] = bool(left_out)
    reasons["why"] = why(reasons, left_out, completed)


def _hard(score: Score) -> Floats:
    return score.views["hard"]


def _names(scores: Sequence[Score]) -> set[str]:
    return {score.candidate.name for score in scores}


def _staying_pure(
    work: Judging,
    scores: Sequence[Score],
    kept: Sequence[Score],
    shares: Sequence[float],
    incumbent: Mapping[str, float],
) -> Staying | None:
    """What stays of an earlier choice among the pure methods; None if it is the new one anyway.

    A slow one that was given up before the last fold is clearly behind.
    """
    if incumbent.keys() == _names(kept):
        return None
    whole = [score for score in scores if score.n_folds == len(work.folds)]
    rival = np.average([score.best for score in kept], axis=0, weights=shares)
    return staying(whole, incumbent, lambda score: score.best, rival, work.workers, work.null)


def warn_of_time(left_out: Sequence[str]) -> None:
    """Say what a time budget left out, if anything."""
    if left_out:
        said = ", ".join(left_out)
        warnings.warn(f"the time budget left no time for {said}", MiscWarning, stacklevel=4)


def warn_of_the_null(fallback: Method) -> None:
    warnings.warn(
        "no method forecasts hidden answers better than each worker's own label shares: answers "
        f"say little of items; vote shares count, times what {fallback.name} makes of an item; "
        "if workers abstain on purpose, as labelling functions do, try --missing informative",
        MiscWarning,
        stacklevel=4,
    )


def _voters(
    work: Judging, tried: Sequence[Score], rivals: Sequence[Floats], insist: bool
) -> list[Score]:
    """All that cannot be told apart from the best, if that is ahead of all rivals.

    What did not go on after the first folds must have been nearer to it on those.
    """
    whole = [score.views["hard"] for score in tried if score.n_folds == len(work.folds)]
    if not whole:
        return []
    top = max(whole, key=lambda values: float(values.mean()))
    if not insist and min(lead(top, rival, work.workers) for rival in rivals) < SIGNIFICANT:
        return []
    voters = []
    for score in tried:
        values = score.views["hard"]
        count = len(values)
        limit = SIGNIFICANT if count == len(top) else racing.HOPELESS
        if values is top or lead(top[:count], values, work.workers[:count]) < limit:
            voters.append(score)
    return voters


def _unjudged(work: Judging, methods: Sequence[Method], calibrate: bool) -> Fit | None:
    """Equal shares for all: nothing tells them apart. None if there was no time for all."""
    reason = ONE_ANSWER_EACH
    if work.folds:
        reason = f"fewer than {MIN_ANSWERS:,} answers cannot tell methods apart"
    candidates = [Candidate(method) for method in methods]
    shares = [1.0 / len(candidates)] * len(candidates)
    calibration = None
    if work.folds and calibrate and any(method.calibratable for method in methods):
        scores = work.score(methods)
        if len(scores) < len(methods):
            return None
        calibration = work.calibration(scores, shares, scores[0])
    fitted = [trial.aggregation for trial in work.fit(candidates)]
    if len(fitted) < len(candidates):
        return None
    result = mean_of(work.labels, fitted, shares, calibration=calibration)
    selection = {
        "chosen": [method.name for method in methods],
        "weights": {method.name: 1.0 / len(methods) for method in methods},
        "why": reason,
        "methods": parameters(methods),
    }
    return Fit(result, candidates, selection, calibration)


def _hurried(work: Judging, pure: Sequence[Method]) -> Fit:
    """The first method as it is, or the votes if there is no time even for that."""
    votes = [method for method in pure if method.name == "mv"]
    candidates = [Candidate(method) for method in [*votes, pure[0]][-2:]]
    fitted = work.fit(candidates) or work.fit(candidates[:1], deadline=NO_DEADLINE)
    taken = fitted[-1].candidate
    warn_of_time(["choosing and calibrating"])
    selection = {
        "chosen": [taken.name],
        "weights": {taken.name: 1.0},
        "why": f"there was no time to judge methods: {taken.name} as it is",
        "methods": parameters([taken.method]),
        "cut_short": True,
    }
    result = mean_of(work.labels, [fitted[-1].aggregation], [1.0])
    return Fit(result, [taken], selection)


def calibration_of(
    method: Method,
    labels: Labels,
    seed: int = 0,
    whole: Aggregation | None = None,
    *,
    judge_completion: bool = True,
) -> Calibration | None:
    """The calibration of one method; None if it is not to be, or if nothing can be hidden.

    One that calls itself slow is tried on one fold: the calibration should not outlast the fit.
    `whole` is its fit on all answers, for those that can begin there. Completed labels that
    forecast hidden answers clearly better than the aggregator alone are left as they are, unless
    it would take too long to know (`judge_completion`).
    """
    if not method.calibratable and method.completer is None:
        return None
    slow = any(getattr(part, "slow", False) for part in (method.aggregator, method.completer))
    if not method.calibratable:
        return _of_completed(method, labels, seed, judge_completion and not slow)
    work = Judging(labels, seed=seed, most_folds=1 if slow else None)
    if not work.folds:
        return None
    many = labels.votes.n_votes >= MANY_ANSWERS
    scores = work.score([method], whole=whole if many else None)
    return work.calibration(scores[-1:], [1.0], scores[-1])


def _of_completed(
    method: Method, labels: Labels, seed: int, judge_completion: bool
) -> Calibration | None:
    """That of completed labels: see `Calibration.evidence`."""
    slow = getattr(method.aggregator, "slow", False)
    work = Judging(labels, seed=seed, most_folds=1 if slow else None)
    if not work.folds:
        return None
    alone = work.score([Method("alone", method.aggregator)])[0]
    if judge_completion:
        completed = work.score([method], alone.posteriors)[-1].views["hard"]
        if lead(completed, work.hard_scores(alone.posteriors), work.workers) >= SIGNIFICANT:
            return None
    return _by_answers(work, alone)


def _by_answers(work: Judging, alone: Score) -> Calibration:
    """Of labels that a completion chose and hidden answers do not prefer: as sure as the answers
    that were given are by the aggregator `alone`, or by ds-em if that knows only shares of votes.
    """
    if not alone.candidate.method.calibratable:
        alone = (work.score([Method("ds-em", DawidSkene())]) or [alone])[0]  # if there is time
    return replace(work.calibration([alone], [1.0], alone), evidence=True)


def mean_of(
    labels: Labels,
    fitted: Sequence[Aggregation],
    shares: Sequence[float],
    *,
    by_votes: bool = False,
    calibration: Calibration | None = None,
) -> Aggregation:
    """The weighted mean of the posteriors, calibrated; a single one keeps all else it knows.

    `by_votes` multiplies that with the vote shares.
    """
    posteriors: Floats = np.average([f.posteriors for f in fitted], axis=0, weights=shares)
    if by_votes:
        posteriors = times(posteriors, vote_shares(labels))
        if labels.gold is not None:
            clamp(posteriors, labels.gold)
    if calibration is not None:
        pooled = None
        if len(fitted) > 1:
            pooled = pool([of_one.posteriors for of_one in fitted], shares)
        posteriors = calibration(posteriors, labels, pooled)
    if len(fitted) == 1:
        return replace(fitted[0], posteriors=posteriors, predictor=None)
    return Aggregation(
        posteriors=posteriors,
        confusions=confusions_of(labels, posteriors, SHRINKAGE),
        class_prior=posteriors.mean(axis=0),
        iterations=sum(f.iterations for f in fitted),
        stopped=joined_stops(*(f.stopped for f in fitted)),
    )
