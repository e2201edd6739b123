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

Three accounts of one person outvote two honest workers, and whoever agrees with itself looks like
an expert. So in an automatic run, before anything is fitted, groups of copies (likeness from 0.9)
keep one answer per item, that of the member with the most answers, if that is at least one answer
in twenty of all; afterwards every member is judged by all of its own answers. A method that the
user names gets all answers as they are.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from misc_cli.aggregators.confusion_kernels import PSEUDO_ANSWERS, expected_sums, shrunk_rows
from misc_cli.data.holdout import Positions, without
from misc_cli.data.types import Codes, Floats, Names
from misc_cli.data.votes import SparseVotes
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.protocol import AnswerEngine, Block, Engine, RowArrays, SumOver
from misc_cli.engines.views import View, block_without
from misc_cli.errors import MiscWarning
from misc_cli.quality.evidence import said_by_workers

MIN_SHARED = 10  # fewer shared items say nothing about a pair
# Pairs of answers that are compared; beyond, the workers with the fewest answers are skipped.
MOST_PAIRS_OF_ANSWERS = 1_000_000
PAIRS_AT_ONCE = 200_000
MARGIN_PRIOR = 2.0  # answers in the crowd's shares that are added to those of a worker
SKILL_PRIOR = 5.0  # items shared with a typical worker that are added to each worker's skill
MOST_WEIGHT = 30  # shared items beyond which a partner's weight does not grow
GROUPS = 15  # of partners
ROUNDS = 6  # of half a step towards the medians
LEVEL = 0.01  # expected share of false pairs among those called alike
ALIKE = 0.2  # a likeness below this is real on large data, but changes little
COPIES = 0.9  # from here on two workers are as good as one
NAMES_SHOWN = 3
# Of all answers; fewer change no label for the better, and can tip a choice that hangs by a thread
# (zencrowd_us, where one pair gave the same 95 answers of 11,000).
LEAST_SHARE = 0.05

Keys = npt.NDArray[np.int64]
Chosen = npt.NDArray[np.bool_]


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
        # Benjamini & Hochberg's step-up rule
        order = np.sort(self.chance)
        passing = np.flatnonzero(order <= LEVEL * np.arange(1, len(order) + 1) / len(order))
        limit = order[passing[-1]] if len(passing) else -1.0
        return (self.chance <= limit) & (self.likeness >= ALIKE)

    @property
    def copies(self) -> Chosen:
        """Return the mask of pairs that count as one worker."""
        return self.alike & (self.likeness >= COPIES)

    @property
    def groups(self) -> Keys:
        """Return the group of each worker that is a copy of another, -1 of others, (n_workers,)."""
        copies = self.copies
        group = np.full(self.n_workers, -1, dtype=np.int64)
        if copies.any():
            from scipy.sparse.csgraph import connected_components

            _, component = connected_components(self.matrix(copies), directed=False)
            members = np.union1d(self.first[copies], self.second[copies])
            group[members] = np.unique(component[members], return_inverse=True)[1]
        return group

    def matrix(self, chosen: Chosen) -> sp.csr_array:
        """Return the likeness of the chosen pairs as a symmetric sparse matrix."""
        ends = self.first[chosen], self.second[chosen]
        half = sp.csr_array((self.likeness[chosen], ends), shape=(self.n_workers, self.n_workers))
        return sp.csr_array(half + half.T)


def compare_workers(engine: Engine) -> WorkerPairs:
    """Compare all workers two by two; of a crowd too large, the most active ones."""
    said = said_by_workers(engine)
    activity: Keys = said.sum(axis=1)
    # pairs that share enough items to be judged are among the active workers
    kept: Chosen = activity >= MIN_SHARED
    while True:
        n_pairs = engine.sweep(SumOver(partial(_count_pairs, kept=kept)))
        if n_pairs <= MOST_PAIRS_OF_ANSWERS:
            break
        # half the answers give about a quarter of the pairs; ties in activity are dropped together
        order = np.sort(activity[kept])
        share = np.cumsum(order) / order.sum()
        wanted = 1.0 - 0.95 / np.sqrt(n_pairs / MOST_PAIRS_OF_ANSWERS)
        kept = activity > order[np.searchsorted(share, wanted)]
    keys = np.concatenate(engine.sweep(SumOver(partial(_pairs_of_answers, kept=kept))))
    keys.sort()
    starts = np.flatnonzero(np.diff(keys >> 1, prepend=-1))
    shared = np.diff(starts, append=len(keys))
    agreed = np.add.reduceat(keys & 1, starts) if len(starts) else shared
    first, second = np.divmod(keys[starts] >> 1, engine.n_workers)
    del keys  # the largest array of all
    return _judge(np.where(kept[:, None], said, 0), activity, first, second, shared, agreed)


