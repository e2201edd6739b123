"""Labels and methods in, a fitted result and the reasons for it out; truth is never looked at.

1. Every pure method forecasts hidden answers: the quick ones all of them; a slow one stops as soon
   as it cannot come near the best of those. The mean of their posteriors, each weighted by its
   share of the best lead over the null, is the pure result. Without any lead, or where most answers
   are by workers who only ever say one label, hidden answers say nothing of items (choose.unheard):
   the votes decide.
2. Every completed candidate (ranks × passes) builds on the first of the pure methods and is scored
   by the labels it would write, against those of the pure result. If the best is significantly
   ahead, all candidates that cannot be told apart from it vote. A completer that was asked for is
   taken at one rank, alone if it is significantly ahead, else together with what it builds on.
3. What stayed is fitted on all answers. A pure result is calibrated on the hidden ones; majority
   vote and a vote of completed candidates are their own confidence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
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
from misc_cli.quality.evidence import ONE_LABEL_SHARE
from misc_cli.selection import racing
from misc_cli.selection.calibration import Calibration
from misc_cli.selection.candidates import Candidate, Method
from misc_cli.selection.cross_validation import CrossValidation, by_answers
from misc_cli.selection.ensemble import (
    FitResult,
    mean_of,
    warn_of_the_null,
    warn_of_time,
    weighed,
)
from misc_cli.selection.scoring import (
    FULL_SHARE,
    SIGNIFICANT,
    Score,
    Trial,
    completed_table,
    lead,
    parameters,
    pure_table,
    why,
)
from misc_cli.selection.worker_pool import NO_DEADLINE, Deadline


@dataclass(frozen=True)
class RetainedChoice:
    """The kept part of an earlier choice, with weights, and the lead of the new one."""

    scores: list[Score]
    shares: list[float]
    ahead: float


def staying(
    scores: Sequence[Score],
    incumbent: Mapping[str, float],
    of_score: Callable[[Score], Floats],
    rival: Floats,
    workers: Codes,
    null: Floats | None = None,
) -> RetainedChoice | None:
    """The incumbents among these scores, if the rival is not clearly better; else None.

    `incumbent` has weights by name. `of_score` gives the scores by hidden answer to compare by,
    `rival` (n_hidden,) are those of the new choice, `null` those of the null forecaster if shares
    of the lead over it count. Methods that are no longer tried (the data outgrew them) are gone,
    and the others share their weight.
    """
    found = [score for score in scores if score.candidate.name in incumbent]
    if not found:
        return None
    shares = [incumbent[score.candidate.name] for score in found]
    shares = [share / sum(shares) for share in shares]
    parts = [of_score(score) for score in found]
    count = min(map(len, parts))  # completion may be tried on the first folds only
    earlier = np.average([part[:count] for part in parts], axis=0, weights=shares)
    rival, workers = rival[:count], workers[:count]
    ahead = lead(rival, earlier, workers)
    near = null is not None and _share(earlier, rival, null[:count]) >= FULL_SHARE
    return None if ahead >= SIGNIFICANT and not near else RetainedChoice(found, shares, ahead)


def _share(earlier: Floats, rival: Floats, null: Floats) -> float:
    """The part of the rival's lead over the null that the earlier choice has."""
    return float((earlier - null).mean()) / max(float((rival - null).mean()), 1e-12)


# Below this many answers a choice would be luck: what is hidden of them proves nothing.
MIN_ANSWERS = 1_000
ONE_ANSWER_EACH = "items with one answer each leave none to hide"


def unjudged(work: CrossValidation, methods: Sequence[Method], calibrate: bool) -> FitResult | None:
    """Equal shares for all: nothing tells them apart. None if there was no time for all."""
    reason = ONE_ANSWER_EACH
    if work.n_folds:
        reason = f"fewer than {MIN_ANSWERS:,} answers cannot tell methods apart"
    candidates = [Candidate(method) for method in methods]
    shares = [1.0 / len(candidates)] * len(candidates)
    calibration = None
    if work.n_folds and calibrate and any(method.calibratable for method in methods):
        scores = work.score(methods)
        if len(scores) < len(methods):
            return None
        calibration = work.calibration(scores, shares, scores[0])
    fitted = work.fit(candidates)
    if len(fitted) < len(candidates):
        return None
    selection = {
        "chosen": [method.name for method in methods],
        "weights": {method.name: 1.0 / len(methods) for method in methods},
        "why": reason,
        "methods": parameters(methods),
    }
    return mean_of(work.engine, fitted, shares, selection, calibration=calibration)


