"""Labels and methods in, a fitted result and the reasons for it out; truth is never looked at.

1. Every pure method forecasts hidden answers. Those that cannot be told apart from the best stay,
   and the mean of their posteriors is the pure result.
2. Every completed candidate (ranks × passes) builds on the first of the pure methods and is scored
   by the labels it would write. If the best is not significantly ahead of that pure method, or is
   behind a plain majority vote, completion is not used; else all candidates that cannot be told
   apart from the best vote.
3. What stayed is fitted on all answers. A pure result is calibrated on the hidden ones; majority
   vote and a vote of completed candidates are their own confidence.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from misc_cli.aggregators.confusion.em import confusions_of, vote_fractions
from misc_cli.core.holdout import HIDDEN_SHARE, N_FOLDS, Triplets, folds, sample_items
from misc_cli.core.solver import joined_stops
from misc_cli.core.types import (
    Aggregation,
    Floats,
    Iteration,
    Labels,
    Lighten,
    OnIteration,
    ignore_iteration,
    without_posteriors,
)
from misc_cli.errors import MiscWarning
from misc_cli.select.calibrate import DOUBTS, TEMPERATURES, Calibration, best_calibration
from misc_cli.select.choose import SIGNIFICANT, indistinguishable, lead
from misc_cli.select.leaderboard import Score, joined, parameters, table, why
from misc_cli.select.processes import Deadline, run_all
from misc_cli.select.trial import (
    SHRINKAGE,
    Candidate,
    Method,
    Trial,
    calibration_surface,
    hard_score,
    try_method,
)

# Scores from this many answers tell methods apart as well as more would.
SAMPLE_ANSWERS = 50_000
# To fit a calibration, this many hidden answers are enough.
CALIBRATION_ANSWERS = 7_500
MAX_CALIBRATION_FOLDS = 5
SLOW_SAMPLE_ANSWERS = 10_000
# Fewer answers than this are over before another process could start.
WORTH_A_PROCESS = 4_000


@dataclass(frozen=True)
class Found:
    """The result and how it was come by; `selection` goes into run.json as it is.

    `calibration` is what the posteriors were softened by, None if they are raw.
    """

    aggregation: Aggregation
    members: list[Candidate]
    scores: list[Score]
    calibration: Calibration | None
    selection: dict[str, Any] = field(default_factory=dict)


Fold = tuple[Labels, Triplets]


class Search:
    """The answers, their folds, the clock and the observer that all stages share."""

    def __init__(
        self,
        labels: Labels,
        *,
        seed: int = 0,
        time_budget: float | None = None,
        on_iteration: OnIteration = ignore_iteration,
        lighten: Lighten = without_posteriors,
        n_folds: int = N_FOLDS,
        sample_answers: int = SAMPLE_ANSWERS,
    ) -> None:
        self.labels = labels
        self.on_iteration = on_iteration
        self.lighten = lighten
        self.deadline = Deadline(time_budget)
        self.sample = sample_items(labels, sample_answers, seed)
        self.folds: list[Fold] = list(folds(self.sample, n_folds, seed=seed))

    def score(
        self, methods: Sequence[Method], initial: Sequence[Floats] | None = None
    ) -> list[Score]:
        """Every candidate of every method on every fold; `initial` are posteriors per fold.

        At the deadline, methods that have not seen all folds are left out, but never the first.
        """
        tasks = [(method, fold) for method in methods for fold in range(len(self.folds))]

        def attempt(task: tuple[Method, int]) -> list[Trial]:
            method, fold = task
            kept, hidden = self.folds[fold]
            return try_method(method, kept, hidden, None if initial is None else initial[fold])

        done: list[list[Trial]] = []
        big = self.sample.votes.n_votes >= WORTH_A_PROCESS
        for trials in run_all(attempt, tasks, deadline=self.deadline, parallel=big):
            done.append(trials)
            self._report(trials[0].candidate.method, len(done), len(tasks), trials[-1].seconds)
        must = len(self.folds) if initial is None else 0
        done += [attempt(task) for task in tasks[len(done) : must]]
        n_methods = len(done) // len(self.folds)
        if n_methods < len(methods):
            left = ", ".join(method.name for method in methods[n_methods:])
            warnings.warn(f"the time budget left no time for {left}", MiscWarning, stacklevel=3)
        scores = []
        for at in range(n_methods):
            of_method = done[at * len(self.folds) : (at + 1) * len(self.folds)]
            scores += [joined(trials) for trials in zip(*of_method, strict=True)]
        return scores

    def fit(self, members: Sequence[Candidate], initial: Floats | None) -> list[Trial]:
        """The chosen candidates on all answers, in order; what several complain of is said once."""

        def attempt(member: Candidate) -> Trial:
            method = replace(member.method, judged_after=(member.passes,))
            return try_method(method, self.labels, None, initial, self.lighten)[-1]

        big = self.labels.votes.n_votes >= WORTH_A_PROCESS
        fitted = []
        for trial in run_all(attempt, members, deadline=Deadline(None), parallel=big):
            fitted.append(trial)
            self._report(trial.candidate.method, len(fitted), len(members), trial.seconds, "fitted")
            for iteration in trial.records:
                extra = {**iteration.extra, "candidate": trial.candidate.name}
                self.on_iteration(replace(iteration, extra=extra))
        for text, category in dict.fromkeys(said for trial in fitted for said in trial.warnings):
            warnings.warn(text, category, stacklevel=3)
        return fitted

    @property
    def majority(self) -> Floats:
        """Hard scores of a plain majority vote, (n_hidden,)."""
        return np.concatenate(
            [hard_score(kept, vote_fractions(kept), hidden) for kept, hidden in self.folds]
        )

    def calibration(self, chosen: Sequence[Score]) -> Calibration:
        """The calibration of the mean of these candidates' posteriors."""
        surface = np.zeros((len(TEMPERATURES), len(DOUBTS)))
        for fold, (kept, hidden) in enumerate(self.folds):
            mean = np.mean([score.posteriors[fold] for score in chosen], axis=0)
            surface += calibration_surface(kept, mean, hidden)
        return best_calibration(surface)

    def _report(
        self, method: Method, done: int, of: int, seconds: float, stage: str = "search"
    ) -> None:
        extra: dict[str, float | int | str | None] = {"candidate": method.name, "of": of}
        self.on_iteration(Iteration(stage, done, seconds=seconds, extra=extra))


