"""The three half-steps of minimax entropy: workers (and what they share), items, posteriors.

Each maximises the objective of `minimax.py` over its own part, given the rest, walking the items
block by block. Notation as there; α_w = crowd + workers[w] where workers are centred on the crowd.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from misc_cli.aggregate.minimax_structure import Index, Slots, Structure
from misc_cli.aggregate.softmax_newton import Derivatives, maximise, slot_derivatives, sum_by
from misc_cli.solver import normalise_scores
from misc_cli.types import Floats, Labels
from misc_cli.votes import Votes, map_in_order

# A class less likely than this pulls on α and β by less than they are solved to.
NEGLIGIBLE = 1e-6


@dataclass(frozen=True)
class Pairs:
    """Votes of a block, each under every class its item may have, (n_pairs,) each.

    A pair's item slot is the (item of the block, class) it is about; `slots` lists those.
    """

    workers: Index
    targets: Index
    item_slots: Index
    weights: Floats
    slots: Slots


def pairs_of(block: sp.csr_array, posteriors: Floats) -> Pairs:
    n_classes = posteriors.shape[1]
    items, classes = np.nonzero(posteriors > NEGLIGIBLE)
    pointers = block.indptr.astype(np.int64)
    lengths = np.diff(pointers)[items]
    item_slots = np.repeat(np.arange(len(items)), lengths)
    # the slot's votes are a range of the block's: count on from where the range starts
    shifts = pointers[items] - (np.cumsum(lengths) - lengths)
    votes = np.arange(len(item_slots)) + np.repeat(shifts, lengths)
    workers, targets = np.divmod(block.indices[votes].astype(np.int64), n_classes)
    weights = block.data[votes] * posteriors[items, classes][item_slots]
    return Pairs(workers, targets, item_slots, weights, Slots(items, classes, len(posteriors)))


@dataclass(frozen=True)
class State:
    """`posteriors` and `items` are buffers that each round rewrites block by block."""

    posteriors: Floats
    crowd: Floats
    workers: Floats
    items: Floats
    class_prior: Floats


def worker_step(votes: Votes, structure: Structure, state: State, ridge: Floats) -> Floats:
    """α of all workers at once, given the rest."""
    slots = Slots.every(votes.n_workers, votes.n_classes)
    crowd = np.tile(logit_table(structure, state.crowd), votes.n_workers)
    start = structure.owned(state.workers, slots)
    by_problem = np.repeat(ridge, start.shape[1] // votes.n_workers)

    def derivatives(owned: Floats) -> Derivatives:
        table = structure.logits(owned, slots) + crowd
        return structure.pull_back(_worker_derivatives(votes, structure, state, table), slots)

    return structure.stored(maximise(derivatives, start, by_problem), slots)


def crowd_step(votes: Votes, structure: Structure, state: State, ridge: float) -> Floats:
    """What all workers share, given the rest: the same sums, added up over workers."""
    slots = Slots.every(1, votes.n_classes)
    workers = logit_table(structure, state.workers)

    def derivatives(owned: Floats) -> Derivatives:
        table = workers + np.tile(structure.logits(owned, slots), votes.n_workers)
        each = _worker_derivatives(votes, structure, state, table)
        return structure.pull_back(each.folded(votes.n_workers), slots)

    start = structure.owned(state.crowd, slots)
    return structure.stored(maximise(derivatives, start, ridge), slots)


def recentred(state: State, copies: Floats) -> State:
    """Move what workers share to the crowd: the likelihood stays, the penalty becomes least."""
    weights = copies.reshape(1, -1, *(1 for _ in state.workers.shape[2:]))
    shared = (weights * state.workers).sum(axis=1, keepdims=True)
    shift = (shared - state.crowd) / (copies.sum() + 1.0)
    return replace(state, crowd=state.crowd + shift, workers=state.workers - shift)


def _worker_derivatives(
    votes: Votes, structure: Structure, state: State, table: Floats
) -> Derivatives:
    """By worker slot, given each worker's logits `table` (n_classes, n_workers * n_classes)."""

    def kernel(rows: slice) -> Derivatives:
        pairs = pairs_of(votes.block(rows), state.posteriors[rows])
        at = pairs.workers * votes.n_classes + pairs.slots.classes[pairs.item_slots]
        items = structure.owned(state.items[:, rows], pairs.slots)
        offsets = structure.logits(items, pairs.slots)
        logits = np.take(table, at, axis=1)
        logits += np.take(offsets, pairs.item_slots, axis=1)
        return slot_derivatives(logits, pairs.targets, pairs.weights, at, table.shape[1])

    partials = map_in_order(kernel, votes.blocks)
    total = next(partials)
    for partial in partials:
        total += partial
    return total


def logit_table(structure: Structure, parameters: Floats) -> Floats:
    """Logits of every slot, (n_classes, n_segments * n_classes)."""
    slots = Slots.every(parameters.shape[1], structure.n_classes)
    return structure.logits(structure.owned(parameters, slots), slots)


def item_step(
    labels: Labels,
    structure: Structure,
    state: State,
    ridge: float,
) -> tuple[float, float]:
    """β of all items given α and Q, then Q; rewrites both. Returns (evidence, max |ΔQ|)."""
    votes, gold = labels.votes, labels.gold
    n_classes = votes.n_classes
    table = logit_table(structure, state.workers + state.crowd)
    log_prior = np.log(state.class_prior)

    def kernel(rows: slice) -> tuple[float, float]:
        block, before = votes.block(rows), state.posteriors[rows]
        pairs = pairs_of(block, before)
        slots = pairs.slots
        at = pairs.workers * n_classes + slots.classes[pairs.item_slots]
        offsets = np.take(table, at, axis=1)

        def derivatives(owned: Floats) -> Derivatives:
            logits = np.take(structure.logits(owned, slots), pairs.item_slots, axis=1)
            logits += offsets
            by_slot = slot_derivatives(
                logits, pairs.targets, pairs.weights, pairs.item_slots, len(slots.classes)
            )
            return structure.pull_back(by_slot, slots)

        start = structure.owned(state.items[:, rows], slots)
        state.items[:, rows] = structure.stored(maximise(derivatives, start, ridge), slots)

        scores = _scores(block, table, structure, state.items[:, rows]) + log_prior
        log_normalisers = normalise_scores(scores, None if gold is None else gold[rows])
        change = float(np.abs(scores - before).max(initial=0.0))
        state.posteriors[rows] = scores
        return float(log_normalisers.sum()), change

    evidence = change = 0.0
    for partial, partial_change in map_in_order(kernel, votes.blocks):
        evidence += partial
        change = max(change, partial_change)
    return evidence, change


def _scores(block: sp.csr_array, table: Floats, structure: Structure, items: Floats) -> Floats:
    """Σ_w log P(answer | c) of a block's items, (n_block, n_classes)."""
    n_items, n_classes = block.shape[0], structure.n_classes
    item_table = logit_table(structure, items)
    item = np.repeat(np.arange(n_items), np.diff(block.indptr))
    workers, targets = np.divmod(block.indices.astype(np.int64), n_classes)
    vote = np.arange(len(item))
    scores = np.empty((n_items, n_classes))
    for c in range(n_classes):
        logits = np.take(table[:, c::n_classes], workers, axis=1)
        logits += np.take(item_table[:, c::n_classes], item, axis=1)
        logits -= logits.max(axis=0)
        chosen = logits[targets, vote]
        log_odds = chosen - np.log(np.exp(logits, out=logits).sum(axis=0))
        scores[:, c] = sum_by(item, block.data * log_odds, n_items)
    return scores
