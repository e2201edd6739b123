"""Coordinate ascent of ebcc (Li, Rubinstein & Cohn 2019, section 4), block of items by block.

    z_i = c     → posteriors[i, c]       class of item i
    g_i = m     → columns a ↔ (c, m)     subtype of item i; only live (c, m) keep a column
    ν_c         → class_sizes + prior    Dirichlet over classes, τ ~ Dir(ν)
    η_cm        → subtype_sizes + prior  Dirichlet over the subtypes of a class, π_c ~ Dir(η_c)
    μ_w[cm, k]  → counts + prior_rows    Dirichlet over the answers of worker w, v_w[cm] ~ Dir(μ)

A sweep turns expected counts into Dirichlets, and these into q(z, g) and new expected counts;
q(z, g), (n_items, n_live), exists for one block at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import digamma, gammaln

from misc_cli.data.posteriors import clamp
from misc_cli.data.resources import map_in_order
from misc_cli.data.types import Codes, Floats
from misc_cli.engines.protocol import GOLD, LARGEST, Block, Engine, FusedKernels, RowArrays, Summed

# Restarts that are swept side by side; each wave must beat the leader of those before.
WAVE = 8

# A smaller subtype is empty: with E[log π] ≈ ψ(prior) ≈ −100 (M = 10) it gains no item back.
EMPTY = 1e-9

# Numbers whose special functions are computed at a time, so that all arrays stay in cache.
SPECIAL_CHUNK = 1 << 13
FEW_NUMBERS = 1 << 11
HALF_LOG_TWO_PI = 0.5 * float(np.log(2.0 * np.pi))
# −B_2k / 2k and B_2k / 2k(2k − 1) of the Bernoulli numbers, from k = 6 to k = 1.
PSI_SERIES = (691 / 32760, -1 / 132, 1 / 240, -1 / 252, 1 / 120, -1 / 12)
LOG_GAMMA_SERIES = (-691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)


@dataclass(frozen=True)
class Priors:
    """Pseudo-counts of answers, of each subtype, and of classes (n_classes,).

    answers  (n_classes, n_classes): [true, observed] of every worker
    used     (n_used,): columns worker * n_classes + class of the votes that occur; only these
             need E[log v]
    """

    answers: Floats
    subtype: float
    subtypes: int
    classes: Floats
    used: npt.NDArray[np.intp]


@dataclass(frozen=True)
class Restart:
    """The state of one restart; its posteriors are the rows `row_name` of the engine.

    classes        (n_live,): class of each live subtype, ascending
    subtype_sizes  (n_live,): expected number of items
    counts         (n_workers, n_classes, n_live): expected answers [w, k, a]
    dirichlets     those that the last sweep used
    bounds         the ELBO after each sweep
    """

    number: int
    classes: npt.NDArray[np.intp]
    subtype_sizes: Floats
    counts: Floats
    gain: float = np.inf
    change: float = np.inf
    done: bool = False
    dirichlets: Dirichlets | None = None
    bounds: tuple[float, ...] = ()

    @property
    def row_name(self) -> str:
        """The name of its rows, which is unique within its wave."""
        return f"restart-{self.number % WAVE}"

    @property
    def elbo(self) -> float:
        return self.bounds[-1] if self.bounds else -np.inf

    @property
    def iterations(self) -> int:
        return len(self.bounds)


@dataclass(frozen=True)
class Dirichlets:
    """Expectations under the Dirichlets of the live subtypes, for E-step and forecast.

    counts, prior_rows  (n_workers, n_classes, n_live), or without workers: μ is their sum
    table               (n_workers * n_classes, n_live): E[log v]; zero in unused columns
    log_weights         (n_live,): E[log τ_c] + E[log π_cm]
    divergence          KL(q ‖ prior) of all Dirichlets
    """

    counts: Floats
    prior_rows: Floats
    table: Floats
    log_weights: Floats
    class_prior: Floats
    divergence: float

    def kernel(self, row_name: str, classes: npt.NDArray[np.intp]) -> SubtypeExpectation:
        return SubtypeExpectation(row_name, self.table, self.log_weights, classes)

    @property
    def expected_rows(self) -> Floats:
        """E[v] = μ / Σ_k μ, (n_workers, n_classes, n_live)."""
        rows = self.counts + self.prior_rows
        means: Floats = rows / rows.sum(axis=1, keepdims=True)
        return means


@dataclass
class SubtypeSums(Summed):
    """Sums of a sweep over all blocks.

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
class SubtypeExpectation:
    """Compute q(z, g) of every item given the Dirichlets, and the next expected counts.

    Posteriors become the rows `row_name`; the old ones are only read to measure the change.

    table        (n_workers * n_classes, n_live): E[log v]
    log_weights  (n_live,): E[log τ_c] + E[log π_cm]
    classes      (n_live,): as in `Restart`
    """

    row_name: str
    table: Floats
    log_weights: Floats
    classes: npt.NDArray[np.intp]

    needs: ClassVar[tuple[str, ...]] = ()

    @property
    def writes(self) -> tuple[str, ...]:
        return (self.row_name,)

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, SubtypeSums]:
        matrix = block.matrix
        joint, log_normalisers = self.joint_of(matrix, rows.get(GOLD))
        # products, because numpy's sums are slow along the short axis
        updated = joint @ (self.classes[:, None] == np.arange(self.classes[-1] + 1)).astype(float)
        if GOLD in rows:
            clamp(updated, rows[GOLD])  # the sum over subtypes may miss 1 by rounding
        moved = updated - rows[self.row_name] if self.row_name in rows else np.ones((1, 1))
        sums = SubtypeSums(
            counts=matrix.T @ joint,
            subtype_sizes=np.ones(len(joint)) @ joint,
            evidence=float(log_normalisers.sum()),
            change=float(max(moved.max(initial=0.0), -moved.min(initial=0.0))),
        )
        return {self.row_name: updated}, sums

    def joint_of(self, matrix: sp.csr_array, gold: Codes | None) -> tuple[Floats, Floats]:
        """Return q(z_i, g_i) of a block, (n_block, n_live), and the items' log normalisers."""
        # log q(z_i = c, g_i = m) = E[log τ_c] + E[log π_cm] + Σ_w E[log v_w[cm, x_wi]] + const
        scores: Floats = matrix @ self.table
        scores += self.log_weights
        if gold is not None:
            scores[(gold[:, None] >= 0) & (gold[:, None] != self.classes)] = -np.inf
        top = reduce(np.maximum, scores.T[1:], scores[:, 0].copy())  # never a view: one column
        scores -= top[:, None]
        np.exp(scores, out=scores)
        total = scores @ np.ones(scores.shape[1])
        scores *= (1.0 / total)[:, None]
        return scores, np.log(total) + top


