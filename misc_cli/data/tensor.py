"""The label tensor: sparse votes of the workers and one dense slice, the loop's extra worker.

Modes are 1 workers, 2 items, 3 classes (the paper's order). The item-mode unfolding is T_(2) =
[A_(2), S], (n_items, (n_workers + 1) * n_classes): the votes' CSR matrix, and the slice as its last
n_classes columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from misc_cli.data.types import Floats
from misc_cli.data.votes import SparseVotes

T = TypeVar("T")


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
        """Return the tensor of the next pass: same votes, same cache, another slice."""
        return replace(self, slice=new_slice)

    def once(self, name: str, compute: Callable[[], T]) -> T:
        """Return a value that depends on the votes alone, computed once for all passes."""
        if name not in self.cache:
            self.cache[name] = compute()
        value: T = self.cache[name]
        return value

    @property
    def squared_norm(self) -> float:
        """‖T‖², all entries squared and summed."""
        votes = self.once("squared norm", lambda: float(np.square(self.votes.matrix.data).sum()))
        return votes + float(np.square(self.slice).sum())
