"""Labels and methods in, a fitted result and the reasons for it out; truth is never looked at.

1. Every pure method forecasts hidden answers: the quick ones all of them; a slow one stops as soon
   as it cannot come near the best of those. The mean of their posteriors, each weighted by its
   share of the best lead over the null, is the pure result. Without any lead, or where most answers
   are by workers who only ever say one label, hidden answers say nothing of items
   (scoring.holdout_uninformative): the votes decide.
2. Every completed candidate (ranks × passes) builds on the first of the pure methods and is scored
   by the labels it would write, against those of the pure result. If the best is significantly
   ahead, all candidates that cannot be told apart from it vote. A completer that was asked for is
   taken at one rank, alone if it is significantly ahead, else together with what it builds on.
3. What stayed is fitted on all answers. A pure result is calibrated on the hidden ones; majority
   vote and a vote of completed candidates are their own confidence.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

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
from misc_cli.selection import racing
from misc_cli.selection.calibration import Calibration
from misc_cli.selection.candidates import Candidate, Method
from misc_cli.selection.cross_validation import CrossValidation, by_answers
from misc_cli.selection.ensemble import FitResult, mean_of
from misc_cli.selection.scoring import (
    FULL_SHARE,
    SIGNIFICANT,
    Score,
    Trial,
    completed_table,
    holdout_uninformative,
    lead,
    parameters,
    pure_table,
    weights,
    why,
    why_votes,
)
from misc_cli.selection.worker_pool import NO_DEADLINE, Deadline, warn_of_time

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


@dataclass
class Choice:
    """Scores that count, with their shares; all count the same if there are none.

    ahead     standard errors by which completed candidates are ahead of what they replace
    outpaced  of an earlier choice that stays: those by which the new one is ahead of it
    """

    scores: Sequence[Score] = ()
    shares: Sequence[float] = ()
    ahead: float = 0.0
    outpaced: float | None = None


@dataclass
class Members:
    """The fits on all answers, their shares, and the calibration of their mean."""

    fitted: Sequence[Trial]
    shares: Sequence[float]
    calibration: Calibration | None = None


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
    choice, by name, which stays unless the new one is clearly better (`staying`).
    """
    judging, fitting = (
        Deadline(None if time_budget is None else share * time_budget)
        for share in (JUDGING_SHARE, FITTING_SHARE)
    )
    work = CrossValidation(
        engine,
        seed=seed,
        deadline=judging,
        last=fitting,
        on_iteration=on_iteration,
        lighten=lighten,
    )
    if work.late:
        return out_of_time_result(work, pure)
    votes_may_decide = fallback is not None and len(pure) > 1
    reasons: dict[str, Any] = {"completed": [], "fallback": None, "ahead_of_earlier": None}
    by_votes, tried = False, [fallback] if fallback else []
    if not work.n_folds or (work.n_votes < MIN_ANSWERS and not (insist and completed)):
        # it is not for want of answers that workers of one label say nothing of items
        by_votes = votes_may_decide and work.one_label > ONE_LABEL_SHARE
        if not by_votes:
            found = unjudged(work, list(few) or [pure[0]], calibrate)
            return found or out_of_time_result(work, pure)
        reasons |= {"null": {"one_label_share": round(work.one_label, 6)}, "pure": []}
    else:
        scores = racing.pure(work, pure)
        if not scores:
            return out_of_time_result(work, pure)
        choice, of_pure = weighed(work, scores, incumbent or {})
        reasons |= of_pure
        beaten = reasons["null"]["beaten"]
        completion = Choice()
        if completed and insist:
            completion, reasons["completed"] = asked_for(work, completed, scores[0])
        elif completed and beaten:
            completion, reasons["completed"] = completed_of(
                work, completed, scores[0], choice, incumbent or {}
            )
        stays = (completion if completion.scores else choice).outpaced
        reasons["ahead_of_earlier"] = None if stays is None else round(stays, 3)
        judged = {score.name: score.candidate.method for score in scores}
        variants = [variant for method in completed for variant in method.variants]
        tried = [*(judged.get(one.name, one) for one in pure), *variants, *tried]
        by_votes = votes_may_decide and not beaten and not completion.scores
        if completion.scores:
            alone = strength_of(completion.ahead) if strength is None else strength
            members = _of_completed(
                work, scores[0], completion, calibrate, alone if insist else None
            )
        elif not by_votes:
            members = _of_pure(work, scores, choice, calibrate, reasons)
    if by_votes:
        assert fallback is not None
        members = _of_votes(work, fallback, calibrate)
        reasons["fallback"] = fallback.name
    if not members.fitted:
        return out_of_time_result(work, pure)
    warn_of_time(work.left_out)
    reasons["chosen"] = [trial.candidate.name for trial in members.fitted]
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
    names = [trial.candidate.name for trial in members.fitted]
    selection = {
        **reasons,
        "chosen": names,
        "weights": dict(zip(names, members.shares, strict=True)),
        "methods": parameters(tried),
    }
    return mean_of(
        work.engine,
        members.fitted,
        members.shares,
        selection,
        by_votes=by_votes,
        calibration=members.calibration,
    )


