"""From members' posteriors to those that are written: their mean, with the votes, softened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from misc_cli.aggregators.confusion_kernels import Sums
from misc_cli.data.logdomain import clamp
from misc_cli.data.types import Floats
from misc_cli.engines.protocol import GOLD, POSTERIORS, Array, Block, RowArrays
from misc_cli.selection.calibration import Calibration, logs_of, normalised, shares_of, voted

MEAN = "mean"
LOGS = "mean of logarithms"


@dataclass(frozen=True)
class AddMember:
    """The posteriors there are, times a weight, are added to the mean, and their logarithms to
    that of logarithms; the first begins them.
    """

    weight: float
    first: bool

    writes: ClassVar[tuple[str, ...]] = (MEAN, LOGS)

    @property
    def needs(self) -> tuple[str, ...]:
        return (POSTERIORS,) if self.first else (POSTERIORS, MEAN, LOGS)

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, int]:
        added = self.weight * rows[POSTERIORS]
        logs = self.weight * logs_of(rows[POSTERIORS])
        if self.first:
            return {MEAN: added, LOGS: logs}, 0
        return {MEAN: rows[MEAN] + added, LOGS: rows[LOGS] + logs}, 0


@dataclass(frozen=True)
class Settle:
    """What is written, of the posteriors (or the `mean`): as `select.mean.mean_of` has it.

    `by_votes` lets the votes decide, and them break ties. The sums are those of what comes out.
    """

    mean: bool
    by_votes: bool
    calibration: Calibration | None

    writes: ClassVar[tuple[str, ...]] = (POSTERIORS,)

    @property
    def needs(self) -> tuple[str, ...]:
        return (MEAN, LOGS) if self.mean else (POSTERIORS,)

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, Sums]:
        posteriors: Floats = np.array(rows[self.needs[0]])
        softer = self.calibration
        if self.by_votes:
            posteriors = voted(block.class_totals(), posteriors)
            if GOLD in rows:
                clamp(posteriors, rows[GOLD])
        if softer is not None:
            shares = shares_of(block.class_totals()) if softer.votes > 0.0 else None
            pooled = normalised(rows[LOGS]) if self.mean else None
            posteriors = softer.soften(posteriors, shares, rows.get(GOLD), pooled)
        sizes = np.ones(len(posteriors)) @ posteriors
        return {POSTERIORS: posteriors}, Sums(block.matrix.T @ posteriors, sizes)


@dataclass(frozen=True)
class KnownItems:
    """Of items whose class is known: the mean's posteriors, those of logarithms, the vote shares,
    the classes.
    """

    writes: ClassVar[tuple[str, ...]] = ()

    def __call__(
        self, block: Block, rows: RowArrays
    ) -> tuple[RowArrays, list[tuple[Array, Array, Array, Array]]]:
        if GOLD not in rows:
            return {}, []
        known = np.flatnonzero(rows[GOLD] >= 0)
        if len(known) == 0:
            return {}, []
        shares = shares_of(block.class_totals()[known])
        mean, logs, gold = (np.array(rows[name][known]) for name in (MEAN, LOGS, GOLD))
        return {}, [(mean, logs, shares, gold)]
