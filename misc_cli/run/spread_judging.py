"""Methods judged by many hidden answers on any engine, as `select.judging` does in memory.

The same answers are hidden (by name, core/draw.py) and the same forecasts scored. Per method and
fold the engine gives the expected counts of the kept answers and the posteriors of the hidden
answers' items; all else is arithmetic here.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from misc_cli.aggregators.confusion_kernels import shrunk_rows
from misc_cli.data.holdout import Draw, Triplets, fold_draws, fold_plan, log_score
from misc_cli.data.types import Codes, Floats, Iteration, Names, OnIteration, ignore_iteration
from misc_cli.engines.protocol import CountKnown, Engine, Fitted
from misc_cli.engines.views import Hide, Reveal, TrainingView, WithoutGoldView, gathered_votes
from misc_cli.run.spread_settle import AddMember, KnownItems
from misc_cli.selection.calibration import (
    MANY_SHRINKAGE,
    Calibration,
    best_calibration,
    calibration_of_known,
    normalised,
    pool,
    surface_of_many,
)
from misc_cli.selection.candidates import Candidate, Method, tempered_scores
from misc_cli.selection.dependence_check import SHRINKAGE, looked_at, together
from misc_cli.selection.scoring import Score, crowd_score_of, null_score_of, one_label_share


@dataclass(frozen=True)
class Forecast:
    """A method on one fold.

    counts      (n_workers, K, K) expected, of the kept answers
    of_items    (n_hidden, K) posteriors of the hidden answers' items
    own         (n_hidden,) log scores of the model's own forecast
    """

    hidden: Triplets
    counts: Floats
    of_items: Floats
    own: Floats
    seconds: float

    def said(self, shrinkage: float) -> Floats:
        """How likely each class makes the hidden answers, (n_hidden, K)."""
        return _said(self.counts, shrinkage, self.hidden)

    def score(self) -> dict[str, Floats]:
        soft = tempered_scores(self.of_items, self.said(SHRINKAGE))
        return {"own": self.own, "soft": soft}


def _said(counts: Floats, shrinkage: float, hidden: Triplets) -> Floats:
    said: Floats = shrunk_rows(counts, shrinkage)[hidden.workers, :, hidden.classes]
    return said


def _all_said(kept: npt.NDArray[np.int64], hidden: Triplets) -> npt.NDArray[np.int64]:
    """How often each worker said each class, (n_workers, n_classes): what was kept and hidden."""
    said = kept.copy()
    np.add.at(said, (hidden.workers, hidden.classes), 1)
    return said


@dataclass(frozen=True)
class Sample:
    """Items that show whether workers err together, by their names."""

    n_votes: int
    seed: int

    def __call__(self, names: Names) -> npt.NDArray[np.bool_]:
        return looked_at(names, self.n_votes, self.seed)


class CrossValidation:
    """The folds of an engine's answers and every method's forecasts of them, by method and fold."""

    def __init__(
        self,
        engine: Engine,
        methods: Sequence[Method],
        seed: int,
        on_iteration: OnIteration,
        whole: Fitted | None = None,
        most_folds: int | None = None,
    ) -> None:
        """`whole` is the methods' fit on all answers, for those that can begin there."""
        self.engine = engine
        self.seed = seed
        n_folds, share = fold_plan(engine.n_votes)
        n_folds = min(n_folds, most_folds or n_folds)
        size = max(1, round(share * engine.n_votes))
        draws = fold_draws(engine.n_votes, engine.n_items, n_folds, size, seed)
        self.forecasts: list[list[Forecast]] = [[] for _ in methods]
        nulls = []
        for number, draw in enumerate(draws):
            marked = engine.sweep(Hide(draw, engine.n_classes))
            if marked.n_hidden == 0:
                break
            kept = TrainingView(engine, draw, marked.n_hidden)
            for at, method in enumerate(methods):
                forecast = _forecast(method, kept, draw, whole)
                self.forecasts[at].append(forecast)
                extra: dict[str, Any] = {
                    "candidate": method.name,
                    "of": len(methods) * len(draws),
                }
                done = number * len(methods) + at + 1
                on_iteration(Iteration("search", done, seconds=forecast.seconds, extra=extra))
            said = marked.counts.reshape(engine.n_workers, engine.n_classes)
            nulls.append((said, self.forecasts[0][-1].hidden))
        self.one_label = one_label_share(_all_said(*nulls[0])) if nulls else 0.0
        self.null = np.concatenate([np.zeros(0), *(null_score_of(*fold) for fold in nulls)])
        crowd = np.concatenate([np.zeros(0), *(crowd_score_of(*fold) for fold in nulls)])
        self.blind = max(float(self.null.mean()), float(crowd.mean())) if nulls else 0.0
        none: Codes = np.zeros(0, dtype=np.int32)
        self.workers: Codes = np.concatenate([none, *(hidden.workers for _, hidden in nulls)])
        self.n_folds = len(nulls)

    def scores(self, methods: Sequence[Method]) -> list[Score]:
        """Each method's score, as a leaderboard has it."""
        found = []
        for method, forecasts in zip(methods, self.forecasts, strict=True):
            views = [forecast.score() for forecast in forecasts]
            joined = {
                view: np.concatenate([of_fold[view] for of_fold in views], axis=-1)
                for view in ("own", "soft")
            }
            seconds = sum(forecast.seconds for forecast in forecasts)
            posteriors = [forecast.of_items for forecast in forecasts]
            found.append(Score(Candidate(method), joined, seconds, posteriors))
        return found

    def calibration(
        self, places: Sequence[int], methods: Sequence[Method], shares: Sequence[float]
    ) -> Calibration:
        """Of the weighted mean of the methods that have these places among the forecasts."""
        surfaces = []
        for fold in range(self.n_folds):
            forecasts = [self.forecasts[at][fold] for at in places]
            counts = np.average([one.counts for one in forecasts], axis=0, weights=shares)
            of_items = pool([one.of_items for one in forecasts], shares)
            said = _said(counts, MANY_SHRINKAGE, forecasts[0].hidden)
            surfaces.append(surface_of_many(of_items, said))
        votes = gathered_votes(self.engine, Sample(self.engine.n_votes, self.seed))
        pairs = zip(places, methods, strict=True)
        telling = next((at for at, method in pairs if method.has_worker_model), 0)
        counts = self.forecasts[telling][0].counts
        weight = together(votes.pointers, votes.columns, counts, self.seed)
        by_hidden = replace(best_calibration(surfaces), weight=weight)
        if self.engine.sweep(CountKnown()) == 0:
            return by_hidden
        unaware = WithoutGoldView(self.engine)
        for at, (method, share) in enumerate(zip(methods, shares, strict=True)):
            _quietly(method.aggregator, unaware)
            self.engine.sweep(AddMember(share, at == 0))
        known = self.engine.sweep(KnownItems())
        means, logs, shown, classes = (np.concatenate(part) for part in zip(*known, strict=True))
        return calibration_of_known(means, shown, classes, by_hidden, normalised(logs))


def _forecast(method: Method, kept: TrainingView, draw: Draw, whole: Fitted | None) -> Forecast:
    """As `select.trial.try_method` has it: an aggregator may send another to forecast."""
    started = time.perf_counter()
    fitted = _quietly(getattr(method.aggregator, "cv_variant", method.aggregator), kept, whole)
    revealed = kept.engine.sweep(Reveal(draw))
    hidden, of_items = revealed.sorted()
    own = np.einsum("pc,pck->pk", of_items, fitted.confusions[hidden.workers])
    spent = time.perf_counter() - started
    return Forecast(hidden, revealed.by_worker, of_items, log_score(own, hidden), spent)


def _quietly(aggregator: Any, engine: Engine, whole: Fitted | None = None) -> Fitted:
    """A trial: one that does not converge is scored as it is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: Fitted
        if whole is not None and hasattr(aggregator, "refit_subset_on"):
            found = aggregator.refit_subset_on(engine, whole)
        else:
            found = aggregator.solve(engine, ignore_iteration)
    return found
