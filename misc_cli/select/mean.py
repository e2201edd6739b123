"""One result of several fitted methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from misc_cli.aggregators.confusion.counts import confusions_of
from misc_cli.core.logdomain import clamp
from misc_cli.core.solver import joined_stops
from misc_cli.core.types import Aggregation, Floats, Labels
from misc_cli.select.calibrate import Calibration, pool, vote_totals, voted
from misc_cli.select.together import SHRINKAGE


def mean_of(
    labels: Labels,
    fitted: Sequence[Aggregation],
    shares: Sequence[float],
    *,
    by_votes: bool = False,
    calibration: Calibration | None = None,
) -> Aggregation:
    """The weighted mean of the posteriors, calibrated; a single one keeps all else it knows.

    `by_votes` lets the votes decide, and that break their ties.
    """
    posteriors: Floats = np.average([f.posteriors for f in fitted], axis=0, weights=shares)
    if by_votes:
        posteriors = voted(vote_totals(labels), posteriors)
        if labels.gold is not None:
            clamp(posteriors, labels.gold)
    if calibration is not None:
        pooled = None
        if len(fitted) > 1:
            pooled = pool([of_one.posteriors for of_one in fitted], shares)
        posteriors = calibration(posteriors, labels, pooled)
    if len(fitted) == 1:
        return replace(fitted[0], posteriors=posteriors, predictor=None)
    return Aggregation(
        posteriors=posteriors,
        confusions=confusions_of(labels, posteriors, SHRINKAGE),
        class_prior=posteriors.mean(axis=0),
        iterations=sum(f.iterations for f in fitted),
        stopped=joined_stops(*(f.stopped for f in fitted)),
    )
