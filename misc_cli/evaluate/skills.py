"""What chance and skill explain of two workers' agreement (notation: alike.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from misc_cli.core.types import Floats
from misc_cli.evaluate.meetings import PAIRS_AT_ONCE, Keys

MARGIN_PRIOR = 2.0  # answers of the crowd's in a worker's shares of labels
SKILL_PRIOR = 5.0  # shared items with a typical worker in a worker's skill
MOST_SAY = 30  # shared items beyond which a partner's say grows no more: no copy outvotes the rest
GROUPS = 15  # of partners
ROUNDS = 6  # of half a step towards the medians


@dataclass(frozen=True)
class Margins:
    """The workers' shares of labels, smoothed by the crowd's, as far as chance needs them.

    counts  (n_workers, n_classes), sparse: how often a worker said each class
    usual   (n_workers,) Σ_k counts · the crowd's share of k
    totals  (n_workers,) how many answers, with the crowd's
    crowd   Σ_k of the crowd's share squared
    """

    counts: Any
    usual: Floats
    totals: Floats
    crowd: float

    def of_workers(self) -> Floats:
        """The chance of a worker to agree with the crowd's answers, (n_workers,)."""
        chance: Floats = (self.usual + MARGIN_PRIOR * self.crowd) / self.totals
        return np.minimum(chance, 1.0 - 1e-6)

    def of_pairs(self, first: Keys, second: Keys) -> Floats:
        """e_wv of every pair, (n_pairs,)."""
        common = np.empty(len(first))
        for start in range(0, len(first), PAIRS_AT_ONCE):
            rows = slice(start, start + PAIRS_AT_ONCE)
            one, other = self.counts[first[rows]], self.counts[second[rows]]
            common[rows] = one.multiply(other).sum(axis=1)
        common += MARGIN_PRIOR * (self.usual[first] + self.usual[second])
        common += MARGIN_PRIOR**2 * self.crowd
        chance: Floats = common / (self.totals[first] * self.totals[second])
        return np.minimum(chance, 1.0 - 1e-6)


def margins_of(said: Keys) -> Margins:
    """From how often each worker said each class, (n_workers, n_classes)."""
    counts = sp.csr_array(said.astype(np.float64))
    crowd = said.sum(axis=0) / max(int(said.sum()), 1)
    totals = said.sum(axis=1) + MARGIN_PRIOR
    return Margins(counts, np.asarray(counts @ crowd), totals, float(crowd @ crowd))


def skills_of(margins: Margins, first: Keys, second: Keys, shared: Keys, agreed: Keys) -> Floats:
    """s_w, (n_workers,), from what groups of partners say, again and again.

    A group g says Σ_v (A_wv − n_wv e_w) / Σ_v n_wv (1 − e_w) s_v, its say is the denominator's; a
    partner's n counts up to a limit. One typical partner beside them is everybody's.
    """
    n_workers = len(margins.totals)
    by_chance = margins.of_workers()
    counted = np.minimum(shared, MOST_SAY).astype(np.float64)
    same = agreed * (counted / np.maximum(shared, 1))
    shape = (n_workers, GROUPS)
    # each pair counts for both of its workers, in the group of the other
    sides = [
        (of, partner, (of * GROUPS + partner % GROUPS).astype(np.int32))
        for of, partner in ((first, second), (second, first))
    ]

    def summed(values: Callable[[Keys, Keys], Floats]) -> Floats:
        parts = [np.bincount(at, values(w, v), shape[0] * shape[1]) for w, v, at in sides]
        return (parts[0] + parts[1]).astype(np.float64).reshape(shape)

    beyond = summed(lambda of, _: same - counted * by_chance[of])
    room = summed(lambda of, _: counted * (1.0 - by_chance[of]))
    typical = float(np.sqrt(max(beyond.sum() / max(room.sum(), 1e-9), 0.01)))
    usual = np.full((n_workers, 1), typical)
    skill = usual[:, 0]
    for _ in range(ROUNDS):
        theirs = np.maximum(skill, 0.05)
        # 1 − e_w is the same for all partners of a worker
        say = summed(lambda _, partner: counted * theirs[partner])  # noqa: B023 – called at once
        say *= 1.0 - by_chance[:, None]
        ratio = np.hstack([beyond / np.maximum(say, 1e-9), usual])
        weight = np.hstack([say, SKILL_PRIOR * usual])
        skill = np.clip((skill + _medians(ratio, weight)) / 2.0, -1.0, 1.0)
    return skill


def _medians(values: Floats, weights: Floats) -> Floats:
    """The weighted median of each row, (n_rows,)."""
    order = np.argsort(values, axis=1, kind="stable")
    reached = np.cumsum(np.take_along_axis(weights, order, axis=1), axis=1)
    middle = (reached >= reached[:, -1:] / 2.0).argmax(axis=1)[:, None]
    found = np.take_along_axis(order, middle, axis=1)
    medians: Floats = np.take_along_axis(values, found, axis=1)[:, 0]
    return medians
