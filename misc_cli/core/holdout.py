"""Hide some answers, forecast them, score the forecasts: all that can be known without truth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from misc_cli.core.types import Codes, Floats, Labels
from misc_cli.core.votes import SparseVotes

# Three tenths of the answers, a tenth at a time: enough to tell methods apart, and nine tenths are
# left to learn from.
N_FOLDS = 3
HIDDEN_SHARE = 0.1
FLOOR = 1e-12  # a forecast of zero would make one surprise outweigh everything else


@dataclass(frozen=True)
class Triplets:
    """Answers as codes, one per row."""

    workers: Codes
    items: Codes
    classes: Codes

    def __len__(self) -> int:
        return len(self.items)

    def take(self, rows: npt.NDArray[np.intp]) -> Triplets:
        return Triplets(self.workers[rows], self.items[rows], self.classes[rows])


def answers_of(votes: SparseVotes) -> Triplets:
    """Every vote as codes, in the votes' own order."""
    items = np.repeat(np.arange(votes.n_items, dtype=np.int32), np.diff(votes.matrix.indptr))
    workers, classes = np.divmod(votes.matrix.indices.astype(np.int32), np.int32(votes.n_classes))
    return Triplets(workers, items, classes)


def folds(
    labels: Labels, n_folds: int = N_FOLDS, fraction: float = HIDDEN_SHARE, seed: int = 0
) -> Iterator[tuple[Labels, Triplets]]:
    """`n_folds` disjoint random tenths (say) of the answers, each hidden from the rest.

    An item's only answer is never hidden: without it the item cannot be forecast from anything.
    """
    votes = labels.votes
    assert isinstance(votes, SparseVotes)
    answers = answers_of(votes)
    # a start that these answers taught would know the hidden ones
    labels = replace(labels, start=None if labels.start is None else labels.start.prior_only)
    rng = np.random.default_rng(seed)
    # rank the answers at random within their item; the first of each item stays
    order = np.lexsort((rng.random(len(answers)), answers.items))
    keep_one = np.zeros(len(answers), dtype=bool)
    starts = votes.matrix.indptr[:-1][np.diff(votes.matrix.indptr) > 0]
    keep_one[order[starts]] = True
    candidates = np.flatnonzero(~keep_one)
    rng.shuffle(candidates)
    size = max(1, round(fraction * len(answers)))
    for fold in range(n_folds):
        chosen = np.sort(candidates[fold * size : (fold + 1) * size]).astype(np.intp)
        if len(chosen) == 0:
            return
        yield replace(labels, votes=_without(votes, chosen)), answers.take(chosen)


def sample_items(labels: Labels, max_answers: int, seed: int) -> Labels:
    """The labels themselves, or a random part of their items with about `max_answers` answers.

    What is learnt about methods from that many answers does not change with more, and the search
    then costs the same whatever the size of the data.
    """
    votes = labels.votes
    assert isinstance(votes, SparseVotes)
    if votes.n_votes <= max_answers:
        return labels
    share = max_answers / votes.n_votes
    order = np.random.default_rng(seed).permutation(votes.n_items)
    chosen = np.sort(order[: max(1, int(share * votes.n_items))])
    part = SparseVotes(votes.matrix[chosen], votes.n_workers, votes.n_classes)
    gold = None if labels.gold is None else labels.gold[chosen]
    return replace(labels, votes=part, items=labels.items.take(chosen), gold=gold)


def _without(votes: SparseVotes, rows: npt.NDArray[np.intp]) -> SparseVotes:
    data = np.ones(votes.n_votes, dtype=bool)
    data[rows] = False
    gone = np.concatenate([[0], np.cumsum(~data)])
    pointers = votes.matrix.indptr - gone[votes.matrix.indptr].astype(votes.matrix.indptr.dtype)
    kept = sp.csr_array(
        (votes.matrix.data[data], votes.matrix.indices[data], pointers), shape=votes.matrix.shape
    )
    return SparseVotes(kept, votes.n_workers, votes.n_classes)


def log_score(forecast: Floats, hidden: Triplets) -> Floats:
    """Log probability a forecast (n_hidden, n_classes) gave to each hidden answer, (n_hidden,)."""
    return np.log(np.maximum(forecast[np.arange(len(hidden)), hidden.classes], FLOOR))
