"""Leaps of a warm run: where three steps of EM lead, tried, and taken back if it did not pay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from misc_cli.aggregators.confusion.kernels import Sums
from misc_cli.core.types import Floats

# A leap may cost this much log-likelihood: with shrinkage a plain step may, too.
LOSS = 1.0


@dataclass(frozen=True)
class Trail:
    """The last steps of a warm run, for a leap; `before` is where to go back to after a bad one."""

    steps: tuple[Sums, ...] = ()
    before: Sums | None = None

    def next(self, sums: Sums) -> tuple[Sums, Trail]:
        """What the M-step should read after a sweep gave `sums`, and the trail from there.

        Varadhan & Roland (2008), S3, on the expected counts: of three points in a row r is the
        first step and v the change of step; the leap is x0 − 2a·r + a²·v with a = −|r| / |v|.
        """
        if self.before is not None and sums.log_likelihood < self.before.log_likelihood - LOSS:
            return self.before, Trail()  # it did not pay
        steps = (*self.steps, sums)
        if len(steps) < 3:
            return sums, Trail(steps)
        leapt = Sums(
            leap(*(step.counts for step in steps)), leap(*(step.class_sizes for step in steps))
        )
        return leapt, Trail(before=sums)


def leap(first: Floats, second: Floats, third: Floats) -> Floats:
    """Where three steps lead, never below zero."""
    step = second - first
    turn = (third - second) - step
    size = float(np.linalg.norm(turn))
    rate = -max(float(np.linalg.norm(step)) / size, 1.0) if size > 0.0 else -1.0
    far: Floats = np.maximum(first - 2.0 * rate * step + rate**2 * turn, 0.0)
    return far
