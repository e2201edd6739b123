"""Workers who err together: how far two agree beyond what a common truth explains.

No labels are needed, so copies that have already won the vote are found all the same. For two
workers w, v and the n items that both answered:
    A     = how often they agree
    e_wv  = Σ_k m_w[k] m_v[k]            how often chance would let them, by their shares of labels
    κ_wv  = (A/n − e_wv) / (1 − e_wv)    agreement beyond chance
If only the truth joins them, κ_wv ≈ s_w s_v with one skill per worker: the agreements are a matrix
of rank one, and s_w is what all of w's partners say of it (compare Jaffe, Fetaya, Nadler, Jiang &
Kluger 2016, "Unsupervised ensemble learning with dependent classifiers"). Two experts agree often,
and also with everybody else more than others do; two copies agree always, and with everybody else
no more than before. A worker's partners are dealt into groups, each group says what s_w is, and the
weighted median of the groups counts, so that a few copies among them do not move it. Then
    E     = n (e_wv + (1 − e_wv) s_w s_v)    what the truth explains of their agreement
    ρ_wv  = (A − E) / (n − E)                their likeness: 0 independent, 1 always the same
How likely so much agreement would be by luck is at most exp(−n · KL(A/n ‖ E/n)), whatever the
chances of the single items (Hoeffding 1963): no approximation that fails where E is near n. Many
pairs are tried, so the level holds for the share of false pairs among those found (Benjamini &
Hochberg 1995). Copies that are the majority on their items cannot be told from the truth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from misc_cli.core.types import Codes, Floats
from misc_cli.core.votes import Votes
from misc_cli.evaluate.meetings import MIN_SHARED, Chosen, Keys, active_in, keys_of
from misc_cli.evaluate.skills import margins_of, skills_of

LEVEL = 0.01  # expected share of false pairs among those called alike
ALIKE = 0.2  # a likeness below this is real on large data, but changes little
COPIES = 0.9  # from here on two workers are as good as one


@dataclass(frozen=True)
class Pairs:
    """Pairs of workers that share at least MIN_SHARED items, (n_pairs,) each, first < second.

    shared    items that both answered
    agreed    on how many of them they said the same
    expected  how many it would be if only the truth joined them
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
    def alike(self) -> Chosen:
        """Pairs that agree beyond luck, and by enough to matter."""
        return _significant(self.chance) & (self.likeness >= ALIKE)

    @property
    def copies(self) -> Chosen:
        """Pairs that are as good as one worker."""
        return self.alike & (self.likeness >= COPIES)

    def matrix(self, chosen: Chosen) -> sp.csr_array:
        """Likeness of the chosen pairs, symmetric, (n_workers, n_workers), sparse."""
        ends = self.first[chosen], self.second[chosen]
        half = sp.csr_array((self.likeness[chosen], ends), shape=(self.n_workers, self.n_workers))
        return sp.csr_array(half + half.T)


def compare_pairs(votes: Votes) -> Pairs:
    """Every pair of workers that shares enough items."""
    kept = active_in(votes)
    found = [keys_of(votes.block(rows), kept, votes.n_classes) for rows in votes.blocks]
    keys, counts = (list(part) for part in zip(*found, strict=True))
    return pairs_of(keys, np.sum(counts, axis=0))


def pairs_of(blocks: list[Keys], counts: Keys) -> Pairs:
    """Every pair that shares enough items, from the keys of all blocks; `counts` (n_workers,
    n_classes) is how often each worker said each class.
    """
    n_workers = len(counts)
    keys = np.concatenate(blocks)
    blocks.clear()
    keys.sort()
    pair = keys >> 1
    starts = np.flatnonzero(np.diff(pair, prepend=-1))
    sizes = np.diff(starts, append=len(pair))
    agreed = np.add.reduceat(keys & 1, starts) if len(starts) else sizes
    first, second = np.divmod(pair[starts], n_workers)
    del keys, pair  # the largest arrays of all
    margins = margins_of(counts)
    skill = skills_of(margins, first, second, sizes, agreed)
    enough = sizes >= MIN_SHARED
    first, second = first[enough], second[enough]
    shared, same = sizes[enough].astype(np.float64), agreed[enough].astype(np.float64)
    by_chance = margins.of_pairs(first, second)
    common = np.clip(skill[first] * skill[second], 0.0, 1.0)
    expected = shared * (by_chance + (1.0 - by_chance) * common)
    return Pairs(
        n_workers=n_workers,
        first=first.astype(np.int32),
        second=second.astype(np.int32),
        shared=shared,
        agreed=same,
        expected=expected,
        chance=_luck(same, expected, shared),
    )


def _luck(agreed: Floats, expected: Floats, shared: Floats) -> Floats:
    """exp(−n · KL(A/n ‖ E/n)) where A lies above E, else 1."""
    seen, mean = agreed / shared, np.clip(expected / shared, 1e-12, 1.0 - 1e-12)
    differ = np.maximum(1.0 - seen, 0.0)
    divergence = seen * np.log(np.maximum(seen, 1e-300) / mean)
    divergence += differ * np.log(np.maximum(differ, 1e-300) / (1.0 - mean))
    return np.where(seen > mean, np.exp(-shared * divergence), 1.0)


def answer_weights(block: sp.csr_array, likeness: sp.csr_array, n_classes: int) -> Floats:
    """How much each answer of a block counts beside those of like workers on its item, (n_votes,).

    1 / (1 + Σ_v ρ_wv) over the others who answered the item: m copies of a worker count 1/m each,
    one in all, and whoever is like nobody counts whole. In the order of the votes.
    """
    worker = block.indices // n_classes
    shape = (block.shape[0], likeness.shape[0])
    who = sp.csr_array((np.ones(len(worker)), worker, block.indptr), shape=shape)
    company = (who @ likeness).tocsr()
    company.sort_indices()
    row = np.repeat(np.arange(shape[0], dtype=np.int64), np.diff(block.indptr))
    company_row = np.repeat(np.arange(shape[0], dtype=np.int64), np.diff(company.indptr))
    width = np.int64(shape[1])
    met = _aligned(row * width + worker, company_row * width + company.indices, company.data)
    weights: Floats = 1.0 / (1.0 + met)
    return weights


def _aligned(wanted: Keys, keys: Keys, values: Floats) -> Floats:
    """The values of the wanted keys, 0 where there is none; `keys` are sorted."""
    found = np.zeros(len(wanted))
    if len(keys) == 0:
        return found
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    hit = keys[at] == wanted
    found[hit] = values[at[hit]]
    return found


def _significant(chance: Floats) -> npt.NDArray[np.bool_]:
    """Benjamini & Hochberg's step-up rule at LEVEL."""
    if len(chance) == 0:
        return np.zeros(0, dtype=bool)
    order = np.sort(chance)
    passing = np.flatnonzero(order <= LEVEL * np.arange(1, len(order) + 1) / len(order))
    limit = order[passing[-1]] if len(passing) else -1.0
    found: npt.NDArray[np.bool_] = chance <= limit
    return found