def out_of_time_result(work: CrossValidation, pure: Sequence[Method]) -> FitResult:
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
    return mean_of(work.engine, fitted[-1:], [1.0], selection)


@dataclass(frozen=True)
class Completed:
    """The judged completed candidates.

    voters     those that write the labels together; none: the pure result stands
    ahead      by how many standard errors the best voter is ahead of the pure result
    staying    what stays of an earlier choice of completed candidates
    table      for run.json, one row for each candidate
    """

    voters: Sequence[Score] = ()
    ahead: float = 0.0
    staying: RetainedChoice | None = None
    table: Sequence[Mapping[str, Any]] = ()


def completed_of(
    work: CrossValidation,
    methods: Sequence[Method],
    base: Score,
    reference: Floats,
    incumbent: Mapping[str, float],
) -> Completed:
    """Return the candidates of these methods that write the labels, if they are clearly ahead.

    They build on the fits of `base`; `reference` (n_hidden,) are the hard scores of the pure
    result, `incumbent` as in `search`.
    """
    # a gain that what it builds on has without it is not completion's
    rivals = [reference, _hard(base)]
    tried = racing.completed(work, methods, base.posteriors, rivals)
    work.left_out += [] if tried else ["completion"]
    voters = _voters(work, tried, rivals)
    # some voters stopped after the first folds; the best is always among the others
    whole = [_hard(score) for score in voters if score.n_folds == work.n_folds]
    new = np.mean(whole, axis=0) if whole else reference
    before = staying(tried, incumbent, _hard, new, work.workers)
    names = {score.candidate.name for score in tried}
    if before is not None and incumbent.keys() & names != {v.candidate.name for v in voters}:
        voters = before.scores
    else:
        before = None
    whole = [_hard(score) for score in voters if score.n_folds == work.n_folds]
    ahead = max((lead(values, reference, work.workers) for values in whole), default=0.0)
    table = completed_table(tried, voters, rivals, work.workers)
    return Completed(voters, ahead, before, table)


def _voters(work: CrossValidation, tried: Sequence[Score], rivals: Sequence[Floats]) -> list[Score]:
    """Return all that cannot be told apart from the best, if that is ahead of all rivals.

    What did not go on after the first folds must have been nearer to it on those.
    """
    whole = [score for score in tried if score.n_folds == work.n_folds]
    if not whole or racing.best_lead(work, whole, rivals) < SIGNIFICANT:
        return []
    top = _hard(max(whole, key=lambda score: racing.ahead(work, score, rivals)))
    voters = []
    for score in tried:
        values = _hard(score)
        count = len(values)
        limit = SIGNIFICANT if count == len(top) else racing.HOPELESS
        if values is top or lead(top[:count], values, work.workers[:count]) < limit:
            voters.append(score)
    return voters


# A completer that was asked for counts by its lead: alone where it is this many standard errors
# ahead, in proportion below, and never less than a fifth.
LEAD_TO_COUNT_ALONE = 6.0
LEAST_STRENGTH = 0.2


def strength_of(ahead: float) -> float:
    """Return how much of the posteriors are completion's, for its lead in standard errors."""
    return round(min(max(ahead / LEAD_TO_COUNT_ALONE, LEAST_STRENGTH), 1.0), 2)


def asked_for(work: CrossValidation, methods: Sequence[Method], base: Score) -> Completed:
    """Return the candidate that is surest to be ahead of `base`, or least behind it.

    The quick last step is tried at every rank on the first folds. Where the best is clearly ahead
    the other last step is tried as well, and taken if it is clearly ahead, too: where completing
    gains at all, that gains more.
    """
    first = range(min(racing.FIRST_FOLDS, work.n_folds))
    rivals = [_hard(base)]

    def surest(scores: Sequence[Score]) -> tuple[float, Score]:
        return max(((racing.ahead(work, one, rivals), one) for one in scores), key=itemgetter(0))

    tried = work.score(methods, base.posteriors, first)
    if not tried:
        work.left_out.append("completion")
        return Completed()
    ahead, best = surest(tried)
    if ahead >= SIGNIFICANT:
        others = [other for method in methods for other in method.variants[1:]]
        more = work.score(others, base.posteriors, first)
        tried += more
        if more and surest(more)[0] >= SIGNIFICANT:
            ahead, best = surest(more)
    return Completed([best], ahead, None, completed_table(tried, [best], rivals, work.workers))