def search(
    labels: Labels,
    pure: Sequence[Method],
    completed: Sequence[Method] = (),
    *,
    calibrate: bool = True,
    seed: int = 0,
    time_budget: float | None = None,
    on_iteration: OnIteration = ignore_iteration,
    lighten: Lighten = without_posteriors,
) -> Found:
    """The best we know how to give of these methods."""
    work = Search(
        labels, seed=seed, time_budget=time_budget, on_iteration=on_iteration, lighten=lighten
    )
    if not work.folds:  # every item has a single answer, and that is never hidden
        return _unjudged(work, pure[0])
    scores = work.score(pure)
    chosen = [scores[at] for at in indistinguishable([score.best for score in scores])]
    reasons: dict[str, Any] = {
        "pure": table(scores, chosen, "best"),
        "first": scores[0].candidate.name,
    }
    initial: Floats | None = None
    if completed:
        first = scores[0]
        tried = work.score(completed, first.posteriors)
        votes = _voters(tried, first.views["hard"], work.majority)
        reasons["completed"] = table(tried, votes, "hard", first.views["hard"])
        scores += tried
        if votes:
            chosen = votes
            initial = work.fit([first.candidate], None)[0].posteriors
    candidates = [score.candidate for score in chosen]
    tempered = calibrate and any(candidate.method.calibratable for candidate in candidates)
    calibration = work.calibration(chosen) if tempered else None
    fitted = [trial.aggregation for trial in work.fit(candidates, initial)]
    result = mean_of(labels, fitted, calibration)
    reasons["chosen"] = [candidate.name for candidate in candidates]
    reasons["why"] = why(reasons, len(pure), completed)
    reasons["methods"] = parameters([*pure, *completed])
    return Found(result, candidates, scores, calibration, reasons)


def _unjudged(work: Search, first: Method) -> Found:
    members = work.fit([Candidate(first)], None)
    selection = {
        "chosen": [first.name],
        "why": "items with one answer each leave none to hide",
        "methods": parameters([first]),
    }
    result = mean_of(work.labels, [member.aggregation for member in members], None)
    return Found(result, [Candidate(first)], [], None, selection)


def calibration_of(method: Method, labels: Labels, seed: int = 0) -> Calibration | None:
    """The calibration of one method, fitted on as few folds as give enough hidden answers.

    None if the method is not to be calibrated, or if there is nothing to calibrate it on. One that
    calls itself slow is tried on fewer answers: the calibration should not outlast the fit.
    """
    if not method.calibratable:
        return None
    slow = any(getattr(part, "slow", False) for part in (method.aggregator, method.completer))
    sample = SLOW_SAMPLE_ANSWERS if slow else SAMPLE_ANSWERS
    size = min(labels.votes.n_votes, sample) * HIDDEN_SHARE
    enough = int(np.ceil(CALIBRATION_ANSWERS / max(size, 1.0)))
    n_folds = 2 if slow else int(np.clip(enough, 2, MAX_CALIBRATION_FOLDS))
    work = Search(labels, seed=seed, n_folds=n_folds, sample_answers=sample)
    if not work.folds:
        return None
    return work.score([method])[-1].calibration


def _voters(tried: Sequence[Score], pure: Floats, majority: Floats) -> list[Score]:
    """All that cannot be told apart from the best, if that is ahead of `pure`.

    It must not be behind a plain majority vote either: where one class dominates, the hard view
    favours labels that follow the votes, and being ahead of `pure` proves nothing.
    """
    if not tried:
        return []
    hard = [score.views["hard"] for score in tried]
    top = max(hard, key=lambda values: float(values.mean()))
    if lead(top, pure) < SIGNIFICANT or lead(top, majority) <= 0.0:
        return []
    return [tried[at] for at in indistinguishable(hard)]


def mean_of(
    labels: Labels, fitted: Sequence[Aggregation], calibration: Calibration | None
) -> Aggregation:
    """The mean posteriors, calibrated; a single member keeps everything else it knows."""
    posteriors: Floats = np.mean([f.posteriors for f in fitted], axis=0)
    if calibration is not None:
        posteriors = calibration(posteriors, labels.gold)
    if len(fitted) == 1:
        return replace(fitted[0], posteriors=posteriors)
    return Aggregation(
        posteriors=posteriors,
        confusions=confusions_of(labels, posteriors, SHRINKAGE),
        class_prior=posteriors.mean(axis=0),
        iterations=sum(f.iterations for f in fitted),
        stopped=joined_stops(*(f.stopped for f in fitted)),
    )
