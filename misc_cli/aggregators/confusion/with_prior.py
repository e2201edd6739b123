"""The real answers judged once under a prior belief about each item.

One step of Dawid & Skene (1979, doi:10.2307/2346806) in which a distribution per item stands where
theirs has one for all items:
    S_ic    → beliefs[i, c]       the prior; here the completed slice
    π_w[ck] → confusions[w, c, k] ∝ Σ_i S_ic · [worker w answered k on i]        (eq. 2.3)
    T_ic    → posteriors[i, c]    ∝ S_ic · Π_w π_w[c, x_wi]                      (eq. 2.5)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from misc_cli.aggregators.confusion.counts import shrunk_rows
from misc_cli.aggregators.confusion.kernels import Expectation, Model, Sums, sums_of
from misc_cli.core.engines.local import LocalEngine
from misc_cli.core.engines.protocol import (
    GOLD,
    POSTERIORS,
    SLICE,
    Block,
    Engine,
    Fitted,
    RowArrays,
    gathered,
)
from misc_cli.core.logdomain import clamp, normalise_scores
from misc_cli.core.solver import Step, iterate
from misc_cli.core.types import Aggregation, Floats, Labels, OnIteration

# A class the belief rules out keeps this much, against the order of one for a likely class.
FLOOR = 0.01
# A worker's confusions are shrunk to the crowd's by this many answers per class.
PSEUDO_ANSWERS = 0.5


def judge_answers(labels: Labels, beliefs: Floats, on_iteration: OnIteration) -> Aggregation:
    """Posteriors of the real answers given `beliefs` (n_items, n_classes), any scale and sign."""
    known = {} if labels.gold is None else {GOLD: labels.gold}
    engine = LocalEngine(labels.votes, {SLICE: beliefs, **known})
    return gathered(engine, judge(engine, on_iteration))


def judge(engine: Engine, on_iteration: OnIteration) -> Fitted:
    """The same on an engine; the beliefs are its rows of the slice.

    A single step on purpose: repeated, the answers would forget the beliefs.
    """

    def step(believed: Sums) -> Step[Sums]:
        confusions = shrunk_rows(believed.by_worker, PSEUDO_ANSWERS)
        model = Model(np.log(confusions), confusions)
        flat = np.ones(engine.n_classes)  # each item has a prior of its own
        judged = engine.sweep(Judgement(Expectation.of(model, flat).table))
        posteriors = engine.whole(POSTERIORS)
        return Step(judged, judged.change, judged.log_likelihood, posteriors=posteriors)

    believed = engine.sweep(BeliefCounts())
    solution = iterate(
        step, believed, stage="answers", tol=0.0, max_iter=1, on_iteration=on_iteration, warn=False
    )
    judged = solution.state
    return Fitted(
        confusions=shrunk_rows(judged.by_worker, PSEUDO_ANSWERS),
        class_prior=judged.class_sizes / engine.n_items,
        iterations=solution.iterations,
        objective=solution.objective,
    )


@dataclass(frozen=True)
class BeliefCounts:
    """What the M-step reads if the beliefs hold."""

    writes: ClassVar[tuple[str, ...]] = ()

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, Sums]:
        return {}, sums_of(block, _prior(rows))


@dataclass(frozen=True)
class Judgement:
    """The E-step with a prior per item; `table` as in `Expectation`."""

    table: Floats

    needs: ClassVar[tuple[str, ...]] = (SLICE,)
    writes: ClassVar[tuple[str, ...]] = (POSTERIORS,)

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, Sums]:
        prior = _prior(rows)
        with np.errstate(divide="ignore"):  # gold rules classes out for good
            scores = block.matrix @ self.table + np.log(prior)
        log_normalisers = normalise_scores(scores, rows.get(GOLD))
        sums = sums_of(block, scores)
        sums.log_likelihood = float(log_normalisers.sum())
        sums.change = float(np.abs(scores - prior).max(initial=0.0))
        return {POSTERIORS: scores}, sums


def _prior(rows: RowArrays) -> Floats:
    """The beliefs as distributions, (n_block_items, n_classes)."""
    prior: Floats = np.maximum(rows[SLICE], FLOOR)
    prior /= prior.sum(axis=1, keepdims=True)
    if GOLD in rows:
        clamp(prior, rows[GOLD])
    return prior
