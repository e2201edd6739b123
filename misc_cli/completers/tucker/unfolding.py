"""Products, Gram matrices and leading vectors of T_(2) = [A_(2), S], the item-mode unfolding.

T = [A; S]: the votes, sparse, and the slice, dense, the loop's extra worker. T_(2) has a row per
item and a column per worker (the slice last) and class. A block of votes and its rows of the slice
give partial sums as long as the columns, which are few; so this runs on any engine. A product with
T_(2) costs one multiplication per vote and rank; no unfolding is ever made dense.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from inspect import signature
from typing import Any

import numpy as np
import scipy.sparse as sp

from misc_cli.data.types import Floats
from misc_cli.data.votes import LabelTensor
from misc_cli.engines.protocol import SLICE, Block, Engine, RowArrays, Summed, SumOver

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
    return values[::-1][:rank], _fix_signs(vectors[:, ::-1][:, :rank])


def _padded(columns: Floats, rank: int) -> Floats:
    missing = rank - columns.shape[1]
    return np.pad(columns, ((0, 0), (0, missing))) if missing else columns


def _fix_signs(vectors: Floats) -> Floats:
    """Return the columns with signs such that the entry of largest size is positive."""
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0)
    fixed: Floats = vectors * np.where(largest < 0, -1.0, 1.0)
    return fixed


# Below this size a dense eigendecomposition is faster than Lanczos, and needs no start vector.
TINY_SIDE = 128
# With at most this many items, and LONG_SIDE times as many columns, the Gram matrix of the items is
# decomposed (`cf`, rank 40: 7 ms instead of 27).
FEW_ITEMS, LONG_SIDE = 512, 3
# Residual of an eigenpair as a share of its eigenvalue: so small that neither the start vector nor
# the order of sums changes a label. It costs a fifth more products than 1e-6.
LANCZOS_TOLERANCE = 1e-12

GramTimes = Callable[[Floats], Floats]


def product_in_memory(tensor: LabelTensor) -> GramTimes:
    """Return x → T_(2)ᵀ T_(2) x without blocks: a vector is too little work to share out."""
    matrix, n_classes = tensor.votes.matrix, tensor.votes.n_classes
    transposed = tensor.once("transposed", lambda: matrix.T)  # wrapping costs what a product does
    by_class = np.ascontiguousarray(tensor.slice.T)  # three times as fast as along a short axis

    def product(x: Floats) -> Floats:
        of_items = matrix @ x[:-n_classes]
        of_items += x[-n_classes:] @ by_class
        return np.concatenate([transposed @ of_items, by_class @ of_items])

    return product


def unfolded(block: Block, rows: RowArrays, table: Floats) -> Floats:
    """Return the block's rows of T_(2) @ table, (n_block_items, r); table (n_columns, r)."""
    of_slice = rows[SLICE]
    n_classes = of_slice.shape[1]
    product: Floats = block.matrix @ table[:-n_classes]
    product += of_slice @ table[-n_classes:]
    return product


@dataclass
class UnfoldedSums(Summed):
    """T_(2)ᵀ Y in two parts: of the votes, and of the slice."""

    of_votes: Floats
    of_slice: Floats

    @property
    def columns(self) -> Floats:
        """T_(2)ᵀ Y, ((n_workers + 1) * n_classes, r)."""
        return np.concatenate([self.of_votes, self.of_slice])


def _gram_product(block: Block, rows: RowArrays, table: Floats) -> UnfoldedSums:
    """Return T_(2)ᵀ T_(2) @ table; the table may be a vector."""
    product = unfolded(block, rows, table)
    return UnfoldedSums(block.matrix.T @ product, rows[SLICE].T @ product)


@dataclass(frozen=True)
class TimesTable:
    """Write T_(2) @ table as rows of this name."""

    table: Floats
    name: str

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, int]:
        return {self.name: unfolded(block, rows, self.table)}, 0


def _slice_product(block: Block, rows: RowArrays) -> UnfoldedSums:
    """Return T_(2)ᵀ S, ((n_workers + 1) * n_classes, n_classes)."""
    of_slice = rows[SLICE]
    return UnfoldedSums(block.matrix.T @ of_slice, of_slice.T @ of_slice)


def _slice_gram(block: Block, rows: RowArrays) -> Floats:
    """Return Sᵀ S, (n_classes, n_classes)."""
    gram: Floats = rows[SLICE].T @ rows[SLICE]
    return gram


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

    def slice_gram(self) -> Floats:
        return self.engine.sweep(SumOver(_slice_gram))

    def squared_norm(self, slice_gram: Floats) -> float:
        """Return ‖T‖², all entries squared and summed; every vote is a one."""
        return self.engine.n_votes + float(np.trace(slice_gram))

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
        return self.engine.sweep(SumOver(partial(_gram_product, table=table))).columns

    def projected_basis(self, rank: int, seed: int) -> Floats:
        """Return T_(2)ᵀ U, (n_columns, rank), U the leading left singular vectors of T_(2).

        That is V σ, so only the Gram matrix of the columns is needed. It is formed if it is tiny;
        otherwise Lanczos, from a seeded vector, only multiplies by it.
        """
        side, n_items = self.n_columns, self.shape[1]
        if self.in_memory is not None and n_items <= min(FEW_ITEMS, side // LONG_SIDE):
            return self._from_items(self.in_memory, rank)
        if side <= max(TINY_SIDE, 2 * rank):
            values, vectors = leading_eigenvectors(self._column_gram(), rank)
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

    def _column_gram(self) -> Floats:
        """Return T_(2)ᵀ @ T_(2), (n_columns, n_columns)."""
        of_votes = self._once("column gram", lambda: self.engine.sweep(SumOver(_votes_gram)))
        with_slice = self.engine.sweep(SumOver(_slice_product)).columns
        return np.block([[of_votes, with_slice[: len(of_votes)]], [with_slice.T]])

    def _lanczos(self, rank: int, seed: int) -> tuple[Floats, Floats]:
        # imported here: runs without a completer load this module, and scipy.linalg is slow
        from scipy.sparse.linalg import LinearOperator, eigsh

        whole = self.in_memory
        times = self.gram_times if whole is None else product_in_memory(whole)

        def product(x: Floats) -> Floats:
            return times(x.ravel())

        side = self.n_columns
        operator = LinearOperator((side, side), matvec=product, dtype=np.float64)
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
