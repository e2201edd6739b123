"""mmce: regularised minimax conditional entropy (Zhou, Platt, Basu & Mao 2012, NIPS; Zhou, Liu,
Platt & Meek 2014, ICML; with Shah 2015, arXiv:1503.07240).

The dual of the minimax program is maximum likelihood with ridge penalties in
    P(worker w answers k | item i is c) ∝ exp(α_w[c, k] + β_i[c, k])
α is the confusion of the worker, β that of the item.

Notation:
    α_w[c, k] → workers: parameters of a `Structure`, likewise β → items
    λ_w, λ_i  → worker_ridge, item_ridge
    Q(Y)      → posteriors (n_items, n_classes)
A round maximises over α, then β, then Q, so the objective
    Σ_i log Σ_c prior[c] Π_w P(answer | c) − λ_w/2 ‖α‖² − λ_i/2 ‖β‖²   rises.
Centred on the crowd, α_w = crowd + workers[w], and λ_w penalises the two parts, not their sum.
α is shared state, solved from sums over all answers; β and Q are rows of the engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from misc_cli.aggregators.confusion_kernels import first_posteriors, prior_of
from misc_cli.aggregators.methods import MinimaxEntropy
from misc_cli.aggregators.minimax.newton import (
    Derivatives,
    Free,
    Index,
    Ordinal,
    SlotPairs,
    Slots,
    Structure,
    maximise,
    sum_by,
)
from misc_cli.data import resources
from misc_cli.data.posteriors import normalise_scores
from misc_cli.data.solver import Step, iterate
from misc_cli.data.types import Codes, Floats, OnIteration, Start
from misc_cli.data.votes import Rows
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.protocol import (
    GOLD,
    LARGEST,
    POSTERIORS,
    Block,
    Engine,
    Fitted,
    RowArrays,
    Summed,
    WriteRows,
    add_up,
)
from misc_cli.errors import ConfigError

# β, (n_block_items, n_parameters, ...).
ITEMS = "item-parameters"

# A class less likely than this moves α and β by less than their tolerance.
NEGLIGIBLE = 1e-6
# Numbers to hold at a time: curvatures grow with the square (or cube) of the classes.
PART = 1 << 22


@dataclass(frozen=True)
class Pairs:
    """Votes of a block under every class that its item may have; arrays are (n_pairs,).

    `item_slots` is the (item of the block, class) of each pair, an index into `slots`.
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
    # the votes of a slot are a range of the block's votes: count on from its start
    shifts = pointers[items] - (np.cumsum(lengths) - lengths)
    votes = np.arange(len(item_slots)) + np.repeat(shifts, lengths)
    workers, targets = np.divmod(block.indices[votes].astype(np.int64), n_classes)
    weights = block.data[votes] * posteriors[items, classes][item_slots]
    return Pairs(workers, targets, item_slots, weights, Slots(items, classes, len(posteriors)))


def parts_of(
    block: sp.csr_array, posteriors: Floats, per_slot: int
) -> list[tuple[Rows, sp.csr_array]]:
    """Return the items and votes of a block in parts of about `PART` numbers each.

    A slot takes `per_slot` numbers, and n_classes for each of its pairs.
    """
    n_classes = posteriors.shape[1]
    n_slots = (posteriors > NEGLIGIBLE) @ np.ones(n_classes)
    numbers = np.cumsum(n_slots * (per_slot + n_classes * np.diff(block.indptr)))
    cuts = np.searchsorted(numbers, np.arange(PART, numbers[-1], PART))
    if len(cuts) == 0:
        return [(slice(0, block.shape[0]), block)]
    edges = np.unique([0, *cuts, block.shape[0]]).tolist()
    return [(slice(a, b), block[a:b]) for a, b in pairwise(edges)]


def zero_items(block: Block, _: RowArrays, structure: Structure) -> tuple[RowArrays, int]:
    """Set β of all items to zero."""
    return {ITEMS: np.moveaxis(structure.zeros(block.matrix.shape[0]), 1, 0)}, 0


def _curvature_numbers(structure: Structure) -> int:
    """Return the size of the curvature of a slot, by logit and by parameter."""
    return structure.n_classes**2 + len(structure.zeros(1)) ** 2


