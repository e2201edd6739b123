"""Workers who err together: how far two agree beyond what the labels explain.

Given the labels, workers should answer independently of each other: each by its own confusions.
For two workers w, v and the items that both answered:
    A  = how often they agree
    E  = Σ_c n_c Σ_k π_w[c, k] π_v[c, k]   how often they would if only the label c joined them
    ρ  = (A − E) / (n − E)                 their likeness: 0 independent, 1 always the same
n_c counts the shared items labelled c; π_w are a worker's own answers given the labels, with half
an answer of the crowd's. Their own votes helped to make the labels, which hides some likeness and
invents none: who disagrees with a label is the more likely to be alone with it.

How likely so much agreement would be by luck is at most exp(−n · KL(A/n ‖ E/n)), whatever the
chances of the single items (Hoeffding 1963): no approximation that fails where E is near n. Many
pairs are tried, so the level holds for the share of false pairs among those found (Benjamini &
Hochberg 1995).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from misc_cli.core.types import Codes, Floats
from misc_cli.core.votes import Votes

MIN_SHARED = 10  # fewer shared items say nothing about a pair
LEVEL = 0.01  # expected share of false pairs among those called alike
ALIKE = 0.2  # a likeness below this is real on large data, but changes little
SHRINKAGE = 0.5  # of the crowd's answers in a worker's row, as in ds-em
# Pairs of answers that are looked at; beyond, the workers with the fewest answers stay out.
MOST_PAIRS_OF_ANSWERS = 2_500_000
MOST_CELLS = 50_000_000  # of workers × classes × classes; beyond, one accuracy per worker
PAIRS_AT_ONCE = 200_000
LOOKED_UP_AT_ONCE = 50_000

Keys = npt.NDArray[np.int64]
AgreeingChance = Callable[[Keys, Keys, Keys], Floats]


@dataclass(frozen=True)
class Pairs:
    """Pairs of workers that share at least MIN_SHARED items, (n_pairs,) each, first < second.

    shared    items that both answered
    agreed    on how many of them they said the same
    expected  how many it would be if only the labels joined them
    chance    of at least so much agreement by luck, at most
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
    n_workers, n_classes = votes.n_workers, votes.n_classes
    worker, item, answer = _answers(votes)
    given = label[item].astype(np.int64)
    keys = _pairs_of_answers(worker, item, answer, given, n_workers, n_classes)
    keys.sort()
    pair = keys // (2 * n_classes)
    starts = np.flatnonzero(np.diff(pair, prepend=-1))
    sizes = np.diff(starts, append=len(pair))
    enough = sizes >= MIN_SHARED
    kept = np.repeat(enough, sizes)
    first, second = np.divmod(pair[starts[enough]], n_workers)
    shared = sizes[enough].astype(np.float64)
    of = np.repeat(np.arange(len(first)), sizes[enough])
    on, same = np.divmod(keys[kept] % (2 * n_classes), 2)
    agreed = np.bincount(of, same, len(first)).astype(np.float64)
    chance = _chance_to_agree(votes, worker, answer, given)
    # the answers of a pair stand in the order of their labels: one look-up for each run of them
    cell = of * n_classes + on
    heads = np.flatnonzero(np.diff(cell, prepend=-1))
    runs = np.diff(heads, append=len(cell))
    likely = np.concatenate(
        [
            np.zeros(0),
            *(
                chance(on[at], first[of[at]], second[of[at]])
                for at in np.split(heads, range(LOOKED_UP_AT_ONCE, len(heads), LOOKED_UP_AT_ONCE))
            ),
        ]
    )
    expected = np.bincount(of[heads], runs * likely, len(first)).astype(np.float64)
    return Pairs(
        n_workers=n_workers,
        first=first.astype(np.int32),
        second=second.astype(np.int32),
        shared=shared,
        agreed=agreed,
        expected=expected,
        chance=_luck(agreed, expected, shared),
    )


