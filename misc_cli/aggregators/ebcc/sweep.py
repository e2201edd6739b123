"""Restarts of EBCC and their coordinate ascent, block of items by block of items.

Notation as in `race.py`. A sweep needs the Dirichlets' expected logs and gives the next expected
counts; q(z, g) itself, (n_items, n_live), exists for one block at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import digamma, gammaln

from misc_cli.data.logdomain import clamp
from misc_cli.data.parallel import map_in_order
from misc_cli.data.types import Codes, Floats
from misc_cli.engines.protocol import GOLD, LARGEST, Block, Engine, FusedKernels, RowArrays, Summed

# Restarts that race side by side; what leads after a wave is what the next wave must beat.
WAVE = 8

# A subtype this small has E[log π] ≈ ψ(prior) ≈ −100 (M = 10): it cannot win an item back.
EMPTY = 1e-9


@dataclass(frozen=True)
class Priors:
    """Pseudo-counts: answers, each subtype, classes (n_classes,).

    answers  (n_classes, n_classes): [true, observed] of any worker; or (n_workers, n_classes,
             n_classes) where something is known of single workers
    """

    answers: Floats
    subtype: float
    subtypes: int
    classes: Floats


@dataclass(frozen=True)
class Restart:
    """One random start on its way; the posteriors are rows of the engine's, named `slot`.

    classes (n_live,) is each live subtype's class, ascending; subtype_sizes (n_live,) its expected
    items; counts (n_workers, n_classes, n_live) the expected answers [w, k, a].
    """

    number: int
    classes: npt.NDArray[np.intp]
    subtype_sizes: Floats
    counts: Floats
    elbo: float = -np.inf
    gain: float = np.inf
    change: float = np.inf
    iterations: int = 0
    done: bool = False
    beliefs: Beliefs | None = None  # what the last sweep's E-step used

    @property
    def slot(self) -> str:
        return slot_of(self.number)


def slot_of(number: int) -> str:
    """Rows that only one restart of a wave has."""
    return f"restart-{number % WAVE}"


@dataclass(frozen=True)
class Beliefs:
    """What the E-step and the forecast need of the Dirichlets, for the live subtypes."""

    rows: Floats  # μ, (n_workers, n_classes, n_live)
    expected_logs: Floats  # E[log v], same shape
    log_weights: Floats  # E[log τ_c] + E[log π_cm], (n_live,)
    class_prior: Floats
    divergence: float  # KL(q ‖ prior) of all Dirichlets

    @property
    def expected_rows(self) -> Floats:
        """E[v], (n_workers, n_classes, n_live)."""
        means: Floats = self.rows / self.rows.sum(axis=1, keepdims=True)
        return means


@dataclass
class Sums(Summed):
    """What a sweep adds up.

    counts         (n_workers * n_classes observed, n_live)
    subtype_sizes  (n_live,)
    evidence       Σ_i log normaliser
    change         max |Δ posterior|
    """

    counts: Floats
    subtype_sizes: Floats
    evidence: float = 0.0
    change: float = field(default=0.0, metadata=LARGEST)


@dataclass(frozen=True)
class Expectation:
    """q(z, g) of every item given the Dirichlets, with the next counts; posteriors to `slot`.

    The posteriors that were there only say by how much they change; without any, all is new.

    table        (n_workers * n_classes, n_live): E[log v]
    log_weights  (n_live,): E[log τ_c] + E[log π_cm]
    classes      (n_live,): as in `Restart`
    """

    slot: str
    table: Floats
    log_weights: Floats
    classes: npt.NDArray[np.intp]

    needs: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def of(cls, slot: str, classes: npt.NDArray[np.intp], beliefs: Beliefs) -> Expectation:
        table = beliefs.expected_logs.reshape(-1, len(classes))
        return cls(slot, table, beliefs.log_weights, classes)

    @property
    def writes(self) -> tuple[str, ...]:
        return (self.slot,)

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, Sums]:
        matrix = block.matrix
        joint, log_normalisers = self.joint_of(matrix, rows.get(GOLD))
        updated = np.add.reduceat(joint, _first_columns(self.classes), axis=1)
        if GOLD in rows:
            clamp(updated, rows[GOLD])  # the sum of its subtypes may be 1 but for rounding
        moved = updated - rows[self.slot] if self.slot in rows else np.ones(1)
        sums = Sums(
            counts=matrix.T @ joint,
            subtype_sizes=joint.sum(axis=0),
            evidence=float(log_normalisers.sum()),
            change=float(np.abs(moved).max(initial=0.0)),
        )
        return {self.slot: updated}, sums

    def joint_of(self, matrix: sp.csr_array, gold: Codes | None) -> tuple[Floats, Floats]:
        """q(z_i, g_i) of a block, (n_block, n_live), and each item's log normaliser."""
        scores: Floats = matrix @ self.table
        scores += self.log_weights
        if gold is not None:
            scores[(gold[:, None] >= 0) & (gold[:, None] != self.classes)] = -np.inf
        top = scores.max(axis=1)
        scores -= top[:, None]
        np.exp(scores, out=scores)
        total = scores.sum(axis=1)
        scores /= total[:, None]
        return scores, np.log(total) + top