@dataclass(frozen=True)
class MinimaxState:
    """Shared parameters; `class_sizes` (n_classes,) is Σ_i Q_i[c]."""

    crowd: Floats
    workers: Floats
    class_sizes: Floats
    class_prior: Floats


def worker_step(engine: Engine, structure: Structure, state: MinimaxState, ridge: float) -> Floats:
    """Return α of all workers given the rest; solved in teams if there are many workers."""
    n_workers, n_classes = engine.n_workers, engine.n_classes
    size = max(1, PART // (n_classes * _curvature_numbers(structure)))
    teams = [slice(first, min(first + size, n_workers)) for first in range(0, n_workers, size)]

    def solved(team: Rows) -> Floats:
        slots = Slots.every(team.stop - team.start, n_classes)
        crowd = np.tile(logit_table(structure, state.crowd), team.stop - team.start)
        start = structure.owned(state.workers[:, team], slots)
        made = _cache(engine)

        def derivatives(owned: Floats) -> Derivatives:
            table = structure.logits(owned, slots) + crowd
            kernel = AnswerDerivatives(structure, table, team.start, table.shape[1], made)
            return structure.pull_back(engine.sweep(kernel), slots)

        return structure.stored(maximise(derivatives, start, ridge), slots)

    return np.concatenate([solved(team) for team in teams], axis=1)


def crowd_step(engine: Engine, structure: Structure, state: MinimaxState, ridge: float) -> Floats:
    """Return the parameters of the crowd, given the rest."""
    n_workers, n_classes = engine.n_workers, engine.n_classes
    slots = Slots.every(1, n_classes)
    workers = logit_table(structure, state.workers)
    made = _cache(engine)

    def derivatives(owned: Floats) -> Derivatives:
        table = workers + np.tile(structure.logits(owned, slots), n_workers)
        by_slot = engine.sweep(AnswerDerivatives(structure, table, 0, n_classes, made))
        return structure.pull_back(by_slot, slots)

    start = structure.owned(state.crowd, slots)
    return structure.stored(maximise(derivatives, start, ridge), slots)


def recentred(state: MinimaxState) -> MinimaxState:
    """Return the state with the workers' mean moved to the crowd, which lowers the penalty."""
    shared = state.workers.sum(axis=1, keepdims=True)
    shift = (shared - state.crowd) / (state.workers.shape[1] + 1.0)
    return replace(state, crowd=state.crowd + shift, workers=state.workers - shift)


# Pairs of each block by the address of its posteriors.
PairCache = dict[int, list[SlotPairs]]


def _cache(engine: Engine) -> PairCache | None:
    """Return a cache for the pairs of a solve, during which posteriors and β stay as they are.

    None if the pairs may be many, or if rows have no fixed place in the memory of this process.
    """
    n_classes = engine.n_classes
    most = engine.n_votes * n_classes * (n_classes + 4)
    return None if most > 4 * PART or engine.whole(POSTERIORS) is None else {}


@dataclass(frozen=True)
class AnswerDerivatives:
    """Sum the derivatives by slot of a team of workers, whose first is `first`.

    table    (n_classes, n_team * n_classes): its logits
    n_slots  length of the table; or n_classes: slots are the classes, summed over workers
    made     keeps the pairs for the next point of the solve
    """

    structure: Structure
    table: Floats
    first: int
    n_slots: int
    made: PairCache | None = None

    writes: ClassVar[tuple[str, ...]] = ()

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, Derivatives]:
        parts: Iterable[SlotPairs]
        if self.made is None:
            parts = self._parts(block, rows)
        else:
            key = rows[POSTERIORS].__array_interface__["data"][0]
            if key not in self.made:
                self.made[key] = list(self._parts(block, rows))
            parts = self.made[key]
        return {}, add_up(part.derivatives(self.table) for part in parts)

    def _parts(self, block: Block, rows: RowArrays) -> Iterator[SlotPairs]:
        matrix, posteriors = block.matrix, rows[POSTERIORS]
        structure, n_classes = self.structure, self.structure.n_classes
        n_columns = self.table.shape[1]
        if n_columns < matrix.shape[1]:
            matrix = matrix[:, self.first * n_classes : self.first * n_classes + n_columns]
        for part, votes in parts_of(matrix, posteriors, n_classes):
            pairs = pairs_of(votes, posteriors[part])
            columns = pairs.workers * n_classes + pairs.slots.classes[pairs.item_slots]
            owned = structure.owned(np.moveaxis(rows[ITEMS][part], 0, 1), pairs.slots)
            of_items = np.take(structure.logits(owned, pairs.slots), pairs.item_slots, axis=1)
            slots = columns if self.n_slots == n_columns else columns % n_classes
            yield SlotPairs.of(columns, of_items, pairs.targets, pairs.weights, slots, self.n_slots)


