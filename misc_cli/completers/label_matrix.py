"""Completed tensors held as factors, and the label matrix that a completed tensor gives.

tenals and lrtc observe (`Observed`) all entries of a labelled fibre, one 1 and n_classes − 1 zeros,
and the slice everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from misc_cli.data import resources
from misc_cli.data.resources import map_in_order
from misc_cli.data.types import Codes, Completion, Floats
from misc_cli.data.votes import DenseVotes, LabelCodes, LabelTensor, Rows

# The values of one class of a block should fit the second-level cache.
BLOCK_CELLS = 1 << 15
# Entries of a label tensor are of order one: a fibre this small is zero up to rounding.
NOTHING = 1e-12


@dataclass(frozen=True)
class FactorCompletion:
    """L[w, i, c] = Σ_r Σ_q workers[w, r] · items[i, q] · mixer[q, r, c].

    workers (n_workers + 1, R1), the slice's row last; items (n_items, R2); mixer (R2, R1, K) is
    the core times the class factor (for CP: mixer[r, r, c] = weight[r] · class_factor[c, r]).
    """

    workers: Floats
    items: Floats
    mixer: Floats

    @cached_property
    def slice(self) -> Floats:
        # contract with the slice's row first: (R2, K) instead of (n_items, R1, K)
        completed: Floats = self.items @ np.einsum("r,qrc->qc", self.workers[-1], self.mixer)
        return completed

    def label_rows(self, rows: Rows) -> LabelCodes:
        """Return the argmax of each fibre, (n_block_items, n_workers + 1); see `top_classes`."""
        # (n_classes, n_block_items, R1): item rows times the core
        items = np.moveaxis(np.tensordot(self.items[rows], self.mixer, axes=1), 2, 0)
        return top_classes(lambda code: items[code] @ self.workers.T, self.slice[rows])


def top_classes(values_of: Callable[[int], Floats], of_slice: Floats) -> LabelCodes:
    """Return the class with the largest value of each fibre, (n_block_items, n_workers).

    `values_of` gives the values of a class: two matrices in cache instead of one array with a short
    last axis. The first of tied classes wins. A fibre of zeros takes the label of its item in
    `of_slice`, (n_block_items, n_classes).
    """
    n_classes = of_slice.shape[1]
    top = values_of(0)
    best = np.zeros(top.shape, dtype=np.min_scalar_type(n_classes - 1))
    for code in range(1, n_classes):
        value = values_of(code)
        # codes only rise, so a maximum replaces the (slower) masked assignment
        lead = (value > top).astype(best.dtype)
        lead *= best.dtype.type(code)
        np.maximum(best, lead, out=best)
        np.maximum(top, value, out=top)
    empty = np.abs(top) <= NOTHING
    if empty.any():
        for code in range(n_classes):
            empty &= np.abs(values_of(code)) <= NOTHING
        item, worker = np.nonzero(empty)
        best[item, worker] = of_slice.argmax(axis=1)[item]
    return best


def completed_matrix(
    completion: Completion,
    shape: tuple[int, int, int],
    gold: Codes | None = None,
) -> DenseVotes:
    """Return the argmax of every fibre as votes.

    `shape` is (n_workers + 1, n_items, n_classes). The last column, the slice's, has the known
    classes of `gold`.
    """
    n_workers, n_items, n_classes = shape
    code_type = np.min_scalar_type(n_classes - 1)
    resources.require(
        n_workers * n_items * code_type.itemsize,
        f"the completed label matrix of {n_items} items × {n_workers} workers",
        "give --final answers, which needs none",
    )
    matrix = np.empty((n_items, n_workers), dtype=code_type)
    _ = completion.slice  # computed here once, not by every thread that meets an empty fibre

    def fill(rows: Rows) -> None:
        matrix[rows] = completion.label_rows(rows)

    size = max(1, BLOCK_CELLS // n_workers)
    starts = range(0, n_items, size)
    for _ in map_in_order(fill, [slice(s, min(s + size, n_items)) for s in starts]):
        pass
    if gold is not None:
        matrix[:, -1] = np.where(gold >= 0, gold, matrix[:, -1])
    return DenseVotes(matrix, n_classes)


@dataclass(frozen=True)
class Observed:
    """Observed entries of a tensor (n_workers + 1) × n_items × n_classes, of any real values.

    values   CSR (n_items, n_workers * n_classes): the observed entries that are not zero
    fibres   CSR (n_items, n_workers), a one for each labelled fibre: all its entries are observed
    slice    (n_items, n_classes): the last worker, observed everywhere
    """

    values: sp.csr_array
    fibres: sp.csr_array
    slice: Floats

    @property
    def squared_norm(self) -> float:
        return float(np.square(self.values.data).sum() + np.square(self.slice).sum())


def observe(tensor: LabelTensor) -> Observed:
    """Return the observed entries of a label tensor."""
    votes = tensor.votes
    fibres = tensor.once("labelled fibres", lambda: labelled_fibres(votes.matrix, votes.n_classes))
    return Observed(votes.matrix, fibres, tensor.slice)


def labelled_fibres(values: sp.csr_array, n_classes: int) -> sp.csr_array:
    """Return CSR (n_items, n_workers) with a one for each fibre that has an entry in `values`."""
    shape = (values.shape[0], values.shape[1] // n_classes)
    fibres = sp.csr_array(
        (np.ones(values.nnz), values.indices // n_classes, values.indptr.copy()), shape=shape
    )
    fibres.sum_duplicates()  # in place, hence the copy of the row pointers
    fibres.data = np.ones(fibres.nnz)
    return fibres