def sweep(engine: Engine, priors: Priors, runs: Sequence[Restart]) -> list[Restart]:
    """Return the restarts after one round: Dirichlets given q(z, g), then q(z, g) of all items."""
    ready = [_without_empty_subtypes(run) for run in runs]
    found = list(map_in_order(partial(dirichlets_of, priors), ready))
    kernels = tuple(
        dirichlets.kernel(run.row_name, run.classes)
        for run, dirichlets in zip(ready, found, strict=True)
    )
    swept = []
    for run, dirichlets, sums in zip(
        ready, found, engine.sweep(FusedKernels(kernels)).each, strict=True
    ):
        # with q(z, g) optimal the bound is Σ_i log normaliser − KL of the Dirichlets
        elbo = sums.evidence - dirichlets.divergence
        swept.append(
            replace(
                run,
                subtype_sizes=sums.subtype_sizes,
                counts=sums.counts.reshape(run.counts.shape),
                gain=elbo - run.elbo,
                change=sums.change,
                dirichlets=dirichlets,
                bounds=(*run.bounds, elbo),
            )
        )
    return swept


def _without_empty_subtypes(run: Restart) -> Restart:
    """Return the restart without empty subtypes; a class keeps its largest one."""
    live = run.subtype_sizes > EMPTY
    by_size = np.lexsort((-run.subtype_sizes, run.classes))
    live[by_size[np.flatnonzero(np.diff(run.classes, prepend=-1))]] = True
    if live.all():
        return run
    return replace(
        run,
        classes=run.classes[live],
        subtype_sizes=run.subtype_sizes[live],
        counts=run.counts[:, :, live],
    )


