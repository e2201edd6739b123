"""A result where methods cannot be judged: too few answers, or no time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from misc_cli.select.calibrate import Calibration
from misc_cli.select.fit import Fit
from misc_cli.select.judging import Judging
from misc_cli.select.leaderboard import parameters
from misc_cli.select.mean import mean_of
from misc_cli.select.processes import NO_DEADLINE
from misc_cli.select.trial import Candidate, Method
from misc_cli.select.weighing import conclude, warn_of_the_null, warn_of_time

# Below this many answers a choice would be luck: what is hidden of them proves nothing.
MIN_ANSWERS = 1_000
ONE_ANSWER_EACH = "items with one answer each leave none to hide"


def unjudged(work: Judging, methods: Sequence[Method], calibrate: bool) -> Fit | None:
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


def by_votes(work: Judging, fallback: Method, calibrate: bool) -> Fit | None:
    """The votes, and where they are tied the fallback: it is not for want of answers that these
    say nothing of items. None if there was no time.
    """
    fitted = work.fit([Candidate(fallback)])
    if not fitted:
        return None
    warn_of_the_null(fallback, work.one_label)
    calibration = by_gold_alone(work, fallback, calibrate)
    found = [fitted[0].aggregation]
    result = mean_of(work.labels, found, [1.0], by_votes=True, calibration=calibration)
    reasons: dict[str, Any] = {
        "null": {"one_label_share": round(work.one_label, 6)},
        "pure": [],
        "completed": [],
        "fallback": fallback.name,
    }
    conclude(reasons, [Candidate(fallback)], [1.0])
    reasons["methods"] = parameters([fallback])
    return Fit(result, [Candidate(fallback)], reasons, calibration)


def by_gold_alone(work: Judging, fallback: Method, calibrate: bool) -> Calibration | None:
    """What gold items ask for where the votes decide: hidden answers say nothing of it."""
    if not calibrate or work.labels.gold is None:
        return None
    return work.by_gold([Candidate(fallback)], [1.0], Calibration(), by_votes=True)


def hurried(work: Judging, pure: Sequence[Method]) -> Fit:
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
