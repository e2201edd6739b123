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
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from misc_cli.aggregators.confusion_kernels import EstimatePrior, first_posteriors, prior_rule
from misc_cli.aggregators.minimax import MinimaxEntropy
from misc_cli.aggregators.minimax.steps import (
    ITEMS,
    ItemStep,
    MinimaxState,
    ZeroItems,
    crowd_step,
    recentred,
    worker_step,
)
from misc_cli.aggregators.minimax.structure import Free, Ordinal, Slots, Structure
from misc_cli.data import resources
from misc_cli.data.holdout import folds, log_score
from misc_cli.data.solver import Solution, Step, iterate
from misc_cli.data.types import (
    Aggregator,
    Codes,
    Floats,
    Iteration,
    Labels,
    OnIteration,
    Start,
)
from misc_cli.data.votes import DenseVotes, SparseVotes
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.protocol import POSTERIORS, Block, Engine, Fitted, RowArrays
from misc_cli.errors import ConfigError, ConvergenceWarning, MiscWarning


@dataclass(frozen=True)
class MinimaxForecast:
    """Forecast P(w answers k on i) = Σ_c Q_i[c] · softmax(α_w[c] + β_i[c])[k]."""

    structure: Structure
    posteriors: Floats
    workers: Floats
    items: Floats

    def __call__(self, workers: Codes, items: Codes) -> Floats:
        n_classes = self.structure.n_classes
        forecast = np.zeros((len(items), n_classes))
        for c in range(n_classes):
            logits = _logits(self.structure, self.workers, workers, c)
            logits += _logits(self.structure, self.items, items, c)
            forecast += self.posteriors[items, c, None] * _softmax(logits).T
        return forecast


@dataclass(frozen=True)
class Difficulty:
    """Write the chance that the mean worker answers an item wrong, (n_block_items,).

    crowd  parameters of the mean worker, as those of one segment
    """

    structure: Structure
    crowd: Floats

    needs: ClassVar[tuple[str, ...]] = (POSTERIORS, ITEMS)
    writes: ClassVar[tuple[str, ...]] = ("difficulty",)

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, int]:
        posteriors, items = np.asarray(rows[POSTERIORS]), np.moveaxis(rows[ITEMS], 0, 1)
        n_items, n_classes = posteriors.shape
        everywhere = np.arange(n_items, dtype=np.int32)
        right = np.zeros(n_items)
        for c in range(n_classes):
            logits = _logits(self.structure, items, everywhere, c)
            logits += _logits(self.structure, self.crowd, np.zeros(1, dtype=np.int32), c)
            right += posteriors[:, c] * _softmax(logits)[c]
        return {"difficulty": 1.0 - right}, 0


def confusions_of(structure: Structure, workers: Floats) -> Floats:
    """Return softmax(α_w), (n_workers, K, K): the answers to an item with β = 0."""
    every = np.arange(workers.shape[1], dtype=np.int32)
    rows = [_softmax(_logits(structure, workers, every, c)).T for c in range(structure.n_classes)]
    return np.stack(rows, axis=1)


def _logits(structure: Structure, parameters: Floats, segments: Codes, c: int) -> Floats:
    """Return the logits of these segments if the truth is c, (n_classes, n)."""
    slots = Slots(segments.astype(np.int64), np.full(len(segments), c), parameters.shape[1])
    return structure.logits(structure.owned(parameters, slots), slots)


def _softmax(logits: Floats) -> Floats:
    weights = np.exp(logits - logits.max(axis=0))
    shares: Floats = weights / weights.sum(axis=0)
    return shares


def best_by_held_out_answers(
    labels: Labels,
    candidates: Mapping[float, Aggregator],
    *,
    default: float,
    name: str,
    on_iteration: OnIteration,
) -> float:
    """Return the candidate whose forecasts give hidden answers the best mean log probability.

    All candidates are fitted without the same answers; the first of tied ones wins. Completed
    labels cannot be hidden (they are forecasts themselves), nor can too few answers: then the
    default is returned, with a warning.
    """
    splits = list(folds(labels)) if isinstance(labels.votes, SparseVotes) else []
    if not splits:
        warnings.warn(
            f"no answers could be held out to choose --{name}: {default:g} is used",
            MiscWarning,
            stacklevel=3,
        )
        return default
    scores: dict[float, float] = {}
    for number, (value, candidate) in enumerate(candidates.items(), start=1):
        with warnings.catch_warnings():
            # a trial that stops at its limit is scored as it is; only the final fit may warn
            warnings.simplefilter("ignore", ConvergenceWarning)
            logs = [
                log_score(candidate(kept).predict(hidden.workers, hidden.items), hidden)
                for kept, hidden in splits
            ]
        scores[value] = float(np.concatenate(logs).mean())
        on_iteration(Iteration(name, number, objective=scores[value], extra={name: value}))
    return max(scores, key=lambda value: scores[value])


# Multiples of both weights that `--regularization auto` tries.
MULTIPLES = (0.25, 0.5, 1.0, 2.0, 4.0)


