"""The kernels of every confusion-matrix model: posteriors of a block, and what the M-step reads.

Notation (Dawid & Skene 1979, doi:10.2307/2346806):
    T_ic    → posteriors[i, c]            probability that item i is of class c
    π_w[ck] → confusions[w, c, k]         probability that worker w answers k when the truth is c
    p_c     → class_prior[c]
    n_w[ck] → counts[w, c, k]             expected number of times worker w answered k to a true c
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from misc_cli.core.engines.protocol import GOLD, POSTERIORS, Block, RowArrays
from misc_cli.core.engines.sums import LARGEST, Counted
from misc_cli.core.logdomain import clamp, normalise_scores
from misc_cli.core.types import Floats

TINY = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Model:
    """An M-step's outcome: E[log π] for the next E-step and π itself, (n_workers, K, K) each.

    Where no answer is a label that was said, both have it as one more column, the last.

    `penalty` is what the log-likelihood must lose to be the objective that the steps raise; None
    where no such objective is known.
    """

    log_confusions: Floats
    confusions: Floats
    penalty: float | None = 0.0


@dataclass
class Sums(Counted):
    """What a sweep adds up over the blocks.

    class_sizes  (n_classes,): Σ_i T_ic
    """

    class_sizes: Floats
    log_likelihood: float = 0.0
    change: float = field(default=0.0, metadata=LARGEST)

    @property
    def with_silence(self) -> Floats:
        """`by_worker` with one more column: Σ_i T_ic over the items i that w gave no answer to."""
        answered = self.by_worker
        silent = np.maximum(self.class_sizes - answered.sum(axis=2), 0.0)
        return np.concatenate([answered, silent[:, :, None]], axis=2)


@dataclass(frozen=True)
class VoteFractions:
    """Each item's share of votes per class becomes its posterior; gold rows are certain."""

    needs: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[tuple[str, ...]] = (POSTERIORS,)

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, Sums]:
        totals = block.class_totals()
        n_classes = totals.shape[1]
        answered = totals @ np.ones(n_classes)
        unanswered = answered == 0.0
        totals[unanswered], answered[unanswered] = 1.0, n_classes  # every class alike
        fractions = np.empty_like(totals)
        for column, total in zip(fractions.T, totals.T, strict=True):
            np.divide(total, answered, out=column)
        if GOLD in rows:
            clamp(fractions, rows[GOLD])
        return {POSTERIORS: fractions}, sums_of(block, fractions)


@dataclass(frozen=True)
class ExpectedCounts:
    """n_w[ck] = Σ_i T_ic · [worker w answered k on i], given the posteriors as they are."""

    writes: ClassVar[tuple[str, ...]] = ()

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, Sums]:
        return {}, sums_of(block, rows[POSTERIORS])


@dataclass(frozen=True)
class Expectation:
    """The E-step, with the next M-step's sums.

    table      (n_workers * n_classes, n_classes): column (w, k) of the votes meets E[log π_w[c, k]]
               for every true class c
    log_prior  (n_classes,)

    The posteriors that were there only say by how much they change; without any, all is new.
    """

    table: Floats
    log_prior: Floats

    needs: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[tuple[str, ...]] = (POSTERIORS,)

    @classmethod
    def of(cls, model: Model, class_prior: Floats) -> Expectation:
        n_classes = len(class_prior)
        logs, log_prior = model.log_confusions, np.log(class_prior)
        if logs.shape[2] > n_classes:
            # Π_w over all workers: as if all were silent, and per answer what it changes. So the
            # silent cells, most of workers × items, are never visited.
            silent = logs[:, :, n_classes]
            logs = logs[:, :, :n_classes] - silent[:, :, None]
            log_prior = log_prior + silent.sum(axis=0)
        by_answer = np.ascontiguousarray(logs.transpose(0, 2, 1))
        return cls(by_answer.reshape(-1, n_classes), log_prior)

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, Sums]:
        matrix = block.matrix
        # eq. 2.5 in logs: T_ic ∝ p_c · Π_w π_w[c, x_wi]
        scores = matrix @ self.table
        log_normalisers = normalise_scores(scores, rows.get(GOLD), self.log_prior)
        moved = rows[POSTERIORS] - scores if POSTERIORS in rows else np.ones((1, 1))
        sums = Sums(
            counts=matrix.T @ scores,
            class_sizes=np.ones(len(scores)) @ scores,  # several times faster than sum(axis=0)
            log_likelihood=float(log_normalisers.sum()),
            change=float(max(moved.max(initial=0.0), -moved.min(initial=0.0))),
        )
        return {POSTERIORS: scores}, sums


def sums_of(block: Block, posteriors: Floats) -> Sums:
    """What the next M-step reads if these are the block's posteriors."""
    return Sums(block.matrix.T @ posteriors, np.ones(len(posteriors)) @ posteriors)