def sweep(engine: Engine, priors: Priors, runs: Sequence[Restart]) -> list[Restart]:
    """One coordinate ascent round: the Dirichlets given q(z, g), then q(z, g) of every item."""

    def prepared(run: Restart) -> Restart:
        run = _bury(run)
        return replace(run, beliefs=believe(priors, run))

    ready = list(map_in_order(prepared, list(runs)))
    kernels = []
    for run in ready:
        assert run.beliefs is not None
        kernels.append(Expectation.of(run.slot, run.classes, run.beliefs))
    found = engine.sweep(FusedKernels(tuple(kernels)))
    return [_swept(run, sums) for run, sums in zip(ready, found.each, strict=True)]


def _swept(run: Restart, sums: Sums) -> Restart:
    assert run.beliefs is not None
    # With q(z, g) optimal, the bound is the items' log normalisers less the Dirichlets' divergence.
    elbo = sums.evidence - run.beliefs.divergence
    return replace(
        run,
        subtype_sizes=sums.subtype_sizes,
        counts=sums.counts.reshape(run.counts.shape),
        elbo=elbo,
        gain=elbo - run.elbo,
        change=sums.change,
        iterations=run.iterations + 1,
    )


def _bury(run: Restart) -> Restart:
    """Drop subtypes without items; a class keeps its largest. Most die within twenty sweeps."""
    live = run.subtype_sizes > EMPTY
    by_size = np.lexsort((-run.subtype_sizes, run.classes))
    live[by_size[_first_columns(run.classes)]] = True
    if live.all():
        return run
    return replace(
        run,
        classes=run.classes[live],
        subtype_sizes=run.subtype_sizes[live],
        counts=run.counts[:, :, live],
    )


def _first_columns(classes: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Where each class's columns begin; every class has one."""
    return np.flatnonzero(np.append(True, classes[1:] != classes[:-1]))


def believe(priors: Priors, run: Restart) -> Beliefs:
    """Dirichlets and their expected logs given the expected counts."""
    classes, n_classes = run.classes, len(priors.classes)
    # (n_classes, n_live), or (n_workers, n_classes, n_live)
    prior_rows = priors.answers[..., classes, :].swapaxes(-1, -2)
    rows = run.counts + prior_rows
    row_totals = rows.sum(axis=1)
    expected_logs = digamma(rows) - digamma(row_totals)[:, None, :]

    class_sizes = np.bincount(classes, run.subtype_sizes, minlength=n_classes)
    class_counts = priors.classes + class_sizes
    log_classes = digamma(class_counts) - digamma(class_counts.sum())
    weights = priors.subtype + run.subtype_sizes
    weight_totals = priors.subtype * priors.subtypes + class_sizes
    log_subtypes = digamma(weights) - digamma(weight_totals)[classes]

    # KL of Dirichlets with counts n on top of their priors: dead subtypes (n = 0) add nothing
    divergence = (
        float(np.vdot(run.counts, expected_logs))
        - _rise(rows, prior_rows)
        + _rise(row_totals, prior_rows.sum(axis=-2))
        + float(class_sizes @ log_classes)
        - _rise(class_counts, priors.classes)
        + _rise(class_counts.sum(), priors.classes.sum())
        + float(run.subtype_sizes @ log_subtypes)
        - _rise(weights, priors.subtype)
        + _rise(weight_totals, priors.subtype * priors.subtypes)
    )
    return Beliefs(
        rows,
        expected_logs,
        log_classes[classes] + log_subtypes,
        class_counts / class_counts.sum(),
        divergence,
    )


def _rise(counts: Any, prior: Any) -> float:
    """Σ log Γ(counts) − log Γ(prior)."""
    return float(np.sum(gammaln(counts) - gammaln(prior)))
