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

from misc_cli.core.logdomain import clamp, normalise_scores
from misc_cli.core.parallel import map_in_order
from misc_cli.core.solver import Step, iterate
from misc_cli.core.types import Aggregation, Floats, Labels, OnIteration
from misc_cli.errors import ConfigError

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


def prior_rule(name: str) -> EstimatePrior:
    """The rule of this name."""
    if name not in CLASS_PRIORS:
        raise ConfigError(f"--class-prior {name}: choose from {', '.join(CLASS_PRIORS)}")
    return CLASS_PRIORS[name]


def vote_fractions(labels: Labels) -> Floats:
    """Each item's share of votes per class, (n_items, n_classes); gold rows are certain."""
    votes = labels.votes
    fractions = np.empty((votes.n_items, votes.n_classes))

    def fill(rows: slice) -> None:
        totals = votes.class_totals(rows)
        answered = totals @ np.ones(votes.n_classes)
        unanswered = answered == 0.0
        totals[unanswered], answered[unanswered] = 1.0, votes.n_classes  # every class alike
        for column, total in zip(fractions[rows].T, totals.T, strict=True):
            np.divide(total, answered, out=column)

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
    prior_of = prior_rule(class_prior)

    def step(state: State) -> Step[State]:
        model = estimate(state.counts)
        prior = prior_of(state.class_sizes)
        sums = _sweep(labels, model, prior, state.posteriors)
        updated = State(state.posteriors, sums.counts, sums.class_sizes, model, prior)
        return Step(updated, sums.change, sums.log_likelihood, posteriors=state.posteriors)

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
        stopped={stage: solution.stopped},
        objective=solution.objective,
    )


@dataclass
class _Sums:
    """What one E-step adds up over the blocks."""

    counts: Floats
    class_sizes: Floats
    log_likelihood: float = 0.0
    change: float = 0.0

    def add(self, other: _Sums) -> None:
        self.counts += other.counts
        self.class_sizes += other.class_sizes
        self.log_likelihood += other.log_likelihood
        self.change = max(self.change, other.change)


def _sweep(labels: Labels, model: Model, class_prior: Floats, posteriors: Floats) -> _Sums:
    """One E-step over all blocks, rewriting `posteriors`, with the next M-step's sums."""
    votes, gold = labels.votes, labels.gold
    n_columns = votes.n_workers * votes.n_classes
    # column (w, k) of the votes meets E[log π_w[c, k]] for every true class c
    table = np.ascontiguousarray(model.log_confusions.transpose(0, 2, 1)).reshape(n_columns, -1)
    log_prior = np.log(class_prior)

    def kernel(rows: slice) -> _Sums:
        block = votes.block(rows)
        # eq. 2.5 in logs: T_ic ∝ p_c · Π_w π_w[c, x_wi]
        scores = block @ table
        log_normalisers = normalise_scores(scores, None if gold is None else gold[rows], log_prior)
        moved = posteriors[rows] - scores
        posteriors[rows] = scores
        return _Sums(
            counts=block.T @ scores,
            class_sizes=np.ones(len(scores)) @ scores,  # several times faster than sum(axis=0)
            log_likelihood=float(log_normalisers.sum()),
            change=float(max(moved.max(initial=0.0), -moved.min(initial=0.0))),
        )

    total = _Sums(np.zeros((n_columns, votes.n_classes)), np.zeros(votes.n_classes))
    for partial in map_in_order(kernel, votes.blocks):
        total.add(partial)
    total.counts = _true_first(total.counts, votes.n_workers)
    return total


def _true_first(columns: Floats, n_workers: int) -> Floats:
    """(n_workers * observed, true) → (n_workers, true, observed)."""
    n_classes = columns.shape[1]
    return columns.reshape(n_workers, n_classes, n_classes).transpose(0, 2, 1)


def crowd_rows(counts: Floats) -> Floats:
    """The crowd's mean confusions, (n_classes, n_classes): what a worker is shrunk towards."""
    return normalise_rows(counts.sum(axis=0))


def shrunk_rows(counts: Floats, shrinkage: float) -> Floats:
    """Confusions from counts (n_workers, K, K), each row with so many answers of the crowd's."""
    return normalise_rows(counts + shrinkage * crowd_rows(counts))


def confusions_of(labels: Labels, posteriors: Floats, shrinkage: float) -> Floats:
    """Each worker's confusions by its own answers if these posteriors hold, (n_workers, K, K)."""
    return shrunk_rows(expected_counts(labels, posteriors), shrinkage)


def normalise_rows(counts: Floats) -> Floats:
    """Rows that sum to 1; the epsilon makes a row without counts uniform."""
    smoothed = counts + TINY
    rows: Floats = smoothed / smoothed.sum(axis=-1, keepdims=True)
    return rows
