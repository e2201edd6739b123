"""From scores to a choice: arithmetic on log scores of the same hidden answers, nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from misc_cli.core.types import Floats

# How many standard errors of a paired difference make a difference. Two would let one candidate
# in twenty through by luck, and there are dozens of them.
SIGNIFICANT = 3.0


def standard_error(values: Floats) -> float:
    """Of the mean of (n,) values."""
    if len(values) < 2:
        return float("inf")
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def lead(ahead: Floats, behind: Floats) -> float:
    """By how many standard errors of the paired difference the first is ahead."""
    difference = ahead - behind
    error = standard_error(difference)
    if error == 0.0:
        return float(np.sign(difference.mean()) * np.inf) if difference.any() else 0.0
    return float(difference.mean() / error)


def indistinguishable(scores: Sequence[Floats]) -> list[int]:
    """Positions of the best scores, (n_hidden,) each, and of all not significantly behind them.

    What they stand for is averaged: taking the single best of several that cannot be told apart
    would be a lottery, and their mistakes differ.
    """
    top = max(range(len(scores)), key=lambda at: float(scores[at].mean()))
    return [
        at for at in range(len(scores)) if at == top or lead(scores[top], scores[at]) < SIGNIFICANT
    ]
