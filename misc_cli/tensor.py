"""The label tensor: sparse votes of the workers plus one dense slice, the loop's extra worker."""

from __future__ import annotations

from dataclasses import dataclass

from misc_cli.types import Floats
from misc_cli.votes import SparseVotes


@dataclass(frozen=True)
class LabelTensor:
    """T = [A; S]: (n_workers + 1) × n_items × n_classes, never held as one array.

    votes   A, sparse, one 1 per labelled fibre, unlabelled fibres zero
    slice   S, (n_items, n_classes), the current estimate, dense and real-valued
    """

    votes: SparseVotes
    slice: Floats