def unjudged(work: CrossValidation, methods: Sequence[Method], calibrate: bool) -> FitResult | None:
    """Equal shares for all: nothing tells them apart. None if there was no time for all."""
    reason = "items with one answer each leave none to hide"
    if work.n_folds:
        reason = f"fewer than {MIN_ANSWERS:,} answers cannot tell methods apart"
    shares = [1.0 / len(methods)] * len(methods)
    calibration = None
    if work.n_folds and calibrate and any(method.calibratable for method in methods):
        scores = work.score(methods)
        if len(scores) < len(methods):
            return None
        calibration = work.calibration(scores, shares)
    fitted = work.fit([Candidate(method) for method in methods])
    if len(fitted) < len(methods):
        return None
    return _concluded(work, Members(fitted, shares, calibration), {"why": reason}, methods)


def out_of_time_result(work: CrossValidation, pure: Sequence[Method]) -> FitResult:
    """The first method as it is, or the votes if there is no time even for that."""
    votes = [method for method in pure if method.name == "mv"]
    candidates = [Candidate(method) for method in [*votes, pure[0]][-2:]]
    fitted = work.fit(candidates) or work.fit(candidates[:1], deadline=NO_DEADLINE)
    taken = fitted[-1].candidate
    warn_of_time(["choosing and calibrating"])
    reason = f"there was no time to judge methods: {taken.name} as it is"
    members = Members(fitted[-1:], [1.0])
    return _concluded(work, members, {"why": reason, "cut_short": True}, [taken.method])


def weighed(
    work: CrossValidation, scores: Sequence[Score], incumbent: Mapping[str, float]
) -> tuple[Choice, dict[str, Any]]:
    """Return the pure methods that count, with their weights, and the reasons for run.json.

    If the null is unbeaten, the best has all the weight. A slow method that was given up before
    the last fold is clearly behind. An earlier choice stays unless the new one is clearly better.
    """
    null, workers, one_label = work.null, work.workers, work.one_label
    whole = [score for score in scores if score.n_folds == work.n_folds]
    leads = [float((score.best - null).mean()) for score in whole]
    best = whole[int(np.argmax(leads))]
    ahead = lead(best.best, null, workers)
    beaten = not holdout_uninformative(float(best.best.mean()) - work.blind, ahead, one_label)
    if beaten and ahead < SIGNIFICANT:
        warnings.warn(
            "what methods know of items beyond each worker's own label shares may be luck "
            f"({ahead:.2f} standard errors; {SIGNIFICANT:.0f} would not be): few workers give most "
            "of the answers, or they hardly look at the items",
            MiscWarning,
            stacklevel=3,
        )
    found = zip(whole, weights(leads), strict=True) if beaten else [(best, 1.0)]
    kept = [(score, weight) for score, weight in found if weight > 0.0]
    choice = Choice([score for score, _ in kept], [weight for _, weight in kept])
    if beaten and incumbent.keys() != {score.name for score in choice.scores}:
        rival = np.average([score.best for score in choice.scores], axis=0, weights=choice.shares)
        earlier = staying(whole, incumbent, lambda score: score.best, rival, workers, null)
        choice = earlier or choice
    counted = {one.name: share for one, share in zip(choice.scores, choice.shares, strict=True)}
    return choice, {
        "null": {
            "score": round(float(null.mean()), 6),
            "beaten": beaten,
            "one_label_share": round(one_label, 6),
        },
        "pure": pure_table(scores, null, workers, counted),
    }


