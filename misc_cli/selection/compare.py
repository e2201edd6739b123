"""Methods compared: a leaderboard by hidden answers, and methods × datasets with a test."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from misc_cli.data.posteriors import decide
from misc_cli.data.types import Codes, Floats, Iteration, OnIteration, ignore_iteration
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.protocol import POSTERIORS, Engine
from misc_cli.errors import ConvergenceWarning, InputError
from misc_cli.quality.evaluation import expected_error
from misc_cli.selection import worker_pool
from misc_cli.selection.candidates import Method, fit, lead, standard_error
from misc_cli.selection.cross_validation import WORTH_A_PROCESS, CrossValidation
from misc_cli.selection.worker_pool import NEVER, check, run_all, warn_of_time

NULL = "null"
SIGNIFICANCE = 0.05


@dataclass(frozen=True)
class Standing:
    """One line of the leaderboard; of the null only what is known of it.

    score    mean log probability of the hidden answers, its standard error (clustered by worker)
             beside it
    share    per cent of the leader's lead over the null: methods count in an automatic choice from
             93 on, and fully from 97
    behind   standard errors of the paired difference to the leader
    differs  how many items get another label than the leader gives
    error    per cent wrong among items with truth, None without truth
    """

    method: str
    score: float
    standard_error: float
    share: float
    behind: float
    differs: int | None = None
    seconds: float = 0.0
    error: float | None = None


def compare(
    engine: Engine,
    methods: Sequence[Method],
    *,
    truth: Codes | None = None,
    seed: int = 0,
    time_budget: float | None = None,
    on_iteration: OnIteration = ignore_iteration,
) -> list[Standing]:
    """Every method and the null on the same hidden answers, best first; truth is only reported."""
    deadline = worker_pool.clock() + (NEVER if time_budget is None else time_budget)
    work = CrossValidation(engine, seed=seed, on_iteration=on_iteration)
    if not work.folds:
        raise InputError("nothing to compare by: items with one answer each leave none to hide")
    work.deadline = deadline  # not for hiding answers: without that there is nothing to show
    scores = work.score(methods)
    if not scores:  # a leaderboard has at least one line
        work.deadline = NEVER
        scores = work.score(methods[:1])
    judged = {score.method.name for score in scores}
    warn_of_time([method.name for method in methods if method.name not in judged])
    order = sorted(scores, key=lambda score: -float(score.best.mean()))
    with warnings.catch_warnings():
        # Methods are compared as their preset has them: there is no limit that one could raise.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = work.fit([score.method for score in order])
    decided = [decide(trial.posteriors).label for trial in fitted]
    leader, null = order[0].best, work.blind[0]
    best_lead = float((leader - null).mean())

    def standing(method: str, values: Floats, **more: Any) -> Standing:
        part = float((values - null).mean())
        return Standing(
            method=method,
            score=float(np.mean(values)),
            standard_error=standard_error(values, work.workers),
            share=100.0 * part / best_lead if best_lead > 0 else 0.0,
            behind=max(0.0, lead(leader, values, work.workers)),
            **more,
        )

    standings = [standing(NULL, null)]
    for score, trial, label in zip(order, fitted, decided, strict=True):
        error = None if truth is None else 100.0 * expected_error(trial.posteriors, truth)
        differs = int((label != decided[0]).sum())
        more = {"differs": differs, "seconds": score.seconds, "error": error}
        standings.append(standing(score.method.name, score.best, **more))
    return sorted(standings, key=lambda each: -each.score)


@dataclass(frozen=True)
class Dataset:
    """Answers under a name; `truth` (n_items,) are class codes, -1 where unknown, or None."""

    name: str
    engine: MemoryEngine
    truth: Codes | None = None


@dataclass(frozen=True)
class Comparison:
    """Methods × datasets, with what tells methods apart.

    values   (n_methods, n_datasets): error in per cent, lower is better, or mean log probability
             of hidden answers, higher is better; NaN where a method does not apply
    measure  "error" or "score"
    """

    methods: tuple[str, ...]
    datasets: tuple[str, ...]
    values: Floats
    measure: str

    def cells(self) -> dict[tuple[str, str], float]:
        """Return the values by the names of method and dataset."""
        return {
            (method, dataset): float(self.values[row, column])
            for row, method in enumerate(self.methods)
            for column, dataset in enumerate(self.datasets)
        }

    def columns(self) -> dict[str, Any]:
        """Return a row for each method, best rank first: datasets, mean, rank, p, among_best.

        A rank is the average over the datasets, 1 is best; a method that does not apply everywhere
        has none. p is Nemenyi's test against the best one (of several the one with the better
        mean): two ranks differ if they are further apart than the range of as many equal methods
        would be (Demšar 2006, Journal of Machine Learning Research 7, sec. 3.2.2). Nothing shows
        those that are `among_best` to be worse than it.
        """
        from scipy.stats import rankdata, studentized_range  # half a second

        better = self.values if self.measure == "error" else -self.values
        whole = np.isfinite(self.values).all(axis=1)
        ranks = np.full(len(self.methods), np.nan)
        ranks[whole] = rankdata(better[whole], axis=0).mean(axis=1)
        best = np.lexsort((better.mean(axis=1), ranks))[0]
        n_methods = int(whole.sum())
        spread = np.sqrt(n_methods * (n_methods + 1) / (12.0 * len(self.datasets)))
        p_values = np.asarray(
            studentized_range.sf((ranks - ranks[best]) / spread, n_methods, np.inf)
        )
        order = np.lexsort((np.arange(len(self.methods)), ranks))
        return {
            "method": [self.methods[at] for at in order],
            **dict(zip(self.datasets, self.values[order].T, strict=True)),
            "mean": self.values.mean(axis=1)[order],
            "rank": ranks[order],
            "p": p_values[order],
            "among_best": (p_values >= SIGNIFICANCE)[order],
        }


def compare_datasets(
    datasets: Sequence[Dataset],
    methods_of: Callable[[Dataset], Sequence[Method]],
    *,
    seed: int = 0,
    time_budget: float | None = None,
    on_iteration: OnIteration = ignore_iteration,
) -> Comparison:
    """Compare methods on several datasets: by errors if all have truth, else by hidden answers.

    `methods_of` gives the methods that a dataset allows; `time_budget` is for each dataset.
    """
    measure = "error" if all(dataset.truth is not None for dataset in datasets) else "score"
    found: list[dict[str, float]] = []
    for at, dataset in enumerate(datasets, start=1):
        methods = methods_of(dataset)
        if measure == "error":
            found.append(errors(dataset, methods, time_budget=time_budget))
        else:
            standings = compare(dataset.engine, methods, seed=seed, time_budget=time_budget)
            found.append({row.method: row.score for row in standings if row.method != NULL})
        extra: dict[str, float | int | str | None] = {
            "candidate": dataset.name,
            "of": len(datasets),
        }
        on_iteration(Iteration("dataset", at, extra=extra))
    names = tuple(dict.fromkeys(name for scores in found for name in scores))
    values = np.array([[scores.get(name, np.nan) for scores in found] for name in names])
    return Comparison(names, tuple(dataset.name for dataset in datasets), values, measure)


def errors(
    dataset: Dataset, methods: Sequence[Method], *, time_budget: float | None = None
) -> dict[str, float]:
    """Return the error in per cent of each method on all answers; those not in time are left out.

    Nothing is hidden: truth is the judge.
    """
    deadline = worker_pool.clock() + (NEVER if time_budget is None else time_budget)

    def attempt(method: Method) -> float:
        assert dataset.truth is not None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fit(method, dataset.engine, lambda _: check(deadline))
        return 100.0 * expected_error(dataset.engine.whole(POSTERIORS), dataset.truth)

    parallel = dataset.engine.n_votes >= WORTH_A_PROCESS
    found = run_all(attempt, methods, deadline=deadline, parallel=parallel)
    done = dict(zip((method.name for method in methods), found, strict=False))
    warn_of_time([method.name for method in methods if method.name not in done])
    return done
