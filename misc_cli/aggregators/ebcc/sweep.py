"""One restart of EBCC and its coordinate ascent, block of items by block of items.

Notation as in `ebcc.py`. A sweep needs the Dirichlets' expected logs and gives the next expected
counts; q(z, g) itself, (n_items, n_live), exists for one block at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import digamma, gammaln

from misc_cli.core.types import Floats, Labels

# A subtype this small has E[log π] ≈ ψ(prior) ≈ −100 (M = 10): it cannot win an item back.
EMPTY = 1e-9


@dataclass(frozen=True)
class Priors:
    """Pseudo-counts: answers (n_classes, n_classes), each subtype, classes (n_classes,)."""

    answers: Floats
    subtype: float
    subtypes: int
    classes: Floats


@dataclass(frozen=True)
class Restart:
    """One random start on its way; `posteriors` is its own buffer, rewritten by each sweep.

    classes (n_live,) is each live subtype's class, ascending; subtype_sizes (n_live,) its expected
    items; counts (n_workers, n_classes, n_live) the expected answers [w, k, a].
    """

    number: int
    posteriors: Floats
    classes: npt.NDArray[np.intp]
    subtype_sizes: Floats
    counts: Floats
    elbo: float = -np.inf
    gain: float = np.inf
    change: float = np.inf
    iterations: int = 0
    done: bool = False
    beliefs: Beliefs | None = None  # what the last sweep's E-step used


@dataclass(frozen=True)
class Beliefs:
    """What the E-step and the forecast need of the Dirichlets, for the live subtypes."""

    rows: Floats  # μ, (n_workers, n_classes, n_live)
    expected_logs: Floats  # E[log v], same shape
    log_weights: Floats  # E[log τ_c] + E[log π_cm], (n_live,)
    class_prior: Floats
    divergence: float  # KL(q ‖ prior) of all Dirichlets


def start_of(labels: Labels, priors: Priors, start: Floats, seed: int, number: int) -> Restart:
    """Vote fractions, split among subtypes by a Dirichlet(1) draw of this restart's own stream."""
    votes, random = labels.votes, np.random.default_rng([seed, number])
    n_columns = labels.n_classes * priors.subtypes
    counts = np.zeros((votes.n_workers * votes.n_classes, n_columns))
    sizes = np.zeros(n_columns)
    for rows in votes.blocks:
        fractions = start[rows]
        # normalised exponentials are Dirichlet(1)
        split = random.standard_exponential((*fractions.shape, priors.subtypes))
        split *= (fractions / split.sum(axis=2))[:, :, None]
        flat = split.reshape(len(fractions), n_columns)
        counts += votes.block(rows).T @ flat
        sizes += flat.sum(axis=0)
    return Restart(
        number,
        start.copy(),
        np.repeat(np.arange(labels.n_classes), priors.subtypes),
        sizes,
        counts.reshape(votes.n_workers, votes.n_classes, n_columns),
    )


def sweep(labels: Labels, priors: Priors, run: Restart) -> Restart:
    """One coordinate ascent round: the Dirichlets given q(z, g), then q(z, g) of every item."""
    run = _bury(run)
    beliefs = believe(priors, run)
    votes = labels.votes
    table = beliefs.expected_logs.reshape(-1, len(run.classes))
    counts = np.zeros_like(table)
    sizes = np.zeros(len(run.classes))
    evidence = change = 0.0
    firsts = _first_columns(run.classes)
    for rows in votes.blocks:
        block = votes.block(rows)
        joint, log_normalisers = joint_of(labels, rows, block @ table, beliefs, run.classes)
        counts += block.T @ joint
        sizes += joint.sum(axis=0)
        evidence += float(log_normalisers.sum())
        updated = np.add.reduceat(joint, firsts, axis=1)
        change = max(change, float(np.abs(updated - run.posteriors[rows]).max(initial=0.0)))
        run.posteriors[rows] = updated
    # With q(z, g) optimal, the bound is the items' log normalisers less the Dirichlets' divergence.
    elbo = evidence - beliefs.divergence
    return replace(
        run,
        subtype_sizes=sizes,
        counts=counts.reshape(run.counts.shape),
        elbo=elbo,
        gain=elbo - run.elbo,
        change=change,
        iterations=run.iterations + 1,
        beliefs=beliefs,
    )


def joint_of(
    labels: Labels, rows: slice, scores: Floats, beliefs: Beliefs, classes: npt.NDArray[np.intp]
) -> tuple[Floats, Floats]:
    """q(z_i, g_i) of a block, (n_block, n_live), in place of its scores; and log normalisers."""
    scores += beliefs.log_weights
    if labels.gold is not None:
        gold = labels.gold[rows]
        scores[(gold[:, None] >= 0) & (gold[:, None] != classes)] = -np.inf
    top = scores.max(axis=1)
    scores -= top[:, None]
    np.exp(scores, out=scores)
    total = scores.sum(axis=1)
    scores /= total[:, None]
    return scores, np.log(total) + top


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
    prior_rows = priors.answers[classes].T  # (n_classes, n_live)
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
        + _rise(row_totals, prior_rows.sum(axis=0))
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
