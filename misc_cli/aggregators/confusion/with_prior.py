"""The real answers judged once under a prior belief about each item.

One step of Dawid & Skene (1979, doi:10.2307/2346806) in which a distribution per item stands where
theirs has one for all items:
    S_ic    → beliefs[i, c]       the prior; here the completed slice
    π_w[ck] → confusions[w, c, k] ∝ Σ_i S_ic · [worker w answered k on i]        (eq. 2.3)
    T_ic    → posteriors[i, c]    ∝ S_ic · Π_w π_w[c, x_wi]                      (eq. 2.5)
"""

from __future__ import annotations

import numpy as np

from misc_cli.aggregators.confusion.em import confusions_of
from misc_cli.core.logdomain import clamp, normalise_scores
from misc_cli.core.parallel import map_in_order
from misc_cli.core.solver import Step, iterate
from misc_cli.core.types import Aggregation, Floats, Labels, OnIteration
from misc_cli.core.votes import Rows

# A class the belief rules out keeps this much, against the order of one for a likely class.
FLOOR = 0.01
# A worker's confusions are shrunk to the crowd's by this many answers per class.
PSEUDO_ANSWERS = 0.5


def judge_answers(labels: Labels, beliefs: Floats, on_iteration: OnIteration) -> Aggregation:
    """Posteriors of the real answers given `beliefs` (n_items, n_classes), of any scale and sign.

    A single step on purpose: repeated, the answers would forget the beliefs.
    """
    prior = np.maximum(beliefs, FLOOR)
    prior /= prior.sum(axis=1, keepdims=True)
    if labels.gold is not None:
        clamp(prior, labels.gold)

    def step(before: Floats) -> Step[Floats]:
        posteriors, log_likelihood = _expectation(labels, before)
        change = float(np.abs(posteriors - before).max(initial=0.0))
        return Step(posteriors, change, log_likelihood, posteriors=posteriors)

    solution = iterate(
        step, prior, stage="answers", tol=0.0, max_iter=1, on_iteration=on_iteration, warn=False
    )
    posteriors = solution.state
    return Aggregation(
        posteriors=posteriors,
        confusions=confusions_of(labels, posteriors, PSEUDO_ANSWERS),
        class_prior=posteriors.mean(axis=0),
        iterations=solution.iterations,
        objective=solution.objective,
    )


def _expectation(labels: Labels, prior: Floats) -> tuple[Floats, float]:
    votes, gold = labels.votes, labels.gold
    logs = np.log(confusions_of(labels, prior, PSEUDO_ANSWERS)).transpose(0, 2, 1)
    table = np.ascontiguousarray(logs).reshape(votes.n_workers * votes.n_classes, -1)
    posteriors = np.empty_like(prior)

    def kernel(rows: Rows) -> float:
        with np.errstate(divide="ignore"):  # gold rules classes out for good
            scores = votes.block(rows) @ table + np.log(prior[rows])
        normalisers = normalise_scores(scores, None if gold is None else gold[rows])
        posteriors[rows] = scores
        return float(normalisers.sum())

    return posteriors, sum(map_in_order(kernel, votes.blocks))
