"""The robust tensor power method: the start of tenals.

Jain & Oh 2014 (arXiv:1406.2784), step 2 of their Algorithm 1, after Anandkumar et al. 2014
(arXiv:1210.7559): the leading rank-one term of the zero-filled tensor by power iteration from
several starts at once, subtracted before the next term is sought.

Notation: a term is λ · u ⊗ v ⊗ z with unit u (workers, slice last), v (items), z (classes);
columns of the arrays below are starts or terms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from misc_cli.completers.observed import Observed
from misc_cli.core.solver import Step, iterate
from misc_cli.core.types import Floats, ignore_iteration

STEPS = 30
SETTLED = 1e-4


@dataclass(frozen=True)
class Terms:
    """λ (n,), workers (n_workers + 1, n), items (n_items, n), classes (n_classes, n)."""

    weights: Floats
    workers: Floats
    items: Floats
    classes: Floats

    def append(self, other: Terms, column: int) -> Terms:
        return Terms(
            np.append(self.weights, other.weights[column]),
            np.column_stack([self.workers, other.workers[:, column]]),
            np.column_stack([self.items, other.items[:, column]]),
            np.column_stack([self.classes, other.classes[:, column]]),
        )


def power_start(
    observed: Observed, rank: int, restarts: int, generator: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """CP factors (workers, items, classes), each (·, rank), λ shared out evenly among the three."""
    n_items, n_classes, n_rows = observed.n_items, observed.n_classes, observed.n_workers + 1
    found = Terms(
        np.zeros(0), np.zeros((n_rows, 0)), np.zeros((n_items, 0)), np.zeros((n_classes, 0))
    )
    for _ in range(rank):
        # every class as answered by everyone is a start that no renaming changes; the rest is luck
        random_rows = generator.standard_normal((n_rows, restarts))
        random_classes = generator.standard_normal((n_classes, restarts))
        workers = np.column_stack([np.ones((n_rows, n_classes)), random_rows])
        classes = np.column_stack([np.eye(n_classes), random_classes])
        start = Terms(
            np.zeros(classes.shape[1]),
            _unit(workers)[0],
            np.zeros((n_items, classes.shape[1])),
            _unit(classes)[0],
        )
        ended = iterate(
            lambda terms: _power_step(observed, found, terms),  # noqa: B023 (used at once)
            start,
            stage="power",
            tol=SETTLED,
            max_iter=STEPS,
            on_iteration=ignore_iteration,
            warn=False,
        ).state
        found = found.append(ended, int(np.argmax(ended.weights)))
    share = np.cbrt(found.weights)
    return found.workers * share, found.items * share, found.classes * share


def _power_step(observed: Observed, found: Terms, terms: Terms) -> Step[Terms]:
    """v ← T(u, ·, z), u ← T(·, v, z), z ← T(u, v, ·), each made unit; T is what `found` leaves."""
    n_classes, n_terms = terms.classes.shape
    workers, classes = terms.workers, terms.classes
    entries = (workers[:-1, None] * classes).reshape(-1, n_terms)
    items = observed.values @ entries + (observed.slice @ classes) * workers[-1]
    items -= found.items @ _left(found, found.workers.T @ workers, found.classes.T @ classes)
    items = _unit(items)[0]

    sums = (observed.values.T @ items).reshape(-1, n_classes, n_terms)
    slice_sums = observed.slice.T @ items
    workers = np.vstack([(sums * classes).sum(axis=1), (slice_sums * classes).sum(axis=0)])
    along_items = found.items.T @ items
    workers -= found.workers @ _left(found, along_items, found.classes.T @ classes)
    workers = _unit(workers)[0]

    updated = np.einsum("wcn,wn->cn", sums, workers[:-1]) + slice_sums * workers[-1]
    updated -= found.classes @ _left(found, along_items, found.workers.T @ workers)
    updated, weights = _unit(updated)
    scale = max(float(weights.max(initial=0.0)), np.finfo(np.float64).tiny)
    change = float(np.abs(weights - terms.weights).max(initial=0.0)) / scale
    return Step(Terms(weights, workers, items, updated), change)


def _left(found: Terms, first: Floats, second: Floats) -> Floats:
    """How much of each found term the current starts hold, (n_found, n_starts)."""
    return found.weights[:, None] * first * second


def _unit(columns: Floats) -> tuple[Floats, Floats]:
    """Unit columns and their lengths; a zero column stays zero."""
    lengths = np.sqrt(np.square(columns).sum(axis=0))
    return columns / np.maximum(lengths, np.finfo(np.float64).tiny), lengths