def staying(
    scores: Sequence[Score],
    incumbent: Mapping[str, float],
    of_score: Callable[[Score], Floats],
    rival: Floats,
    workers: Codes,
    null: Floats | None = None,
) -> Choice | None:
    """Return the incumbents among these scores, if the rival is not clearly better; else None.

    `incumbent` has weights by name. `of_score` gives the scores by hidden answer to compare by,
    `rival` (n_hidden,) are those of the new choice, `null` those of the null forecaster if shares
    of the lead over it count. Methods that are no longer tried (the data outgrew them) are gone,
    and the others share their weight.
    """
    found = [score for score in scores if score.name in incumbent]
    if not found:
        return None
    shares = [incumbent[score.name] for score in found]
    shares = [share / sum(shares) for share in shares]
    parts = [of_score(score) for score in found]
    count = min(map(len, parts))  # completion may be tried on the first folds only
    earlier = np.average([part[:count] for part in parts], axis=0, weights=shares)
    rival = rival[:count]
    ahead = lead(rival, earlier, workers)
    near = False
    if null is not None:  # the part of the rival's lead over the null that the earlier choice has
        part = float((earlier - null[:count]).mean())
        near = part / max(float((rival - null[:count]).mean()), 1e-12) >= FULL_SHARE
    return None if ahead >= SIGNIFICANT and not near else Choice(found, shares, outpaced=ahead)


def completed_of(
    work: CrossValidation,
    methods: Sequence[Method],
    base: Score,
    pure: Choice,
    incumbent: Mapping[str, float],
) -> tuple[Choice, list[dict[str, Any]]]:
    """Return the candidates of these methods that write the labels, if they are clearly ahead.

    They build on the fits of `base`, and all count the same; `ahead` is the lead of the best of
    them over the `pure` result. The table for run.json comes with them.
    """
    means = [
        np.average([score.trials[at].posteriors for score in pure.scores], 0, pure.shares)
        for at in range(work.n_folds)
    ]
    written = zip(work.folds, means, strict=True)
    reference = np.concatenate([fold.hard_score(posteriors) for fold, posteriors in written])
    # a gain that what it builds on has without it is not completion's
    rivals = [reference, base.hard]
    tried = racing.completed(work, methods, base.posteriors, rivals)
    work.left_out += [] if tried else ["completion"]
    voting: Sequence[Score] = voters(work, tried, rivals)

    def of_whole() -> list[Floats]:
        # some voters stopped after the first folds; the best is always among the others
        return [score.hard for score in voting if score.n_folds == work.n_folds]

    new = np.mean(of_whole(), axis=0) if voting else reference
    before = staying(tried, incumbent, lambda score: score.hard, new, work.workers)
    outpaced = None
    if before is not None and {one.name for one in before.scores} != {one.name for one in voting}:
        voting, outpaced = before.scores, before.outpaced
    ahead = max((lead(values, reference, work.workers) for values in of_whole()), default=0.0)
    table = completed_table(tried, voting, rivals, work.workers)
    return Choice(voting, ahead=ahead, outpaced=outpaced), table


def voters(work: CrossValidation, tried: Sequence[Score], rivals: Sequence[Floats]) -> list[Score]:
    """Return all that cannot be told apart from the best, if that is ahead of all rivals.

    What did not go on after the first folds must have been nearer to it on those.
    """
    leads = {
        score: racing.ahead(work, score, rivals) for score in tried if score.n_folds == work.n_folds
    }
    top = max(leads, key=lambda score: leads[score], default=None)
    if top is None or leads[top] < SIGNIFICANT:
        return []

    def near(score: Score) -> bool:
        limit = SIGNIFICANT if score.n_folds == work.n_folds else racing.HOPELESS
        return lead(top.hard[: len(score.hard)], score.hard, work.workers) < limit

    return [score for score in tried if score is top or near(score)]


def strength_of(ahead: float) -> float:
    """Return how much of the posteriors are completion's, for its lead in standard errors."""
    return round(min(max(ahead / LEAD_TO_COUNT_ALONE, LEAST_STRENGTH), 1.0), 2)


