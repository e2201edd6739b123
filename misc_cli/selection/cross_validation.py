"""The calibration of one method that was chosen by name, and of labels that completion chose."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from misc_cli.aggregators.confusion_kernels import expected_counts
from misc_cli.aggregators.dawid_skene import DawidSkene
from misc_cli.data.holdout import Triplets, fold_plan, folds
from misc_cli.data.types import (
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
from misc_cli.data.votes import SparseVotes
from misc_cli.engines.protocol import Fitted
from misc_cli.selection.calibration import (
    Calibration,
    best_calibration,
    calibration_of_known,
    calibration_surface,
    pool,
    shares_of,
    vote_totals,
    voted,
)
from misc_cli.selection.candidates import Candidate, Method, Trial, hard_score, try_method
from misc_cli.selection.dependence_check import looked_at, together
from misc_cli.selection.ensemble import mean_of
from misc_cli.selection.scoring import (
    SIGNIFICANT,
    Score,
    crowd_score_of,
    joined,
    lead,
    null_score,
    one_label_share,
    said_by_workers,
)
from misc_cli.selection.worker_pool import NO_DEADLINE, Deadline, run_all

# Fewer answers than this are over before another process could start.
WORTH_A_PROCESS = 20_000
# From so many answers on, a fold of a slow method may begin where the fit on all answers ended:
# with fewer, the optimum that was found with the hidden answers would still know them.
MANY_ANSWERS = 30_000

Fold = tuple[Labels, Triplets]


class CrossValidation:
    """The answers, their folds, the clock and the observer that all stages share.

    null      (n_hidden,) log scores of the null forecaster, fold by fold
    blind     the mean log score of the null or of the crowd's label shares, whichever is better
    workers   (n_hidden,) who gave the hidden answers
    deadline  when trials on folds must end; `last`, when fits on all answers must
    one_label the share of answers by workers who only ever say one label
    left_out  what there was no time for
    late      there was not even time to hide answers
    """

    def __init__(
        self,
        labels: Labels,
        *,
        seed: int = 0,
        deadline: Deadline = NO_DEADLINE,
        last: Deadline = NO_DEADLINE,
        on_iteration: OnIteration = ignore_iteration,
        lighten: Lighten = without_posteriors,
        most_folds: int | None = None,
    ) -> None:
        self.labels = labels
        self.n_votes = labels.votes.n_votes
        self.has_gold = labels.gold is not None
        self.seed = seed
        self.on_iteration = on_iteration
        self.lighten = lighten
        self.deadline = deadline
        self.last = last
        self.left_out: list[str] = []
        self.one_label = one_label_share(said_by_workers(labels))
        n_folds, share = fold_plan(labels.votes.n_votes)
        n_folds = min(n_folds, most_folds or n_folds)
        self.folds: list[Fold] = []
        self.late = deadline.passed
        if not self.late:
            for fold in folds(labels, n_folds, share, seed):
                self.folds.append(fold)
                self.late = deadline.passed
                if self.late:
                    break
        self.big = labels.votes.n_votes >= WORTH_A_PROCESS
        if self.folds:
            self.null = np.concatenate([null_score(*fold) for fold in self.folds])
            crowd = [crowd_score_of(said_by_workers(kept), hidden) for kept, hidden in self.folds]
            self.blind = max(float(self.null.mean()), float(np.concatenate(crowd).mean()))
            self.workers: Codes = np.concatenate([hidden.workers for _, hidden in self.folds])

    @property
    def n_folds(self) -> int:
        return len(self.folds)

    def score(
        self,
        methods: Sequence[Method],
        initial: Sequence[Floats] | None = None,
        numbers: range | None = None,
        whole: Aggregation | Fitted | None = None,
    ) -> list[Score]:
        """Every candidate of every method on these folds (all, unless `numbers` says which).

        `initial` are posteriors per fold, `whole` is the methods' fit on all answers. At the
        deadline methods that have not seen all folds are left out.
        """
        numbers = range(len(self.folds)) if numbers is None else numbers
        tasks = [(method, fold) for method in methods for fold in numbers]
        known = whole if isinstance(whole, Aggregation) else None
        done = list(self.trials(tasks, initial, known))
        scores = []
        for at in range(len(done) // len(numbers)):
            of_method = done[at * len(numbers) : (at + 1) * len(numbers)]
            scores += [joined(trials) for trials in zip(*of_method, strict=True)]
        return scores

    def trials(
        self,
        tasks: Sequence[tuple[Method, int]],
        initial: Sequence[Floats] | None = None,
        whole: Aggregation | None = None,
    ) -> Iterator[list[Trial]]:
        """All candidates of each (method, fold), in order, until the deadline."""

        def attempt(task: tuple[Method, int]) -> list[Trial]:
            method, fold = task
            kept, hidden = self.folds[fold]
            known = None if initial is None else initial[fold]
            return try_method(method, kept, hidden, known, whole=whole, deadline=self.deadline)

        found = run_all(attempt, tasks, deadline=self.deadline, parallel=self.big)
        for number, trials in enumerate(found, start=1):
            self.report(trials[0].candidate.method, number, len(tasks), trials[-1].seconds)
            yield trials

    def fit(
        self,
        members: Sequence[Candidate],
        initial: Floats | None = None,
        deadline: Deadline | None = None,
    ) -> list[Trial]:
        """The chosen candidates on all answers, in order; what several complain of is said once.

        Those that are not done at the deadline (`last`, if none is given) are left out.
        """

        last = deadline or self.last

        def attempt(member: Candidate) -> Trial:
            method = replace(member.method, judged_after=(member.passes,))
            labels, lighten = self.labels, self.lighten
            trial = try_method(method, labels, None, initial, lighten, deadline=last)[-1]
            return replace(trial, aggregation=replace(trial.in_memory, predictor=None))

        fitted = []
        for trial in run_all(attempt, members, deadline=last, parallel=self.big):
            fitted.append(trial)
            self.report(trial.candidate.method, len(fitted), len(members), trial.seconds, "fitted")
        self._publish(fitted)
        return fitted

    def refit(self, scores: Sequence[Score]) -> list[Trial]:
        """The fits on all answers of scored candidates: those there are, and the others in time."""
        missing = [score.candidate for score in scores if score.whole is None]
        made = {trial.candidate.name: trial for trial in self.fit(missing)}
        there = {score.candidate.name: score.whole for score in scores if score.whole is not None}
        self._publish(list(there.values()))
        both = {**made, **there}
        names = [score.candidate.name for score in scores]
        return [both[name] for name in names if name in both]

    def _publish(self, fitted: Sequence[Trial]) -> None:
        for trial in fitted:
            for iteration in trial.records:
                extra = {**iteration.extra, "candidate": trial.candidate.name}
                self.on_iteration(replace(iteration, extra=extra))
        for text, category in dict.fromkeys(said for trial in fitted for said in trial.warnings):
            warnings.warn(text, category, stacklevel=4)

    def mean_posteriors(self, scores: Sequence[Score], shares: Sequence[float]) -> list[Floats]:
        """Per fold that all of them saw, the weighted mean of these candidates' posteriors."""
        return [
            np.average([score.posteriors[fold] for score in scores], axis=0, weights=shares)
            for fold in range(min(score.n_folds for score in scores))
        ]

    def hard_scores(self, posteriors: Sequence[Floats]) -> Floats:
        """Hard scores, (n_hidden,), of posteriors per fold."""
        pairs = zip(self.folds, posteriors, strict=True)
        return np.concatenate([hard_score(kept, of, hidden) for (kept, hidden), of in pairs])

    def calibration(
        self, scores: Sequence[Score], shares: Sequence[float], first: Score
    ) -> Calibration:
        """The calibration of the weighted mean of these candidates.

        The first of them that describes workers tells whether these err together (`first`, if none
        does): a model that counts for nothing fails that check for reasons of its own. Where items
        are known, fits that did not know them are judged by them.
        """
        able = (score for score in scores if score.candidate.method.has_worker_model)
        telling = next(able, first)
        surfaces = [self._surface(fold, scores, shares) for fold in range(self.n_folds)]
        by_hidden = replace(best_calibration(surfaces), weight=self.err_together(telling))
        return self.by_gold([score.candidate for score in scores], shares, by_hidden)

    def _surface(self, fold: int, scores: Sequence[Score], shares: Sequence[float]) -> Floats:
        """Return the calibration surface of the weighted mean on a fold."""
        kept, hidden = self.folds[fold]
        each = [score.posteriors[fold] for score in scores]
        mean: Floats = np.average(each, axis=0, weights=shares)
        many = self.n_votes >= MANY_ANSWERS
        return calibration_surface(kept, mean, hidden, pool(each, shares), many=many)

    def err_together(self, score: Score) -> float:
        """Return how surely workers err together, from 0 to 1, by what a method expects of them."""
        counts = expected_counts(self.folds[0][0], score.posteriors[0])
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
            return try_method(member.method, unaware, None, deadline=self.last)[-1].posteriors

        fitted = list(run_all(attempt, members, deadline=self.last, parallel=self.big))
        if len(fitted) < len(members):
            self.left_out.append("calibration by gold items")
            return by_hidden
        rows = np.flatnonzero(gold >= 0)
        totals = vote_totals(unaware)[rows]
        known = [posteriors[rows] for posteriors in fitted]
        if by_votes:
            known = [voted(totals, posteriors) for posteriors in known]
        mean: Floats = np.average(known, axis=0, weights=shares)
        return calibration_of_known(
            mean, shares_of(totals), gold[rows], by_hidden, pool(known, shares)
        )

    def mean_of(
        self,
        fitted: Sequence[Trial],
        shares: Sequence[float],
        *,
        by_votes: bool = False,
        calibration: Calibration | None = None,
    ) -> Aggregation | Fitted:
        """Return the weighted mean of fits on all answers, calibrated."""
        found = [trial.in_memory for trial in fitted]
        return mean_of(self.labels, found, shares, by_votes=by_votes, calibration=calibration)

    def report(
        self, method: Method, done: int, of: int, seconds: float, stage: str = "search"
    ) -> None:
        extra: dict[str, float | int | str | None] = {"candidate": method.name, "of": of}
        self.on_iteration(Iteration(stage, done, seconds=seconds, extra=extra))


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
    work = CrossValidation(labels, seed=seed, most_folds=1 if slow else None)
    if not work.n_folds:
        return None
    many = labels.votes.n_votes >= MANY_ANSWERS
    scores = work.score([method], whole=whole if many else None)
    return work.calibration(scores[-1:], [1.0], scores[-1])


def _of_completed(
    method: Method, labels: Labels, seed: int, judge_completion: bool
) -> Calibration | None:
    """That of completed labels: see `Calibration.evidence`."""
    slow = getattr(method.aggregator, "slow", False)
    work = CrossValidation(labels, seed=seed, most_folds=1 if slow else None)
    if not work.n_folds:
        return None
    alone = work.score([Method("alone", method.aggregator)])[0]
    if judge_completion:
        completed = work.score([method], alone.posteriors)[-1].views["hard"]
        if lead(completed, work.hard_scores(alone.posteriors), work.workers) >= SIGNIFICANT:
            return None
    return by_answers(work, alone)


def by_answers(work: CrossValidation, alone: Score) -> Calibration:
    """Of labels that a completion chose and hidden answers do not prefer: as sure as the answers
    that were given are by the aggregator `alone`, or by ds-em if that knows only shares of votes.
    """
    if not alone.candidate.method.calibratable:
        alone = (work.score([Method("ds-em", DawidSkene())]) or [alone])[0]  # if there is time
    return replace(work.calibration([alone], [1.0], alone), evidence=True)
