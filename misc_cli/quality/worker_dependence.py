"""Find workers who err together: two who agree beyond what a common truth explains.

No labels are needed, so copies that have already won the vote are found, too. For two workers w, v
and the n items that both answered:
    A     = the number of items on which they agree
    e_wv  = Σ_k m_w[k] m_v[k]            share expected by chance, from their shares m of labels
    κ_wv  = (A/n − e_wv) / (1 − e_wv)    agreement beyond chance
If they depend on the truth alone, κ_wv ≈ s_w s_v with one skill per worker: the agreements are a
matrix of rank one, and all partners of w together estimate s_w (compare Jaffe, Fetaya, Nadler,
Jiang & Kluger 2016, "Unsupervised ensemble learning with dependent classifiers"). Two experts agree
often with each other and with all others; two copies always agree with each other, but with others
no more than a single worker does. The partners of a worker are split into groups, each group
estimates s_w, and the weighted median of the groups counts, so that a few copies do not change it:
    E     = n (e_wv + (1 − e_wv) s_w s_v)    agreements that the truth explains
    ρ_wv  = (A − E) / (n − E)                likeness: 0 independent, 1 always the same
The probability of so much agreement by luck is at most exp(−n · KL(A/n ‖ E/n)), whatever the
probabilities of single items (Hoeffding 1963); the bound holds also where E is near n. Many pairs
are tested, so the level bounds the share of false pairs among those found (Benjamini & Hochberg
1995). Copies that are the majority on their items cannot be told from the truth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from misc_cli.data.types import Codes, Floats
from misc_cli.engines.protocol import Block, Engine, RowArrays, Summed, SumOver

MIN_SHARED = 10  # fewer shared items say nothing about a pair
# Pairs of answers that are compared; beyond, the workers with the fewest answers are skipped.
MOST_PAIRS_OF_ANSWERS = 1_000_000
PAIRS_AT_ONCE = 200_000

Keys = npt.NDArray[np.int64]
Chosen = npt.NDArray[np.bool_]


def compare_workers(engine: Engine) -> WorkerPairs:
    """Compare all workers two by two; of a crowd too large, the most active ones."""
    n_classes = engine.n_classes
    activity: Keys = engine.sweep(SumOver(partial(_activity, n_classes=n_classes)))
    # pairs that share enough items to be judged are among the active workers
    kept: Chosen = activity >= MIN_SHARED
    while True:
        n_pairs = engine.sweep(SumOver(partial(_count_pairs, kept=kept, n_classes=n_classes)))
        if n_pairs <= MOST_PAIRS_OF_ANSWERS:
            break
        # half the answers give about a quarter of the pairs; ties in activity are dropped together
        order = np.sort(activity[kept])
        share = np.cumsum(order) / order.sum()
        wanted = 1.0 - 0.95 / np.sqrt(n_pairs / MOST_PAIRS_OF_ANSWERS)
        kept = activity > order[np.searchsorted(share, wanted)]
    return _judge(engine.sweep(SumOver(partial(_keys, kept=kept, n_classes=n_classes))), activity)


def _activity(block: Block, _: RowArrays, n_classes: int) -> Keys:
    """Count the answers of each worker, (n_workers,)."""
    n_workers = block.matrix.shape[1] // n_classes
    return np.bincount(block.matrix.indices // n_classes, minlength=n_workers).astype(np.int64)


def _count_pairs(block: Block, _: RowArrays, kept: Chosen, n_classes: int) -> float:
    """Count the pairs of answers to one item that these workers gave."""
    before = np.append(0, np.cumsum(kept[block.matrix.indices // n_classes]))
    sizes = np.diff(before[block.matrix.indptr]).astype(np.float64)
    return float((sizes * (sizes - 1.0)).sum()) / 2.0


@dataclass
class _Keys(Summed):
    """Pairs of answers as keys (`_pairs_of_answers`), a part per block, and class counts.

    The counts, (n_workers, n_classes), say how often each worker gave each class.
    """

    parts: list[Keys]
    counts: Keys


def _keys(block: Block, _: RowArrays, kept: Chosen, n_classes: int) -> _Keys:
    worker, answer = np.divmod(block.matrix.indices.astype(np.int64), n_classes)
    sizes = np.diff(block.matrix.indptr)
    item = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
    chosen = kept[worker]
    worker, item, answer = worker[chosen], item[chosen], answer[chosen]
    said = np.bincount(worker * n_classes + answer, minlength=len(kept) * n_classes)
    keys = _pairs_of_answers(worker, item, answer, len(kept))
    return _Keys([keys], said.reshape(len(kept), n_classes).astype(np.int64))


def _pairs_of_answers(worker: Keys, item: Keys, answer: Keys, n_workers: int) -> Keys:
    """Return a key for each pair of answers to one item: (first · n_workers + second) · 2 + same.

    Answers are sorted by item and worker. Items with the same number of answers are done at once.
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
            part *= 2
            part += answer[one] == answer[other]
            done += len(one)
    return keys


