"""Which items to ask again first: the expected gain in accuracy per further answer.

Notation (Frazier & Powell 2010, "Paradoxes in learning and the marginal value of information"):
    p_c     → posteriors[i, c]
    C[c, k] → crowd[c, k]      what a typical worker answers to an item of class c
    V_m     → the expected probability of the label being right after m further answers:
              V_m = Σ_{answers k_1..k_m} max_c p_c · Π_j C[c, k_j]
The gain per answer is max_m (V_m − V_0) / m. One step ahead is not enough: where no single answer
can change the label, the first answer seems worthless although two or three would pay.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import comb, factorial, prod

import numpy as np

from misc_cli.data.types import Floats

LOOK_AHEAD = 3
MAX_OUTCOMES = 300  # multisets of answers looked at; many classes look fewer answers ahead


def gain_per_answer(posteriors: Floats, crowd: Floats, look_ahead: int = LOOK_AHEAD) -> Floats:
    """Expected gain in accuracy per further answer of a typical worker, (n_items,).

    posteriors (n_items, n_classes) should be calibrated: an overconfident one hides the doubtful.
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
    """Likelihood of every multiset of answers given each class, (n_outcomes, n_classes)."""
    n_classes = crowd.shape[1]
    outcomes = combinations_with_replacement(range(n_classes), n_answers)
    rows = [_orders(outcome) * np.prod(crowd[:, list(outcome)], axis=1) for outcome in outcomes]
    return np.array(rows)


def _orders(outcome: tuple[int, ...]) -> int:
    """In how many orders these answers can come."""
    return factorial(len(outcome)) // prod(factorial(outcome.count(k)) for k in set(outcome))
