"""Completed tensors held as factors, and the label matrix that a completed tensor gives.

The matrix is exact if it fits; else workers are merged into prototypes.

The completed labels of a worker depend only on the direction of its factor row. Workers of equal
direction therefore share one column, weighted by their number, exactly. If there are still too
many, workers of nearby directions share a column, approximately.

What tenals and lrtc observe of the label tensor (`Observed`): with `fibres` all entries of a
labelled fibre, one 1 and n_classes − 1 zeros; with `ones` only the 1 (the paper's Section 2). The
slice is observed everywhere in both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from misc_cli.data import resources
from misc_cli.data.resources import map_in_order
from misc_cli.data.types import Codes, Completion, Floats
from misc_cli.data.votes import DenseVotes, LabelCodes, LabelTensor, Rows
from misc_cli.errors import ConfigError

# The values of one class of a block should fit the second-level cache.
BLOCK_CELLS = 1 << 15
# Unit vectors closer than this in every coordinate are one direction, up to rounding.
SAME_DIRECTION = 1e-9

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

    @property
    def directions(self) -> Floats:
        return self.workers

    @cached_property
    def slice(self) -> Floats:
        # contract with the slice's row first: (R2, K) instead of (n_items, R1, K)
        completed: Floats = self.items @ np.einsum("r,qrc->qc", self.workers[-1], self.mixer)
        return completed

    def label_rows(self, rows: Rows, directions: Floats | None = None) -> LabelCodes:
        """Return the argmax of each fibre, (n_block_items, n_workers + 1); see `top_classes`."""
        workers = self.workers if directions is None else directions
        # (n_classes, n_block_items, R1): item rows times the core
        items = np.moveaxis(np.tensordot(self.items[rows], self.mixer, axes=1), 2, 0)
        return top_classes(lambda code: items[code] @ workers.T, self.slice[rows])


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
    *,
    max_cells: int,
    gold: Codes | None = None,
) -> DenseVotes:
    """Return the argmax of every fibre as votes; at most `max_cells` cells.

    `shape` is (n_workers + 1, n_items, n_classes); the columns are fewer if workers were merged.
    The last column, the slice's, has the known classes of `gold`.
    """
    n_workers, n_items, n_classes = shape
    directions: Floats | None = None
    weights: Floats | None = None
    if n_workers * n_items > max_cells:
        directions, weights = _merged(completion, shape, max_cells)
        n_workers = len(weights)
    code_type = np.min_scalar_type(n_classes - 1)
    resources.require(
        n_workers * n_items * code_type.itemsize,
        f"the completed label matrix of {n_items} items × {n_workers} workers",
        f"lower --max-cells (now {max_cells}) to merge similar workers",
    )
    matrix = np.empty((n_items, n_workers), dtype=code_type)
    _ = completion.slice  # computed here once, not by every thread that meets an empty fibre

    def fill(rows: Rows) -> None:
        matrix[rows] = completion.label_rows(rows, directions)

    size = max(1, BLOCK_CELLS // n_workers)
    starts = range(0, n_items, size)
    for _ in map_in_order(fill, [slice(s, min(s + size, n_items)) for s in starts]):
        pass
    if gold is not None:
        matrix[:, -1] = np.where(gold >= 0, gold, matrix[:, -1])
    return DenseVotes(matrix, n_classes, weights)


def _merged(
    completion: Completion, shape: tuple[int, int, int], max_cells: int
) -> tuple[Floats, Floats]:
    """Return directions and weights of prototypes that keep the matrix within `max_cells`.

    They are the mean direction and the size of each group, (n_groups + 1, R) and (n_groups + 1,);
    the slice, with weight 1, is the last.
    """
    n_workers, n_items, _ = shape
    directions, at_most = completion.directions, max_cells // n_items - 1
    if directions is None or at_most < 1:
        cells = n_workers * n_items
        least = cells if directions is None else 2 * n_items
        raise ConfigError(
            f"the completed label matrix has {cells} cells, more than --max-cells {max_cells}, and "
            f"workers cannot be merged so far; give --max-cells {least}, or --final answers"
        )
    group = group_directions(directions[:-1], at_most)
    lengths = np.linalg.norm(directions, axis=1, keepdims=True)
    units = directions / np.where(lengths > 0, lengths, 1.0)
    sizes = np.bincount(group).astype(np.float64)
    sums = np.stack([np.bincount(group, column) for column in units[:-1].T], axis=1)
    return np.vstack([sums / sizes[:, None], units[-1:]]), np.append(sizes, 1.0)


def group_directions(vectors: Floats, at_most: int) -> npt.NDArray[np.intp]:
    """Return the group of each row of `vectors` (n, R), (n,) codes; at most `at_most` groups.

    Equal directions always share a group. If those are too many, unit vectors are rounded to the
    finest grid that leaves at most `at_most` distinct ones.
    """
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = vectors / np.where(lengths > 0, lengths, 1.0)
    group = _round_to_grid(units, SAME_DIRECTION)
    if group.max(initial=-1) < at_most:
        return group
    # coordinates lie in [-1, 1]: a step of 4 puts all of them in one cell
    fine, coarse = np.log2(SAME_DIRECTION), 2.0
    group = _round_to_grid(units, 2.0**coarse)
    while coarse - fine > 0.01:
        middle = (coarse + fine) / 2
        tried = _round_to_grid(units, 2.0**middle)
        if tried.max() < at_most:
            coarse, group = middle, tried
        else:
            fine = middle
    return group


def _round_to_grid(units: Floats, step: float) -> npt.NDArray[np.intp]:
    """Return codes of the distinct rows after rounding to multiples of `step`, (n,)."""
    _, group = np.unique(np.rint(units / step), axis=0, return_inverse=True)
    return group.reshape(-1)


@dataclass(frozen=True)
class Observed:
    """Observed entries of a tensor (n_workers + 1) × n_items × n_classes, of any real values.

    values   CSR (n_items, n_workers * n_classes): the observed entries that are not zero
    pattern  CSR (n_items, n_workers * n_slots) of ones, the marks: a mark covers a whole fibre
             (n_slots = 1) or one entry (n_slots = n_classes)
    slice    (n_items, n_classes): the last worker, observed everywhere
    """

    values: sp.csr_array
    pattern: sp.csr_array
    slice: Floats

    @property
    def n_items(self) -> int:
        return int(self.slice.shape[0])

    @property
    def n_classes(self) -> int:
        return int(self.slice.shape[1])

    @property
    def n_workers(self) -> int:
        return int(self.values.shape[1]) // self.n_classes

    @property
    def n_slots(self) -> int:
        return int(self.pattern.shape[1]) // self.n_workers

    @property
    def squared_norm(self) -> float:
        return float(np.square(self.values.data).sum() + np.square(self.slice).sum())


def observe(tensor: LabelTensor, which: str) -> Observed:
    """Return the observed entries of a label tensor; `which` is "fibres" or "ones"."""
    votes = tensor.votes
    pattern = (
        tensor.once("labelled fibres", lambda: labelled_fibres(votes.matrix, votes.n_classes))
        if which == "fibres"
        else votes.matrix
    )
    return Observed(votes.matrix, pattern, tensor.slice)


def labelled_fibres(values: sp.csr_array, n_classes: int) -> sp.csr_array:
    """Return CSR (n_items, n_workers) with a one for each fibre that has an entry in `values`."""
    shape = (values.shape[0], values.shape[1] // n_classes)
    fibres = sp.csr_array(
        (np.ones(values.nnz), values.indices // n_classes, values.indptr.copy()), shape=shape
    )
    fibres.sum_duplicates()  # in place, hence the copy of the row pointers
    fibres.data = np.ones(fibres.nnz)
    return fibres
