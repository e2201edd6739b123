"""Workers who err together: how far two agree beyond what the labels explain.

Given the labels, workers should answer independently of each other: each by its own confusions.
For two workers w, v and the items that both answered:
    A  = how often they agree
    E  = Σ_c n_c Σ_k π_w[c, k] π_v[c, k]   how often they would if only the label c joined them
    ρ  = (A − E) / (n − E)                 their likeness: 0 independent, 1 always the same
n_c counts the shared items labelled c; π_w are a worker's own answers given the labels, with half
an answer of the crowd's. Their own votes helped to make the labels, which hides some likeness and
invents none: who disagrees with a label is the more likely to be alone with it.

How likely so much agreement would be by luck is the upper tail of the binomial with the mean E / n:
where the chances differ from item to item the true tail is lighter (Hoeffding 1956), so it is no
overstatement. Many pairs are tried, so the level holds for the share of false pairs among those
found (Benjamini & Hochberg 1995).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import betainc

from misc_cli.core.types import Codes, Floats
from misc_cli.core.votes import Votes

MIN_SHARED = 10  # fewer shared items say nothing about a pair
LEVEL = 0.01  # expected share of false pairs among those called alike
ALIKE = 0.2  # a likeness below this is real on large data, but changes little
SHRINKAGE = 0.5  # of the crowd's answers in a worker's row, as in ds-em
# Pairs of answers that are looked at; beyond, the workers with the fewest answers stay out.
MOST_PAIRS_OF_ANSWERS = 20_000_000
MOST_CELLS = 50_000_000  # of workers × classes × classes; beyond, one accuracy per worker
PAIRS_AT_ONCE = 50_000

Keys = npt.NDArray[np.int64]
AgreeingChance = Callable[[int, Keys, Keys], Floats]


@dataclass(frozen=True)
class Pairs:
    """Pairs of workers that share at least MIN_SHARED items, (n_pairs,) each, first < second.

    shared    items that both answered
    agreed    on how many of them they said the same
    expected  how many it would be if only the labels joined them
    chance    probability of at least so much agreement by luck
    """

    n_workers: int
    first: Codes
    second: Codes
    shared: Floats
    agreed: Floats
    expected: Floats
    chance: Floats

    @property
    def likeness(self) -> Floats:
        """ρ, at most 1; below 0 for pairs that avoid each other."""
        room = self.shared - self.expected
        likeness: Floats = (self.agreed - self.expected) / np.maximum(room, 1e-9)
        return likeness

    @property
    def alike(self) -> npt.NDArray[np.bool_]:
        """Pairs that agree beyond luck, and by enough to matter."""
        return _significant(self.chance) & (self.likeness >= ALIKE)

    def matrix(self) -> sp.csr_array:
        """Likeness of the pairs that are alike, symmetric, (n_workers, n_workers), sparse."""
        chosen = self.alike
        ends = self.first[chosen], self.second[chosen]
        half = sp.csr_array((self.likeness[chosen], ends), shape=(self.n_workers, self.n_workers))
        return sp.csr_array(half + half.T)


def compare_pairs(votes: Votes, label: Codes) -> Pairs:
    """Every pair of workers that shares enough items, given one label per item, (n_items,)."""
    worker, item, answer = _answers(votes)
    worker, item, answer = _bounded(worker, item, answer, votes)
    given = label[item]
    keys, shared = _pair_sums(worker, item, votes)
    enough = shared >= MIN_SHARED
    keys, shared = keys[enough], shared[enough]
    agreed = _aligned(keys, *_pair_sums(worker, item * votes.n_classes + answer, votes))
    first, second = (codes.astype(np.int32) for codes in np.divmod(keys, votes.n_workers))
    expected = _expected(votes, worker, item, answer, given, keys)
    share = np.clip(expected / np.maximum(shared, 1.0), 1e-12, 1.0 - 1e-12)
    # P(A ≥ a) of a binomial, which is 1 for a = 0
    tail = betainc(np.maximum(agreed, 1.0), shared - agreed + 1.0, share)
    chance = np.where(agreed > 0, tail, 1.0)
    return Pairs(votes.n_workers, first, second, shared, agreed, expected, chance)


def answer_weights(votes: Votes, likeness: sp.csr_array) -> Floats:
    """How much each answer counts beside those of like workers on its item, (n_votes,), at most 1.

    1 / (1 + Σ_v ρ_wv) over the others who answered the item: m copies of a worker count 1/m each,
    one in all, and whoever is like nobody counts whole. In the order of the votes.
    """
    parts = []
    for rows in votes.blocks:
        block = votes.block(rows)
        worker = block.indices // votes.n_classes
        shape = (block.shape[0], votes.n_workers)
        who = sp.csr_array((np.ones(len(worker)), worker, block.indptr), shape=shape)
        company = (who @ likeness).tocsr()
        company.sort_indices()
        row = np.repeat(np.arange(shape[0], dtype=np.int64), np.diff(block.indptr))
        company_row = np.repeat(np.arange(shape[0], dtype=np.int64), np.diff(company.indptr))
        width = np.int64(votes.n_workers)
        met = _aligned(row * width + worker, company_row * width + company.indices, company.data)
        parts.append(1.0 / (1.0 + met))
    return np.concatenate(parts)


def effective_votes(votes: Votes, weights: Floats) -> Floats:
    """The sum of the weights of each item's answers, (n_items,)."""
    sizes = np.concatenate([np.diff(votes.block(rows).indptr) for rows in votes.blocks])
    edges = np.concatenate([[0.0], np.cumsum(weights)])
    ends = np.cumsum(sizes)
    counted: Floats = edges[ends] - edges[ends - sizes]
    return counted


