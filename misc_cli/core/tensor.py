"""The label tensor: sparse votes of the workers plus one dense slice, the loop's extra worker.

Modes are 1 workers, 2 items, 3 classes (the paper's order). Everything goes through the item-mode
unfolding T_(2) = [A_(2), S], (n_items, (n_workers + 1) * n_classes), whose left part is the votes'
CSR matrix and whose last n_classes columns are the slice: products with it cost one multiplication
per vote and rank, and no unfolding is ever made dense: at most the Gram matrix of a tiny side is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from misc_cli.core.parallel import map_in_order
from misc_cli.core.types import Floats
from misc_cli.core.votes import Rows, SparseVotes

T = TypeVar("T")

# Below this size a dense eigendecomposition beats Lanczos, and needs no start vector.
TINY_SIDE = 128
# Residual of an eigenpair as a share of its eigenvalue. The basis only starts the iteration.
LANCZOS_TOLERANCE = 1e-6
# Singular values below this share of the largest are rounding: their directions mean nothing.
NULL_SHARE = 1e-10
NULL_SHARE_OF_GRAM = 1e-6  # roots of eigenvalues, which rounding blurs to about 1e-8


@dataclass(frozen=True)
class LabelTensor:
    """T = [A; S]: (n_workers + 1) × n_items × n_classes, never held as one array.

    votes   A, sparse, one 1 per labelled fibre, unlabelled fibres zero
    slice   S, (n_items, n_classes), the current estimate, dense and real-valued
    """

    votes: SparseVotes
    slice: Floats
    cache: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.votes.n_workers + 1, self.votes.n_items, self.votes.n_classes

    def with_slice(self, new_slice: Floats) -> LabelTensor:
        """The next pass's tensor: same votes, same cache, another slice."""
        return replace(self, slice=new_slice)

    def once(self, name: str, compute: Callable[[], T]) -> T:
        """Something that depends on the votes alone, computed once for all passes and ranks."""
        if name not in self.cache:
            self.cache[name] = compute()
        value: T = self.cache[name]
        return value

    @property
    def squared_norm(self) -> float:
        """‖T‖², all entries squared and summed."""
        votes = self.once("squared norm", lambda: float(np.square(self.votes.matrix.data).sum()))
        return votes + float(np.square(self.slice).sum())

    def unfold_block(self, rows: Rows, table: Floats) -> Floats:
        """These rows of T_(2) @ table, (n_block_items, r); table ((n_workers + 1) * K, r)."""
        n_classes = self.votes.n_classes
        product: Floats = self.votes.block(rows) @ table[:-n_classes]
        product += self.slice[rows] @ table[-n_classes:]
        return product

    def times_columns(self, table: Floats) -> Floats:
        """T_(2) @ table, (n_items, r); table ((n_workers + 1) * n_classes, r)."""
        product = np.empty((self.votes.n_items, table.shape[1]))

        def fill(rows: Rows) -> None:
            product[rows] = self.unfold_block(rows, table)

        for _ in map_in_order(fill, self.votes.blocks):
            pass
        return product

    def times_items(self, items: Floats) -> Floats:
        """T_(2)ᵀ @ items, ((n_workers + 1) * n_classes, r); items (n_items, r)."""
        votes = self.votes
        total = np.zeros(((votes.n_workers + 1) * votes.n_classes, items.shape[1]))
        of_workers = total[: -votes.n_classes]
        for part in map_in_order(lambda rows: votes.block(rows).T @ items[rows], votes.blocks):
            of_workers += part
        total[-votes.n_classes :] = self.slice.T @ items
        return total

    def class_gram(self) -> Floats:
        """T_(3) @ T_(3)ᵀ, (n_classes, n_classes)."""
        return self.once("class gram", lambda: _class_gram(self.votes)) + self.slice.T @ self.slice

    def class_basis(self, rank: int) -> Floats:
        """The leading left singular vectors of T_(3), (n_classes, rank)."""
        n_classes = self.votes.n_classes
        if rank >= n_classes:
            return np.eye(n_classes)  # any basis of the whole space will do
        return _leading_eigenvectors(self.class_gram(), rank)[1]

    def item_basis(self, rank: int, seed: int = 0) -> Floats:
        """The leading left singular vectors of T_(2), (n_items, rank): Algorithm 1, mode 2.

        Through the shorter side of T_(2): eigenvectors of its Gram matrix, which is formed if it
        is tiny and otherwise only ever multiplied by (Lanczos, started at a seeded vector).
        """
        n_columns = (self.votes.n_workers + 1) * self.votes.n_classes
        n_items = self.votes.n_items
        by_items = n_items <= n_columns
        side = min(n_items, n_columns)
        if side <= max(TINY_SIDE, 2 * rank):
            gram = self._item_gram() if by_items else self._column_gram()
            values, vectors = _leading_eigenvectors(gram, rank)
        else:
            # not at the top: a run without a completer loads this module, and scipy.linalg is slow
            from scipy.sparse.linalg import LinearOperator, eigsh

            def gram_product(x: Floats) -> Floats:
                return self._gram_product(x.ravel(), by_items)

            operator = LinearOperator((side, side), matvec=gram_product, dtype=np.float64)
            random = np.random.default_rng(seed)
            start = random.standard_normal(side)
            # ARPACK draws anew when it has exhausted a tensor of lower rank; since scipy 1.17 it
            # asks whom to draw from
            source: dict[str, Any] = {"rng": random} if "rng" in signature(eigsh).parameters else {}
            values, vectors = eigsh(
                operator, k=rank, v0=start, tol=LANCZOS_TOLERANCE, maxiter=100 * side, **source
            )
            values, vectors = values[::-1], _fix_signs(vectors[:, ::-1])
        inverse = _inverse_or_zero(np.sqrt(np.maximum(values, 0.0)), floor=NULL_SHARE_OF_GRAM)
        if by_items:
            return vectors * (inverse > 0)
        return self.times_columns(vectors * inverse)

    def _item_gram(self) -> Floats:
        """T_(2) @ T_(2)ᵀ, (n_items, n_items)."""
        matrix = self.votes.matrix
        of_votes: Floats = self.once("item gram", lambda: (matrix @ matrix.T).toarray())
        return of_votes + self.slice @ self.slice.T

    def _column_gram(self) -> Floats:
        """T_(2)ᵀ @ T_(2), both sides (n_workers + 1) * n_classes long."""
        of_votes = self.once("column gram", lambda: _column_gram(self.votes))
        with_slice = self.times_items(self.slice)
        return np.block([[of_votes, with_slice[: len(of_votes)]], [with_slice.T]])

    def _gram_product(self, x: Floats, by_items: bool) -> Floats:
        """T_(2) T_(2)ᵀ x or T_(2)ᵀ T_(2) x: a vector is too little work to share out in blocks."""
        matrix, n_classes = self.votes.matrix, self.votes.n_classes
        transposed = self.once("transposed", lambda: matrix.T)  # wrapping costs what a product does
        product: Floats
        if by_items:
            product = matrix @ (transposed @ x) + self.slice @ (self.slice.T @ x)
        else:
            of_items = matrix @ x[:-n_classes] + self.slice @ x[-n_classes:]
            product = np.concatenate([transposed @ of_items, self.slice.T @ of_items])
        return product


