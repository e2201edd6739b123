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

from dataclasses import dataclass, replace

import numpy as np

from misc_cli.aggregators.confusion_kernels import first_posteriors, prior_rule
from misc_cli.aggregators.methods import MinimaxEntropy
from misc_cli.aggregators.minimax.newton import Free, Ordinal, Structure
from misc_cli.aggregators.minimax.steps import (
    ITEMS,
    ItemStep,
    MinimaxState,
    ZeroItems,
    crowd_step,
    logit_table,
    recentred,
    worker_step,
)
from misc_cli.data import resources
from misc_cli.data.solver import Step, iterate
from misc_cli.data.types import Codes, Floats, OnIteration, Start
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.protocol import POSTERIORS, Engine, Fitted
from misc_cli.errors import ConfigError


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
    prior_of = prior_rule(method.class_prior)

    def step(state: MinimaxState) -> Step[MinimaxState]:
        state = replace(state, workers=worker_step(engine, structure, state, worker_ridge))
        if method.center == "crowd":
            state = recentred(state)
        state = replace(state, class_prior=prior_of(state.class_sizes))
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

    class_sizes = engine.sweep(first_posteriors(start, prior_of)).class_sizes
    engine.sweep(ZeroItems(structure))
    first = MinimaxState(
        structure.zeros(1), structure.zeros(n_workers), class_sizes, prior_of(class_sizes)
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