def _hard(score: Score) -> Floats:
    return score.views["hard"]


# Of a time budget, judging may take the first part; what was chosen is fitted in the rest, which
# takes a fraction of the judging. Without a judgement, a fit must be done by the second.
JUDGING_SHARE = 0.6
FITTING_SHARE = 0.9


@dataclass
class _Pure:
    """The choice among pure methods.

    scores   of all that were tried; kept, with their shares: those that count
    reasons  for run.json; completed by later steps
    staying  what stays of an earlier choice
    """

    scores: Sequence[Score]
    kept: list[Score]
    shares: list[float]
    reasons: dict[str, Any]
    staying: RetainedChoice | None = None

    @property
    def unbeaten(self) -> bool:
        """Nothing forecasts hidden answers better than the null."""
        return not self.reasons["null"]["beaten"]


@dataclass
class _Result:
    """The fits on all answers, their shares, and the calibration of their mean."""

    fitted: Sequence[Trial]
    shares: Sequence[float] = field(default_factory=list)
    calibration: Calibration | None = None
    fallback: str | None = None  # its name, if its posteriors are to be weighed with the votes


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
    too_few = work.n_votes < MIN_ANSWERS and not (insist and completed)
    if work.late:
        return out_of_time_result(work, pure)
    if not work.n_folds or too_few:
        if fallback is None or len(pure) == 1 or work.one_label <= ONE_LABEL_SHARE:
            found = unjudged(work, list(few) or [pure[0]], calibrate)
            return found or out_of_time_result(work, pure)
        # it is not for want of answers that these say nothing of items
        reasons: dict[str, Any] = {
            "null": {"one_label_share": round(work.one_label, 6)},
            "pure": [],
            "completed": [],
        }
        result, tried = _of_votes(work, fallback, calibrate), [fallback]
        return _concluded(work, result, reasons, tried) or out_of_time_result(work, pure)
    scores, left_out = racing.pure(work, pure)
    work.left_out += left_out
    if not scores:
        return out_of_time_result(work, pure)
    incumbent = incumbent or {}
    choice = _chosen_pure(work, scores, incumbent)
    completion = Completed()
    if completed and (insist or not choice.unbeaten):
        if insist:
            completion = asked_for(work, completed, scores[0])
        else:
            reference = work.hard_scores(work.mean_posteriors(choice.kept, choice.shares))
            completion = completed_of(work, completed, scores[0], reference, incumbent)
    if completion.voters:
        result = _of_completed(
            work, scores[0], completion, calibrate, insist=insist, strength=strength
        )
    elif choice.unbeaten and fallback is not None and len(pure) > 1:
        result = _of_votes(work, fallback, calibrate)
    else:
        result = _of_pure(work, choice, calibrate)
    stays = completion.staying if completion.voters else choice.staying
    reasons = choice.reasons
    reasons["completed"] = list(completion.table)
    reasons["ahead_of_earlier"] = None if stays is None else round(stays.ahead, 3)
    variants = [variant for method in completed for variant in method.variants]
    judged = {score.candidate.name: score.candidate.method for score in scores}
    tried = [judged.get(method.name, method) for method in pure]
    tried += [*variants, *([fallback] if fallback else [])]
    found = _concluded(work, result, reasons, tried, bool(completed))
    return found or out_of_time_result(work, pure)


def _concluded(
    work: CrossValidation,
    result: _Result,
    reasons: dict[str, Any],
    tried: Sequence[Method],
    completed: bool = False,
) -> FitResult | None:
    """Return the mean of the fits with the reasons, and what came of them; None without any."""
    if not result.fitted:
        return None
    warn_of_time(work.left_out)
    names = [trial.candidate.name for trial in result.fitted]
    reasons["fallback"] = result.fallback
    reasons["chosen"] = names
    reasons["weights"] = dict(zip(names, result.shares, strict=True))
    reasons["cut_short"] = bool(work.left_out)
    reasons["why"] = why(reasons, work.left_out, completed)
    reasons["methods"] = parameters(tried)
    return mean_of(
        work.engine,
        result.fitted,
        result.shares,
        reasons,
        by_votes=result.fallback is not None,
        calibration=result.calibration,
    )


