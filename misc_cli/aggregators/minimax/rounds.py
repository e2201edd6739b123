"""Regularised minimax conditional entropy (Zhou, Platt, Basu & Mao 2012, NIPS; Zhou, Liu, Platt &
Meek 2014, ICML; with Shah 2015, arXiv:1503.07240).

The dual of the minimax program is maximum likelihood in
    P(worker w answers k | item i is c) ∝ exp(α_w[c, k] + β_i[c, k])
with ridge penalties; α says how w confuses classes, β how i confuses people.

Notation:
    α_w[c, k] → workers: parameters of a `Structure`, likewise β → items
    λ_w, λ_i  → worker_ridge, item_ridge
    Q(Y)      → posteriors (n_items, n_classes)
One round maximises over α, then β, then Q, so the objective
    Σ_i log Σ_c prior[c] Π_w P(answer | c) − λ_w/2 ‖α‖² − λ_i/2 ‖β‖²   rises.
Centred on the crowd, α_w = crowd + workers[w] and λ_w penalises the two parts, not their sum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from misc_cli.aggregators.confusion.em import EstimatePrior, first_posteriors, prior_rule
from misc_cli.aggregators.minimax.forecast import Forecast
from misc_cli.aggregators.minimax.method import MinimaxEntropy
from misc_cli.aggregators.minimax.steps import State, crowd_step, item_step, recentred, worker_step
from misc_cli.aggregators.minimax.structure import Free, Ordinal, Structure
from misc_cli.aggregators.minimax.validation import best_by_held_out_answers
from misc_cli.core import memory
from misc_cli.core.solver import Solution, Step, iterate
from misc_cli.core.types import Aggregation, Floats, Labels, OnIteration
from misc_cli.core.votes import DenseVotes, Votes
from misc_cli.errors import ConfigError

# Multiples of both weights that `--regularization auto` tries.
MULTIPLES = (0.25, 0.5, 1.0, 2.0, 4.0)


def aggregate(method: MinimaxEntropy, labels: Labels, on_iteration: OnIteration) -> Aggregation:
    """The fit with the given weights, or with the multiple that forecasts hidden answers best."""
    structure = structure_of(method, labels)
    if isinstance(method.regularization, str):
        candidates = {multiple: replace(method, regularization=multiple) for multiple in MULTIPLES}
        chosen = best_by_held_out_answers(
            labels, candidates, default=1.0, name="regularization", on_iteration=on_iteration
        )
        return candidates[chosen](labels, on_iteration)
    return _fit(method, structure, method.regularization, labels, on_iteration)


def structure_of(method: MinimaxEntropy, labels: Labels) -> Structure:
    """How the parameters of a worker or an item depend on the classes."""
    if not method.needs_order:
        return Free(labels.n_classes)
    if not labels.ordered:
        raise ConfigError(
            f"{method.name} needs the classes in order: labels that are numbers, or "
            "--class-order a,b,c"
        )
    return Ordinal(labels.n_classes)


@dataclass(frozen=True)
class Weights:
    """λ_w and λ_i, and how many workers each column of the votes stands for, (n_workers,)."""

    worker_ridge: float
    item_ridge: float
    copies: Floats

    @classmethod
    def of(cls, method: MinimaxEntropy, multiple: float, votes: Votes) -> Weights:
        copies = _copies(votes)
        worker_ridge = multiple * method.worker_regularization * votes.n_classes**2
        # mean answers per worker / mean answers per item = items / workers
        ratio = method.item_regularization * votes.n_items / copies.sum()
        return cls(worker_ridge, worker_ridge * ratio, copies)

    def penalty(self, state: State) -> float:
        """λ_w/2 ‖α‖² + λ_i/2 ‖β‖², a merged worker once per copy."""
        penalty = self.worker_ridge * float(self.copies @ _squares(state.workers))
        penalty += self.worker_ridge * float(_squares(state.crowd).sum())
        penalty += self.item_ridge * float(_squares(state.items).sum())
        return 0.5 * penalty


def _fit(
    method: MinimaxEntropy,
    structure: Structure,
    multiple: float,
    labels: Labels,
    on_iteration: OnIteration,
) -> Aggregation:
    weights = Weights.of(method, multiple, labels.votes)
    prior_of = prior_rule(method.class_prior)

    def step(state: State) -> Step[State]:
        ridges = weights.worker_ridge * weights.copies
        state = replace(state, workers=worker_step(labels.votes, structure, state, ridges))
        if method.center == "crowd":
            state = recentred(state, weights.copies)
        state = replace(state, class_prior=prior_of(state.posteriors.sum(axis=0)))
        evidence, change = item_step(labels, structure, state, weights.item_ridge)
        objective = evidence - weights.penalty(state)
        return Step(state, change, objective, posteriors=state.posteriors)

    start = _start(labels, structure, prior_of)
    warm = labels.start is not None and "parameters" in labels.start.workers
    if method.center == "crowd" and not warm:
        crowd = crowd_step(labels.votes, structure, start, weights.worker_ridge)
        start = replace(start, crowd=crowd)
    solution = iterate(
        step,
        start,
        stage=method.name,
        tol=method.tol,
        max_iter=method.max_iter,
        on_iteration=on_iteration,
    )
    return _aggregation(structure, solution, method.name)


def _start(labels: Labels, structure: Structure, prior_of: EstimatePrior) -> State:
    """Vote fractions and parameters that change nothing, or where an earlier fit ended.

    Items start anew in either case: most of them have all they need in one step.
    """
    n_workers, n_items = labels.n_workers, labels.n_items
    memory.require(
        8 * structure.zeros(1).size * (n_items + 3 * n_workers),
        f"mmce's parameters of {n_items} items and {n_workers} workers in {labels.n_classes} "
        "classes",
        "merge rare classes, or use an aggregator without parameters for each item, such as ds-em",
    )
    posteriors = first_posteriors(labels, prior_of)
    crowd, workers = structure.zeros(1), structure.zeros(n_workers)
    if labels.start is not None and "parameters" in labels.start.workers:
        crowd = labels.start.shared["crowd"]
        workers = np.moveaxis(labels.start.workers["parameters"], 0, 1).copy()
    return State(
        posteriors,
        crowd,
        workers,
        structure.zeros(n_items),
        prior_of(posteriors.sum(axis=0)),
    )


def _aggregation(structure: Structure, solution: Solution[State], stage: str) -> Aggregation:
    end = solution.state
    forecast = Forecast(structure, end.posteriors, end.workers + end.crowd, end.items)
    return Aggregation(
        posteriors=end.posteriors,
        confusions=forecast.confusions(),
        class_prior=end.class_prior,
        iterations=solution.iterations,
        stopped={stage: solution.stopped},
        objective=solution.objective,
        predictor=forecast,
        item_details={"difficulty": forecast.difficulty()},
        own_workers={"parameters": np.moveaxis(end.workers, 1, 0)},
        own_shared={"crowd": end.crowd},
    )


def _copies(votes: Votes) -> Floats:
    """How many workers each column stands for: a merged worker is penalised once per copy."""
    if isinstance(votes, DenseVotes) and votes.weights is not None:
        return votes.weights
    return np.ones(votes.n_workers)


def _squares(parameters: Floats) -> Floats:
    """‖·‖² by segment, (n_segments,)."""
    return np.asarray((parameters**2).sum(axis=(0, *range(2, parameters.ndim))))
