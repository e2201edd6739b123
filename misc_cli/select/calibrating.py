"""The calibration of one method that was chosen by name, and of labels that completion chose."""

from __future__ import annotations

from dataclasses import replace

from misc_cli.aggregators.dawid_skene import DawidSkene
from misc_cli.core.types import Aggregation, Labels
from misc_cli.select.calibrate import Calibration
from misc_cli.select.choose import SIGNIFICANT, lead
from misc_cli.select.judging import MANY_ANSWERS, Judging
from misc_cli.select.leaderboard import Score
from misc_cli.select.trial import Method


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
    return by_answers(work, alone)


def by_answers(work: Judging, alone: Score) -> Calibration:
    """Of labels that a completion chose and hidden answers do not prefer: as sure as the answers
    that were given are by the aggregator `alone`, or by ds-em if that knows only shares of votes.
    """
    if not alone.candidate.method.calibratable:
        alone = (work.score([Method("ds-em", DawidSkene())]) or [alone])[0]  # if there is time
    return replace(work.calibration([alone], [1.0], alone), evidence=True)