MARGIN_PRIOR = 2.0  # answers in the crowd's shares that are added to those of a worker
SKILL_PRIOR = 5.0  # items shared with a typical worker that are added to each worker's skill
MOST_WEIGHT = 30  # shared items beyond which a partner's weight does not grow
GROUPS = 15  # of partners
ROUNDS = 6  # of half a step towards the medians


@dataclass(frozen=True)
class Margins:
    """Shares of labels of the workers, smoothed by the crowd's, for agreement by chance.

    counts  (n_workers, n_classes), sparse: how often a worker gave each class
    usual   (n_workers,) Σ_k counts · the crowd's share of k
    totals  (n_workers,) number of answers, with those of the prior
    crowd   Σ_k of the crowd's share squared
    """

    counts: Any
    usual: Floats
    totals: Floats
    crowd: float

    def of_workers(self) -> Floats:
        """Return the probability that a worker agrees with the crowd by chance, (n_workers,)."""
        chance: Floats = (self.usual + MARGIN_PRIOR * self.crowd) / self.totals
        return np.minimum(chance, 1.0 - 1e-6)

    def of_pairs(self, first: Keys, second: Keys) -> Floats:
        """Return e_wv of each pair, (n_pairs,)."""
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
    """Compute the margins from class counts of workers, (n_workers, n_classes)."""
    counts = sp.csr_array(said.astype(np.float64))
    crowd = said.sum(axis=0) / max(int(said.sum()), 1)
    totals = said.sum(axis=1) + MARGIN_PRIOR
    return Margins(counts, np.asarray(counts @ crowd), totals, float(crowd @ crowd))


def skills_of(margins: Margins, first: Keys, second: Keys, shared: Keys, agreed: Keys) -> Floats:
    """Estimate the skills s_w, (n_workers,), from groups of partners, iteratively.

    A group estimates Σ_v (A_wv − n_wv e_w) / Σ_v n_wv (1 − e_w) s_v, and the denominator is its
    weight; a partner's n counts up to a limit. Every worker has one typical partner more (prior).
    """
    n_workers = len(margins.totals)
    by_chance = margins.of_workers()
    counted = np.minimum(shared, MOST_WEIGHT).astype(np.float64)
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
    """Return the weighted median of each row, (n_rows,)."""
    order = np.argsort(values, axis=1, kind="stable")
    reached = np.cumsum(np.take_along_axis(weights, order, axis=1), axis=1)
    middle = (reached >= reached[:, -1:] / 2.0).argmax(axis=1)[:, None]
    found = np.take_along_axis(order, middle, axis=1)
    medians: Floats = np.take_along_axis(values, found, axis=1)[:, 0]
    return medians


LEVEL = 0.01  # expected share of false pairs among those called alike
ALIKE = 0.2  # a likeness below this is real on large data, but changes little
COPIES = 0.9  # from here on two workers are as good as one


