"""Low-rank Tucker completion by higher-order orthogonal iteration (Algorithms 1 and 2 of MiSC).

Notation (Ko et al. 2019; De Lathauwer et al. 2000, doi:10.1137/S0895479898346995):
    T              → tensor            (n_workers + 1) × n_items × n_classes, votes and slice
    U(1) U(2) U(3) → workers, items, classes   factors with orthonormal (or zero) columns
    G              → core              (R1, R2, R3)
    R0             → initial_rank      the truncated HOSVD's rank, the same in every mode
    L              → FactorCompletion  [[G; U(1), U(2), U(3)]]

U(1) of the HOSVD is never used: the first sweep replaces it before anything reads it. A sweep
costs two products with the votes, O(n_votes · (R2 + R1·R3)), and dense algebra on the factors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from misc_cli.completers.factors import FactorCompletion
from misc_cli.completers.tucker.method import Ranks, Tucker, check_initial_rank
from misc_cli.core.solver import Step, iterate
from misc_cli.core.tensor import LabelTensor, leading_left, leading_left_of_items
from misc_cli.core.types import Floats, OnIteration

# The residual has stopped falling when a sweep lowers its square by less than this share of ‖T‖².
RESIDUAL_TOLERANCE = 1e-9


@dataclass(frozen=True)
class State:
    """Factors after a sweep; `projected` is T ×₂ U(2)ᵀ, (n_workers + 1, n_classes, columns)."""

    workers: Floats
    items: Floats
    classes: Floats
    projected: Floats
    core: Floats
    residual: float


def complete(method: Tucker, tensor: LabelTensor, on_iteration: OnIteration) -> FactorCompletion:
    """HOSVD, then at most `method.sweeps` sweeps of HOOI."""
    ranks = method.resolve_ranks(tensor.shape)
    initial_rank = method.initial_rank or max(ranks)
    check_initial_rank(initial_rank, ranks, tensor.shape)
    squared_norm = tensor.squared_norm

    def step(state: State) -> Step[State]:
        swept = _sweep(tensor, state, ranks)
        change = (state.residual**2 - swept.residual**2) / squared_norm
        share = 1.0 - swept.residual**2 / squared_norm
        return Step(swept, change, swept.residual, extra={"explained": share})

    end = iterate(
        step,
        _start(tensor, initial_rank, method.seed),
        stage="tucker",
        tol=RESIDUAL_TOLERANCE,
        max_iter=method.sweeps,
        on_iteration=on_iteration,
        warn=False,
    ).state
    # L's class side in one table: mixer[q, r, c] = Σ_s G[r, q, s] U(3)[c, s]
    mixer = np.einsum("rqs,cs->qrc", end.core, end.classes)
    return FactorCompletion(end.workers, end.items, mixer)


def _start(tensor: LabelTensor, initial_rank: int, seed: int) -> State:
    """Algorithm 1: the truncated HOSVD, the modes that the first sweep reads."""
    n_workers, n_items, n_classes = tensor.shape
    n_columns = n_workers * n_classes
    items = tensor.item_basis(min(initial_rank, n_items, n_columns), seed)
    classes = tensor.class_basis(min(initial_rank, n_classes))
    nothing = np.zeros((n_workers, 0)), np.zeros((0, 0, 0))
    projected = _project_items(tensor, items)
    return State(nothing[0], items, classes, projected, nothing[1], tensor.squared_norm**0.5)


def _project_items(tensor: LabelTensor, items: Floats) -> Floats:
    """T ×₂ U(2)ᵀ, (n_workers + 1, n_classes, columns of U(2))."""
    n_workers, _, n_classes = tensor.shape
    return tensor.times_items(items).reshape(n_workers, n_classes, -1)


def _sweep(tensor: LabelTensor, state: State, ranks: Ranks) -> State:
    """Algorithm 2's for-loop: each factor from T multiplied by the two others."""
    n_workers, _, n_classes = tensor.shape
    # mode 1: A = T ×₂ U(2)ᵀ ×₃ U(3)ᵀ
    against = np.einsum("wcq,cs->wqs", state.projected, state.classes, optimize=True)
    workers = leading_left(against.reshape(n_workers, -1), ranks[0])
    # mode 2: A = T ×₁ U(1)ᵀ ×₃ U(3)ᵀ
    table = np.einsum("wr,cs->wcrs", workers, state.classes).reshape(n_workers * n_classes, -1)
    items = leading_left_of_items(tensor, table, ranks[1])
    # mode 3: A = T ×₁ U(1)ᵀ ×₂ U(2)ᵀ
    projected = _project_items(tensor, items)
    both = np.einsum("wr,wcq->crq", workers, projected, optimize=True)
    classes = leading_left(both.reshape(n_classes, -1), ranks[2])
    # G = [[T; U(1)ᵀ, U(2)ᵀ, U(3)ᵀ]]
    core = np.einsum("crq,cs->rqs", both, classes, optimize=True)
    # the factors are orthonormal, so ‖T − L‖² = ‖T‖² − ‖G‖²
    residual = max(tensor.squared_norm - float(np.square(core).sum()), 0.0) ** 0.5
    return State(workers, items, classes, projected, core, residual)
