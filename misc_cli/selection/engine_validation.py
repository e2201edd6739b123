"""Cross-validation of answers that stay on an engine.

The same answers are hidden as in memory (by name, `data.holdout`), and the same forecasts are
scored. For each method and fold the engine gives the expected counts of the answers that are kept
and the posteriors of the hidden answers' items; nothing of the size of the items comes here.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from misc_cli.aggregators.confusion_kernels import shrunk_rows
from misc_cli.data.holdout import Draw, Triplets, fold_draws, fold_plan, log_score
from misc_cli.data.types import Aggregation, Floats, Iteration, Names, OnIteration, ignore_iteration
from misc_cli.engines.protocol import (
    GOLD,
    POSTERIORS,
    Array,
    Block,
    CopyRows,
    CountKnown,
    Engine,
    Fitted,
    RowArrays,
)
from misc_cli.engines.views import (
    HiddenAnswers,
    Hide,
    Reveal,
    TrainingView,
    WithoutGoldView,
    gathered_votes,
)
from misc_cli.selection.calibration import (
    MANY_SHRINKAGE,
    Calibration,
    calibration_of_known,
    pool,
    shares_of,
    surface_of_many,
    voted,
)
from misc_cli.selection.candidates import Candidate, Method, Trial, tempered_scores
from misc_cli.selection.cross_validation import CrossValidation
from misc_cli.selection.dependence_check import SHRINKAGE, looked_at, together
from misc_cli.selection.ensemble import combine, ensemble_fit, member_row
from misc_cli.selection.scoring import Score, crowd_score_of, null_score_of, one_label_share
from misc_cli.selection.worker_pool import NO_DEADLINE, Deadline, OutOfTime


@dataclass(frozen=True)
class Sample:
    """Chooses the items that show whether workers err together, by their names."""

    n_votes: int
    seed: int

    def __call__(self, names: Names) -> npt.NDArray[np.bool_]:
        return looked_at(names, self.n_votes, self.seed)


@dataclass(frozen=True)
class KnownItems:
    """Returns posteriors, vote totals and classes of the items whose class is known."""

    writes: ClassVar[tuple[str, ...]] = ()

    def __call__(
        self, block: Block, rows: RowArrays
    ) -> tuple[RowArrays, list[tuple[Array, Array, Array]]]:
        known = np.flatnonzero(rows[GOLD] >= 0) if GOLD in rows else np.zeros(0, dtype=np.intp)
        if len(known) == 0:
            return {}, []
        posteriors, gold = (np.array(rows[name][known]) for name in (POSTERIORS, GOLD))
        return {}, [(posteriors, block.class_totals()[known], gold)]


class EngineValidation(CrossValidation):
    """Folds of an engine's answers, tried in turn; see `CrossValidation`."""

    def __init__(
        self,
        engine: Engine,
        *,
        seed: int = 0,
        deadline: Deadline = NO_DEADLINE,
        last: Deadline = NO_DEADLINE,
        on_iteration: OnIteration = ignore_iteration,
        most_folds: int | None = None,
    ) -> None:
        self.engine, self.n_votes, self.seed = engine, engine.n_votes, seed
        self.has_gold = bool(engine.sweep(CountKnown()))
        self.on_iteration, self.deadline, self.last = on_iteration, deadline, last
        self.left_out: list[str] = []
        self.draws: list[tuple[Draw, int]] = []
        self.hidden: list[Triplets] = []
        self._marked: int | None = None
        self.late, self.big, self.one_label = deadline.passed, False, 0.0
        n_folds, share = fold_plan(engine.n_votes)
        n_folds = min(n_folds, most_folds or n_folds)
        size = max(1, round(share * engine.n_votes))
        nulls, crowd = [], []
        for draw in fold_draws(engine.n_votes, engine.n_items, n_folds, size, seed):
            marked = engine.sweep(Hide(draw, engine.n_classes))
            if marked.n_hidden == 0:
                break
            hidden = engine.sweep(HiddenAnswers(draw, engine.n_classes)).sorted()
            said = marked.counts.reshape(engine.n_workers, engine.n_classes)
            if not self.draws:
                self.one_label = one_label_share(_all_said(said, hidden))
            self._marked = len(self.draws)
            self.draws.append((draw, marked.n_hidden))
            self.hidden.append(hidden)
            nulls.append(null_score_of(said, hidden))
            crowd.append(crowd_score_of(said, hidden))
        if nulls:
            self.null = np.concatenate(nulls)
            self.blind = max(float(self.null.mean()), float(np.concatenate(crowd).mean()))
            self.workers = np.concatenate([hidden.workers for hidden in self.hidden])

    @property
    def n_folds(self) -> int:
        return len(self.draws)

    def score(
        self,
        methods: Sequence[Method],
        initial: Sequence[Floats] | None = None,
        numbers: range | None = None,
        whole: Aggregation | Fitted | None = None,
    ) -> list[Score]:
        """Return the score of every method that has seen all folds by the deadline."""
        scores: list[Score] = []
        numbers = range(self.n_folds) if numbers is None else numbers
        for at, method in enumerate(methods):
            forecasts = []
            for fold in numbers:
                try:
                    self.deadline.check()
                    forecasts.append(self._forecast(method, fold, whole))
                except OutOfTime:
                    return scores
                done = at * len(numbers) + len(forecasts)
                spent = forecasts[-1].seconds
                self.report(method, done, len(methods) * len(numbers), spent)
            scores.append(_joined(method, forecasts))
        return scores

    def _forecast(self, method: Method, fold: int, whole: Any) -> _Forecast:
        started = time.perf_counter()
        draw, n_hidden = self.draws[fold]
        if self._marked != fold:
            self.engine.sweep(Hide(draw, self.engine.n_classes))
            self._marked = fold
        variant = getattr(method.aggregator, "cv_variant", method.aggregator)
        training = TrainingView(self.engine, draw, n_hidden)
        fitted = _quietly(variant, training, whole, self.deadline)
        revealed = self.engine.sweep(Reveal(draw))
        hidden, of_items = revealed.sorted()
        own = np.einsum("pc,pck->pk", of_items, fitted.confusions[hidden.workers])
        said = _said(revealed.by_worker, SHRINKAGE, hidden)
        return _Forecast(
            revealed.by_worker,
            of_items,
            {"own": log_score(own, hidden), "soft": tempered_scores(of_items, said)},
            time.perf_counter() - started,
        )

    def fit(
        self,
        members: Sequence[Candidate],
        initial: Floats | None = None,
        deadline: Deadline | None = None,
    ) -> list[Trial]:
        """Fit the chosen candidates on all answers, in turn; each leaves its rows on the engine."""
        last = deadline or self.last
        fitted: list[Trial] = []
        for member in members:
            started = time.perf_counter()

            def observe(iteration: Iteration, name: str = member.name) -> None:
                last.check()
                extra = {**iteration.extra, "candidate": name}
                self.on_iteration(replace(iteration, extra=extra))

            try:
                last.check()
                found: Fitted = member.method.aggregator.solve(self.engine, observe)  # type: ignore[attr-defined]
            except OutOfTime:
                break
            self.engine.sweep(CopyRows(POSTERIORS, member_row(member.name)))
            if member.method.early_stopped:
                found = replace(found, stopped={})
            seconds = time.perf_counter() - started
            fitted.append(Trial(member, found, {}, [], [], seconds))
            self.report(member.method, len(fitted), len(members), seconds, "fitted")
        return fitted

    def mean_of(
        self,
        fitted: Sequence[Trial],
        shares: Sequence[float],
        *,
        by_votes: bool = False,
        calibration: Calibration | None = None,
    ) -> Aggregation | Fitted:
        """Return the weighted mean of fits on all answers, calibrated; it is on the engine."""
        rows = [member_row(trial.candidate.name) for trial in fitted]
        combine(self.engine, rows, shares, by_votes=by_votes, calibration=calibration)
        found = [trial.aggregation for trial in fitted]
        return found[0] if len(found) == 1 else ensemble_fit(self.engine, found)

    def _surface(self, fold: int, scores: Sequence[Score], shares: Sequence[float]) -> Floats:
        counts = np.average([score.counts[fold] for score in scores], axis=0, weights=shares)
        of_items = pool([score.posteriors[fold] for score in scores], shares)
        return surface_of_many(of_items, _said(counts, MANY_SHRINKAGE, self.hidden[fold]))

    def err_together(self, score: Score) -> float:
        """Return how surely workers err together, from 0 to 1, by what a method expects of them."""
        votes = gathered_votes(self.engine, Sample(self.n_votes, self.seed))
        return together(votes.pointers, votes.columns, score.counts[0], self.seed)

    def by_gold(
        self,
        members: Sequence[Candidate],
        shares: Sequence[float],
        by_hidden: Calibration,
        *,
        by_votes: bool = False,
    ) -> Calibration:
        """Return the calibration that gold items ask for, if there are any; else as it was."""
        if not self.has_gold:
            return by_hidden
        unaware = WithoutGoldView(self.engine)
        known = []
        for member in members:
            _quietly(member.method.aggregator, unaware)
            parts = zip(*self.engine.sweep(KnownItems()), strict=True)
            posteriors, totals, classes = (np.concatenate(part) for part in parts)
            known.append(voted(totals, posteriors) if by_votes else posteriors)
        mean: Floats = np.average(known, axis=0, weights=shares)
        return calibration_of_known(
            mean, shares_of(totals), classes, by_hidden, pool(known, shares)
        )


