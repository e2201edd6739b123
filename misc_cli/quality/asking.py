"""Worth of further answers: the expected rise in the share of labels that are right.

All values are expectations by calibrated posteriors p (docs/workers.md: how far to trust them) and
by a typical worker's confusions C[c, k], the probability that it answers k to an item of class c:

    V_m = Σ_{answers k_1..k_m} max_c p_c · Π_j C[c, k_j]

is the expected probability that the label is right after m further answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb, factorial, prod

import numpy as np

from misc_cli.data.types import Floats

LOOK_AHEAD = 3
MAX_OUTCOMES = 300  # multisets of answers; with many classes fewer answers are looked ahead
PAYS = 0.05  # an answer that gains less does not pay: an error avoided takes 20 of them
HARDLY = 0.01  # and one that gains less is not worth a point of the curve
POINTS = 5  # of that curve, besides the first
ENOUGH = 1e-9  # rounding of a sum of errors


def gain_per_answer(posteriors: Floats, crowd: Floats) -> Floats:
    """Return the expected gain in accuracy per further answer of a typical worker, (n_items,).

    The gain is max_m (V_m − V_0) / m (Frazier & Powell 2010, "Paradoxes in learning and the
    marginal value of information"): where no single answer can change the label, two or three may.
    Overconfident posteriors would hide doubtful items.
    """
    best, n_classes = np.zeros(len(posteriors)), crowd.shape[1]
    for n_answers in range(1, LOOK_AHEAD + 1):
        if n_answers == 1 or comb(n_classes + n_answers - 1, n_answers) <= MAX_OUTCOMES:
            np.maximum(best, gain_of(posteriors, crowd, n_answers) / n_answers, out=best)
    return best


def gain_of(posteriors: Floats, crowd: Floats, n_answers: int = 1) -> Floats:
    """Return V_m − V_0 of m = `n_answers` further answers to each item, (n_items,)."""
    after = np.zeros(len(posteriors))
    for outcome in combinations_with_replacement(range(crowd.shape[1]), n_answers):
        orders = factorial(n_answers) // prod(factorial(outcome.count(k)) for k in set(outcome))
        likelihood = orders * np.prod(crowd[:, list(outcome)], axis=1)
        after += (posteriors * likelihood).max(axis=1)
    gain: Floats = np.maximum(after - posteriors.max(axis=1), 0.0)
    return gain


@dataclass(frozen=True)
class Asking:
    """Expected errors of all labels, should the first so many items be asked once more.

    gains   (n_asked,) V_1 − V_0 of the items that could be asked, the largest first
    errors  expected number of wrong labels now
    """

    gains: Floats
    errors: float
    n_items: int

    @property
    def pays(self) -> int:
        """Return how many items are worth another answer."""
        return int((self.gains >= PAYS).sum())

    def error(self, asked: int) -> float:
        """Return the expected share of wrong labels after asking the first items once more."""
        return max(self.errors - float(self.gains[:asked].sum()), 0.0) / max(self.n_items, 1)

    def curve(self) -> Iterator[tuple[int, float, float]]:
        """Yield items asked, expected error then, and the gain of the last of these items."""
        yield 0, self.error(0), float("nan")
        steps = np.linspace(0, (self.gains >= HARDLY).sum(), POINTS + 1)[1:]
        for asked in np.unique(np.rint(steps).astype(np.int64)).tolist():
            if asked:
                yield asked, self.error(asked), float(self.gains[asked - 1])


def decided_by_hand(confidences: Floats, reach: float) -> int:
    """Return how many of the least sure items a person must decide, for a share that is right.

    A label is wrong with one minus its confidence; one that a person decides is right.
    """
    doubts = np.sort(1.0 - confidences)[::-1]
    left = doubts.sum() - np.append(0.0, np.cumsum(doubts))
    enough = left <= (1.0 - reach) * len(doubts) + ENOUGH
    return int(enough.argmax())
