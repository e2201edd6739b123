"""The folds of some answers and everything that is tried on them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from misc_cli.aggregators.confusion.em import expected_counts
from misc_cli.core.holdout import Triplets, fold_plan, folds
from misc_cli.core.types import (
    Aggregation,
    Codes,
    Floats,
    Iteration,
    Labels,
    Lighten,
    OnIteration,
    ignore_iteration,
    without_posteriors,
)
from misc_cli.core.votes import SparseVotes
from misc_cli.select.calibrate import (
    Calibration,
    best_calibration,
    calibration_of_known,
    calibration_surface,
    pool,
    times,
    vote_shares,
)
from misc_cli.select.choose import NO_SHARE, lead, null_score, standard_error
from misc_cli.select.leaderboard import Score, joined
from misc_cli.select.processes import Deadline, run_all
from misc_cli.select.together import looked_at, together
from misc_cli.select.trial import Candidate, Method, Trial, hard_score, try_method

# Fewer answers than this are over before another process could start.
WORTH_A_PROCESS = 4_000
# From so many answers on, a fold of a slow method may begin where the fit on all answers ended:
# with fewer, the optimum that was found with the hidden answers would still know them.
MANY_ANSWERS = 30_000
# A slow method that is this many standard errors short of the share it needs is given up.
HOPELESS = 2.0
# Completion is tried on so many folds, and on the others only if it is so far ahead by then.
FIRST_FOLDS = 3
PROMISING = 1.0

Fold = tuple[Labels, Triplets]


class Judging:
    """The answers, their folds, the clock and the observer that all stages share.

    null     (n_hidden,) log scores of the null forecaster, fold by fold
    workers  (n_hidden,) who gave the hidden answers
    """

    def __init__(
        self,
        labels: Labels,
        *,
        seed: int = 0,
        deadline: Deadline | None = None,
        on_iteration: OnIteration = ignore_iteration,
        lighten: Lighten = without_posteriors,
        most_folds: int | None = None,
    ) -> None:
        self.labels = labels
        self.seed = seed
        self.on_iteration = on_iteration
        self.lighten = lighten
        self.deadline = deadline or Deadline(None)
        n_folds, share = fold_plan(labels.votes.n_votes)
        self.folds: list[Fold] = list(
            folds(labels, min(n_folds, most_folds or n_folds), share, seed)
        )
        self.big = labels.votes.n_votes >= WORTH_A_PROCESS
        if self.folds:
            self.null = np.concatenate([null_score(*fold) for fold in self.folds])
            self.workers: Codes = np.concatenate([hidden.workers for _, hidden in self.folds])

    def pure(self, methods: Sequence[Method]) -> tuple[list[Score], list[str]]:
        """Scores of pure methods in their order, and the names of those left out for time."""
        quick = [method for method in methods if not _slow(method)]
        slow = [method for method in methods if _slow(method)]
        if not quick:
            quick, slow = [slow[0]], slow[1:]
        scores = self.score(quick)
        scores += self.race(slow, scores) if scores else []
        judged = {score.candidate.name for score in scores}
        order = {method.name: at for at, method in enumerate(methods)}
        scores.sort(key=lambda score: order[score.candidate.name])
        return scores, [method.name for method in methods if method.name not in judged]

    def score(
        self,
        methods: Sequence[Method],
        initial: Sequence[Floats] | None = None,
        numbers: range | None = None,
        whole: Aggregation | None = None,
    ) -> list[Score]:
        """Every candidate of every method on these folds (all, unless `numbers` says which).

        `initial` are posteriors per fold, `whole` is the methods' fit on all answers. At the
        deadline methods that have not seen all folds are left out.
        """
        numbers = range(len(self.folds)) if numbers is None else numbers
        tasks = [(method, fold) for method in methods for fold in numbers]

        def attempt(task: tuple[Method, int]) -> list[Trial]:
            method, fold = task
            kept, hidden = self.folds[fold]
            known = None if initial is None else initial[fold]
            return try_method(method, kept, hidden, known, whole=whole)

        done: list[list[Trial]] = []
        for trials in run_all(attempt, tasks, deadline=self.deadline, parallel=self.big):
            done.append(trials)
            self._report(trials[0].candidate.method, len(done), len(tasks), trials[-1].seconds)
        scores = []
        for at in range(len(done) // len(numbers)):
            of_method = done[at * len(numbers) : (at + 1) * len(numbers)]
            scores += [joined(trials) for trials in zip(*of_method, strict=True)]
        return scores

    def race(self, methods: Sequence[Method], rivals: Sequence[Score]) -> list[Score]:
        """Slow methods, fold by fold, each until it cannot reach the share of the best that counts.

        Of many answers, one that can begin its folds where its fit on all ended makes that first.
        """
        best = max(rivals, key=lambda score: float(score.best.mean())).best
        many = self.labels.votes.n_votes >= MANY_ANSWERS

        def attempt(method: Method) -> Score:
            whole = None
            if hasattr(method.aggregator, "again") and many:
                whole = try_method(method, self.labels, None, None, self.lighten)[-1]
            trials: list[Trial] = []
            for kept, hidden in self.folds:
                known = None if whole is None else whole.aggregation
                trials += try_method(method, kept, hidden, whole=known)
                if self._hopeless(joined(trials), best):
                    break
            light = None
            if whole is not None:
                light = replace(whole, aggregation=replace(whole.aggregation, predictor=None))
            return joined(trials, light)

        scores = []
        for score in run_all(attempt, methods, deadline=self.deadline, parallel=self.big):
            scores.append(score)
            method = score.candidate.method
            self._report(method, len(scores), len(methods), score.seconds)
        return scores

    def _hopeless(self, score: Score, best: Floats) -> bool:
        values = score.best
        count = len(values)
        null, workers = self.null[:count], self.workers[:count]
        short = NO_SHARE * (best[:count] - null) - (values - null)
        return float(short.mean()) > HOPELESS * standard_error(short, workers)

    def completed(
        self,
        methods: Sequence[Method],
        initial: Sequence[Floats],
        reference: Floats,
        insist: bool,
    ) -> list[Score]:
        """Completed candidates by their hard scores, on all folds only where they promise a lead.

        `initial` are the posteriors per fold that they build on, `reference` (n_hidden,) the hard
        scores of what would be written otherwise.
        """
        first = range(min(FIRST_FOLDS, len(self.folds)))
        scores = self.score(methods, initial, first)
        if not scores or len(first) == len(self.folds):
            return scores
        top = max(scores, key=lambda score: float(score.views["hard"].mean())).views["hard"]
        count = len(top)
        workers = self.workers[:count]
        if not insist and lead(top, reference[:count], workers) < PROMISING:
            return scores
        near = {
            score.candidate.method.name
            for score in scores
            if lead(top, score.views["hard"], workers) < HOPELESS
        }
        staying = [method for method in methods if method.name in near]
        rest = self.score(staying, initial, range(len(first), len(self.folds)))
        more = {score.candidate.name: score for score in rest}
        return [_both(score, more.get(score.candidate.name)) for score in scores]

    def fit(
        self,
        members: Sequence[Candidate],
        initial: Floats | None = None,
        deadline: Deadline | None = None,
    ) -> list[Trial]:
        """The chosen candidates on all answers, in order; what several complain of is said once."""

        def attempt(member: Candidate) -> Trial:
            method = replace(member.method, judged_after=(member.passes,))
            trial = try_method(method, self.labels, None, initial, self.lighten)[-1]
            return replace(trial, aggregation=replace(trial.aggregation, predictor=None))

        fitted = []
        last = deadline or Deadline(None)
        for trial in run_all(attempt, members, deadline=last, parallel=self.big):
            fitted.append(trial)
            self._report(trial.candidate.method, len(fitted), len(members), trial.seconds, "fitted")
        self._publish(fitted)
        return fitted

    def refit(self, scores: Sequence[Score]) -> list[Trial]:
        """The fits on all answers of scored candidates: those there are, and the others."""
        missing = [score.candidate for score in scores if score.whole is None]
        made = iter(self.fit(missing))
        there = [score.whole for score in scores if score.whole is not None]
        self._publish(there)
        return [score.whole if score.whole is not None else next(made) for score in scores]

    def _publish(self, fitted: Sequence[Trial]) -> None:
        for trial in fitted:
            for iteration in trial.records:
                extra = {**iteration.extra, "candidate": trial.candidate.name}
                self.on_iteration(replace(iteration, extra=extra))
        for text, category in dict.fromkeys(said for trial in fitted for said in trial.warnings):
            warnings.warn(text, category, stacklevel=4)

    def mean_posteriors(self, scores: Sequence[Score], shares: Sequence[float]) -> list[Floats]:
        """Per fold, the weighted mean of these candidates' posteriors."""
        return [
            np.average([score.posteriors[fold] for score in scores], axis=0, weights=shares)
            for fold in range(len(self.folds))
        ]

    def hard_scores(self, posteriors: Sequence[Floats]) -> Floats:
        """Hard scores, (n_hidden,), of posteriors per fold."""
        pairs = zip(self.folds, posteriors, strict=True)
        return np.concatenate([hard_score(kept, of, hidden) for (kept, hidden), of in pairs])

    def calibration(
        self, scores: Sequence[Score], shares: Sequence[float], first: Score
    ) -> Calibration:
        """The calibration of the weighted mean of these candidates.

        The `first` method's fits tell whether workers err together. Where items are known, fits
        that did not know them are judged by them.
        """
        many = self.labels.votes.n_votes >= MANY_ANSWERS
        means = self.mean_posteriors(scores, shares)
        surfaces = []
        for fold, (kept, hidden) in enumerate(self.folds):
            pooled = pool([score.posteriors[fold] for score in scores], shares)
            surfaces.append(calibration_surface(kept, means[fold], hidden, pooled, many=many))
        counts = expected_counts(self.folds[0][0], first.posteriors[0])
        by_hidden = replace(best_calibration(surfaces), weight=self._together(counts))
        return self.by_gold([score.candidate for score in scores], shares, by_hidden)

    def _together(self, counts: Floats) -> float:
        """How surely workers err together, given what they are expected to have said."""
        votes = self.labels.votes
        assert isinstance(votes, SparseVotes)
        matrix = votes.matrix[looked_at(self.labels.items, votes.n_votes, self.seed)]
        return together(matrix.indptr, matrix.indices, counts, self.seed)

    def by_gold(
        self,
        members: Sequence[Candidate],
        shares: Sequence[float],
        by_hidden: Calibration,
        *,
        by_votes: bool = False,
    ) -> Calibration:
        """The calibration that gold items ask for, if there are any; else as it was.

        `by_votes` as in `mean_of`.
        """
        gold = self.labels.gold
        if gold is None or not (gold >= 0).any():
            return by_hidden
        unaware = replace(self.labels, gold=None)

        def attempt(member: Candidate) -> Floats:
            return try_method(member.method, unaware, None)[-1].posteriors

        fitted = list(run_all(attempt, members, deadline=Deadline(None), parallel=self.big))
        rows = np.flatnonzero(gold >= 0)
        said = vote_shares(unaware)[rows]
        known = [posteriors[rows] for posteriors in fitted]
        if by_votes:
            known = [times(posteriors, said) for posteriors in known]
        mean: Floats = np.average(known, axis=0, weights=shares)
        return calibration_of_known(mean, said, gold[rows], by_hidden, pool(known, shares))

    def _report(
        self, method: Method, done: int, of: int, seconds: float, stage: str = "search"
    ) -> None:
        extra: dict[str, float | int | str | None] = {"candidate": method.name, "of": of}
        self.on_iteration(Iteration(stage, done, seconds=seconds, extra=extra))


def _slow(method: Method) -> bool:
    return bool(getattr(method.aggregator, "slow", False))


def _both(before: Score, after: Score | None) -> Score:
    """A candidate's score on the first folds and on the others."""
    if after is None:
        return before
    views = {
        view: np.concatenate([scores, after.views[view]], axis=-1)
        for view, scores in before.views.items()
    }
    posteriors = [*before.posteriors, *after.posteriors]
    return Score(before.candidate, views, before.seconds + after.seconds, posteriors)