def _count_pairs(block: Block, _: RowArrays, kept: Chosen) -> float:
    """Count the pairs of answers to one item that these workers gave."""
    before = np.append(0, np.cumsum(kept[block.matrix.indices // block.n_classes]))
    sizes = np.diff(before[block.matrix.indptr]).astype(np.float64)
    return float((sizes * (sizes - 1.0)).sum()) / 2.0


def _pairs_of_answers(block: Block, _: RowArrays, kept: Chosen) -> list[Keys]:
    """Return a key for each pair of these workers' answers to an item.

    The key is (first · n_workers + second) · 2 + same; a block's answers are sorted by worker.
    """
    chosen = kept[block.matrix.indices // block.n_classes]
    worker, answer = np.divmod(block.matrix.indices[chosen].astype(np.int64), block.n_classes)
    ends = np.append(0, np.cumsum(chosen))[block.matrix.indptr]
    sizes = np.diff(ends)
    # each answer is paired with those after it to the same item
    later = np.repeat(ends[1:], sizes) - np.arange(1, len(worker) + 1)
    one = np.repeat(np.arange(len(worker)), later)
    other = np.arange(1, len(one) + 1) + one - np.repeat(np.cumsum(later) - later, later)
    keys = worker[one] * len(kept)
    keys += worker[other]
    keys *= 2
    keys += answer[one] == answer[other]
    return [keys]


def _judge(
    said: Keys, answers: Keys, first: Keys, second: Keys, sizes: Keys, agreed: Keys
) -> WorkerPairs:
    """Judge each pair that shares enough items; `said`, (n_workers, n_classes), counts answers."""
    # shares of labels, smoothed by the crowd's
    crowd = said.sum(axis=0) / max(int(said.sum()), 1)
    totals = said.sum(axis=1) + MARGIN_PRIOR
    counts = sp.csr_array(said.astype(np.float64))
    usual, same_by_crowd = np.asarray(counts @ crowd), float(crowd @ crowd)
    with_crowd = np.minimum((usual + MARGIN_PRIOR * same_by_crowd) / totals, 1.0 - 1e-6)
    skill = _skills(with_crowd, first, second, sizes, agreed)
    enough = sizes >= MIN_SHARED
    first, second = first[enough], second[enough]
    shared, same = sizes[enough].astype(np.float64), agreed[enough].astype(np.float64)
    common = np.empty(len(first))
    for start in range(0, len(first), PAIRS_AT_ONCE):
        rows = slice(start, start + PAIRS_AT_ONCE)
        common[rows] = counts[first[rows]].multiply(counts[second[rows]]).sum(axis=1)
    common += MARGIN_PRIOR * (usual[first] + usual[second])
    common += MARGIN_PRIOR**2 * same_by_crowd
    by_chance = np.minimum(common / (totals[first] * totals[second]), 1.0 - 1e-6)
    by_truth = np.clip(skill[first] * skill[second], 0.0, 1.0)
    expected = shared * (by_chance + (1.0 - by_chance) * by_truth)
    # exp(−n · KL(A/n ‖ E/n)) where A is above E, else 1
    seen, mean = same / shared, np.clip(expected / shared, 1e-12, 1.0 - 1e-12)
    differ = np.maximum(1.0 - seen, 0.0)
    divergence = seen * np.log(np.maximum(seen, 1e-300) / mean)
    divergence += differ * np.log(np.maximum(differ, 1e-300) / (1.0 - mean))
    luck = np.where(seen > mean, np.exp(-shared * divergence), 1.0)
    ends = first.astype(np.int32), second.astype(np.int32)
    return WorkerPairs(answers, *ends, shared, same, expected, luck)


def _skills(by_chance: Floats, first: Keys, second: Keys, shared: Keys, agreed: Keys) -> Floats:
    """Estimate the skills s_w, (n_workers,), from groups of partners, iteratively.

    A group estimates Σ_v (A_wv − n_wv e_w) / Σ_v n_wv (1 − e_w) s_v, and the denominator is its
    weight; a partner's n counts up to a limit. Every worker has one typical partner more (prior).
    `by_chance`, (n_workers,), is e_w, the chance of agreeing with the crowd.
    """
    counted = np.minimum(shared, MOST_WEIGHT).astype(np.float64)
    same = agreed * (counted / np.maximum(shared, 1))
    shape = (len(by_chance), GROUPS)
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
    usual = np.full((len(by_chance), 1), typical)
    skill = usual[:, 0]
    for _ in range(ROUNDS):
        theirs = np.maximum(skill, 0.05)
        # 1 − e_w is the same for all partners of a worker
        say = summed(lambda _, partner: counted * theirs[partner])  # noqa: B023 – called at once
        say *= 1.0 - by_chance[:, None]
        ratio = np.hstack([beyond / np.maximum(say, 1e-9), usual])
        weight = np.hstack([say, SKILL_PRIOR * usual])
        # the weighted median of each row
        order = np.argsort(ratio, axis=1, kind="stable")
        reached = np.cumsum(np.take_along_axis(weight, order, axis=1), axis=1)
        middle = (reached >= reached[:, -1:] / 2.0).argmax(axis=1)[:, None]
        at = np.take_along_axis(order, middle, axis=1)
        medians = np.take_along_axis(ratio, at, axis=1)[:, 0]
        skill = np.clip((skill + medians) / 2.0, -1.0, 1.0)
    return skill


def effective_votes(engine: Engine, pairs: WorkerPairs) -> Floats:
    """Return what the answers of each worker amount to, (n_workers,).

    An answer counts 1 / (1 + Σ_v ρ_wv) over the other workers v who answered the item: those of m
    copies count 1/m each, those of an independent worker 1.
    """
    alike = pairs.alike
    if not alike.any():
        return pairs.answers.astype(np.float64)
    return engine.sweep(SumOver(partial(_weigh, likeness=pairs.matrix(alike))))


def _weigh(block: Block, _: RowArrays, likeness: sp.csr_array) -> Floats:
    matrix, n_workers = block.matrix, likeness.shape[0]
    worker = matrix.indices // block.n_classes
    shape = (matrix.shape[0], n_workers)
    who = sp.csr_array((np.ones(len(worker)), worker, matrix.indptr), shape=shape)
    row = np.repeat(np.arange(shape[0]), np.diff(matrix.indptr))
    weights = 1.0 / (1.0 + np.asarray((who @ likeness)[row, worker]))
    return np.bincount(worker, weights, n_workers).astype(np.float64)


def once_per_copy(engine: AnswerEngine, pairs: WorkerPairs) -> Engine:
    """Return the engine with one answer per item of every group of copies.

    The engine itself is returned where there are no copies, or too few to matter.
    """
    group, answers = pairs.groups, pairs.answers
    if (group < 0).all():
        return engine
    known: dict[str, Any] = {"n_classes": engine.n_classes, "group": group, "answers": answers}
    gone = engine.sweep(SumOver(partial(_count_superfluous, **known)))
    if gone < LEAST_SHARE * engine.n_votes:
        return engine
    _warn(engine.vocabulary.workers, group, answers)
    if isinstance(engine, MemoryEngine):  # cut once, not in every sweep
        votes = engine.labels.votes
        assert isinstance(votes, SparseVotes)
        fewer = without(votes.matrix, _superfluous(votes.matrix, **known))
        votes = SparseVotes(fewer, votes.n_workers, votes.n_classes)
        return engine.with_labels(replace(engine.labels, votes=votes))
    return View(engine, partial(_one_of_each, **known), gone)


def _superfluous(matrix: sp.csr_array, n_classes: int, group: Keys, answers: Keys) -> Positions:
    """Return the positions of a group's votes on some items, but for one per item.

    The one that stays is of the member with the most `answers` (n_workers,) in all.
    """
    worker = matrix.indices.astype(np.int64) // n_classes
    item = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
    among = np.flatnonzero(group[worker] >= 0)
    place = item[among] * (int(group.max()) + 1) + group[worker[among]]
    order = np.lexsort((worker[among], -answers[worker[among]], place))
    return np.sort(among[order][np.diff(place[order], prepend=-1) == 0])


def _count_superfluous(block: Block, _: RowArrays, **known: Any) -> int:
    return len(_superfluous(block.matrix, **known))


def _one_of_each(block: Block, rows: RowArrays, **known: Any) -> tuple[Block, RowArrays]:
    """Hide all answers but one per item of every group: the mask of a `View`."""
    return block_without(block, _superfluous(block.matrix, **known)), rows


def _warn(workers: Names, group: Keys, answers: Keys) -> None:
    """Warn of who copies whom."""
    members = np.flatnonzero(group >= 0)
    order = members[np.lexsort((members, -answers[members], group[members]))]
    first = np.diff(group[order], prepend=-1) != 0
    copies = workers.take(order[~first]).to_pylist()
    originals = workers.take(order[first][group[order[~first]]]).to_pylist()
    pairs = [f"{copy!r} those of {of!r}" for copy, of in zip(copies, originals, strict=True)]
    shown = ", ".join(pairs[:NAMES_SHOWN])
    more = f" and {len(pairs) - NAMES_SHOWN:,} more" if len(pairs) > NAMES_SHOWN else ""
    count = "1 worker gives" if len(pairs) == 1 else f"{len(pairs):,} workers give"
    text = (
        f"{count} the answers of another once more ({shown}{more}): on an item they "
        "count once; if they did not copy, name the method with --aggregator"
    )
    told = MiscWarning(text)
    told.copies = frozenset(copies)
    warnings.warn(told, stacklevel=3)


def judged_by_all_answers(confusions: Floats, engine: Engine, pairs: WorkerPairs) -> Floats:
    """Return confusions in which copies are judged by all of their answers.

    `engine` holds all answers and the posteriors of a fit that did not see the copies' own.
    """
    own = shrunk_rows(engine.sweep(SumOver(expected_sums)).by_worker, PSEUDO_ANSWERS)
    return np.where((pairs.groups >= 0)[:, None, None], own, confusions)