def _answers(votes: Votes) -> tuple[Keys, Keys, Keys]:
    """Worker, item and class of every vote, in the order of the votes."""
    blocks = [votes.block(rows) for rows in votes.blocks]
    columns = np.concatenate([block.indices for block in blocks]).astype(np.int64)
    sizes = np.concatenate([np.diff(block.indptr) for block in blocks])
    item = np.repeat(np.arange(votes.n_items, dtype=np.int64), sizes)
    worker, answer = np.divmod(columns, votes.n_classes)
    return worker, item, answer


def _bounded(worker: Keys, item: Keys, answer: Keys, votes: Votes) -> tuple[Keys, Keys, Keys]:
    """Without the least active workers, if all of them would be too many pairs of answers.

    Pairs that share enough items to be judged are found among the active.
    """
    activity = np.bincount(worker, minlength=votes.n_workers)
    kept = activity[worker] >= MIN_SHARED
    worker, item, answer = worker[kept], item[kept], answer[kept]
    while True:
        sizes = np.bincount(item, minlength=votes.n_items).astype(np.float64)
        n_pairs = float((sizes * (sizes - 1.0)).sum() / 2.0)
        if n_pairs <= MOST_PAIRS_OF_ANSWERS:
            return worker, item, answer
        # half as many answers are about a quarter as many pairs; ties leave together
        order = np.sort(activity[worker])
        keep = np.sqrt(MOST_PAIRS_OF_ANSWERS / n_pairs) * 0.95
        kept = activity[worker] > order[int(len(order) * (1.0 - keep))]
        worker, item, answer = worker[kept], item[kept], answer[kept]


def _pair_sums(worker: Keys, place: Keys, votes: Votes) -> tuple[Keys, Floats]:
    """In how many places both of a pair are: sorted keys first · n_workers + second, and counts."""
    places, where = np.unique(place, return_inverse=True)
    shape = (len(places), votes.n_workers)
    present = sp.csr_array((np.ones(len(worker)), (where, worker)), shape=shape)
    both = sp.coo_array(sp.triu(present.T @ present, 1))
    keys = both.row.astype(np.int64) * votes.n_workers + both.col
    order = np.argsort(keys, kind="stable")
    return keys[order], both.data[order]


def _aligned(wanted: Keys, keys: Keys, values: Floats) -> Floats:
    """The values of the wanted keys, 0 where there is none; `keys` are sorted."""
    found = np.zeros(len(wanted))
    if len(keys) == 0:
        return found
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    hit = keys[at] == wanted
    found[hit] = values[at[hit]]
    return found


def _expected(
    votes: Votes, worker: Keys, item: Keys, answer: Keys, given: Codes, keys: Keys
) -> Floats:
    """E of every pair: class by class, then pairs by the block."""
    agreement = _chance_to_agree(votes, worker, answer, given)
    expected = np.zeros(len(keys))
    first, second = np.divmod(keys, votes.n_workers)
    for label in np.unique(given):
        of = given == label
        both = _aligned(keys, *_pair_sums(worker[of], item[of], votes))
        for start in range(0, len(keys), PAIRS_AT_ONCE):
            rows = slice(start, start + PAIRS_AT_ONCE)
            expected[rows] += both[rows] * agreement(int(label), first[rows], second[rows])
    return expected


def _chance_to_agree(votes: Votes, worker: Keys, answer: Keys, given: Codes) -> AgreeingChance:
    """Σ_k π_w[c, k] π_v[c, k] as a function of the class and the pairs."""
    n_workers, n_classes = votes.n_workers, votes.n_classes
    if n_workers * n_classes * n_classes <= MOST_CELLS:
        cells = (worker * n_classes + given) * n_classes + answer
        counts = np.bincount(cells, minlength=n_workers * n_classes**2).astype(np.float64)
        counts = counts.reshape(n_workers, n_classes, n_classes)
        crowd = counts.sum(axis=0) + 1e-9
        rows = counts + SHRINKAGE * crowd / crowd.sum(axis=1, keepdims=True)
        rows /= rows.sum(axis=2, keepdims=True)

        def by_rows(label: int, first: Keys, second: Keys) -> Floats:
            chance: Floats = np.einsum("pk,pk->p", rows[first, label], rows[second, label])
            return chance

        return by_rows
    right = answer == given
    total = np.bincount(worker, minlength=n_workers) + SHRINKAGE
    accuracy = np.bincount(worker, right, n_workers) + SHRINKAGE * right.mean()
    accuracy = accuracy / total
    wrong = sp.csr_array(
        (np.ones(int((~right).sum())), (given[~right], answer[~right])),
        shape=(n_classes, n_classes),
    )
    mistakes = wrong.sum(axis=1)
    same_mistake = (wrong * wrong).sum(axis=1) / np.maximum(mistakes, 1.0) ** 2

    def by_accuracy(label: int, first: Keys, second: Keys) -> Floats:
        a, b = accuracy[first], accuracy[second]
        chance: Floats = a * b + (1.0 - a) * (1.0 - b) * same_mistake[label]
        return chance

    return by_accuracy


def _significant(chance: Floats) -> npt.NDArray[np.bool_]:
    """Benjamini & Hochberg's step-up rule at LEVEL."""
    if len(chance) == 0:
        return np.zeros(0, dtype=bool)
    order = np.sort(chance)
    passing = np.flatnonzero(order <= LEVEL * np.arange(1, len(order) + 1) / len(order))
    limit = order[passing[-1]] if len(passing) else -1.0
    found: npt.NDArray[np.bool_] = chance <= limit
    return found
