"""Majority vote: each class's share of an item's votes is its posterior. No parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from misc_cli.aggregators.confusion.em import confusions_of, vote_fractions
from misc_cli.core.types import Aggregation, Iteration, Labels, OnIteration, ignore_iteration


@dataclass(frozen=True)
class MajorityVote:
    """Nothing to set. Confusions are each worker's answers against the vote fractions.

    The confidence is the share of the votes, and people count on it: it is not calibrated.
    """

    calibratable: ClassVar[bool] = False

    def __call__(self, labels: Labels, on_iteration: OnIteration = ignore_iteration) -> Aggregation:
        posteriors = vote_fractions(labels)
        on_iteration(Iteration("mv", 1, change=0.0, posteriors=posteriors))
        return Aggregation(
            posteriors=posteriors,
            confusions=confusions_of(labels, posteriors, shrinkage=0.5),
            class_prior=posteriors.mean(axis=0),
            iterations=1,
        )
