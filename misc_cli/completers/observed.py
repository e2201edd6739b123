"""Observed entries of the label tensor, for tenals and lrtc.

`fibres`: all entries of a labelled fibre are observed, one 1 and n_classes − 1 zeros.
`ones`:   only the 1 is observed (the paper's Section 2).
The slice is observed everywhere in both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from misc_cli.data.types import Floats
from misc_cli.data.votes import LabelTensor


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
