"""Completed tensors held as factors: Tucker's, and CP's, which is Tucker with a diagonal core."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from misc_cli.data.types import Floats
from misc_cli.data.votes import LabelCodes, Rows

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
        """Return the argmax of each fibre, (n_block_items, n_workers + 1).

        The first of tied classes wins. A fibre of zeros takes the label of its item in the
        completed slice.
        """
        workers = self.workers if directions is None else directions
        # (n_classes, n_block_items, R1): item rows times the core
        items = np.moveaxis(np.tensordot(self.items[rows], self.mixer, axes=1), 2, 0)
        best = np.zeros((items.shape[1], len(workers)), dtype=np.min_scalar_type(len(items) - 1))
        # class by class: two matrices in cache instead of one array with a short last axis
        top = items[0] @ workers.T
        for code in range(1, len(items)):
            value = items[code] @ workers.T
            # codes only rise, so a maximum replaces the (slower) masked assignment
            lead = (value > top).astype(best.dtype)
            lead *= best.dtype.type(code)
            np.maximum(best, lead, out=best)
            np.maximum(top, value, out=top)
        item, worker = np.nonzero(np.abs(top) <= NOTHING)
        if len(item):
            fibres = np.einsum("ckr,kr->kc", items[:, item], workers[worker])
            empty = (np.abs(fibres) <= NOTHING).all(axis=1)
            of_slice = self.slice[rows].argmax(axis=1)
            best[item[empty], worker[empty]] = of_slice[item[empty]]
        return best
