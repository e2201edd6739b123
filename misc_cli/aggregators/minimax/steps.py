"""The three half-steps of minimax entropy: workers (and what they share), items, posteriors.

Each maximises the objective of `minimax.py` over its own part, given the rest, walking the items
block by block. Notation as there; α_w = crowd + workers[w] where workers are centred on the crowd.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise, starmap
from operator import add

import numpy as np
import scipy.sparse as sp

from misc_cli.aggregators.minimax.newton import Derivatives, maximise, slot_derivatives, sum_by
from misc_cli.aggregators.minimax.structure import Index, Slots, Structure
from misc_cli.core.logdomain import normalise_scores
from misc_cli.core.parallel import map_in_order
from misc_cli.core.types import Floats, Labels
from misc_cli.core.votes import Rows, Votes

# A class less likely than this pulls on α and β by less than they are solved to.
NEGLIGIBLE = 1e-6
# Numbers to hold at a time: curvatures grow with the square of the classes (or their cube).
PART = 1 << 22


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


def parts_of(
    block: sp.csr_array, rows: Rows, posteriors: Floats, per_slot: int
) -> list[tuple[Rows, sp.csr_array]]:
    """A block's items and votes in parts of some `PART` numbers each; few classes: all in one.

    `per_slot` is how many numbers a slot takes beside its pairs, which take n_classes each.
    """
    n_classes = posteriors.shape[1]
    n_slots = (posteriors[rows] > NEGLIGIBLE) @ np.ones(n_classes)
    numbers = np.cumsum(n_slots * (per_slot + n_classes * np.diff(block.indptr)))
    cuts = np.searchsorted(numbers, np.arange(PART, numbers[-1], PART))
    if len(cuts) == 0:
        return [(rows, block)]
    edges = np.unique([0, *cuts, block.shape[0]]).tolist()
    return [(slice(rows.start + a, rows.start + b), block[a:b]) for a, b in pairwise(edges)]


def _curvature_numbers(structure: Structure) -> int:
    """What a slot's curvature takes, by logit and by parameter."""
    return structure.n_classes**2 + len(structure.zeros(1)) ** 2


@dataclass(frozen=True)
class State:
    """`posteriors` and `items` are buffers that each round rewrites block by block."""

    posteriors: Floats
    crowd: Floats
    workers: Floats
    items: Floats
    class_prior: Floats