def logit_table(structure: Structure, parameters: Floats) -> Floats:
    """Return the logits of every slot, (n_classes, n_segments * n_classes)."""
    slots = Slots.every(parameters.shape[1], structure.n_classes)
    return structure.logits(structure.owned(parameters, slots), slots)


@dataclass
class ItemSums(Summed):
    """Σ_i log Σ_c prior[c] Π_w P(answer | c), max |ΔQ|, ‖β‖², and Σ_i Q_i[c] (n_classes,)."""

    evidence: float
    change: float = field(metadata=LARGEST)
    squares: float
    class_sizes: Floats


@dataclass(frozen=True)
class ItemStep:
    """Solve β of all items given α (its logits `table`) and Q, then Q given both.

    Both start from their current rows: an engine that lost them repeats all steps.
    """

    structure: Structure
    table: Floats
    log_prior: Floats
    ridge: float

    needs: ClassVar[tuple[str, ...]] = (POSTERIORS, ITEMS)
    writes: ClassVar[tuple[str, ...]] = (POSTERIORS, ITEMS)

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, ItemSums]:
        matrix, gold, posteriors = block.matrix, rows.get(GOLD), rows[POSTERIORS]
        parameters, scores = [], []
        evidence = 0.0
        for part, votes in parts_of(matrix, posteriors, _curvature_numbers(self.structure)):
            items = np.moveaxis(rows[ITEMS][part], 0, 1)  # (n_parameters, n_part_items, ...)
            items = self._solve(votes, posteriors[part], items)
            updated = _scores(votes, self.table, self.structure, items) + self.log_prior
            evidence += float(normalise_scores(updated, None if gold is None else gold[part]).sum())
            parameters.append(items)
            scores.append(updated)
        items, updated = np.concatenate(parameters, axis=1), np.concatenate(scores)
        sums = ItemSums(
            evidence,
            change=float(np.abs(updated - posteriors).max(initial=0.0)),
            squares=float(np.vdot(items, items)),
            class_sizes=np.ones(len(updated)) @ updated,
        )
        return {POSTERIORS: updated, ITEMS: np.moveaxis(items, 1, 0)}, sums

    def _solve(self, votes: sp.csr_array, posteriors: Floats, items: Floats) -> Floats:
        """Return β of these items, solved from their current values `items`."""
        structure = self.structure
        pairs = pairs_of(votes, posteriors)
        slots = pairs.slots
        places = pairs.item_slots
        at = pairs.workers * structure.n_classes + slots.classes[places]
        of_workers = np.take(self.table, at, axis=1)
        by_item = SlotPairs.of(
            places, of_workers, pairs.targets, pairs.weights, places, len(slots.classes)
        )

        def derivatives(owned: Floats) -> Derivatives:
            return structure.pull_back(by_item.derivatives(structure.logits(owned, slots)), slots)

        start = structure.owned(items, slots)
        return structure.stored(maximise(derivatives, start, self.ridge), slots)


def _scores(block: sp.csr_array, table: Floats, structure: Structure, items: Floats) -> Floats:
    """Return Σ_w log P(answer | c) of the items of a block, (n_block, n_classes)."""
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


@dataclass(frozen=True)
class MinimaxForecast:
    """Forecast P(w answers k on i) = Σ_c Q_i[c] · softmax(α_w[c] + β_i[c])[k]."""

    structure: Structure
    posteriors: Floats
    workers: Floats
    items: Floats

    def __call__(self, workers: Codes, items: Codes) -> Floats:
        n_classes = self.structure.n_classes
        table = logit_table(self.structure, self.workers[:, workers])
        table += logit_table(self.structure, self.items[:, items])
        forecast = np.zeros((len(items), n_classes))
        for c in range(n_classes):
            logits = table[:, c::n_classes]
            forecast += self.posteriors[items, c, None] * _softmax(logits).T
        return forecast


