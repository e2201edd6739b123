"""A leaderboard of completers × aggregators by what they forecast of hidden answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from misc_cli.core.decide import decide
from misc_cli.core.types import Codes, Labels, OnIteration, ignore_iteration
from misc_cli.errors import InputError
from misc_cli.evaluate.metrics import expected_error
from misc_cli.select.choose import lead, standard_error
from misc_cli.select.leaderboard import Score
from misc_cli.select.search import Search
from misc_cli.select.trial import Method


@dataclass(frozen=True)
class Standing:
    """One line of the leaderboard.

    score    mean log probability of the hidden answers, its standard error beside it
    behind   standard errors of the paired difference to the leader
    differs  how many items get another label than the leader gives
    error    per cent wrong among items with truth, None without truth
    """

    method: str
    score: float
    standard_error: float
    behind: float
    differs: int
    seconds: float
    error: float | None


def compare(
    labels: Labels,
    methods: Sequence[Method],
    *,
    truth: Codes | None = None,
    seed: int = 0,
    time_budget: float | None = None,
    on_iteration: OnIteration = ignore_iteration,
) -> list[Standing]:
    """Every method on the same hidden answers, best first; truth is only reported."""
    work = Search(labels, seed=seed, time_budget=time_budget, on_iteration=on_iteration)
    if not work.folds:
        raise InputError("nothing to compare by: items with one answer each leave none to hide")
    order = sorted(work.score(methods), key=lambda score: -float(score.best.mean()))
    fitted = work.fit([score.candidate for score in order], None)
    decided = [decide(trial.posteriors).label for trial in fitted]
    standings = []
    for score, trial, label in zip(order, fitted, decided, strict=True):
        error = None if truth is None else 100.0 * expected_error(trial.posteriors, truth)
        standings.append(_standing(score, order[0], int((label != decided[0]).sum()), error))
    return standings


def _standing(score: Score, leader: Score, differs: int, error: float | None) -> Standing:
    return Standing(
        method=score.candidate.method.name,
        score=float(np.mean(score.best)),
        standard_error=standard_error(score.best),
        behind=max(0.0, lead(leader.best, score.best)),
        differs=differs,
        seconds=score.seconds,
        error=error,
    )