@dataclass(frozen=True)
class WorkerPairs:
    """Pairs of workers that share at least MIN_SHARED items, (n_pairs,) each, first < second.

    answers   (n_workers,) number of answers of each worker
    shared    items that both answered
    agreed    items on which they agree
    expected  items on which they would agree if they depended on the truth alone
    chance    upper bound of the probability of so much agreement by luck
    """

    answers: Keys
    first: Codes
    second: Codes
    shared: Floats
    agreed: Floats
    expected: Floats
    chance: Floats

    @property
    def n_workers(self) -> int:
        return len(self.answers)

    @property
    def likeness(self) -> Floats:
        """Return ρ, at most 1; below 0 for pairs that agree less than expected."""
        room = self.shared - self.expected
        likeness: Floats = (self.agreed - self.expected) / np.maximum(room, 1e-9)
        return likeness

    @property
    def alike(self) -> Chosen:
        """Return the mask of pairs that agree significantly and by enough to matter."""
        return _significant(self.chance) & (self.likeness >= ALIKE)

    @property
    def copies(self) -> Chosen:
        """Return the mask of pairs that count as one worker."""
        return self.alike & (self.likeness >= COPIES)

    def matrix(self, chosen: Chosen) -> sp.csr_array:
        """Return the likeness of the chosen pairs as a symmetric sparse matrix."""
        ends = self.first[chosen], self.second[chosen]
        half = sp.csr_array((self.likeness[chosen], ends), shape=(self.n_workers, self.n_workers))
        return sp.csr_array(half + half.T)


def _judge(found: _Keys, answers: Keys) -> WorkerPairs:
    """Judge each pair that shares enough items."""
    keys = np.concatenate(found.parts)
    found.parts.clear()
    keys.sort()
    pair = keys >> 1
    starts = np.flatnonzero(np.diff(pair, prepend=-1))
    sizes = np.diff(starts, append=len(pair))
    agreed = np.add.reduceat(keys & 1, starts) if len(starts) else sizes
    first, second = np.divmod(pair[starts], len(answers))
    del keys, pair  # the largest arrays of all
    margins = margins_of(found.counts)
    skill = skills_of(margins, first, second, sizes, agreed)
    enough = sizes >= MIN_SHARED
    first, second = first[enough], second[enough]
    shared, same = sizes[enough].astype(np.float64), agreed[enough].astype(np.float64)
    by_chance = margins.of_pairs(first, second)
    common = np.clip(skill[first] * skill[second], 0.0, 1.0)
    expected = shared * (by_chance + (1.0 - by_chance) * common)
    return WorkerPairs(
        answers=answers,
        first=first.astype(np.int32),
        second=second.astype(np.int32),
        shared=shared,
        agreed=same,
        expected=expected,
        chance=_luck(same, expected, shared),
    )


def _luck(agreed: Floats, expected: Floats, shared: Floats) -> Floats:
    """Return exp(−n · KL(A/n ‖ E/n)) where A is above E, else 1."""
    seen, mean = agreed / shared, np.clip(expected / shared, 1e-12, 1.0 - 1e-12)
    differ = np.maximum(1.0 - seen, 0.0)
    divergence = seen * np.log(np.maximum(seen, 1e-300) / mean)
    divergence += differ * np.log(np.maximum(differ, 1e-300) / (1.0 - mean))
    return np.where(seen > mean, np.exp(-shared * divergence), 1.0)


def answer_weights(block: sp.csr_array, likeness: sp.csr_array, n_classes: int) -> Floats:
    """Return the weight of each answer of a block, (n_votes,), in the order of the votes.

    The weight is 1 / (1 + Σ_v ρ_wv) over the other workers v who answered the item: m copies of a
    worker count 1/m each, an independent worker counts 1.
    """
    worker = block.indices // n_classes
    shape = (block.shape[0], likeness.shape[0])
    who = sp.csr_array((np.ones(len(worker)), worker, block.indptr), shape=shape)
    row = np.repeat(np.arange(shape[0]), np.diff(block.indptr))
    weights: Floats = 1.0 / (1.0 + np.asarray((who @ likeness)[row, worker]))
    return weights


def _significant(chance: Floats) -> npt.NDArray[np.bool_]:
    """Return the mask of significant pairs by Benjamini & Hochberg's step-up rule at LEVEL."""
    if len(chance) == 0:
        return np.zeros(0, dtype=bool)
    order = np.sort(chance)
    passing = np.flatnonzero(order <= LEVEL * np.arange(1, len(order) + 1) / len(order))
    limit = order[passing[-1]] if len(passing) else -1.0
    found: npt.NDArray[np.bool_] = chance <= limit
    return found