def leading_left(matrix: Floats, rank: int) -> Floats:
    """The leading left singular vectors, (n_rows, rank); zero columns where there are none.

    A zero column is as good as the arbitrary vector an SVD would give for a zero singular value,
    and it is the same on every machine.
    """
    tall = matrix.shape[0] > matrix.shape[1]
    return _project(matrix, _triangle(matrix) if tall else matrix, rank)


def leading_left_of_items(tensor: LabelTensor, table: Floats, rank: int) -> Floats:
    """The leading left singular vectors of T_(2) @ table, (n_items, rank), block by block.

    Each block leaves a small triangle; the triangles' stack has the singular values and right
    vectors of the whole, at full precision (no squaring), and U = Y V / σ.
    """
    product = np.empty((tensor.votes.n_items, table.shape[1]))

    def kernel(rows: Rows) -> Floats:
        product[rows] = tensor.unfold_block(rows, table)
        return _triangle(product[rows])

    triangles = np.vstack(list(map_in_order(kernel, tensor.votes.blocks)))
    return _project(product, triangles, rank)


def _project(matrix: Floats, small: Floats, rank: int) -> Floats:
    """U = matrix · V / σ where `small` has the matrix's σ and V."""
    _, values, right = np.linalg.svd(small, full_matrices=False)
    right = _fix_signs(right[:rank].T)
    left: Floats = matrix @ (right * _inverse_or_zero(values[:rank], floor=NULL_SHARE))
    if left.shape[1] < rank:
        left = np.pad(left, ((0, 0), (0, rank - left.shape[1])))
    return left


def _triangle(matrix: Floats) -> Floats:
    """R of the QR decomposition: the same singular values and right vectors as the matrix."""
    return np.asarray(np.linalg.qr(matrix, mode="r"))


def _inverse_or_zero(values: Floats, floor: float) -> Floats:
    kept = values > floor * values.max(initial=0.0)
    inverse: Floats = np.where(kept, 1.0 / np.where(kept, values, 1.0), 0.0)
    return inverse


def _leading_eigenvectors(gram: Floats, rank: int) -> tuple[Floats, Floats]:
    values, vectors = np.linalg.eigh(gram)
    return values[::-1][:rank], _fix_signs(vectors[:, ::-1][:, :rank])


def _fix_signs(vectors: Floats) -> Floats:
    """Each column's entry of largest size becomes positive."""
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0)
    fixed: Floats = vectors * np.where(largest < 0, -1.0, 1.0)
    return fixed


def _column_gram(votes: SparseVotes) -> Floats:
    """A_(2)ᵀ @ A_(2), block by block: how often two answers meet on an item."""
    gram: Floats = np.zeros((votes.matrix.shape[1], votes.matrix.shape[1]))

    def kernel(rows: Rows) -> Floats:
        block = votes.block(rows)
        return np.asarray((block.T @ block).toarray())

    for partial in map_in_order(kernel, votes.blocks):
        gram += partial
    return gram


def _class_gram(votes: SparseVotes) -> Floats:
    """A_(3) @ A_(3)ᵀ; diagonal unless a worker may give an item several classes."""
    matrix = votes.matrix
    item = np.repeat(np.arange(votes.n_items), np.diff(matrix.indptr))
    worker, code = np.divmod(matrix.indices, votes.n_classes)
    new_fibre = np.append(False, (np.diff(item) != 0) | (np.diff(worker) != 0))[: len(code)]
    fibre = np.cumsum(new_fibre)
    shape = (int(fibre[-1]) + 1 if len(fibre) else 0, votes.n_classes)
    fibres = sp.csr_array((matrix.data, (fibre, code)), shape=shape)
    gram: Floats = (fibres.T @ fibres).toarray()
    return gram
