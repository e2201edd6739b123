"""Hide some answers, forecast them, score the forecasts: all that can be known without truth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from misc_cli.core.draw import Draw, Positions, fold_draws, item_keys, without
from misc_cli.core.parallel import map_in_order
from misc_cli.core.types import Codes, Floats, Labels
from misc_cli.core.votes import SparseVotes

# A tenth at a time, so that nine tenths are left to learn from, until so many answers were hidden
# or all but one of every item: what fewer say changes with the draw.
HIDDEN_SHARE = 0.1
ENOUGH_HIDDEN = 30_000
MOST_FOLDS = 10
MOST_HIDDEN = 50_000  # in one fold
# From so many on, what is hidden follows from names (core/draw.py), so that every engine hides the
# same; fewer are drawn by their order, which takes all of them in one memory.
DRAWN_BY_NAME = 1_000_000
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


def fold_plan(n_answers: int) -> tuple[int, float]:
    """How many folds, and the share of the answers that each hides."""
    share = min(HIDDEN_SHARE, MOST_HIDDEN / max(n_answers, 1))
    wanted = round(ENOUGH_HIDDEN / max(share * n_answers, 1.0))
    return int(np.clip(wanted, 1, MOST_FOLDS)), share


def folds(
    labels: Labels, n_folds: int = 3, fraction: float = HIDDEN_SHARE, seed: int = 0
) -> Iterator[tuple[Labels, Triplets]]:
    """`n_folds` disjoint random tenths (say) of the answers, each hidden from the rest.

    An item's only answer is never hidden: without it the item cannot be forecast from anything.
    """
    votes = labels.votes
    assert isinstance(votes, SparseVotes)
    # a start that these answers taught would know the hidden ones
    labels = replace(labels, start=None if labels.start is None else labels.start.prior_only)
    answers = answers_of(votes)
    draw = _by_name if votes.n_votes >= DRAWN_BY_NAME else _by_order
    for chosen in draw(labels, answers, n_folds, max(1, round(fraction * len(answers))), seed):
        if len(chosen) == 0:
            return
        kept = SparseVotes(without(votes.matrix, chosen), votes.n_workers, votes.n_classes)
        yield replace(labels, votes=kept), answers.take(chosen)


def _by_order(
    labels: Labels, answers: Triplets, n_folds: int, size: int, seed: int
) -> Iterator[Positions]:
    """Shuffled: positions among the answers, fold by fold."""
    rng = np.random.default_rng(seed)
    # rank the answers at random within their item; the first of each item stays
    order = np.lexsort((rng.random(len(answers)), answers.items))
    keep_one = np.zeros(len(answers), dtype=bool)
    starts = np.flatnonzero(np.diff(answers.items, prepend=-1))
    keep_one[order[starts]] = True
    candidates = np.flatnonzero(~keep_one)
    rng.shuffle(candidates)
    for fold in range(n_folds):
        yield np.sort(candidates[fold * size : (fold + 1) * size]).astype(np.intp)


def _by_name(
    labels: Labels, answers: Triplets, n_folds: int, size: int, seed: int
) -> Iterator[Positions]:
    """As every engine draws: positions among the answers, fold by fold."""
    votes = labels.votes
    firsts = np.cumsum([0, *(votes.block(rows).nnz for rows in votes.blocks)])

    def drawn(at: int, draw: Draw) -> Positions:
        rows = votes.blocks[at]
        keys = item_keys(labels.items.slice(rows.start, rows.stop - rows.start))
        positions: Positions = firsts[at] + draw.hidden(votes.block(rows), votes.n_classes, keys)
        return positions

    for draw in fold_draws(votes.n_votes, votes.n_items, n_folds, size, seed):
        of_blocks = map_in_order(partial(drawn, draw=draw), list(range(len(votes.blocks))))
        yield np.concatenate(list(of_blocks))


def log_score(forecast: Floats, hidden: Triplets) -> Floats:
    """Log probability a forecast (n_hidden, n_classes) gave to each hidden answer, (n_hidden,)."""
    return np.log(np.maximum(forecast[np.arange(len(hidden)), hidden.classes], FLOOR))
