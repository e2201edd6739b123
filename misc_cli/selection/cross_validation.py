"""Cross-validation on any engine: methods forecast answers that were hidden from their fits.

In memory a fold is fitted on the answers that are kept, by a process of its own where there are
many. Elsewhere it is fitted on a view of the engine, and nothing of the size of the items comes
here. From a million answers on the same answers are hidden on every engine (`data.holdout`).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from misc_cli.aggregators.confusion_kernels import expected_counts, expected_sums, shrunk_rows
from misc_cli.aggregators.methods import DawidSkene
from misc_cli.data.holdout import FLOOR, Triplets, fold_draws, fold_plan, folds, log_score
from misc_cli.data.posteriors import harden
from misc_cli.data.types import (
    Codes,
    Floats,
    Iteration,
    Lighten,
    OnIteration,
    ignore_iteration,
    without_posteriors,
)
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.protocol import (
    GOLD,
    POSTERIORS,
    Array,
    Block,
    Engine,
    Fitted,
    RowArrays,
    SumOver,
    copy_rows,
    count_known,
)
from misc_cli.engines.views import TrainingView, View, gathered_votes, hide, revealed, without_gold
from misc_cli.errors import MiscWarning
from misc_cli.quality.evidence import one_label_workers, said_by_workers
from misc_cli.selection import worker_pool
from misc_cli.selection.calibration import (
    FAILED,
    PASSED,
    SHRINKAGE,
    Calibration,
    best_calibration,
    calibration_of_known,
    looked_at,
    pool,
    standard_errors,
    surface,
    tempered_forecasts,
)
from misc_cli.selection.candidates import SIGNIFICANT, Method, Score, Trial, fit, lead
from misc_cli.selection.ensemble import member_row
from misc_cli.selection.worker_pool import NEVER, check, run_all

# Fewer answers than this are over before another process could start.
WORTH_A_PROCESS = 20_000
# From so many answers on, a fold of a slow method may begin where the fit on all answers ended:
# with fewer, the optimum that was found with the hidden answers would still know them.
MANY_ANSWERS = 30_000
# Instead of SHRINKAGE where the counts are whole.
HARD_SHRINKAGE = 1.0
# Pseudo-answers, spread as the crowd answers, that a worker's label shares start from.
NULL_SHRINKAGE = 2.0


@dataclass(frozen=True)
class Fold:
    """Answers that are hidden, and the engine without them.

    training  an engine of the kept answers in memory, or a view of the engine
    hidden    their `items` are rows of the posteriors that `judged` returns
    """

    training: MemoryEngine | TrainingView
    hidden: Triplets

    def counts(self, posteriors: Floats) -> Floats:
        """Return the expected counts of the kept answers, in memory, (n_workers, K, K)."""
        assert isinstance(self.training, MemoryEngine)
        return expected_counts(self.training.labels, posteriors)

    def hard_score(self, posteriors: Floats) -> Floats:
        """Return the log score of each hidden answer given the label we would write."""
        top = posteriors.argmax(axis=1)
        rows = shrunk_rows(self.counts(harden(posteriors)), HARD_SHRINKAGE)
        return log_score(rows[self.hidden.workers, top[self.hidden.items]], self.hidden)

    def judged(
        self, fitted: Fitted, completed: bool
    ) -> tuple[Floats, Floats | None, dict[str, Floats]]:
        """Return what a fit on `training` says of items, its expected counts, and its scores.

        In memory these are the posteriors of all items, and the counts follow from them; else the
        posteriors of the hidden answers' items, (n_hidden, n_classes). The scores are the log
        scores of the hidden answers in each view; see candidates.py; "hard" is of completed labels.
        """
        hidden, training, known = self.hidden, self.training, None
        if isinstance(training, MemoryEngine):
            posteriors = training.whole(POSTERIORS)
            counts = self.counts(posteriors)
        else:
            posteriors = revealed(training.engine, training.draw)[1]
            counts = known = training.sweep(SumOver(expected_sums)).by_worker
        of_items = posteriors[hidden.items]
        if fitted.predictor is None:
            own = np.einsum("pc,pck->pk", of_items, fitted.confusions[hidden.workers])
        else:
            own = fitted.predictor(hidden.workers, hidden.items)
        soft = tempered_forecasts(of_items, counts, SHRINKAGE, hidden)
        views = {"own": log_score(own, hidden), "soft": np.log(np.maximum(soft, FLOOR))}
        if completed and known is None:
            views["hard"] = self.hard_score(posteriors)
        return posteriors, known, views


def viewed_folds(engine: Engine, n_folds: int, share: float, seed: int) -> Iterator[Fold]:
    """Yield folds on views of an engine that hide this share of the answers each, if any."""
    size = max(1, round(share * engine.n_votes))
    for draw in fold_draws(engine.n_votes, engine.n_items, n_folds, size, seed):
        n_hidden = hide(engine, draw)
        if n_hidden == 0:
            return
        yield Fold(TrainingView(engine, draw, n_hidden), revealed(engine, draw)[0])


def known_items(block: Block, rows: RowArrays) -> list[tuple[Array, Array, Array]]:
    """Return posteriors, vote totals and classes of the items whose class is known."""
    known = np.flatnonzero(rows[GOLD] >= 0) if GOLD in rows else np.zeros(0, dtype=np.intp)
    if len(known) == 0:
        return []
    posteriors, gold = (np.array(rows[name][known]) for name in (POSTERIORS, GOLD))
    return [(posteriors, block.class_totals()[known], gold)]


class CrossValidation:
    """The answers, their folds, the clock and the observer that all stages share.

    workers   (n_hidden,) who gave the hidden answers, fold by fold
    deadline  when trials on folds must end; `last`, when fits on all answers must
    left_out  what there was no time for
    late      there was not even time to hide answers
    """

    def __init__(
        self,
        engine: Engine,
        *,
        seed: int = 0,
        deadline: float = NEVER,
        last: float = NEVER,
        on_iteration: OnIteration = ignore_iteration,
        lighten: Lighten = without_posteriors,
        most_folds: int | None = None,
    ) -> None:
        self.engine, self.n_votes, self.seed = engine, engine.n_votes, seed
        self.on_iteration, self.lighten = on_iteration, lighten
        self.deadline, self.last = deadline, last
        self.in_memory = isinstance(engine, MemoryEngine)
        self.parallel = self.in_memory and self.n_votes >= WORTH_A_PROCESS
        self.has_gold = bool(engine.sweep(SumOver(count_known)))
        self.left_out: list[str] = []
        self.folds: list[Fold] = []
        self._marked: Fold | None = None
        n_folds, share = fold_plan(self.n_votes)
        n_folds = min(n_folds, most_folds or n_folds)
        hiding: Iterator[Fold]
        if isinstance(engine, MemoryEngine):
            kept = folds(engine.labels, n_folds, share, seed)
            hiding = (Fold(engine.with_labels(labels), hidden) for labels, hidden in kept)
        else:
            hiding = viewed_folds(engine, n_folds, share, seed)
        self.late = worker_pool.clock() >= deadline
        while not self.late and (fold := next(hiding, None)) is not None:
            self.folds.append(fold)
            self._marked = fold
            self.late = worker_pool.clock() >= deadline

    def _mark(self, fold: Fold) -> None:
        """Hide the answers of a fold on an engine that hides those of one fold at a time."""
        if isinstance(fold.training, TrainingView) and self._marked is not fold:
            hide(self.engine, fold.training.draw)
            self._marked = fold

    def hard_scores(self, each: Sequence[Floats]) -> Floats:
        """Return the log scores of hidden answers given the labels that posteriors would write."""
        scores = [fold.hard_score(one) for fold, one in zip(self.folds, each, strict=True)]
        return np.concatenate(scores)

    @cached_property
    def workers(self) -> Codes:
        return np.concatenate([fold.hidden.workers for fold in self.folds])

    @cached_property
    def one_label(self) -> float:
        """Of the answers, the share of workers who only ever say one label, beyond chance."""
        said = said_by_workers(self.engine)
        return float(said[one_label_workers(said)].sum() / max(said.sum(), 1))

    @cached_property
    def blind(self) -> tuple[Floats, Floats]:
        """Scores of what knows no items: each worker's own label shares (the null), the crowd's."""
        null, crowd = [], []
        for fold in self.folds:
            self._mark(fold)
            hidden, said = fold.hidden, said_by_workers(fold.training)
            shares = said.sum(axis=0) / said.sum()
            own = said[hidden.workers] + NULL_SHRINKAGE * shares
            null.append(log_score(own / own.sum(axis=1, keepdims=True), hidden))
            crowd.append(log_score(np.broadcast_to(shares, own.shape), hidden))
        return np.concatenate(null), np.concatenate(crowd)

    def trial(
        self,
        method: Method,
        fold: Fold | None = None,
        *,
        initial: Floats | None = None,
        whole: Fitted | None = None,
        deadline: float = NEVER,
    ) -> Trial:
        """Fit and score a method on a fold; without one, fit all answers.

        An aggregator that has `cv_variant` uses that variant on folds. At the deadline the fit ends
        after its current iteration, with OutOfTime. `initial` and `whole` as in `fit`.
        """
        tried, engine = method, self.engine
        if fold is not None:
            variant = getattr(method.aggregator, "cv_variant", method.aggregator)
            tried, engine = replace(method, aggregator=variant), fold.training
            if not self.in_memory:
                self._mark(fold)
        elif isinstance(engine, MemoryEngine):
            engine = engine.with_labels(engine.labels)
        records: list[Iteration] = []
        started = time.perf_counter()

        def observe(iteration: Iteration) -> None:
            check(deadline)
            if fold is None and self.in_memory:
                records.append(self.lighten(iteration))
            elif fold is None:
                self._note(iteration, method.name)

        views: dict[str, Floats] = {}
        posteriors, counts = np.zeros((0, 0)), None
        with warnings.catch_warnings(record=True) as caught:
            if fold is None:
                warnings.simplefilter("always", MiscWarning)
            else:
                warnings.simplefilter("ignore")  # one that does not converge is scored as it is
            fitted = fit(tried, engine, observe, initial, whole)
            if fold is not None:
                posteriors, counts, views = fold.judged(fitted, method.completer is not None)
        if fold is None and isinstance(engine, MemoryEngine):
            posteriors = engine.whole(POSTERIORS)
        elif fold is None:
            engine.sweep(copy_rows(POSTERIORS, member_row(method.name)))
        said = [(str(warning.message), warning.category) for warning in caught]
        spent = time.perf_counter() - started
        light = replace(fitted, predictor=None)
        return Trial(method, light, posteriors, views, counts, records, said, spent)

    def score(
        self,
        methods: Sequence[Method],
        initial: Sequence[Floats] | None = None,
        numbers: range | None = None,
        wholes: Mapping[str, Fitted] | None = None,
    ) -> list[Score]:
        """Score methods on these folds (all, unless `numbers` says which).

        `initial` are posteriors per fold, `wholes` are methods' fits on all answers, by name, to
        start from. At the deadline methods that have not seen all folds are left out.
        """
        numbers = range(len(self.folds)) if numbers is None else numbers
        tasks = [(method, fold) for method in methods for fold in numbers]

        def attempt(task: tuple[Method, int]) -> Trial:
            method, at = task
            return self.trial(
                method,
                self.folds[at],
                initial=None if initial is None else initial[at],
                whole=(wholes or {}).get(method.name),
                deadline=self.deadline,
            )

        done: list[Trial] = []
        for trial in run_all(attempt, tasks, deadline=self.deadline, parallel=self.parallel):
            done.append(trial)
            line = Iteration("search", len(done), seconds=trial.seconds, extra={"of": len(tasks)})
            self._note(line, trial.method.name)
        starts = range(0, len(done) - len(numbers) + 1, max(len(numbers), 1))
        return [Score(done[at].method, done[at : at + len(numbers)]) for at in starts if numbers]

    def fit(
        self,
        members: Sequence[Method],
        initial: Floats | None = None,
        deadline: float | None = None,
        made: Sequence[Trial] = (),
    ) -> list[Trial]:
        """Fit the chosen methods on all answers; what several complain of is said once.

        Those that are not done at the deadline (`last`, if none is given) are left out; `made` are
        fits that are done already.
        """
        last = deadline or self.last

        def attempt(member: Method) -> Trial:
            return self.trial(member, initial=initial, deadline=last)

        fitted = {trial.method.name: trial for trial in made}
        missing = [member for member in members if member.name not in fitted]
        done = run_all(attempt, missing, deadline=last, parallel=self.parallel)
        for number, trial in enumerate(done, start=1):
            fitted[trial.method.name] = trial
            line = Iteration("fitted", number, seconds=trial.seconds, extra={"of": len(missing)})
            self._note(line, trial.method.name)
        found = [fitted[member.name] for member in members if member.name in fitted]
        for trial in found:
            for iteration in trial.records:
                self._note(iteration, trial.method.name)
        for text, category in dict.fromkeys(said for trial in found for said in trial.warnings):
            warnings.warn(text, category, stacklevel=3)
        return found

    def _note(self, iteration: Iteration, candidate: str) -> None:
        self.on_iteration(replace(iteration, extra={**iteration.extra, "candidate": candidate}))

    def calibration(
        self, scores: Sequence[Score], shares: Sequence[float], first: Score | None = None
    ) -> Calibration:
        """Return the calibration of the weighted mean of these candidates.

        The first of them that describes workers tells whether these err together (`first`, if none
        does): a model that counts for nothing fails that check for reasons of its own. Where items
        are known, fits that did not know them are judged by them.
        """
        able = (one for one in scores if one.method.calibratable and not one.method.early_stopped)
        telling = next(able, first or scores[0])
        surfaces = []
        for at, fold in enumerate(self.folds):  # by what may soften the mean
            hidden, counts = fold.hidden, self._counts(at, scores, shares)
            each = [score.trials[at].posteriors[hidden.items] for score in scores]
            of_items = pool(each, shares) if len(each) > 1 else each[0]
            totals, counts_of = None, None
            if self.n_votes < MANY_ANSWERS and self.in_memory:
                parts = fold.training.sweep(SumOver(lambda block, _: [block.class_totals()]))
                totals, counts_of = np.concatenate(parts), fold.counts
            surfaces.append(surface(of_items, counts, hidden, totals, counts_of))
        by_hidden = replace(best_calibration(surfaces), weight=self.err_together(telling))
        if len(scores) > 1:
            by_hidden = replace(by_hidden, own=1.0)
        if not self.has_gold:
            return by_hidden
        return self.by_gold([score.method for score in scores], shares, by_hidden)

    def _counts(self, at: int, scores: Sequence[Score], shares: Sequence[float]) -> Floats:
        """Return the expected counts of the weighted mean of candidates on a fold."""
        trials = [score.trials[at] for score in scores]
        if self.in_memory:
            each = [trial.posteriors for trial in trials]
            return self.folds[at].counts(np.average(each, axis=0, weights=shares))
        counts: Floats = np.average([trial.counts for trial in trials], axis=0, weights=shares)
        return counts

    def err_together(self, score: Score) -> float:
        """Return how surely workers err together, from 0 to 1, by what a method expects of them."""
        chosen = partial(looked_at, n_votes=self.n_votes, seed=self.seed)
        _, votes, _ = gathered_votes(self.engine, chosen)
        excess = standard_errors(votes, self._counts(0, [score], [1.0]), self.seed)
        return float(np.clip((excess - PASSED) / (FAILED - PASSED), 0.0, 1.0))

    def by_gold(
        self,
        members: Sequence[Method],
        shares: Sequence[float],
        by_hidden: Calibration,
    ) -> Calibration:
        """Return the calibration that gold items ask for; as it was, if time runs out."""

        def attempt(member: Method) -> list[Array]:
            engine = self.engine
            unaware: Engine = View(engine, without_gold)
            if isinstance(engine, MemoryEngine):
                unaware = engine.with_labels(replace(engine.labels, gold=None))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fit(member, unaware, lambda _: check(self.last))
            if isinstance(engine, MemoryEngine):
                held = np.asarray(unaware.whole(POSTERIORS))
                engine = MemoryEngine(engine.labels, {POSTERIORS: held})
            parts = zip(*engine.sweep(SumOver(known_items)), strict=True)
            return [np.concatenate(part) for part in parts]

        fitted = list(run_all(attempt, members, deadline=self.last, parallel=self.parallel))
        if len(fitted) < len(members):
            self.left_out.append("calibration by gold items")
            return by_hidden
        _, totals, classes = fitted[0]
        known = [posteriors for posteriors, *_ in fitted]
        return calibration_of_known(known, shares, totals, classes, by_hidden)


def calibration_of(
    method: Method,
    engine: Engine,
    seed: int = 0,
    whole: Fitted | None = None,
    *,
    judge_completion: bool = True,
    on_iteration: OnIteration = ignore_iteration,
) -> Calibration | None:
    """Return the calibration of one method; None if it is not to be, or if nothing can be hidden.

    One that calls itself slow is tried on one fold: the calibration should not outlast the fit.
    `whole` is its fit on all answers, for those that can begin there. Completed labels that
    forecast hidden answers clearly better than the aggregator alone are left as they are, unless
    it would take too long to know (`judge_completion`).
    """
    if not method.calibratable and method.completer is None:
        return None
    slow = getattr(method.aggregator, "slow", False)
    slow_completer = getattr(method.completer, "slow", False)
    one_fold = slow or (slow_completer and method.calibratable)
    work = CrossValidation(
        engine, seed=seed, on_iteration=on_iteration, most_folds=1 if one_fold else None
    )
    if not work.folds:
        return None
    if method.calibratable:
        wholes = {}
        if whole is not None and engine.n_votes >= MANY_ANSWERS:
            wholes[method.name] = whole
        return work.calibration(work.score([method], wholes=wholes), [1.0])
    alone = work.score([Method("alone", method.aggregator)])[0]
    if judge_completion and not (slow or slow_completer):
        each = [trial.posteriors for trial in alone.trials]
        completed = work.score([method], each)[0]
        if lead(completed.hard, work.hard_scores(each), work.workers) >= SIGNIFICANT:
            return None
    return by_answers(work, alone)


def by_answers(work: CrossValidation, alone: Score) -> Calibration:
    """Return the calibration of labels that a completion chose and hidden answers do not prefer.

    They are as sure as the answers that were given are by the aggregator `alone`, or by ds-em if
    that knows only shares of votes; see `Calibration.evidence`.
    """
    if not alone.method.calibratable:
        alone = (work.score([Method("ds-em", DawidSkene())]) or [alone])[0]  # if there is time
    return replace(work.calibration([alone], [1.0]), evidence=True)
