"""tucker by higher-order orthogonal iteration (Algorithms 1 and 2 of MiSC).

Notation (Ko et al. 2019; De Lathauwer et al. 2000, doi:10.1137/S0895479898346995):
    T              → tensor            (n_workers + 1) × n_items × n_classes, votes and slice
    U(1) U(2) U(3) → workers, items, classes   factors with orthonormal (or zero) columns
    G              → core              (R1, R2, R3)
    R0             → initial_rank      the truncated HOSVD's rank, the same in every mode
    L              → FactorCompletion  [[G; U(1), U(2), U(3)]]

U(1) of the HOSVD is never computed: the first sweep would replace it before anything reads it.
U(2), the only factor as long as the items, is never held: it is T_(2) @ lift, and the others need
only T ×₂ U(2)ᵀ, a sum over blocks of items. So a sweep is one walk over the votes,
O(n_votes · R1·R3), and small dense algebra; it runs on any engine.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from misc_cli.completers.label_matrix import FactorCompletion
from misc_cli.completers.tucker import Ranks, Tucker, check_initial_rank
from misc_cli.completers.tucker.unfolding import TimesTable, Unfolding, leading_left, right_scaled
from misc_cli.data.solver import Step, iterate
from misc_cli.data.types import Floats, OnIteration
from misc_cli.data.votes import LabelTensor
from misc_cli.engines.local import LocalEngine
from misc_cli.engines.protocol import SLICE

# HOOI has converged if a sweep lowers the squared residual by less than this share of ‖T‖².
RESIDUAL_TOLERANCE = 1e-9
ITEMS = "item factor"


@dataclass(frozen=True)
class HooiState:
    """The factors after a sweep.

    table      (n_columns, R1·R3) and scaled (R1·R3, R2): U(2) = T_(2) @ table @ scaled
    projected  T ×₂ U(2)ᵀ, (n_workers + 1, n_classes, columns of U(2))
    """

    workers: Floats
    table: Floats
    scaled: Floats
    classes: Floats
    projected: Floats
    core: Floats
    residual: float


@dataclass(frozen=True)
class Shared:
    """The completion L without its item factor, which is U(2) = T_(2) @ lift.

    workers (n_workers + 1, R1), the slice's row last; lift (n_columns, R2); mixer (R2, R1, K) is
    the core times the class factor.
    """

    workers: Floats
    lift: Floats
    mixer: Floats

    @property
    def slice_table(self) -> Floats:
        """The table (n_columns, n_classes) for which T_(2) @ table is the completed slice."""
        table: Floats = self.lift @ np.einsum("r,qrc->qc", self.workers[-1], self.mixer)
        return table


def complete(method: Tucker, tensor: LabelTensor, on_iteration: OnIteration) -> FactorCompletion:
    """Return the completion of a tensor in memory, with its item factor."""
    engine = LocalEngine(tensor.votes, {SLICE: tensor.slice})
    unfolding = Unfolding(engine, tensor.cache, in_memory=tensor)
    shared = fit(method, unfolding, on_iteration)
    engine.sweep(TimesTable(shared.lift, ITEMS))
    return FactorCompletion(shared.workers, engine.whole(ITEMS), shared.mixer)


def fit(method: Tucker, tensor: Unfolding, on_iteration: OnIteration) -> Shared:
    """Fit by HOSVD and at most `method.sweeps` sweeps of HOOI, on any engine."""
    ranks = method.resolve_ranks(tensor.shape)
    initial_rank = method.initial_rank or max(ranks)
    check_initial_rank(initial_rank, ranks, tensor.shape)
    slice_gram = tensor.slice_gram()
    squared_norm = tensor.squared_norm(slice_gram)

    def step(state: HooiState) -> Step[HooiState]:
        swept = _sweep(tensor, state, ranks, squared_norm)
        change = (state.residual**2 - swept.residual**2) / squared_norm
        share = 1.0 - swept.residual**2 / squared_norm
        return Step(swept, change, swept.residual, extra={"explained": share})

    # Algorithm 1: the truncated HOSVD, of the modes that the first sweep reads
    n_workers, n_items, n_classes = tensor.shape
    rank_of_items = min(initial_rank, n_items, tensor.n_columns)
    projected = tensor.projected_basis(rank_of_items, method.seed)
    nothing = np.zeros((0, 0))
    start = HooiState(
        workers=nothing,
        table=nothing,
        scaled=nothing,
        classes=tensor.class_basis(min(initial_rank, n_classes), slice_gram),
        projected=projected.reshape(n_workers, n_classes, -1),
        core=np.zeros((0, 0, 0)),
        residual=squared_norm**0.5,
    )
    end = iterate(
        step,
        start,
        stage="tucker",
        tol=RESIDUAL_TOLERANCE,
        max_iter=method.sweeps,
        on_iteration=on_iteration,
        warn=False,
    ).state
    # core and class factor in one table: mixer[q, r, c] = Σ_s G[r, q, s] U(3)[c, s]
    mixer = np.einsum("rqs,cs->qrc", end.core, end.classes)
    return Shared(end.workers, end.table @ end.scaled, mixer)


def _sweep(tensor: Unfolding, state: HooiState, ranks: Ranks, squared_norm: float) -> HooiState:
    """Return the state after one sweep of Algorithm 2: each factor from T and the two others."""
    n_workers, _, n_classes = tensor.shape
    # mode 1: A = T ×₂ U(2)ᵀ ×₃ U(3)ᵀ
    against = np.tensordot(state.projected, state.classes, axes=(1, 0))  # (w, q, s)
    workers = leading_left(against.reshape(n_workers, -1), ranks[0])
    # mode 2: A = T ×₁ U(1)ᵀ ×₃ U(3)ᵀ = T_(2) @ table, and U(2) = A V / σ
    table = np.einsum("wr,cs->wcrs", workers, state.classes).reshape(n_workers * n_classes, -1)
    against_items = tensor.gram_times(table)  # T_(2)ᵀ A; AᵀA = tableᵀ T_(2)ᵀ A
    scaled = right_scaled(table.T @ against_items, ranks[1])
    projected = (against_items @ scaled).reshape(n_workers, n_classes, -1)
    # mode 3: A = T ×₁ U(1)ᵀ ×₂ U(2)ᵀ
    both = np.tensordot(workers, projected, axes=(0, 0))  # (r, c, q)
    classes = leading_left(both.transpose(1, 0, 2).reshape(n_classes, -1), ranks[2])
    # G = [[T; U(1)ᵀ, U(2)ᵀ, U(3)ᵀ]]
    core = np.tensordot(both, classes, axes=(1, 0))  # (r, q, s)
    # the factors are orthonormal, so ‖T − L‖² = ‖T‖² − ‖G‖²
    residual = max(squared_norm - float(np.square(core).sum()), 0.0) ** 0.5
    return HooiState(workers, table, scaled, classes, projected, core, residual)
