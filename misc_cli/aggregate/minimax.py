"""Regularised minimax conditional entropy (Zhou, Liu, Platt, Meek & Shah 2014, arXiv:1503.07240).

The dual of the minimax program is maximum likelihood in
    P(worker w answers k | item i is c) ∝ exp(α_w[c, k] + β_i[c, k])
with ridge penalties; α says how w confuses classes, β how i confuses people.

Notation:
    α_w[c, k] → workers: parameters of a `Structure`, likewise β → items
    λ_w, λ_i  → worker_ridge, item_ridge
    Q(Y)      → posteriors (n_items, n_classes)
One round maximises over α, then β, then Q, each exactly, so the objective
    Σ_i log Σ_c prior[c] Π_w P(answer | c) − λ_w/2 ‖α‖² − λ_i/2 ‖β‖²   rises.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from misc_cli.aggregate.confusion_em import CLASS_PRIORS, vote_fractions
from misc_cli.aggregate.minimax_structure import Free, Index, Ordinal, Slots, Structure
from misc_cli.aggregate.softmax_newton import Derivatives, maximise, slot_derivatives, sum_by
from misc_cli.errors import ConfigError
from misc_cli.solver import Step, iterate, normalise_scores
from misc_cli.types import Aggregation, Codes, Floats, Labels, OnIteration, ignore_iteration
from misc_cli.votes import DenseVotes, Votes, map_in_order

# A class less likely than this pulls on α and β by less than they are solved to.
NEGLIGIBLE = 1e-8


@dataclass(frozen=True)
class MinimaxEntropy:
    """mmce-c. `worker_regularization` is λ_w in units of K², `item_regularization` is λ_i / λ_w in
    units of (mean answers per worker) / (mean answers per item); `regularization` scales both.
    """

    class_prior: str = "uniform"
    regularization: float = 1.0
    worker_regularization: float = 0.25
    item_regularization: float = 1.0
    tol: float = 5e-3
    max_iter: int = 50

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"paper": {"class_prior": "uniform"}}
    name: ClassVar[str] = "mmce-c"

    def structure(self, labels: Labels) -> Structure:
        return Free(labels.n_classes)

    def __call__(self, labels: Labels, on_iteration: OnIteration = ignore_iteration) -> Aggregation:
        return _fit(self, labels, on_iteration)


@dataclass(frozen=True)
class OrdinalMinimaxEntropy(MinimaxEntropy):
    """mmce-o: classes are in order and neighbours are confused more than strangers."""

    name: ClassVar[str] = "mmce-o"

    def structure(self, labels: Labels) -> Structure:
        if not labels.ordered:
            raise ConfigError(
                "mmce-o needs the classes in order: labels that are numbers, or --class-order a,b,c"
            )
        return Ordinal(labels.n_classes)


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
    workers: Floats
    items: Floats
    class_prior: Floats


def _fit(method: MinimaxEntropy, labels: Labels, on_iteration: OnIteration) -> Aggregation:
    votes, structure = labels.votes, method.structure(labels)
    copies = _copies(votes)
    worker_ridge = method.regularization * method.worker_regularization * votes.n_classes**2
    # mean answers per worker / mean answers per item = items / workers
    item_ridge = worker_ridge * method.item_regularization * votes.n_items / copies.sum()
    prior_of = CLASS_PRIORS[method.class_prior]

    def step(state: State) -> Step[State]:
        workers = _worker_step(votes, structure, state, worker_ridge * copies)
        prior = prior_of(state.posteriors.sum(axis=0))
        evidence, change = _item_step(labels, structure, state, workers, prior, item_ridge)
        penalty = worker_ridge * float((copies * _squares(workers)).sum())
        penalty += item_ridge * float(_squares(state.items).sum())
        updated = State(state.posteriors, workers, state.items, prior)
        return Step(updated, change, evidence - 0.5 * penalty, posteriors=state.posteriors)

    posteriors = vote_fractions(labels)
    start = State(
        posteriors,
        structure.zeros(votes.n_workers),
        structure.zeros(votes.n_items),
        prior_of(posteriors.sum(axis=0)),
    )
    solution = iterate(
        step,
        start,
        stage=method.name,
        tol=method.tol,
        max_iter=method.max_iter,
        on_iteration=on_iteration,
    )
    end = solution.state
    forecast = Forecast(structure, end)
    return Aggregation(
        posteriors=end.posteriors,
        confusions=forecast.confusions(),
        class_prior=end.class_prior,
        iterations=solution.iterations,
        converged=solution.converged,
        objective=solution.objective,
        predictor=forecast,
        item_details={"difficulty": forecast.difficulty()},
    )


def _copies(votes: Votes) -> Floats:
    """How many workers each column stands for: a merged worker is penalised once per copy."""
    if isinstance(votes, DenseVotes) and votes.weights is not None:
        return votes.weights
    return np.ones(votes.n_workers)


def _squares(parameters: Floats) -> Floats:
    """‖·‖² by segment, (n_segments,)."""
    return np.asarray((parameters**2).sum(axis=(0, *range(2, parameters.ndim))))


def _worker_step(votes: Votes, structure: Structure, state: State, ridge: Floats) -> Floats:
    """α of all workers at once, given β and Q: one sum over blocks per Newton step."""
    slots = Slots.every(votes.n_workers, votes.n_classes)
    n_slots = len(slots.classes)

    def derivatives(owned: Floats) -> Derivatives:
        table = structure.logits(owned, slots)

        def kernel(rows: slice) -> Derivatives:
            pairs = pairs_of(votes.block(rows), state.posteriors[rows])
            at = pairs.workers * votes.n_classes + pairs.slots.classes[pairs.item_slots]
            offsets = structure.logits(
                structure.owned(state.items[:, rows], pairs.slots), pairs.slots
            )
            logits = table[:, at] + offsets[:, pairs.item_slots]
            return slot_derivatives(logits, pairs.targets, pairs.weights, at, n_slots)

        partials = map_in_order(kernel, votes.blocks)
        total = next(partials)
        for partial in partials:
            total += partial
        return structure.pull_back(total, slots)

    start = structure.owned(state.workers, slots)
    by_problem = np.repeat(ridge, start.shape[1] // votes.n_workers)
    return structure.stored(maximise(derivatives, start, by_problem), slots)


def _item_step(
    labels: Labels,
    structure: Structure,
    state: State,
    workers: Floats,
    class_prior: Floats,
    ridge: float,
) -> tuple[float, float]:
    """β of all items given α and Q, then Q; rewrites both. Returns (evidence, max |ΔQ|)."""
    votes, gold = labels.votes, labels.gold
    n_classes = votes.n_classes
    every_worker = Slots.every(votes.n_workers, n_classes)
    table = structure.logits(structure.owned(workers, every_worker), every_worker)
    log_prior = np.log(class_prior)

    def kernel(rows: slice) -> tuple[float, float]:
        block, before = votes.block(rows), state.posteriors[rows]
        pairs = pairs_of(block, before)
        slots = pairs.slots
        offsets = table[:, pairs.workers * n_classes + slots.classes[pairs.item_slots]]

        def derivatives(owned: Floats) -> Derivatives:
            logits = offsets + structure.logits(owned, slots)[:, pairs.item_slots]
            by_slot = slot_derivatives(
                logits, pairs.targets, pairs.weights, pairs.item_slots, len(slots.classes)
            )
            return structure.pull_back(by_slot, slots)

        start = structure.owned(state.items[:, rows], slots)
        state.items[:, rows] = structure.stored(maximise(derivatives, start, ridge), slots)

        scores = _scores(block, table, structure, state.items[:, rows]) + log_prior
        known = None if gold is None else gold[rows]
        certain = np.flatnonzero(known >= 0) if known is not None else np.empty(0, np.int64)
        pinned = scores[certain, known[certain]] if known is not None else np.empty(0)
        log_normalisers = normalise_scores(scores, known)
        log_normalisers[certain] = pinned
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
    every_item = Slots.every(n_items, n_classes)
    item_table = structure.logits(structure.owned(items, every_item), every_item)
    item = np.repeat(np.arange(n_items), np.diff(block.indptr))
    workers, targets = np.divmod(block.indices.astype(np.int64), n_classes)
    vote = np.arange(len(item))
    scores = np.empty((n_items, n_classes))
    for c in range(n_classes):
        logits = table[:, workers * n_classes + c] + item_table[:, item * n_classes + c]
        logits -= logits.max(axis=0)
        chosen = logits[targets, vote]
        log_odds = chosen - np.log(np.exp(logits, out=logits).sum(axis=0))
        scores[:, c] = sum_by(item, block.data * log_odds, n_items)
    return scores


@dataclass(frozen=True)
class Forecast:
    """P(w answers k on i) = Σ_c Q_i[c] · softmax(α_w[c] + β_i[c])[k]."""

    structure: Structure
    state: State

    def __call__(self, workers: Codes, items: Codes) -> Floats:
        posteriors, n_classes = self.state.posteriors, self.structure.n_classes
        forecast = np.zeros((len(items), n_classes))
        for c in range(n_classes):
            logits = self._logits(self.state.workers, workers, c)
            logits += self._logits(self.state.items, items, c)
            forecast += posteriors[items, c, None] * _softmax(logits).T
        return forecast

    def confusions(self) -> Floats:
        """softmax(α_w): how the worker answers an item of no difficulty of its own."""
        every = np.arange(self.state.workers.shape[1], dtype=np.int32)
        rows = [
            _softmax(self._logits(self.state.workers, every, c)).T
            for c in range(self.structure.n_classes)
        ]
        return np.stack(rows, axis=1)

    def difficulty(self) -> Floats:
        """The chance that the mean worker answers an item wrong, (n_items,)."""
        n_items, n_classes = self.state.posteriors.shape
        crowd = self.state.workers.mean(axis=1, keepdims=True)
        everywhere = np.arange(n_items, dtype=np.int32)
        right = np.zeros(n_items)
        for c in range(n_classes):
            logits = self._logits(self.state.items, everywhere, c)
            logits += self._logits(crowd, np.zeros(1, dtype=np.int32), c)
            right += self.state.posteriors[:, c] * _softmax(logits)[c]
        return 1.0 - right

    def _logits(self, parameters: Floats, segments: Codes, c: int) -> Floats:
        """(n_classes, n) logits of these segments where the truth is c."""
        picked = parameters[:, segments]
        slots = Slots(np.arange(len(segments)), np.full(len(segments), c), len(segments))
        return self.structure.logits(self.structure.owned(picked, slots), slots)


def _softmax(logits: Floats) -> npt.NDArray[np.float64]:
    weights = np.exp(logits - logits.max(axis=0))
    shares: Floats = weights / weights.sum(axis=0)
    return shares