def _pairs_of_answers(
    worker: Keys, item: Keys, answer: Keys, given: Keys, n_workers: int, n_classes: int
) -> Keys:
    """Every two answers to one item as one number: both workers, the item's label, whether same.

    ((first · n_workers + second) · n_classes + label) · 2 + same; answers are sorted by item and
    worker. Items with equally many answers are done together.
    """
    starts = np.flatnonzero(np.diff(item, prepend=-1))
    sizes = np.diff(starts, append=len(item))
    keys = np.empty(int((sizes * (sizes - 1) // 2).sum()), dtype=np.int64)
    done = 0
    for size in np.unique(sizes[sizes > 1]):
        left, right = np.triu_indices(int(size), 1)
        heads = starts[sizes == size]
        step = max(1, PAIRS_AT_ONCE // len(left))
        for begin in range(0, len(heads), step):
            at = heads[begin : begin + step, None]
            one, other = (at + left).ravel(), (at + right).ravel()
            part = keys[done : done + len(one)]
            np.multiply(worker[one], n_workers, out=part)
            part += worker[other]
            part *= n_classes
            part += given[one]
            part *= 2
            part += answer[one] == answer[other]
            done += len(one)
    return keys


def _luck(agreed: Floats, expected: Floats, shared: Floats) -> Floats:
    """exp(−n · KL(A/n ‖ E/n)) where A lies above E, else 1."""
    seen, mean = agreed / shared, np.clip(expected / shared, 1e-12, 1.0 - 1e-12)
    differ = np.maximum(1.0 - seen, 0.0)
    divergence = seen * np.log(np.maximum(seen, 1e-300) / mean)
    divergence += differ * np.log(np.maximum(differ, 1e-300) / (1.0 - mean))
    return np.where(seen > mean, np.exp(-shared * divergence), 1.0)


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
    """Worker, item and class of the answers that are looked at, sorted by item and worker."""
    kept = _active_enough(votes)
    parts = []
    for rows in votes.blocks:
        block = votes.block(rows)
        worker, answer = np.divmod(block.indices, votes.n_classes)
        item = np.repeat(np.arange(rows.start, rows.stop), np.diff(block.indptr))
        chosen = kept[worker]
        parts.append((worker[chosen], item[chosen], answer[chosen]))
    worker, item, answer = (
        np.concatenate(part).astype(np.int64) for part in zip(*parts, strict=True)
    )
    return worker, item, answer


def _active_enough(votes: Votes) -> npt.NDArray[np.bool_]:
    """Workers whose pairs are looked at, (n_workers,): the most active, if all are too many.

    Pairs that share enough items to be judged are found among the active.
    """
    activity = np.zeros(votes.n_workers, dtype=np.int64)
    for rows in votes.blocks:
        worker = votes.block(rows).indices // votes.n_classes
        activity += np.bincount(worker, minlength=votes.n_workers)
    kept = activity >= MIN_SHARED
    while (excess := _pairs_among(votes, kept) / MOST_PAIRS_OF_ANSWERS) > 1.0:
        # half as many answers are about a quarter as many pairs; who is as active leaves with him
        order = np.sort(activity[kept])
        share = np.cumsum(order) / order.sum()
        least = order[np.searchsorted(share, 1.0 - 0.95 / np.sqrt(excess))]
        kept = activity > least
    return kept


def _pairs_among(votes: Votes, kept: npt.NDArray[np.bool_]) -> float:
    """How many pairs of answers to one item these workers gave."""
    total = 0.0
    for rows in votes.blocks:
        block = votes.block(rows)
        before = np.append(0, np.cumsum(kept[block.indices // votes.n_classes]))
        sizes = np.diff(before[block.indptr]).astype(np.float64)
        total += float((sizes * (sizes - 1.0)).sum()) / 2.0
    return total


def _aligned(wanted: Keys, keys: Keys, values: Floats) -> Floats:
    """The values of the wanted keys, 0 where there is none; `keys` are sorted."""
    found = np.zeros(len(wanted))
    if len(keys) == 0:
        return found
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    hit = keys[at] == wanted
    found[hit] = values[at[hit]]
    return found


def _chance_to_agree(votes: Votes, worker: Keys, answer: Keys, given: Keys) -> AgreeingChance:
    """Σ_k π_w[c, k] π_v[c, k] as a function of the classes and the pairs, (n_look_ups,) each."""
    n_workers, n_classes = votes.n_workers, votes.n_classes
    if n_workers * n_classes * n_classes <= MOST_CELLS:
        cells = (worker * n_classes + given) * n_classes + answer
        counts = np.bincount(cells, minlength=n_workers * n_classes**2).astype(np.float64)
        counts = counts.reshape(n_workers, n_classes, n_classes)
        crowd = counts.sum(axis=0) + 1e-9
        rows = counts + SHRINKAGE * crowd / crowd.sum(axis=1, keepdims=True)
        rows /= rows.sum(axis=2, keepdims=True)

        def by_rows(label: Keys, first: Keys, second: Keys) -> Floats:
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

    def by_accuracy(label: Keys, first: Keys, second: Keys) -> Floats:
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
