"""Rank items for more answers by the expected gain in accuracy per further answer.

Notation (Frazier & Powell 2010, "Paradoxes in learning and the marginal value of information"):
    p_c     → posteriors[i, c]
    C[c, k] → crowd[c, k]      probability that a typical worker answers k to an item of class c
    V_m     → the expected probability of the label being right after m further answers:
              V_m = Σ_{answers k_1..k_m} max_c p_c · Π_j C[c, k_j]
The gain per answer is max_m (V_m − V_0) / m. One answer ahead is not enough: where no single answer
can change the label, its gain is zero although two or three answers would help.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import comb, factorial, prod

import numpy as np

from misc_cli.data.types import Floats

LOOK_AHEAD = 3
MAX_OUTCOMES = 300  # multisets of answers; with many classes fewer answers are looked ahead


def gain_per_answer(posteriors: Floats, crowd: Floats, look_ahead: int = LOOK_AHEAD) -> Floats:
    """Return the expected gain in accuracy per further answer of a typical worker, (n_items,).

    posteriors (n_items, n_classes) should be calibrated: overconfident ones hide doubtful items.
    """
    now = posteriors.max(axis=1)
    best = np.zeros(len(posteriors))
    for n_answers in range(1, look_ahead + 1):
        if n_answers > 1 and comb(crowd.shape[1] + n_answers - 1, n_answers) > MAX_OUTCOMES:
            break
        after = np.zeros(len(posteriors))
        for likelihood in _outcomes(crowd, n_answers):  # over multisets of answers, not over items
            after += (posteriors * likelihood).max(axis=1)
        np.maximum(best, (after - now) / n_answers, out=best)
    return best


def _outcomes(crowd: Floats, n_answers: int) -> Floats:
    """Return the likelihood of each multiset of answers by class, (n_outcomes, n_classes)."""
    n_classes = crowd.shape[1]
    outcomes = combinations_with_replacement(range(n_classes), n_answers)
    rows = [_orders(outcome) * np.prod(crowd[:, list(outcome)], axis=1) for outcome in outcomes]
    return np.array(rows)


def _orders(outcome: tuple[int, ...]) -> int:
    """Return the number of orders in which these answers can come."""
    return factorial(len(outcome)) // prod(factorial(outcome.count(k)) for k in set(outcome))
