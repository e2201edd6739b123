"""A parameter chosen by how well its models forecast answers they have not seen."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np

from misc_cli.core.holdout import folds, log_score
from misc_cli.core.types import Aggregator, Iteration, Labels, OnIteration
from misc_cli.core.votes import SparseVotes
from misc_cli.errors import ConvergenceWarning, MiscWarning


def best_by_held_out_answers(
    labels: Labels,
    candidates: Mapping[float, Aggregator],
    *,
    default: float,
    name: str,
    on_iteration: OnIteration,
) -> float:
    """The candidate with the best mean log probability of hidden answers, by its own forecast.

    The same answers are hidden from all of them; a tie goes to the earlier candidate. Completed
    labels cannot be hidden (they are forecasts themselves) and too few answers leave nothing to
    hide: there the default stands, with a warning.
    """
    splits = list(folds(labels)) if _are_answers(labels) else []
    if not splits:
        warnings.warn(
            f"no answers could be held out to choose --{name}: {default:g} is used",
            MiscWarning,
            stacklevel=3,
        )
        return default
    scores: dict[float, float] = {}
    for number, (value, candidate) in enumerate(candidates.items(), start=1):
        with warnings.catch_warnings():
            # a trial that stops at its limit is scored as it is; only the final fit may complain
            warnings.simplefilter("ignore", ConvergenceWarning)
            logs = [
                log_score(candidate(kept).predict(hidden.workers, hidden.items), hidden)
                for kept, hidden in splits
            ]
        scores[value] = float(np.concatenate(logs).mean())
        on_iteration(Iteration(name, number, objective=scores[value], extra={name: value}))
    return max(scores, key=lambda value: scores[value])


def _are_answers(labels: Labels) -> bool:
    return isinstance(labels.votes, SparseVotes)
