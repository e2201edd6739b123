"""From members' posteriors to those that are written: their mean, with the votes, softened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from misc_cli.aggregators.confusion.em import Sums
from misc_cli.core.engines.protocol import GOLD, POSTERIORS, Array, Block, RowArrays
from misc_cli.core.logdomain import clamp
from misc_cli.core.types import Floats
from misc_cli.select.calibrate import Calibration, shares_of

MEAN = "mean"


@dataclass(frozen=True)
class AddMember:
    """The posteriors there are, times a weight, are added to the mean; the first begins it."""

    weight: float
    first: bool

    writes: ClassVar[tuple[str, ...]] = (MEAN,)

    @property
    def needs(self) -> tuple[str, ...]:
        return (POSTERIORS,) if self.first else (POSTERIORS, MEAN)

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, int]:
        added = self.weight * rows[POSTERIORS]
        return {MEAN: added if self.first else rows[MEAN] + added}, 0


@dataclass(frozen=True)
class Settle:
    """What is written, of the posteriors (or the `mean`): as `select.search.mean_of` has it.

    `by_votes` multiplies them with the vote shares. The sums are those of what comes out.
    """

    mean: bool
    by_votes: bool
    calibration: Calibration | None

    writes: ClassVar[tuple[str, ...]] = (POSTERIORS,)

    @property
    def needs(self) -> tuple[str, ...]:
        return (MEAN if self.mean else POSTERIORS,)

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, Sums]:
        posteriors: Floats = np.array(rows[self.needs[0]])
        softer = self.calibration
        if self.by_votes:
            joint = shares_of(block.class_totals()) * posteriors
            posteriors = joint / joint.sum(axis=1, keepdims=True)
            if GOLD in rows:
                clamp(posteriors, rows[GOLD])
        if softer is not None:
            shares = shares_of(block.class_totals()) if softer.votes > 0.0 else None
            posteriors = softer.soften(posteriors, shares, rows.get(GOLD))
        sizes = np.ones(len(posteriors)) @ posteriors
        return {POSTERIORS: posteriors}, Sums(block.matrix.T @ posteriors, sizes)


@dataclass(frozen=True)
class CountKnown:
    """How many items' classes are known."""

    writes: ClassVar[tuple[str, ...]] = ()

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, int]:
        return {}, int((rows[GOLD] >= 0).sum()) if GOLD in rows else 0


@dataclass(frozen=True)
class KnownItems:
    """Of items whose class is known: the mean's posteriors, the vote shares, the classes."""

    writes: ClassVar[tuple[str, ...]] = ()

    def __call__(
        self, block: Block, rows: RowArrays
    ) -> tuple[RowArrays, list[tuple[Array, Array, Array]]]:
        if GOLD not in rows:
            return {}, []
        known = np.flatnonzero(rows[GOLD] >= 0)
        if len(known) == 0:
            return {}, []
        shares = shares_of(block.class_totals()[known])
        return {}, [(np.array(rows[MEAN][known]), shares, np.array(rows[GOLD][known]))]
