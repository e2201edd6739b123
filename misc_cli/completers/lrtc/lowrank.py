"""Tensors that are low rank plus sparse, and products with their worker and item unfoldings.

    X[w, i, c] = Σ_r near.rows[w, r] · near.columns[i, c, r]       low rank by workers
               + Σ_r far.rows[i, r] · far.columns[w, c, r]         low rank by items
               + corrections[c, f] where (w, i) is fibre f         sparse

Exchanging near and far exchanges workers and items: one set of products serves both unfoldings.
Nothing here is as large as the tensor; q vectors cost O(nnz · K · q) for the sparse part and
O((n_workers + n_items) · K · rank · q) for the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from misc_cli.completers.label_matrix import NOTHING
from misc_cli.completers.observed import Observed, labelled_fibres
from misc_cli.data.types import Codes, Floats
from misc_cli.data.votes import LabelCodes, Rows

# Fibres whose factor rows are gathered at a time.
FIBRES_AT_ONCE = 1 << 14


@dataclass(frozen=True)
class LowRank:
    """An unfolding n × (m · n_classes) of rank R: rows (n, R), columns (m, n_classes, R)."""

    rows: Floats
    columns: Floats

    @property
    def rank(self) -> int:
        return int(self.rows.shape[1])

    def plus(self, other: LowRank, drop: float) -> LowRank:
        """Return the sum without singular values below `drop`."""
        if other.rank == 0:
            return self
        basis, mixing = np.linalg.qr(np.hstack([self.rows, other.rows]))
        columns = np.concatenate([self.columns, other.columns], axis=2) @ mixing.T
        flat = columns.reshape(-1, columns.shape[2])
        squares, vectors = np.linalg.eigh(flat.T @ flat)
        vectors = vectors[:, squares > drop**2]
        return LowRank(basis @ vectors, columns @ vectors)

    def times_classes(self, class_map: Floats) -> LowRank:
        """Return the tensor with every fibre multiplied by a map (n_classes, n_classes)."""
        return LowRank(self.rows, np.einsum("dc,mcr->mdr", class_map, self.columns, optimize=True))


@dataclass(frozen=True)
class Fibres:
    """The F corrected fibres: pattern CSR (n_items, n_workers + 1), items and workers (F,)."""

    pattern: sp.csr_array
    items: Codes
    workers: Codes

    def matrix(self, values: Floats) -> sp.csr_array:
        """Return CSR (n_items, n_workers + 1) of the values of one class, (F,)."""
        return sp.csr_array(
            (values, self.pattern.indices, self.pattern.indptr), shape=self.pattern.shape
        )


@dataclass(frozen=True)
class LowRankPlusSparse:
    """The tensor X at the head of this file; `corrections` is (n_classes, F)."""

    near: LowRank
    far: LowRank
    corrections: Floats
    fibres: Fibres

    def unfoldings(self) -> tuple[ModeUnfolding, ModeUnfolding]:
        """Return the unfoldings by workers, (n_workers + 1) × ..., and by items, n_items × ...."""
        by_item = [self.fibres.matrix(values) for values in self.corrections]
        by_worker = [matrix.T.tocsr() for matrix in by_item]
        return ModeUnfolding(self.near, self.far, by_worker), ModeUnfolding(
            self.far, self.near, by_item
        )

    def low_rank_on_fibres(self) -> Floats:
        """Return the low-rank part at the fibres, (n_classes, F)."""
        out: Floats = np.empty(self.corrections.shape)
        for start in range(0, out.shape[1], FIBRES_AT_ONCE):
            part = slice(start, start + FIBRES_AT_ONCE)
            items, workers = self.fibres.items[part], self.fibres.workers[part]
            out[:, part] = np.einsum(
                "fr,fcr->cf", self.near.rows[workers], self.near.columns[items]
            )
            out[:, part] += np.einsum("fr,fcr->cf", self.far.rows[items], self.far.columns[workers])
        return out

    def class_gram(self, low_rank_on_fibres: Floats) -> Floats:
        """Return Σ_{w, i} X[w, i, c] · X[w, i, d], (n_classes, n_classes)."""
        near, far = self.near, self.far
        gram = _own_gram(near) + _own_gram(far)
        across = np.einsum("icr,iq->crq", near.columns, far.rows, optimize=True)
        back = np.einsum("wr,wdq->drq", near.rows, far.columns, optimize=True)
        cross = np.einsum("crq,drq->cd", across, back, optimize=True)
        corrected = low_rank_on_fibres + self.corrections
        gram += cross + cross.T
        gram += corrected @ corrected.T - low_rank_on_fibres @ low_rank_on_fibres.T
        return gram


def _own_gram(part: LowRank) -> Floats:
    """Return the class Gram matrix of one low-rank part, (n_classes, n_classes)."""
    weighted = part.columns @ (part.rows.T @ part.rows)
    gram: Floats = np.einsum("mcr,mdr->cd", weighted, part.columns, optimize=True)
    return gram


@dataclass(frozen=True)
class ModeUnfolding:
    """An unfolding of X, n × (m · n_classes); `sparse` holds one n × m matrix per class."""

    near: LowRank
    far: LowRank
    sparse: list[sp.csr_array]

    @property
    def shape(self) -> tuple[int, int]:
        m, n_classes, _ = self.near.columns.shape
        return len(self.near.rows), m * n_classes

    def times(self, vectors: Floats) -> Floats:
        """Return the unfolding times (m, n_classes, q), (n, q)."""
        near, far = self.near, self.far
        m, n_classes, q = vectors.shape
        flat = vectors.reshape(m * n_classes, q)
        out: Floats = near.rows @ (near.columns.reshape(m * n_classes, -1).T @ flat)
        mixed: Floats = (far.rows.T @ vectors.reshape(m, n_classes * q)).reshape(-1, n_classes, q)
        mixed = mixed.transpose(1, 0, 2).reshape(-1, q)
        out += far.columns.reshape(len(out), -1) @ mixed
        for code, matrix in enumerate(self.sparse):
            out += matrix @ np.ascontiguousarray(vectors[:, code])
        return out

    def transposed_times(self, vectors: Floats) -> Floats:
        """Return the transposed unfolding times (n, q), (m, n_classes, q)."""
        near, far = self.near, self.far
        m, n_classes, _ = near.columns.shape
        n, q = vectors.shape
        out: Floats = near.columns @ (near.rows.T @ vectors)
        mixed: Floats = (far.columns.reshape(n, -1).T @ vectors).reshape(n_classes, -1, q)
        mixed = mixed.transpose(1, 0, 2).reshape(-1, n_classes * q)
        out += (far.rows @ mixed).reshape(m, n_classes, q)
        for code, matrix in enumerate(self.sparse):
            out[:, code] += matrix.T @ vectors
        return out


@dataclass(frozen=True)
class LowRankCompletion:
    """A completed tensor, low rank plus sparse; workers have no single direction."""

    tensor: LowRankPlusSparse

    @property
    def directions(self) -> None:
        return None

    @cached_property
    def slice(self) -> Floats:
        whole = slice(0, self.tensor.far.rows.shape[0])
        columns = [self._entries(whole, code, slice(-1, None)) for code in range(self._n_classes)]
        return np.hstack(columns)

    def label_rows(self, rows: Rows, directions: Floats | None = None) -> LabelCodes:
        """Return the argmax of each fibre, (n_block_items, n_workers + 1); ties: the first class.

        A fibre of zeros takes the label of its item in the completed slice.
        """
        everyone = slice(None)
        top = self._entries(rows, 0, everyone)
        nothing = np.abs(top) <= NOTHING
        best = np.zeros(top.shape, dtype=np.min_scalar_type(self._n_classes - 1))
        for code in range(1, self._n_classes):
            value = self._entries(rows, code, everyone)
            nothing &= np.abs(value) <= NOTHING
            np.copyto(best, best.dtype.type(code), where=value > top)
            np.maximum(top, value, out=top)
        if nothing.any():
            of_slice = self.slice[rows].argmax(axis=1).astype(best.dtype)
            best = np.where(nothing, of_slice[:, None], best)
        return best

    @property
    def _n_classes(self) -> int:
        return int(self.tensor.corrections.shape[0])

    @cached_property
    def _corrections(self) -> list[sp.csr_array]:
        return [self.tensor.fibres.matrix(values) for values in self.tensor.corrections]

    def _entries(self, rows: Rows, code: int, workers: Rows) -> Floats:
        """Return the entries of one class of these items and workers, (n_items, n_workers)."""
        near, far = self.tensor.near, self.tensor.far
        entries: Floats = near.columns[rows, code] @ near.rows[workers].T
        entries += far.rows[rows] @ far.columns[workers, code].T
        entries += self._corrections[code][rows].toarray()[:, workers]
        return entries


def on_fibres(observed: Observed) -> tuple[Fibres, Floats, npt.NDArray[np.bool_]]:
    """Return the labelled fibres (the slice's column last), T there, and True where observed.

    T and the mask are (n_classes, F).
    """
    n_items, n_classes = observed.slice.shape
    marks = labelled_fibres(observed.pattern, observed.n_slots)
    pattern = sp.hstack([marks, sp.csr_array(np.ones((n_items, 1)))], format="csr")
    pattern.sort_indices()
    items = _row_of_each(pattern)
    fibres = Fibres(pattern, items, pattern.indices.astype(np.int32))
    keys = items.astype(np.int64) * pattern.shape[1] + fibres.workers

    def place(matrix: sp.csr_array, per_worker: int) -> npt.NDArray[np.int64]:
        workers = matrix.indices // per_worker
        return np.searchsorted(keys, _row_of_each(matrix) * np.int64(pattern.shape[1]) + workers)

    targets = np.zeros((n_classes, len(keys)))
    targets[observed.values.indices % n_classes, place(observed.values, n_classes)] = (
        observed.values.data
    )
    is_slice = fibres.workers == observed.n_workers
    targets[:, is_slice] = observed.slice.T
    if observed.n_slots == 1:
        return fibres, targets, np.ones(targets.shape, dtype=bool)
    known = np.broadcast_to(is_slice, targets.shape).copy()
    known[observed.pattern.indices % n_classes, place(observed.pattern, n_classes)] = True
    return fibres, targets, known


def _row_of_each(matrix: sp.csr_array) -> Codes:
    rows = np.arange(matrix.shape[0], dtype=np.int32)
    return np.repeat(rows, np.diff(matrix.indptr))