def _softmax(logits: Floats) -> Floats:
    weights = np.exp(logits - logits.max(axis=0))
    shares: Floats = weights / weights.sum(axis=0)
    return shares


def solve(
    method: MinimaxEntropy, engine: Engine, on_iteration: OnIteration, start: Start | None
) -> Fitted:
    """Fit by rounds; the engine keeps the posteriors and β.

    Workers start from zero parameters, or from those of an earlier fit; items always from zero:
    most of them converge in one step.
    """
    if method.needs_order and not engine.ordered:
        raise ConfigError(
            f"{method.name} needs the classes in order: labels that are numbers, or "
            "--class-order a,b,c"
        )
    structure: Structure = (Ordinal if method.needs_order else Free)(engine.n_classes)
    n_workers, n_items = engine.n_workers, engine.n_items
    if isinstance(engine, MemoryEngine):
        resources.require(
            8 * structure.zeros(1).size * (n_items + 3 * n_workers),
            f"mmce's parameters of {n_items} items and {n_workers} workers in {engine.n_classes} "
            "classes",
            "merge rare classes, or use an aggregator without parameters for each item, such as "
            "ds-em",
        )
    worker_ridge = method.worker_regularization * engine.n_classes**2
    # mean answers per worker / mean answers per item = items / workers
    item_ridge = worker_ridge * (method.item_regularization * n_items / n_workers)

    def step(state: MinimaxState) -> Step[MinimaxState]:
        state = replace(state, workers=worker_step(engine, structure, state, worker_ridge))
        if method.center == "crowd":
            state = recentred(state)
        state = replace(state, class_prior=prior_of(method.class_prior, state.class_sizes))
        table = logit_table(structure, state.workers + state.crowd)
        sums = engine.sweep(ItemStep(structure, table, np.log(state.class_prior), item_ridge))
        # λ_w/2 ‖α‖² + λ_i/2 ‖β‖²
        of_workers = float((state.workers**2).sum() + (state.crowd**2).sum())
        penalty = worker_ridge * of_workers + item_ridge * sums.squares
        return Step(
            replace(state, class_sizes=sums.class_sizes),
            sums.change,
            sums.evidence - 0.5 * penalty,
            posteriors=engine.whole(POSTERIORS),
        )

    class_sizes = engine.sweep(first_posteriors(start, method.class_prior)).class_sizes
    engine.sweep(WriteRows(partial(zero_items, structure=structure), (), (ITEMS,)))
    first = MinimaxState(
        structure.zeros(1),
        structure.zeros(n_workers),
        class_sizes,
        prior_of(method.class_prior, class_sizes),
    )
    if start is not None and "parameters" in start.workers:
        workers = np.moveaxis(start.workers["parameters"], 0, 1).copy()
        first = replace(first, crowd=start.shared["crowd"], workers=workers)
    elif method.center == "crowd":
        first = replace(first, crowd=crowd_step(engine, structure, first, worker_ridge))
    solution = iterate(
        step,
        first,
        stage=method.name,
        tol=method.tol,
        max_iter=method.max_iter,
        on_iteration=on_iteration,
    )
    end = solution.state
    workers = end.workers + end.crowd
    forecast = None
    if isinstance(engine, MemoryEngine):
        items = np.moveaxis(engine.whole(ITEMS), 0, 1)
        forecast = MinimaxForecast(structure, engine.whole(POSTERIORS), workers, items)
    # softmax(α_w), (n_workers, K, K): the answers to an item with β = 0
    by_answer = _softmax(logit_table(structure, workers)).reshape(engine.n_classes, n_workers, -1)
    return Fitted(
        confusions=np.ascontiguousarray(np.moveaxis(by_answer, 0, 2)),
        class_prior=end.class_prior,
        iterations=solution.iterations,
        stopped={method.name: solution.stopped},
        objective=solution.objective,
        own_workers={"parameters": np.moveaxis(end.workers, 1, 0)},
        own_shared={"crowd": end.crowd},
        predictor=forecast,
    )
