"""Labels and methods in, a fitted result and the reasons for it out; truth is never looked at.

1. Every pure method forecasts hidden answers: the quick ones all of them; a slow one stops as soon
   as it cannot come near the best of those. The mean of their posteriors, each weighted by its
   share of the best lead over the null, is the pure result. Without any lead, or where most answers
   are by workers who only ever say one label, hidden answers say nothing of items (choose.unheard):
   the votes decide.
2. Every completed candidate (ranks × passes) builds on the first of the pure methods and is scored
   by the labels it would write, against those of the pure result. If the best is significantly
   ahead, all candidates that cannot be told apart from it vote.
3. What stayed is fitted on all answers. A pure result is calibrated on the hidden ones; majority
   vote and a vote of completed candidates are their own confidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from misc_cli.core.types import (
    Labels,
    Lighten,
    OnIteration,
    ignore_iteration,
    without_posteriors,
)
from misc_cli.select import racing
from misc_cli.select.calibrate import Calibration
from misc_cli.select.calibrating import by_answers
from misc_cli.select.choose import ONE_LABEL_SHARE, SIGNIFICANT
from misc_cli.select.completing import Completed, completed_of
from misc_cli.select.fit import Fit
from misc_cli.select.incumbent import Staying, staying
from misc_cli.select.judging import Judging
from misc_cli.select.leaderboard import Score, parameters, pure_table
from misc_cli.select.mean import mean_of
from misc_cli.select.processes import Deadline
from misc_cli.select.trial import Candidate, Method, Trial
from misc_cli.select.unjudged import MIN_ANSWERS, by_gold_alone, by_votes, hurried, unjudged
from misc_cli.select.weighing import conclude, warn_of_the_null, warn_of_time, weighed

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
    staying: Staying | None = None

    @property
    def unbeaten(self) -> bool:
        """Nothing forecasts hidden answers better than the null."""
        return not self.reasons["null"]["beaten"]


@dataclass
class _Result:
    """What is written: fits on all answers, their shares, and the calibration of their mean."""

    fitted: Sequence[Trial]
    shares: Sequence[float] = field(default_factory=list)
    calibration: Calibration | None = None
    fallback: str | None = None  # its name, if its posteriors are to be weighed with the votes


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
        return hurried(work, pure)
    if not work.folds or too_few:
        if fallback is not None and len(pure) > 1 and work.one_label > ONE_LABEL_SHARE:
            found = by_votes(work, fallback, calibrate)
        else:
            found = unjudged(work, list(few) or [pure[0]], calibrate)
        return found or hurried(work, pure)
    scores, left_out = racing.pure(work, pure)
    work.left_out += left_out
    if not scores:
        return hurried(work, pure)
    incumbent = incumbent or {}
    choice = _chosen_pure(work, scores, incumbent)
    completion = Completed()
    if completed and (insist or not choice.unbeaten):
        reference = work.hard_scores(work.mean_posteriors(choice.kept, choice.shares))
        completion = completed_of(
            work, completed, scores[0], reference, insist=insist, incumbent=incumbent
        )
    if completion.voters:
        result = _of_voters(work, scores[0], completion, calibrate)
    elif choice.unbeaten and fallback is not None and len(pure) > 1:
        result = _of_votes(work, fallback, calibrate)
    else:
        result = _of_pure(work, choice, calibrate)
    if not result.fitted:
        return hurried(work, pure)
    warn_of_time(work.left_out)
    stays = completion.staying if completion.voters else choice.staying
    reasons = choice.reasons
    reasons["completed"] = list(completion.table)
    reasons["fallback"] = result.fallback
    reasons["ahead_of_earlier"] = None if stays is None else round(stays.ahead, 3)
    members = [trial.candidate for trial in result.fitted]
    conclude(reasons, members, result.shares, work.left_out, bool(completed))
    reasons["methods"] = parameters([*pure, *completed, *([fallback] if fallback else [])])
    aggregation = mean_of(
        labels,
        [trial.aggregation for trial in result.fitted],
        result.shares,
        by_votes=result.fallback is not None,
        calibration=result.calibration,
    )
    return Fit(aggregation, members, reasons, result.calibration)


def _chosen_pure(work: Judging, scores: Sequence[Score], incumbent: Mapping[str, float]) -> _Pure:
    """The methods that count; an earlier choice stays unless the new one is clearly better.

    A slow one that was given up before the last fold is clearly behind.
    """
    found = _Pure(scores, *_weighed(work, scores))
    if found.unbeaten or incumbent.keys() == {score.candidate.name for score in found.kept}:
        return found
    whole = [score for score in scores if score.n_folds == len(work.folds)]
    rival = np.average([score.best for score in found.kept], axis=0, weights=found.shares)
    stays = staying(whole, incumbent, lambda score: score.best, rival, work.workers, work.null)
    if stays is not None:
        found.kept, found.shares, found.staying = stays.scores, stays.shares, stays
        names = [score.candidate.name for score in stays.scores]
        weight = dict(zip(names, stays.shares, strict=True))
        found.reasons["pure"] = pure_table(scores, work.null, work.workers, weight)
    return found


def _weighed(
    work: Judging, scores: Sequence[Score]
) -> tuple[list[Score], list[float], dict[str, Any]]:
    n_folds = len(work.folds)
    return weighed(scores, work.null, work.workers, n_folds, work.one_label, work.blind)


def _of_voters(work: Judging, base: Score, completion: Completed, calibrate: bool) -> _Result:
    """The completed candidates that could be fitted on all answers in time; all count the same."""
    first = work.fit([base.candidate])
    members = [score.candidate for score in completion.voters]
    fitted = work.fit(members, first[0].posteriors) if first else []
    work.left_out += [member.name for member in members[len(fitted) :]]
    if not fitted:
        return _Result(fitted)
    calibration = None
    if calibrate and completion.ahead < SIGNIFICANT:
        calibration = by_answers(work, base)
    return _Result(fitted, [1.0 / len(fitted)] * len(fitted), calibration)


def _of_votes(work: Judging, fallback: Method, calibrate: bool) -> _Result:
    """The votes, and where they are tied what the fallback says of an item."""
    warn_of_the_null(fallback, work.one_label)
    fitted = work.fit([Candidate(fallback)])
    return _Result(fitted, [1.0], by_gold_alone(work, fallback, calibrate), fallback.name)


def _of_pure(work: Judging, choice: _Pure, calibrate: bool) -> _Result:
    """The weighted mean of the pure methods that count."""
    fitted = _fitted_in_time(work, choice)
    calibration = None
    if calibrate and any(score.candidate.method.calibratable for score in choice.kept):
        calibration = work.calibration(choice.kept, choice.shares, choice.scores[0])
    return _Result(fitted, choice.shares, calibration)


def _fitted_in_time(work: Judging, choice: _Pure) -> list[Trial]:
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
        if any(score.n_folds == len(work.folds) for score in scores):
            choice.kept, choice.shares, again = _weighed(work, scores)
            choice.reasons.update({key: again[key] for key in ("null", "pure")})
    return []