def dirichlets_of(priors: Priors, run: Restart) -> Dirichlets:
    """Return the Dirichlets given the expected counts: prior + counts, E[log ·] by ψ."""
    classes, n_classes, n_live = run.classes, len(priors.classes), len(run.classes)
    prior_rows = priors.answers[classes].T  # (n_classes, n_live)
    workers, answers = np.divmod(priors.used, n_classes)
    counts = run.counts.reshape(-1, n_live)[priors.used]
    prior_totals = prior_rows.sum(axis=0)
    prior = prior_rows[answers]
    counted = np.bincount(answers, minlength=n_classes)
    prior_gammas = counted @ gammaln(prior_rows).sum(axis=1)
    prior_gamma_totals = len(run.counts) * gammaln(prior_totals).sum()
    # E[log v] = ψ(μ) − ψ(Σ_k μ) of the columns that occur
    logs, gammas = digamma_and_log_gamma(counts + prior)
    log_totals, gamma_totals = digamma_and_log_gamma(run.counts.sum(axis=1) + prior_totals)
    logs -= log_totals[workers]
    table = np.zeros((len(run.counts) * n_classes, n_live))
    table[priors.used] = logs

    class_sizes = np.bincount(classes, run.subtype_sizes, minlength=n_classes)
    class_counts = priors.classes + class_sizes
    log_classes = digamma(class_counts) - digamma(class_counts.sum())
    weights = priors.subtype + run.subtype_sizes
    weight_totals = priors.subtype * priors.subtypes + class_sizes
    log_subtypes = digamma(weights) - digamma(weight_totals)[classes]

    # KL of Dirichlets with counts n on top of their priors: dead subtypes (n = 0) add nothing
    divergence = (
        float(np.vdot(counts, logs))
        - (gammas - float(prior_gammas))
        + (gamma_totals - float(prior_gamma_totals))
        + float(class_sizes @ log_classes)
        - _log_gamma_ratio(class_counts, priors.classes)
        + _log_gamma_ratio(class_counts.sum(), priors.classes.sum())
        + float(run.subtype_sizes @ log_subtypes)
        - _log_gamma_ratio(weights, priors.subtype)
        + _log_gamma_ratio(weight_totals, priors.subtype * priors.subtypes)
    )
    return Dirichlets(
        run.counts,
        prior_rows,
        table,
        log_classes[classes] + log_subtypes,
        class_counts / class_counts.sum(),
        divergence,
    )


def digamma_and_log_gamma(values: Floats) -> tuple[Floats, float]:
    """Return ψ(values) and Σ log Γ(values), for values above 0, within 3e-14 of scipy's.

    Both go through y = x + 7, where five terms of Stirling's series suffice:
        ψ(x) = ψ(y) − Σ_{i<7} 1/(x + i)      log Γ(x) = log Γ(y) − log Π_{i<7} (x + i)
    In vectorised numpy this takes 40 % of scipy's time, which calls a C function per number; on
    few numbers scipy is faster.
    """
    if values.size < FEW_NUMBERS:
        return np.asarray(digamma(values)), float(gammaln(values).sum())
    flat = np.ascontiguousarray(values).reshape(-1)
    psi, log_gammas = np.empty_like(flat), 0.0
    for first in range(0, len(flat), SPECIAL_CHUNK):
        x = flat[first : first + SPECIAL_CHUNK]
        # Π (x + i) = z·a·b·c with z = x + 3, and Σ 1/(x + i) is its derivative over itself
        c = (x + 6.0) * x  # (x)(x + 6)
        a, b, z_squared = c + 8.0, c + 5.0, c + 9.0  # (x + 2)(x + 4), (x + 1)(x + 5), (x + 3)²
        product = a * b
        a += b
        a *= c
        a += product
        product *= c
        a *= z_squared
        a *= 2.0
        a += product
        product *= x + 3.0
        a /= product
        y = x + 7.0
        inverse = 1.0 / y
        square, log_y = inverse * inverse, np.log(y)
        of_psi = horner(PSI_SERIES, square)
        of_psi *= square
        of_psi += log_y
        of_psi -= 0.5 * inverse
        of_psi -= a
        psi[first : first + SPECIAL_CHUNK] = of_psi
        log_gammas += float(horner(LOG_GAMMA_SERIES, square) @ inverse) + len(x) * HALF_LOG_TWO_PI
        log_gammas += float((y - 0.5) @ log_y) - float(y.sum()) - float(np.log(product).sum())
    return psi.reshape(values.shape), log_gammas


def horner(coefficients: Sequence[float], x: Floats) -> Floats:
    """Return Σ_k coefficients[-1 - k] · x^k."""
    total = coefficients[0] * x
    for coefficient in coefficients[1:-1]:
        total += coefficient
        total *= x
    total += coefficients[-1]
    return total


def _log_gamma_ratio(counts: Any, prior: Any) -> float:
    """Return Σ log Γ(counts) − log Γ(prior)."""
    return float(np.sum(gammaln(counts) - gammaln(prior)))
