"""A completed tensor held as factors: Tucker's, and CP's, which is Tucker with a diagonal core."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from misc_cli.types import Floats
from misc_cli.votes import LabelCodes, Rows

# Entries of a label tensor are of order one: a fibre this small is zero but for rounding.
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
        """The argmax of each fibre, (n_block_items, n_workers + 1).

        The first of tied classes wins; a fibre that is zero throughout says nothing about its
        worker, so it takes the completed slice's label of its item.
        """
        block = self.items[rows]
        workers = self.workers if directions is None else directions
        n_classes = self.mixer.shape[2]
        best = np.zeros((len(block), len(workers)), dtype=np.min_scalar_type(n_classes - 1))
        # class by class: two matrices in cache instead of one array with a short last axis
        top = block @ (self.mixer[:, :, 0] @ workers.T)
        nothing = np.abs(top) <= NOTHING
        for code in range(1, n_classes):
            value = block @ (self.mixer[:, :, code] @ workers.T)
            nothing &= np.abs(value) <= NOTHING
            higher = value > top
            np.copyto(best, best.dtype.type(code), where=higher)
            np.maximum(top, value, out=top)
        if nothing.any():
            of_slice = self.slice[rows].argmax(axis=1).astype(best.dtype)
            best = np.where(nothing, of_slice[:, None], best)
        return best
