"""The EM loop that every confusion-matrix model shares; the models differ only in their M-step.

Notation (Dawid & Skene 1979, doi:10.2307/2346806):
    T_ic    → posteriors[i, c]            probability that item i is of class c
    π_w[ck] → confusions[w, c, k]         probability that worker w answers k when the truth is c
    p_c     → class_prior[c]
    n_w[ck] → counts[w, c, k]             expected number of times worker w answered k to a true c
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from misc_cli.solver import Step, clamp, iterate, normalise_scores
from misc_cli.types import Aggregation, Floats, Labels, OnIteration
from misc_cli.votes import map_in_order

TINY = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Model:
    """An M-step's outcome: E[log π] for the next E-step and π itself, (n_workers, K, K) each."""

    log_confusions: Floats
    confusions: Floats


Estimate = Callable[[Floats], Model]
EstimatePrior = Callable[[Floats], Floats]


@dataclass(frozen=True)
class State:
    """`posteriors` is one buffer that each sweep rewrites block by block."""

    posteriors: Floats
    counts: Floats
    class_sizes: Floats
    model: Model | None
    class_prior: Floats


def uniform_prior(class_sizes: Floats) -> Floats:
    return np.full(len(class_sizes), 1.0 / len(class_sizes))


def estimated_prior(class_sizes: Floats) -> Floats:
    # eq. 2.4: p_c = Σ_i T_ic / n_items; the epsilon keeps an empty class's logarithm finite
    prior: Floats = (class_sizes + TINY) / (class_sizes + TINY).sum()
    return prior


CLASS_PRIORS: dict[str, EstimatePrior] = {"uniform": uniform_prior, "estimated": estimated_prior}


def vote_fractions(labels: Labels) -> Floats:
    """Each item's share of votes per class, (n_items, n_classes); gold rows are certain."""
    votes = labels.votes
    to_class = np.tile(np.eye(votes.n_classes), (votes.n_workers, 1))
    fractions = np.empty((votes.n_items, votes.n_classes))

    def fill(rows: slice) -> None:
        totals = votes.block(rows) @ to_class
        answered = np.maximum(totals.sum(axis=1, keepdims=True), TINY)
        fractions[rows] = np.where(answered > TINY, totals / answered, 1.0 / votes.n_classes)

    for _ in map_in_order(fill, votes.blocks):
        pass
    if labels.gold is not None:
        clamp(fractions, labels.gold)
    return fractions


def expected_counts(labels: Labels, posteriors: Floats) -> Floats:
    """n_w[ck] = Σ_i T_ic · [worker w answered k on i], (n_workers, n_classes, n_classes)."""
    votes = labels.votes
    total = np.zeros((votes.n_workers * votes.n_classes, votes.n_classes))
    for partial in map_in_order(lambda rows: votes.block(rows).T @ posteriors[rows], votes.blocks):
        total += partial
    return _true_first(total, votes.n_workers)


def fit(
    labels: Labels,
    estimate: Estimate,
    *,
    class_prior: str,
    stage: str,
    tol: float,
    max_iter: int,
    on_iteration: OnIteration,
) -> Aggregation:
    """EM from vote fractions: `estimate` is the M-step, the E-step is the same for all."""
    prior_of = CLASS_PRIORS[class_prior]

    def step(state: State) -> Step[State]:
        model = estimate(state.counts)
        prior = prior_of(state.class_sizes)
        counts, log_likelihood, change = _sweep(labels, model, prior, state.posteriors)
        sizes = state.posteriors.sum(axis=0)
        updated = State(state.posteriors, counts, sizes, model, prior)
        return Step(updated, change, log_likelihood, posteriors=state.posteriors)

    posteriors = vote_fractions(labels)
    counts = expected_counts(labels, posteriors)
    sizes = posteriors.sum(axis=0)
    start = State(posteriors, counts, sizes, None, prior_of(sizes))
    solution = iterate(
        step, start, stage=stage, tol=tol, max_iter=max_iter, on_iteration=on_iteration
    )
    end = solution.state
    model = end.model if end.model is not None else estimate(end.counts)
    return Aggregation(
        posteriors=end.posteriors,
        confusions=model.confusions,
        class_prior=end.class_prior,
        iterations=solution.iterations,
        converged=solution.converged,
        objective=solution.objective,
    )


def _sweep(
    labels: Labels, model: Model, class_prior: Floats, posteriors: Floats
) -> tuple[Floats, float, float]:
    """One E-step over all blocks, rewriting `posteriors`, with the next M-step's counts."""
    votes, gold = labels.votes, labels.gold
    n_columns = votes.n_workers * votes.n_classes
    # column (w, k) of the votes meets E[log π_w[c, k]] for every true class c
    table = np.ascontiguousarray(model.log_confusions.transpose(0, 2, 1)).reshape(n_columns, -1)
    log_prior = np.log(class_prior)

    def kernel(rows: slice) -> tuple[Floats, float, float]:
        block = votes.block(rows)
        # eq. 2.5 in logs: T_ic ∝ p_c · Π_w π_w[c, x_wi]
        scores = block @ table
        scores += log_prior
        known = None if gold is None else gold[rows]
        log_normalisers = normalise_scores(scores, known)
        change = float(np.abs(posteriors[rows] - scores).max(initial=0.0))
        posteriors[rows] = scores
        return block.T @ scores, float(log_normalisers.sum()), change

    counts = np.zeros((n_columns, votes.n_classes))
    log_likelihood = change = 0.0
    for partial, partial_likelihood, partial_change in map_in_order(kernel, votes.blocks):
        counts += partial
        log_likelihood += partial_likelihood
        change = max(change, partial_change)
    return _true_first(counts, votes.n_workers), log_likelihood, change


def _true_first(columns: Floats, n_workers: int) -> Floats:
    """(n_workers * observed, true) → (n_workers, true, observed)."""
    n_classes = columns.shape[1]
    return columns.reshape(n_workers, n_classes, n_classes).transpose(0, 2, 1)


def crowd_rows(counts: Floats) -> Floats:
    """The crowd's mean confusions, (n_classes, n_classes): what a worker is shrunk towards."""
    return normalise_rows(counts.sum(axis=0))


def normalise_rows(counts: Floats) -> Floats:
    """Rows that sum to 1; the epsilon makes a row without counts uniform."""
    smoothed = counts + TINY
    rows: Floats = smoothed / smoothed.sum(axis=-1, keepdims=True)
    return rows
