"""tucker by higher-order orthogonal iteration (Algorithms 1 and 2 of MiSC), on any engine.

Notation (Ko et al. 2019; De Lathauwer et al. 2000, doi:10.1137/S0895479898346995):
    T              → tensor            (n_workers + 1) × n_items × n_classes: the votes A, sparse,
                                       and the slice S, dense, the loop's extra worker
    T_(2)          → [A_(2), S]        a row per item, a column per worker (slice last) and class
    U(1) U(2) U(3) → workers, items, classes   factors with orthonormal (or zero) columns
    G              → core              (R1, R2, R3)
    R0             → initial_rank      the truncated HOSVD's rank, the same in every mode
    L              → FactorCompletion  [[G; U(1), U(2), U(3)]]

U(1) of the HOSVD is never computed: the first sweep would replace it before anything reads it.
U(2), the only factor as long as the items, is never held: it is T_(2) @ lift, and the others need
only T ×₂ U(2)ᵀ, a sum over blocks of items: a block of votes and its rows of the slice give partial
sums as long as the columns, which are few. So a sweep is one walk over the votes,
O(n_votes · R1·R3), and small dense algebra; no unfolding is ever made dense.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from inspect import signature
from typing import Any

import numpy as np
import scipy.sparse as sp

from misc_cli.completers.label_matrix import FactorCompletion
from misc_cli.completers.parameters import Ranks, Tucker
from misc_cli.data.solver import Step, iterate
from misc_cli.data.types import Floats, OnIteration
from misc_cli.data.votes import LabelTensor
from misc_cli.engines.local import LocalEngine
from misc_cli.engines.protocol import SLICE, Block, Engine, RowArrays, SumOver, WriteRows
from misc_cli.errors import ConfigError

# HOOI has converged if a sweep lowers the squared residual by less than this share of ‖T‖².
RESIDUAL_TOLERANCE = 1e-9
ITEMS = "item factor"
# Singular values below this share of the largest are zero up to rounding, which blurs those from
# a Gram matrix to about 1e-8.
NULL_SHARE = 1e-6


def leading_left(matrix: Floats, rank: int) -> Floats:
    """Return the leading left singular vectors, (n_rows, rank); zero columns beyond the rank.

    They come from the Gram matrix of the shorter side, in 30 to 50 % of the time of an SVD. A zero
    column serves as well as the arbitrary vector that an SVD returns for a zero singular value,
    and it is the same on every machine.
    """
    if matrix.shape[0] > matrix.shape[1]:
        return np.asarray(matrix @ right_scaled(matrix.T @ matrix, rank))
    values, vectors = leading_eigenvectors(matrix @ matrix.T, rank)
    return _padded(vectors * (root_or_zero(values) > 0.0), rank)


def right_scaled(gram: Floats, rank: int) -> Floats:
    """Return V / σ, (n_columns, rank), of the matrix M with this Gram matrix: M V / σ = U."""
    values, vectors = leading_eigenvectors(gram, rank)
    sizes = root_or_zero(values)
    inverse = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0.0)
    return _padded(vectors * inverse, rank)


def root_or_zero(values: Floats) -> Floats:
    """Return σ of the eigenvalues σ², largest first; those at rounding level become zero."""
    sizes: Floats = np.sqrt(np.maximum(values, 0.0))
    sizes[sizes <= NULL_SHARE * sizes.max(initial=0.0)] = 0.0
    return sizes


def leading_eigenvectors(gram: Floats, rank: int) -> tuple[Floats, Floats]:
    """Return the largest eigenvalues, (rank,), and their vectors, (n, rank)."""
    values, vectors = np.linalg.eigh(gram)
    vectors = vectors[:, ::-1][:, :rank]
    # the entry of largest size of every vector is positive
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0)
    return values[::-1][:rank], vectors * np.where(largest < 0, -1.0, 1.0)


def _padded(columns: Floats, rank: int) -> Floats:
    missing = rank - columns.shape[1]
    return np.pad(columns, ((0, 0), (0, missing))) if missing else columns


# Below this size a dense eigendecomposition is faster than Lanczos, and needs no start vector.
TINY_SIDE = 128
# With at most this many items, and LONG_SIDE times as many columns, the Gram matrix of the items is
# decomposed (`cf`, rank 40: 7 ms instead of 27).
FEW_ITEMS, LONG_SIDE = 512, 3
# Residual of an eigenpair as a share of its eigenvalue: so small that neither the start vector nor
# the order of sums changes a label. It costs a fifth more products than 1e-6.
LANCZOS_TOLERANCE = 1e-12


def unfolded(block: Block, rows: RowArrays, table: Floats) -> Floats:
    """Return the block's rows of T_(2) @ table, (n_block_items, r); table (n_columns, r)."""
    of_slice = rows[SLICE]
    n_classes = of_slice.shape[1]
    product: Floats = block.matrix @ table[:-n_classes]
    product += of_slice @ table[-n_classes:]
    return product