@dataclass(frozen=True)
class _Forecast:
    """A method on one fold.

    counts    (n_workers, K, K) expected, of the kept answers
    of_items  (n_hidden, K) posteriors of the hidden answers' items
    views     as in `Trial`
    """

    counts: Floats
    of_items: Floats
    views: dict[str, Floats]
    seconds: float


def _joined(method: Method, forecasts: Sequence[_Forecast]) -> Score:
    views = {
        view: np.concatenate([forecast.views[view] for forecast in forecasts], axis=-1)
        for view in ("own", "soft")
    }
    return Score(
        Candidate(method),
        views,
        sum(forecast.seconds for forecast in forecasts),
        [forecast.of_items for forecast in forecasts],
        counts=[forecast.counts for forecast in forecasts],
    )


def _said(counts: Floats, shrinkage: float, hidden: Triplets) -> Floats:
    """Return how likely each class makes the hidden answers, (n_hidden, K)."""
    said: Floats = shrunk_rows(counts, shrinkage)[hidden.workers, :, hidden.classes]
    return said


def _all_said(kept: npt.NDArray[np.int64], hidden: Triplets) -> npt.NDArray[np.int64]:
    """Return how often each worker said each class, (n_workers, n_classes), hidden answers too."""
    said = kept.copy()
    np.add.at(said, (hidden.workers, hidden.classes), 1)
    return said


def _quietly(
    aggregator: Any, engine: Engine, whole: Any = None, deadline: Deadline = NO_DEADLINE
) -> Fitted:
    """Fit for a trial: one that does not converge is scored as it is."""

    def observe(_: Iteration) -> None:
        deadline.check()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: Fitted
        if whole is not None and hasattr(aggregator, "refit_subset_on"):
            found = aggregator.refit_subset_on(engine, whole)
        else:
            found = aggregator.solve(engine, observe)
    return found