def solve(
    method: MinimaxEntropy, engine: Engine, on_iteration: OnIteration, start: Start | None
) -> Fitted:
    """Fit with the given weights, or with the multiple that forecasts hidden answers best."""
    structure, copies = structure_of(method, engine), np.ones(engine.n_workers)
    if isinstance(engine, MemoryEngine):
        if isinstance(method.regularization, str):
            multiples = {one: replace(method, regularization=one) for one in MULTIPLES}
            chosen = best_by_held_out_answers(
                engine.labels,
                multiples,
                default=1.0,
                name="regularization",
                on_iteration=on_iteration,
            )
            method = multiples[chosen]
        n_workers, n_items = engine.n_workers, engine.n_items
        resources.require(
            8 * structure.zeros(1).size * (n_items + 3 * n_workers),
            f"mmce's parameters of {n_items} items and {n_workers} workers in {engine.n_classes} "
            "classes",
            "merge rare classes, or use an aggregator without parameters for each item, such as "
            "ds-em",
        )
        if isinstance(engine.votes, DenseVotes) and engine.votes.weights is not None:
            copies = engine.votes.weights
    solution = _rounds(method, engine, structure, copies, on_iteration, start)
    return _fitted(method, engine, structure, solution)


def structure_of(method: MinimaxEntropy, engine: Engine) -> Structure:
    """Return the structure of the parameters: free, or ordinal for mmce-o."""
    if not method.needs_order:
        return Free(engine.n_classes)
    if not engine.ordered:
        raise ConfigError(
            f"{method.name} needs the classes in order: labels that are numbers, or "
            "--class-order a,b,c"
        )
    return Ordinal(engine.n_classes)


@dataclass(frozen=True)
class Weights:
    """λ_w, λ_i, and the number of workers behind each column of the votes, (n_workers,)."""

    worker_ridge: float
    item_ridge: float
    copies: Floats

    @classmethod
    def of(cls, method: MinimaxEntropy, engine: Engine, copies: Floats) -> Weights:
        if isinstance(method.regularization, str):
            raise ConfigError(
                f"--regularization {method.regularization} is for --engine local; give a number"
            )
        worker_ridge = method.regularization * method.worker_regularization * engine.n_classes**2
        # mean answers per worker / mean answers per item = items / workers
        ratio = method.item_regularization * engine.n_items / copies.sum()
        return cls(worker_ridge, worker_ridge * ratio, copies)

    def penalty(self, state: MinimaxState, item_squares: float) -> float:
        """Return λ_w/2 ‖α‖² + λ_i/2 ‖β‖²; a merged worker counts once per copy."""
        penalty = self.worker_ridge * float(self.copies @ _squares(state.workers))
        penalty += self.worker_ridge * float(_squares(state.crowd).sum())
        penalty += self.item_ridge * item_squares
        return 0.5 * penalty


def _rounds(
    method: MinimaxEntropy,
    engine: Engine,
    structure: Structure,
    copies: Floats,
    on_iteration: OnIteration,
    start: Start | None,
) -> Solution[MinimaxState]:
    weights = Weights.of(method, engine, copies)
    prior_of = prior_rule(method.class_prior)

    def step(state: MinimaxState) -> Step[MinimaxState]:
        ridges = weights.worker_ridge * weights.copies
        state = replace(state, workers=worker_step(engine, structure, state, ridges))
        if method.center == "crowd":
            state = recentred(state, weights.copies)
        state = replace(state, class_prior=prior_of(state.class_sizes))
        sums = engine.sweep(ItemStep.of(structure, state, weights.item_ridge))
        return Step(
            replace(state, class_sizes=sums.class_sizes),
            sums.change,
            sums.evidence - weights.penalty(state, sums.squares),
            posteriors=engine.whole(POSTERIORS),
        )

    first = _first(engine, structure, prior_of, start)
    if method.center == "crowd" and not _is_warm(start):
        first = replace(first, crowd=crowd_step(engine, structure, first, weights.worker_ridge))
    return iterate(
        step,
        first,
        stage=method.name,
        tol=method.tol,
        max_iter=method.max_iter,
        on_iteration=on_iteration,
    )


def _is_warm(start: Start | None) -> bool:
    return start is not None and "parameters" in start.workers


def _first(
    engine: Engine, structure: Structure, prior_of: EstimatePrior, start: Start | None
) -> MinimaxState:
    """Return the first state: zero parameters, or those of an earlier fit.

    Items start from zero in either case: most of them converge in one step.
    """
    class_sizes = engine.sweep(first_posteriors(start, prior_of)).class_sizes
    engine.sweep(ZeroItems(structure))
    crowd, workers = structure.zeros(1), structure.zeros(engine.n_workers)
    if start is not None and _is_warm(start):
        crowd = start.shared["crowd"]
        workers = np.moveaxis(start.workers["parameters"], 0, 1).copy()
    return MinimaxState(crowd, workers, class_sizes, prior_of(class_sizes))


def _fitted(
    method: MinimaxEntropy, engine: Engine, structure: Structure, solution: Solution[MinimaxState]
) -> Fitted:
    """Return the result with parameters for a later fit; the engine keeps items' difficulty."""
    end = solution.state
    workers = end.workers + end.crowd
    engine.sweep(Difficulty(structure, workers.mean(axis=1, keepdims=True)))
    forecast = None
    if isinstance(engine, MemoryEngine):
        items = np.moveaxis(engine.whole(ITEMS), 0, 1)
        forecast = MinimaxForecast(structure, engine.whole(POSTERIORS), workers, items)
    return Fitted(
        confusions=confusions_of(structure, workers),
        class_prior=end.class_prior,
        iterations=solution.iterations,
        stopped={method.name: solution.stopped},
        objective=solution.objective,
        own_workers={"parameters": np.moveaxis(end.workers, 1, 0)},
        own_shared={"crowd": end.crowd},
        detail_rows=Difficulty.writes,
        predictor=forecast,
    )


def _squares(parameters: Floats) -> Floats:
    """Return ‖·‖² by segment, (n_segments,)."""
    return np.asarray((parameters**2).sum(axis=(0, *range(2, parameters.ndim))))