def _gram_product(block: Block, rows: RowArrays, table: Floats) -> Floats:
    """Return T_(2)ᵀ T_(2) @ table, of the votes and of the slice; the table may be a vector."""
    product = unfolded(block, rows, table)
    return np.concatenate([block.matrix.T @ product, rows[SLICE].T @ product])


def item_rows(block: Block, rows: RowArrays, table: Floats) -> tuple[RowArrays, int]:
    """Return T_(2) @ table as rows of the item factor."""
    return {ITEMS: unfolded(block, rows, table)}, 0


def _votes_gram(block: Block, rows: RowArrays) -> Floats:
    """Return A_(2)ᵀ A_(2), dense: the number of items that have both answers. For few columns."""
    return np.asarray((block.matrix.T @ block.matrix).toarray())


def _class_gram(block: Block, rows: RowArrays, n_classes: int) -> Floats:
    """Return A_(3) A_(3)ᵀ; diagonal unless a worker may give an item several classes."""
    matrix = block.matrix
    item = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    worker, code = np.divmod(matrix.indices, n_classes)
    new_fibre = np.append(False, (np.diff(item) != 0) | (np.diff(worker) != 0))[: len(code)]
    fibre = np.cumsum(new_fibre)
    shape = (int(fibre[-1]) + 1 if len(fibre) else 0, n_classes)
    fibres = sp.csr_array((matrix.data, (fibre, code)), shape=shape)
    return np.asarray((fibres.T @ fibres).toarray())