def _chosen_pure(
    work: CrossValidation, scores: Sequence[Score], incumbent: Mapping[str, float]
) -> _Pure:
    """The methods that count; an earlier choice stays unless the new one is clearly better.

    A slow one that was given up before the last fold is clearly behind.
    """
    found = _Pure(scores, *weighed(work, scores))
    if found.unbeaten or incumbent.keys() == {score.candidate.name for score in found.kept}:
        return found
    whole = [score for score in scores if score.n_folds == work.n_folds]
    rival = np.average([score.best for score in found.kept], axis=0, weights=found.shares)
    stays = staying(whole, incumbent, lambda score: score.best, rival, work.workers, work.null)
    if stays is not None:
        found.kept, found.shares, found.staying = stays.scores, stays.shares, stays
        names = [score.candidate.name for score in stays.scores]
        weight = dict(zip(names, stays.shares, strict=True))
        found.reasons["pure"] = pure_table(scores, work.null, work.workers, weight)
    return found


def _of_completed(
    work: CrossValidation,
    base: Score,
    completion: Completed,
    calibrate: bool,
    *,
    insist: bool,
    strength: float | None,
) -> _Result:
    """Return the completed candidates that could be fitted on all answers in time.

    They have every last step that they may have, and all count the same. One that was asked for
    stands with what it builds on, weighed by its lead.
    """
    members = [
        replace(score.candidate, method=variant)
        for score in completion.voters
        for variant in score.candidate.method.variants[: 1 if insist else None]
    ]
    first = work.fit([base.candidate])
    fitted = work.fit(members, first[0].posteriors) if first else []
    calibration = None
    if fitted and calibrate and completion.ahead < SIGNIFICANT:
        calibration = by_answers(work, base)
    if not insist:
        work.left_out += [member.name for member in members[len(fitted) :]]
        return _Result(fitted, [1.0 / len(fitted)] * len(fitted) if fitted else [], calibration)
    if not fitted:
        work.left_out.append("completion")
        return _Result(first, [1.0] * len(first))
    share = strength_of(completion.ahead) if strength is None else strength
    if share == 1.0:
        return _Result(fitted, [1.0], calibration)
    return _Result([*fitted, *first], [share, round(1.0 - share, 9)], calibration)


def _of_votes(work: CrossValidation, fallback: Method, calibrate: bool) -> _Result:
    """Return the votes, and where they are tied what the fallback says of an item."""
    fitted = work.fit([Candidate(fallback)])
    if fitted:
        warn_of_the_null(fallback, work.one_label)
    calibration = None
    if calibrate and work.has_gold:
        calibration = work.by_gold([Candidate(fallback)], [1.0], Calibration(), by_votes=True)
    return _Result(fitted, [1.0], calibration, fallback.name)


def _of_pure(work: CrossValidation, choice: _Pure, calibrate: bool) -> _Result:
    """The weighted mean of the pure methods that count."""
    fitted = _fitted_in_time(work, choice)
    calibration = None
    if calibrate and any(score.candidate.method.calibratable for score in choice.kept):
        calibration = work.calibration(choice.kept, choice.shares, choice.scores[0])
    return _Result(fitted, choice.shares, calibration)


def _fitted_in_time(work: CrossValidation, choice: _Pure) -> list[Trial]:
    """The fits of the pure methods that count.

    Those there was no time for leave the choice: the others are weighed anew, as if the late ones
    had never been tried.
    """
    fitted: dict[str, Trial] = {}
    scores = choice.scores
    while choice.kept:
        new = [score for score in choice.kept if score.candidate.name not in fitted]
        fitted |= {trial.candidate.name: trial for trial in work.refit(new)}
        names = [score.candidate.name for score in choice.kept]
        late = [name for name in names if name not in fitted]
        if not late:
            return [fitted[name] for name in names]
        work.left_out += late
        scores = [score for score in scores if score.candidate.name not in late]
        choice.kept, choice.shares = [], []
        if any(score.n_folds == work.n_folds for score in scores):
            choice.kept, choice.shares, again = weighed(work, scores)
            choice.reasons.update({key: again[key] for key in ("null", "pure")})
    return []
