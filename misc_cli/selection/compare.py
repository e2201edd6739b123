"""A leaderboard of completers × aggregators by what they forecast of hidden answers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from misc_cli.data.posteriors import decide
from misc_cli.data.types import Codes, Floats, OnIteration, ignore_iteration
from misc_cli.engines.protocol import Engine
from misc_cli.errors import ConvergenceWarning, InputError
from misc_cli.quality.evaluation import expected_error
from misc_cli.selection.candidates import Method
from misc_cli.selection.cross_validation import CrossValidation
from misc_cli.selection.ensemble import warn_of_time
from misc_cli.selection.scoring import lead, standard_error
from misc_cli.selection.worker_pool import Deadline

NULL = "null"


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
    differs: int | None
    seconds: float
    error: float | None


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
    deadline = Deadline(time_budget)
    work = CrossValidation(engine, seed=seed, on_iteration=on_iteration)
    if not work.n_folds:
        raise InputError("nothing to compare by: items with one answer each leave none to hide")
    work.deadline = deadline  # not for hiding answers: without that there is nothing to show
    scores = work.score(methods)
    if not scores:  # a leaderboard has at least one line
        work.deadline = Deadline(None)
        scores = work.score(methods[:1])
    judged = {score.candidate.method.name for score in scores}
    warn_of_time([method.name for method in methods if method.name not in judged])
    order = sorted(scores, key=lambda score: -float(score.best.mean()))
    with warnings.catch_warnings():
        # Methods are compared as their preset has them: there is no limit that one could raise.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = work.fit([score.candidate for score in order])
    decided = [decide(trial.posteriors).label for trial in fitted]
    leader = order[0].best

    def standing(
        name: str, values: Floats, differs: int | None, seconds: float, error: float | None
    ) -> Standing:
        ahead = float((leader - work.null).mean())
        return Standing(
            method=name,
            score=float(np.mean(values)),
            standard_error=standard_error(values, work.workers),
            share=100.0 * float((values - work.null).mean()) / ahead if ahead > 0 else 0.0,
            behind=max(0.0, lead(leader, values, work.workers)),
            differs=differs,
            seconds=seconds,
            error=error,
        )

    standings = [standing(NULL, work.null, None, 0.0, None)]
    for score, trial, label in zip(order, fitted, decided, strict=True):
        error = None if truth is None else 100.0 * expected_error(trial.posteriors, truth)
        differs = int((label != decided[0]).sum())
        name = score.candidate.method.name
        standings.append(standing(name, score.best, differs, score.seconds, error))
    return sorted(standings, key=lambda each: -each.score)