def worker_step(votes: Votes, structure: Structure, state: State, ridge: Floats) -> Floats:
    """α of all workers, given the rest: a team of workers at a time, mostly one team."""
    n_workers, n_classes = votes.n_workers, votes.n_classes
    size = max(1, PART // (n_classes * _curvature_numbers(structure)))
    teams = [slice(first, min(first + size, n_workers)) for first in range(0, n_workers, size)]
    solved = [_solve_team(votes, structure, state, ridge[team], team) for team in teams]
    return np.concatenate(solved, axis=1)


def _solve_team(
    votes: Votes, structure: Structure, state: State, ridge: Floats, team: Rows
) -> Floats:
    slots = Slots.every(len(ridge), votes.n_classes)
    crowd = np.tile(logit_table(structure, state.crowd), len(ridge))
    start = structure.owned(state.workers[:, team], slots)
    by_problem = np.repeat(ridge, start.shape[1] // len(ridge))

    def derivatives(owned: Floats) -> Derivatives:
        table = structure.logits(owned, slots) + crowd
        by_slot = _answer_derivatives(votes, structure, state, table, team, table.shape[1])
        return structure.pull_back(by_slot, slots)

    return structure.stored(maximise(derivatives, start, by_problem), slots)


def crowd_step(votes: Votes, structure: Structure, state: State, ridge: float) -> Floats:
    """What all workers share, given the rest: the same sums, over all workers at once."""
    n_workers, n_classes = votes.n_workers, votes.n_classes
    slots, everyone = Slots.every(1, n_classes), slice(0, n_workers)
    workers = logit_table(structure, state.workers)

    def derivatives(owned: Floats) -> Derivatives:
        table = workers + np.tile(structure.logits(owned, slots), n_workers)
        by_slot = _answer_derivatives(votes, structure, state, table, everyone, n_classes)
        return structure.pull_back(by_slot, slots)

    start = structure.owned(state.crowd, slots)
    return structure.stored(maximise(derivatives, start, ridge), slots)


def recentred(state: State, copies: Floats) -> State:
    """Move what workers share to the crowd: the likelihood stays, the penalty becomes least."""
    weights = copies.reshape(1, -1, *(1 for _ in state.workers.shape[2:]))
    shared = (weights * state.workers).sum(axis=1, keepdims=True)
    shift = (shared - state.crowd) / (copies.sum() + 1.0)
    return replace(state, crowd=state.crowd + shift, workers=state.workers - shift)


def _answer_derivatives(
    votes: Votes, structure: Structure, state: State, table: Floats, team: Rows, n_slots: int
) -> Derivatives:
    """By slot, given the logits `table` (n_classes, n_team * n_classes) of a team of workers.

    n_slots is the table's length, or n_classes: then slots are the classes, summed over workers.
    """
    n_classes = votes.n_classes
    columns = slice(team.start * n_classes, team.stop * n_classes)

    def of_part(part: Rows, block: sp.csr_array) -> Derivatives:
        pairs = pairs_of(block, state.posteriors[part])
        at = pairs.workers * n_classes + pairs.slots.classes[pairs.item_slots]
        items = structure.owned(state.items[:, part], pairs.slots)
        logits = np.take(table, at, axis=1)
        logits += np.take(structure.logits(items, pairs.slots), pairs.item_slots, axis=1)
        slots = at if n_slots == table.shape[1] else at % n_classes
        return slot_derivatives(logits, pairs.targets, pairs.weights, slots, n_slots)

    def kernel(rows: Rows) -> Derivatives:
        block = votes.block(rows)
        block = block if table.shape[1] == block.shape[1] else block[:, columns]
        return reduce(add, starmap(of_part, parts_of(block, rows, state.posteriors, n_classes)))

    return reduce(add, map_in_order(kernel, votes.blocks))


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
    table = logit_table(structure, state.workers + state.crowd)
    log_prior = np.log(state.class_prior)

    def kernel(rows: Rows) -> tuple[float, float]:
        evidence = change = 0.0
        per_slot = _curvature_numbers(structure)
        for part, block in parts_of(votes.block(rows), rows, state.posteriors, per_slot):
            before, items = state.posteriors[part], state.items[:, part]
            items[:] = _solve_items(block, before, items, structure, table, ridge)
            scores = _scores(block, table, structure, items) + log_prior
            log_normalisers = normalise_scores(scores, None if gold is None else gold[part])
            evidence += float(log_normalisers.sum())
            change = max(change, float(np.abs(scores - before).max(initial=0.0)))
            before[:] = scores
        return evidence, change

    evidence = change = 0.0
    for partial, partial_change in map_in_order(kernel, votes.blocks):
        evidence += partial
        change = max(change, partial_change)
    return evidence, change


def _solve_items(
    block: sp.csr_array,
    posteriors: Floats,
    items: Floats,
    structure: Structure,
    table: Floats,
    ridge: float,
) -> Floats:
    """β of these items from where they are (`items`), given the workers' logits `table`."""
    pairs = pairs_of(block, posteriors)
    slots = pairs.slots
    at = pairs.workers * structure.n_classes + slots.classes[pairs.item_slots]
    offsets = np.take(table, at, axis=1)

    def derivatives(owned: Floats) -> Derivatives:
        logits = np.take(structure.logits(owned, slots), pairs.item_slots, axis=1)
        logits += offsets
        by_slot = slot_derivatives(
            logits, pairs.targets, pairs.weights, pairs.item_slots, len(slots.classes)
        )
        return structure.pull_back(by_slot, slots)

    start = structure.owned(items, slots)
    return structure.stored(maximise(derivatives, start, ridge), slots)


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
