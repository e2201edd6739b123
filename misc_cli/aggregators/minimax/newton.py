"""Newton's method for many small ridge-penalised softmax regressions at once.

A *pair* is one vote under one hypothesis about the class of its item; its answer k has log-odds
`logits[k]`. A *segment* is a worker, an item or the crowd; a *slot* is a (segment, class), and it
adds `logits[k]` to the log-odds of its pairs. A `Structure` says by which parameters of a segment:
free (mmce-c) or ordinal (mmce-o). Slots belong to independent problems. Arrays keep the long axis
last, so every line below runs over all problems.

    p_k        softmax(logits)[k]
    value      Σ weight · log p_target
    gradient   Σ weight · ([target = k] − p_k)
    curvature  Σ weight · ([k = l] p_k − p_k p_l)        (minus the Hessian)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from misc_cli.data.solver import Step, iterate
from misc_cli.data.types import Floats, ignore_iteration
from misc_cli.engines.protocol import Summed

Index = npt.NDArray[np.int64]
Integers = npt.NDArray[np.int32] | Index

# Newton doubles the digits: a last step of 1e-3 leaves an error near 1e-6.
STEP_TOL = 1e-3
MAX_STEPS = 25
LAPACK_FROM = 16  # measured: a tie at 14, six times faster at 50


@dataclass
class Derivatives(Summed):
    """value (n,), gradient (d, n) and curvature (d, d, n) of n independent concave functions."""

    value: Floats
    gradient: Floats
    curvature: Floats


def sum_by(groups: Integers, values: Floats, n_groups: int) -> Floats:
    """Return the sum of `values` (n,) by group, (n_groups,)."""
    return np.asarray(np.bincount(groups, values, n_groups), dtype=np.float64)


@dataclass(frozen=True)
class Slots:
    """The slots in use: segment and class of each, (n_slots,), among `n_segments` segments."""

    segments: Index
    classes: Index
    n_segments: int

    @classmethod
    def every(cls, n_segments: int, n_classes: int) -> Slots:
        segments = np.repeat(np.arange(n_segments), n_classes)
        return cls(segments, np.tile(np.arange(n_classes), n_segments), n_segments)


@dataclass(frozen=True)
class Free:
    """mmce-c: one parameter per (class, answer); every slot is an independent problem.

    Parameters are (n_classes answers, n_segments, n_classes truths). `owned` parameters are those
    of used slots.
    """

    n_classes: int

    def zeros(self, n_segments: int) -> Floats:
        """Return parameters whose logits are zero, (n_parameters, n_segments, ...)."""
        return np.zeros((self.n_classes, n_segments, self.n_classes))

    def owned(self, parameters: Floats, slots: Slots) -> Floats:
        """Return the parameters of these slots as independent problems, (d, n_problems)."""
        return parameters[:, slots.segments, slots.classes]

    def stored(self, owned: Floats, slots: Slots) -> Floats:
        """Return the parameters of all segments; those of unused slots are zero, their optimum."""
        parameters = self.zeros(slots.n_segments)
        parameters[:, slots.segments, slots.classes] = owned
        return parameters

    def logits(self, owned: Floats, slots: Slots) -> Floats:
        """Return the logits by slot, (n_classes, n_slots)."""
        return owned

    def pull_back(self, by_slot: Derivatives, slots: Slots) -> Derivatives:
        """Return derivatives by owned parameters from derivatives by slot logits."""
        return by_slot


@dataclass(frozen=True)
class Ordinal:
    """mmce-o: two parameters per threshold s = 2..K, for truths from s on and for truths below s.

    Each moves the odds between answers from s on and answers below. The four indicator blocks of
    Zhou et al. 2014 come in pairs, [c ≥ s][k ≥ s] with [c ≥ s][k < s] and so on, whose sum does
    not depend on k: softmax ignores it and the penalty makes it 0. A pair (u, −u) is therefore one
    parameter √2·u with the same penalty, hence the 1/√2 below. The blocks of s = 1 are constant
    and vanish likewise.
    """

    n_classes: int

    @property
    def features(self) -> Floats:
        """(n_classes truths, 2 (K − 1) parameters, n_classes answers)."""
        rank = np.arange(self.n_classes)
        above = rank[None, :] >= np.arange(1, self.n_classes)[:, None]  # [s, rank]
        sign = np.where(above, 1.0, -1.0) / np.sqrt(2.0)
        upper = above.T[:, :, None] * sign
        lower = ~above.T[:, :, None] * -sign
        return np.concatenate([upper, lower], axis=1)

    def zeros(self, n_segments: int) -> Floats:
        return np.zeros((2 * (self.n_classes - 1), n_segments))

    def owned(self, parameters: Floats, slots: Slots) -> Floats:
        return parameters

    def stored(self, owned: Floats, slots: Slots) -> Floats:
        return owned

    def logits(self, owned: Floats, slots: Slots) -> Floats:
        logits = np.empty((self.n_classes, len(slots.classes)))
        for c, features in enumerate(self.features):
            here = np.flatnonzero(slots.classes == c)
            logits[:, here] = features.T @ owned[:, slots.segments[here]]
        return logits

    def pull_back(self, by_slot: Derivatives, slots: Slots) -> Derivatives:
        n_parameters, n_segments = 2 * (self.n_classes - 1), slots.n_segments
        value = sum_by(slots.segments, by_slot.value, n_segments)
        gradient = np.zeros((n_parameters, n_segments))
        curvature = np.zeros((n_parameters, n_parameters, n_segments))
        for c, features in enumerate(self.features):
            here = np.flatnonzero(slots.classes == c)  # at most one slot per segment
            segments = slots.segments[here]
            # for a given truth only K − 1 parameters matter: one per threshold
            acting = np.flatnonzero(features.any(axis=1))
            acts = features[acting]
            gradient[acting[:, None], segments] += acts @ by_slot.gradient[:, here]
            half = np.tensordot(acts, by_slot.curvature[:, :, here], axes=1)
            both = np.tensordot(acts, half.transpose(1, 0, 2), axes=1)
            curvature[acting[:, None, None], acting[:, None], segments] += both
        return Derivatives(value, gradient, curvature)


Structure = Free | Ordinal


@dataclass(frozen=True)
class SlotPairs:
    """Pairs by slot, with all that stays the same while the table of logits changes.

    columns   (n_pairs,): those of the table that is solved for
    others    (n_classes, n_pairs): the logits of the other side, workers' or items'
    weights   (n_pairs,): posterior of the class
    slots     (n_pairs,)
    chosen    (n_pairs,): place of the answer in logits (n_classes, n_pairs), flattened
    observed  (n_classes, n_slots): Σ weight · [target = k]
    """

    columns: Integers
    others: Floats
    weights: Floats
    slots: Integers
    chosen: Integers
    observed: Floats

    @classmethod
    def of(
        cls,
        columns: Integers,
        others: Floats,
        targets: Integers,
        weights: Floats,
        slots: Integers,
        n_slots: int,
    ) -> SlotPairs:
        n_classes = len(others)
        answers = slots * np.int64(n_classes) + targets
        observed = sum_by(answers, weights, n_slots * n_classes).reshape(n_slots, n_classes)
        chosen = targets * np.int64(len(targets)) + np.arange(len(targets))
        return cls(columns, others, weights, slots, chosen, np.ascontiguousarray(observed.T))

    def derivatives(self, table: Floats) -> Derivatives:
        """Return the derivatives by slot with respect to a shift of its logits.

        Rows of the curvature sum to 0, so only k < l is summed over pairs.
        """
        weights, slots = self.weights, self.slots
        n_classes, n_slots = self.observed.shape
        logits = np.take(table, self.columns, axis=1)
        logits += self.others
        logits -= logits.max(axis=0)
        chosen = np.take(logits, self.chosen)
        shares = np.exp(logits, out=logits)
        total = shares.sum(axis=0)
        value = sum_by(slots, weights * (chosen - np.log(total)), n_slots)
        shares /= total

        gradient = self.observed.copy()
        curvature = np.zeros((n_classes, n_classes, n_slots))
        for k in range(n_classes):
            weighted = weights * shares[k]
            gradient[k] -= sum_by(slots, weighted, n_slots)
            for other in range(k + 1, n_classes):
                product = sum_by(slots, weighted * shares[other], n_slots)
                curvature[k, other] = curvature[other, k] = -product
                curvature[k, k] += product
                curvature[other, other] += product
        return Derivatives(value, gradient, curvature)


def solve_batched(matrices: Floats, right_sides: Floats) -> Floats:
    """Return x with A x = b for n symmetric positive definite A, (d, d, n), and b, (d, n).

    Gauss–Jordan without pivoting, d passes over all systems: numpy calls LAPACK once per system,
    which for small d costs more than the arithmetic.
    """
    if len(matrices) >= LAPACK_FROM:
        by_system = np.linalg.solve(matrices.transpose(2, 0, 1), right_sides.T[:, :, None])
        return np.ascontiguousarray(by_system[:, :, 0].T)
    work, solution = matrices.copy(), right_sides.copy()
    for j in range(len(work)):
        inverse = 1.0 / work[j, j]
        pivot_row = work[j, j:] * inverse
        pivot_right = solution[j] * inverse
        factors = work[:, j].copy()
        factors[j] = 0.0
        work[:, j:] -= factors[:, None] * pivot_row
        solution -= factors * pivot_right
        work[j, j:], solution[j] = pivot_row, pivot_right
    return solution


@dataclass(frozen=True)
class _Search:
    """State of the line search: `accepted` (d, n) is the best point, `trial` the next one.

    A `converged` (n,) problem stays where it is, however long the others take: its result does
    not depend on the problems that are solved beside it.
    """

    accepted: Floats
    trial: Floats
    direction: Floats
    scale: Floats
    value: Floats
    converged: npt.NDArray[np.bool_]


def maximise(derivatives: Callable[[Floats], Derivatives], start: Floats, ridge: float) -> Floats:
    """Return the maximum of each value(x) − ridge/2 · ‖x‖², x (d, n), from `start`.

    Each problem halves its own step until it rises.
    """
    start = np.ascontiguousarray(start)
    diagonal = np.arange(len(start))

    def step(search: _Search) -> Step[_Search]:
        here = derivatives(search.trial)
        value = here.value - 0.5 * (ridge * search.trial**2).sum(axis=0)
        rises = value >= search.value - 1e-12 * np.abs(value)
        curvature = here.curvature
        curvature[diagonal, diagonal] += ridge
        newton = solve_batched(curvature, here.gradient - ridge * search.trial)
        accepted = np.where(rises | search.converged, search.trial, search.accepted)
        direction = np.where(rises, newton, search.direction)
        scale = np.where(rises, 1.0, 0.5 * search.scale)
        scale[search.converged] = 0.0
        steps = scale * direction
        moved = np.abs(steps).max(axis=0, initial=0.0)
        best = np.where(rises, value, search.value)
        after = _Search(accepted, accepted + steps, direction, scale, best, moved < STEP_TOL)
        return Step(after, float(moved.max(initial=0.0)))

    n_problems = start.shape[1]
    first = _Search(
        start,
        start,
        np.zeros_like(start),
        np.ones(n_problems),
        np.full(n_problems, -np.inf),
        np.zeros(n_problems, dtype=bool),
    )
    solution = iterate(
        step,
        first,
        stage="newton",
        tol=STEP_TOL,
        max_iter=MAX_STEPS,
        on_iteration=ignore_iteration,
        warn=False,
    )
    end = solution.state
    return np.where(end.converged, end.trial, end.accepted)
