"""Held-out answers: draw them, hide them from a fit, score its forecasts of them.

Below `DRAWN_BY_NAME` answers a seeded shuffle draws them. From there on a hash of the item's name
and the worker's code draws them, so that every engine hides the same answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp

from misc_cli.data.resources import map_in_order
from misc_cli.data.types import Codes, Floats, Labels
from misc_cli.data.votes import SparseVotes

Hashes = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.intp]
Names = Any
# Odd multipliers without a pattern: for positions of bytes, for workers and for seeds.
BYTES = np.uint64(0x9E3779B97F4A7C15)
WORKERS = np.uint64(0xC2B2AE3D27D4EB4F)
SEEDS = np.uint64(0x165667B19E3779F9)


def name_hashes(names: Names) -> Hashes:
    """Return a 64-bit hash of each text, the same in every process; no Python object per text."""
    text = names.cast(pa.large_string())
    if len(text) == 0:
        return np.zeros(0, dtype=np.uint64)
    _, offsets, content = text.buffers()
    edges = np.frombuffer(offsets, dtype=np.int64)[text.offset : text.offset + len(text) + 1]
    data = np.frombuffer(content or b"", dtype=np.uint8)[edges[0] : edges[-1]]
    edges = edges - edges[0]
    lengths = np.diff(edges)
    # Σ (byte + 1) · odd^(position + 1), in 64 bits; then the bits are mixed
    with np.errstate(over="ignore"):
        powers = np.cumprod(np.full(int(lengths.max()) + 1, BYTES, dtype=np.uint64))
        positions = np.arange(len(data)) - np.repeat(edges[:-1], lengths)
        terms = (data.astype(np.uint64) + np.uint64(1)) * powers[positions]
        return mixed(sums_between(terms, edges))


def sums_between(values: Hashes, edges: npt.NDArray[Any]) -> Hashes:
    """Return the sums modulo 2⁶⁴ of the values between the places `edges`, (len(edges) - 1,)."""
    sums: Hashes = np.diff(np.append(np.uint64(0), np.cumsum(values, dtype=np.uint64))[edges])
    return sums


def mixed(numbers: Hashes) -> Hashes:
    """Return the numbers with every bit spread over all others (Stafford's variant 13)."""
    with np.errstate(over="ignore"):
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
        return np.asarray(numbers ^ (numbers >> np.uint64(31)))


def item_keys(names: Names) -> Hashes:
    """Return the hash that draws use for each item, never 0."""
    return name_hashes(names) | np.uint64(1)


@dataclass(frozen=True)
class Draw:
    """A draw of answers: those hashed to a place in [first, last), both between 0 and 1."""

    seed: int
    first: float
    last: float

    def hidden(self, matrix: sp.csr_array, n_classes: int, keys: Hashes) -> Positions:
        """Return positions of the hidden votes of a block (n_items, n_workers * n_classes).

        One answer of each item, the one of least rank, is never hidden.
        """
        pointers, workers = matrix.indptr, (matrix.indices // n_classes).astype(np.uint64)
        with np.errstate(over="ignore"):
            of_votes = np.repeat(keys, np.diff(pointers)) + (workers + np.uint64(1)) * WORKERS
            numbers = mixed(of_votes + np.uint64(self.seed % 2**64) * SEEDS)
        places = numbers >> np.uint64(32)
        low, high = (np.uint64(round(edge * 2.0**32)) for edge in (self.first, self.last))
        among = np.flatnonzero((places >= low) & (places < high))
        if len(among) == 0:
            return among
        ranks = np.append(numbers & np.uint64(2**32 - 1), np.uint64(2**32))
        rows = np.searchsorted(pointers, among, side="right") - 1
        ends = np.stack([pointers[rows], pointers[rows + 1]], axis=1).ravel()
        least = np.minimum.reduceat(ranks, ends)[::2]
        return among[ranks[among] > least]


def fold_draws(n_votes: int, n_items: int, n_folds: int, size: int, seed: int) -> list[Draw]:
    """Return `n_folds` disjoint draws of about `size` answers each.

    One answer of each item is never drawn, so the share of the others is larger.
    """
    share = size / max(n_votes - n_items, 1)
    edges = [min(fold * share, 1.0) for fold in range(n_folds + 1)]
    return [Draw(seed, a, b) for a, b in pairwise(edges) if a < b]


def without(matrix: sp.csr_array, positions: Positions) -> sp.csr_array:
    """Return the votes except those at these (sorted) positions."""
    kept = np.ones(matrix.nnz, dtype=bool)
    kept[positions] = False
    pointers = matrix.indptr - np.searchsorted(positions, matrix.indptr).astype(matrix.indptr.dtype)
    return sp.csr_array((matrix.data[kept], matrix.indices[kept], pointers), shape=matrix.shape)


# A fold hides a tenth, so that nine tenths are left to learn from. Folds are added until this many
# answers were hidden: with fewer the scores change with the draw.
HIDDEN_SHARE = 0.1
ENOUGH_HIDDEN = 30_000
MOST_FOLDS = 10
MOST_HIDDEN = 50_000  # in one fold
# From this many answers on names decide (`Draw`); fewer are shuffled, which takes one memory.
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


def answers_of(votes: SparseVotes) -> Triplets:
    """Return every vote as codes, in the votes' own order."""
    items = np.repeat(np.arange(votes.n_items, dtype=np.int32), np.diff(votes.matrix.indptr))
    workers, classes = np.divmod(votes.matrix.indices.astype(np.int32), np.int32(votes.n_classes))
    return Triplets(workers, items, classes)


def fold_plan(n_answers: int) -> tuple[int, float]:
    """Return the number of folds and the share of the answers that each hides."""
    share = min(HIDDEN_SHARE, MOST_HIDDEN / max(n_answers, 1))
    wanted = round(ENOUGH_HIDDEN / max(share * n_answers, 1.0))
    return int(np.clip(wanted, 1, MOST_FOLDS)), share


def folds(
    labels: Labels, n_folds: int = 3, fraction: float = HIDDEN_SHARE, seed: int = 0
) -> Iterator[tuple[Labels, Triplets]]:
    """Yield for each fold the labels without its hidden answers, and these answers.

    Folds are disjoint. An item keeps at least one answer: without any nothing forecasts it.
    """
    votes = labels.votes
    assert isinstance(votes, SparseVotes)
    # a start that was fitted to these answers would leak the hidden ones
    labels = replace(labels, start=None)
    answers = answers_of(votes)
    columns = answers.workers, answers.items, answers.classes
    size = max(1, round(fraction * votes.n_votes))
    drawn: Iterator[Positions]
    if votes.n_votes >= DRAWN_BY_NAME:
        drawn = _by_name(labels, fold_draws(votes.n_votes, votes.n_items, n_folds, size, seed))
    else:
        rng = np.random.default_rng(seed)
        # rank the answers at random within their item; the first of each item stays
        order = np.lexsort((rng.random(votes.n_votes), answers.items))
        starts = np.flatnonzero(np.diff(answers.items, prepend=-1))
        shuffled = np.setdiff1d(np.arange(votes.n_votes), order[starts], assume_unique=True)
        rng.shuffle(shuffled)
        drawn = (np.sort(shuffled[fold * size : (fold + 1) * size]) for fold in range(n_folds))
    for chosen in drawn:
        if len(chosen) == 0:
            return
        kept = SparseVotes(without(votes.matrix, chosen), votes.n_workers, votes.n_classes)
        yield replace(labels, votes=kept), Triplets(*(codes[chosen] for codes in columns))


def _by_name(labels: Labels, draws: list[Draw]) -> Iterator[Positions]:
    """Yield the positions of each fold's answers, drawn by name as on every engine."""
    votes = labels.votes
    firsts = np.cumsum([0, *(votes.block(rows).nnz for rows in votes.blocks)])

    def drawn(at: int, draw: Draw) -> Positions:
        rows = votes.blocks[at]
        keys = item_keys(labels.items.slice(rows.start, rows.stop - rows.start))
        positions: Positions = firsts[at] + draw.hidden(votes.block(rows), votes.n_classes, keys)
        return positions

    for draw in draws:
        of_blocks = map_in_order(partial(drawn, draw=draw), list(range(len(votes.blocks))))
        yield np.concatenate(list(of_blocks))


def log_score(forecast: Floats, hidden: Triplets) -> Floats:
    """Return log P(hidden answer) under a forecast (n_hidden, n_classes), (n_hidden,)."""
    return np.log(np.maximum(forecast[np.arange(len(hidden.classes)), hidden.classes], FLOOR))