@dataclass(frozen=True)
class Unfolding:
    """The label tensor of an engine, as Tucker reads it.

    known      cache of what depends on the votes alone, shared by all passes
    in_memory  T itself, if this process has it: Lanczos then need not walk over blocks
    """

    engine: Engine
    known: dict[str, Any] = field(default_factory=dict, repr=False)
    in_memory: LabelTensor | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.engine.n_workers + 1, self.engine.n_items, self.engine.n_classes

    @property
    def n_columns(self) -> int:
        return self.shape[0] * self.shape[2]

    def times_slice(self) -> Floats:
        """Return T_(2)ᵀ S, (n_columns, n_classes); the last n_classes rows are Sᵀ S."""
        n_classes = self.shape[2]
        return self.gram_times(np.eye(self.n_columns, n_classes, n_classes - self.n_columns))

    def class_basis(self, rank: int, slice_gram: Floats) -> Floats:
        """Return the leading left singular vectors of T_(3), (n_classes, rank)."""
        n_classes = self.shape[2]
        if rank >= n_classes:
            return np.eye(n_classes)  # any basis of the whole space serves
        kernel = SumOver(partial(_class_gram, n_classes=n_classes))
        of_votes = self._once("class gram", lambda: self.engine.sweep(kernel))
        return leading_eigenvectors(of_votes + slice_gram, rank)[1]

    def gram_times(self, table: Floats) -> Floats:
        """Return T_(2)ᵀ T_(2) @ table, (n_columns, r)."""
        return self.engine.sweep(SumOver(partial(_gram_product, table=table)))

    def projected_basis(self, rank: int, with_slice: Floats, seed: int) -> Floats:
        """Return T_(2)ᵀ U, (n_columns, rank), U the leading left singular vectors of T_(2).

        That is V σ, so only the Gram matrix of the columns is needed. It is formed if it is tiny;
        otherwise Lanczos, from a seeded vector, only multiplies by it. with_slice is T_(2)ᵀ S.
        """
        side, n_items = self.n_columns, self.shape[1]
        if self.in_memory is not None and n_items <= min(FEW_ITEMS, side // LONG_SIDE):
            return self._from_items(self.in_memory, rank)
        if side <= max(TINY_SIDE, 2 * rank):
            of_votes = self._once("column gram", lambda: self.engine.sweep(SumOver(_votes_gram)))
            gram = np.block([[of_votes, with_slice[: len(of_votes)]], [with_slice.T]])
            values, vectors = leading_eigenvectors(gram, rank)
        else:
            values, vectors = self._lanczos(rank, seed)
        return vectors * root_or_zero(values)

    def _from_items(self, tensor: LabelTensor, rank: int) -> Floats:
        """Return T_(2)ᵀ U, (n_columns, rank), U by the Gram matrix of the items."""
        from scipy.linalg import eigh

        votes, of_slice, n_items = tensor.votes.matrix, tensor.slice, self.shape[1]
        gram = self._once("item gram", lambda: (votes @ votes.T).toarray())
        values, left = eigh(
            gram + of_slice @ of_slice.T,
            subset_by_index=[n_items - rank, n_items - 1],
            driver="evr",
            overwrite_a=True,
            check_finite=False,
        )
        left = left[:, ::-1] * (root_or_zero(values[::-1]) > 0.0)
        return np.concatenate([votes.T @ left, of_slice.T @ left])

    def _lanczos(self, rank: int, seed: int) -> tuple[Floats, Floats]:
        # imported here: runs without a completer load this module, and scipy.linalg is slow
        from scipy.sparse.linalg import LinearOperator, eigsh

        product: Callable[[Floats], Floats] = self.gram_times
        if self.in_memory is not None:
            # without blocks: a vector is too little work to share out
            tensor, n_classes = self.in_memory, self.shape[2]
            matrix = tensor.votes.matrix
            transposed = tensor.once("transposed", lambda: matrix.T)  # wrapping costs a product
            by_class = np.ascontiguousarray(tensor.slice.T)  # thrice as fast as along a short axis

            def product(x: Floats) -> Floats:
                of_items = matrix @ x[:-n_classes]
                of_items += x[-n_classes:] @ by_class
                return np.concatenate([transposed @ of_items, by_class @ of_items])

        side = self.n_columns
        operator = LinearOperator(
            (side, side), matvec=lambda x: product(x.ravel()), dtype=np.float64
        )
        random = np.random.default_rng(seed)
        start = random.standard_normal(side)
        # ARPACK draws again if the tensor has a lower rank; since scipy 1.17 it takes a generator
        source: dict[str, Any] = {"rng": random} if "rng" in signature(eigsh).parameters else {}
        values, vectors = eigsh(
            operator, k=rank, v0=start, tol=LANCZOS_TOLERANCE, maxiter=100 * side, **source
        )
        return values[::-1], vectors[:, ::-1]

    def _once(self, name: str, compute: Callable[[], Floats]) -> Floats:
        if name not in self.known:
            self.known[name] = compute()
        found: Floats = self.known[name]
        return found


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


def complete(method: Tucker, tensor: LabelTensor, on_iteration: OnIteration) -> FactorCompletion:
    """Return the completion of a tensor in memory, with its item factor."""
    engine = LocalEngine(tensor.votes, {SLICE: tensor.slice})
    lifted = fit(method, Unfolding(engine, tensor.cache, in_memory=tensor), on_iteration)
    engine.sweep(WriteRows(partial(item_rows, table=lifted.items), (SLICE,), (ITEMS,)))
    return FactorCompletion(lifted.workers, engine.whole(ITEMS), lifted.mixer)


def fit(method: Tucker, tensor: Unfolding, on_iteration: OnIteration) -> FactorCompletion:
    """Fit by HOSVD and at most `method.sweeps` sweeps of HOOI, on any engine.

    In the place of the item factor stands the lift, (n_columns, R2): U(2) = T_(2) @ lift. So
    T_(2) @ `slice`, (n_columns, n_classes), is the completed slice.
    """
    ranks = method.resolve_ranks(tensor.shape)
    initial_rank = method.initial_rank or max(ranks)
    reach = min(initial_rank, tensor.shape[1]) * min(initial_rank, tensor.shape[2])
    if ranks[0] > reach:
        raise ConfigError(
            f"--initial-rank {initial_rank} leaves R1 = {ranks[0]} of --ranks at most {reach} "
            f"directions in the first sweep; give --initial-rank {ranks[0]} or more"
        )
    with_slice = tensor.times_slice()
    slice_gram = with_slice[-tensor.shape[2] :]
    squared_norm = tensor.engine.n_votes + float(np.trace(slice_gram))  # every vote is a one

    def step(state: HooiState) -> Step[HooiState]:
        swept = _sweep(tensor, state, ranks, squared_norm)
        change = (state.residual**2 - swept.residual**2) / squared_norm
        share = 1.0 - swept.residual**2 / squared_norm
        return Step(swept, change, swept.residual, extra={"explained": share})

    # Algorithm 1: the truncated HOSVD, of the modes that the first sweep reads
    n_workers, n_items, n_classes = tensor.shape
    rank_of_items = min(initial_rank, n_items, tensor.n_columns)
    projected = tensor.projected_basis(rank_of_items, with_slice, method.seed)
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
    return FactorCompletion(end.workers, end.table @ end.scaled, mixer)


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