def asked_for(
    work: CrossValidation, methods: Sequence[Method], base: Score
) -> tuple[Choice, list[dict[str, Any]]]:
    """Return the candidate that is surest to be ahead of `base`, or least behind it.

    The quick last step is tried at every rank on the first folds. Where the best is clearly ahead
    the other last step is tried as well, and taken if it is clearly ahead, too: where completing
    gains at all, that gains more.
    """
    first = range(min(racing.FIRST_FOLDS, work.n_folds))
    rivals = [base.hard]

    def surest(scores: Sequence[Score]) -> Choice:
        best = max(scores, key=lambda score: racing.ahead(work, score, rivals))
        return Choice([best], ahead=racing.ahead(work, best, rivals))

    tried = work.score(methods, base.posteriors, first)
    if not tried:
        work.left_out.append("completion")
        return Choice(), []
    chosen = surest(tried)
    if chosen.ahead >= SIGNIFICANT:
        others = [other for method in methods for other in method.variants[1:]]
        more = work.score(others, base.posteriors, first)
        tried += more
        if more and surest(more).ahead >= SIGNIFICANT:
            chosen = surest(more)
    return chosen, completed_table(tried, chosen.scores, rivals, work.workers)


def _of_completed(
    work: CrossValidation, base: Score, chosen: Choice, calibrate: bool, strength: float | None
) -> Members:
    """Return the completed candidates that could be fitted on all answers in time.

    They have every last step that they may have, and all count the same. One that was asked for
    stands, by its `strength`, with what it builds on.
    """
    members = [
        replace(score.candidate, method=variant)
        for score in chosen.scores
        for variant in score.candidate.method.variants[: None if strength is None else 1]
    ]
    first = work.fit([base.candidate])
    fitted = work.fit(members, first[0].posteriors) if first else []
    calibration = None
    if fitted and calibrate and chosen.ahead < SIGNIFICANT:
        calibration = by_answers(work, base)
    if strength is None:
        work.left_out += [member.name for member in members[len(fitted) :]]
        return Members(fitted, [1.0 / len(fitted)] * len(fitted) if fitted else [], calibration)
    if not fitted:
        work.left_out.append("completion")
        return Members(first, [1.0] * len(first))
    if strength == 1.0:
        return Members(fitted, [1.0], calibration)
    return Members([*fitted, *first], [strength, round(1.0 - strength, 9)], calibration)


def _of_votes(work: CrossValidation, fallback: Method, calibrate: bool) -> Members:
    """Return the votes, and where they are tied what the fallback says of an item."""
    fitted = work.fit([Candidate(fallback)])
    if fitted:
        warnings.warn(why_votes(work.one_label, fallback.name), MiscWarning, stacklevel=3)
    calibration = None
    if calibrate and work.has_gold:
        calibration = work.by_gold([Candidate(fallback)], [1.0], Calibration(), by_votes=True)
    return Members(fitted, [1.0], calibration)


def _of_pure(
    work: CrossValidation,
    scores: Sequence[Score],
    choice: Choice,
    calibrate: bool,
    reasons: dict[str, Any],
) -> Members:
    """Return the weighted mean of the pure methods that count.

    Those that were not fitted in time leave the choice: the others are weighed anew, as if the late
    ones had never been tried.
    """
    members = [score.candidate for score in choice.scores]
    made = [score.whole for score in choice.scores if score.whole is not None]
    fitted = {trial.candidate.name: trial for trial in work.fit(members, made=made)}
    late = [member.name for member in members if member.name not in fitted]
    if late:
        work.left_out += late
        fitted |= {score.name: score.whole for score in scores if score.whole is not None}
        scores = [score for score in scores if score.name in fitted]
        if not any(score.n_folds == work.n_folds for score in scores):
            return Members([], [])
        choice, again = weighed(work, scores, {})
        reasons |= again
    calibration = None
    if calibrate and any(score.candidate.method.calibratable for score in choice.scores):
        calibration = work.calibration(choice.scores, choice.shares, scores[0])
    return Members([fitted[score.name] for score in choice.scores], choice.shares, calibration)
