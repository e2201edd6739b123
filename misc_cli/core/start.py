"""What is known of workers before their answers are looked at: a warm start, or a prior."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from misc_cli.core.votes import Floats


@dataclass(frozen=True)
class Start:
    """Where a method may begin instead of at the votes, and what it may add to them.

    confusions     (n_workers, K, K): where an earlier fit ended; workers it did not know have the
                   crowd's. None: begin at the votes
    class_prior    (K,): of the same fit
    known          (n_workers,): whether the earlier fit knew the worker
    workers        name → (n_workers, ...): the method's own parameters then, zeros where unknown
    shared         name → its own parameters that belong to no worker
    pseudo_counts  (n_workers, K, K): answers [worker, true, observed] that count beside the real
    """

    confusions: Floats | None = None
    class_prior: Floats | None = None
    known: Any = None
    workers: Mapping[str, Floats] = field(default_factory=dict)
    shared: Mapping[str, Floats] = field(default_factory=dict)
    pseudo_counts: Floats | None = None

    @property
    def prior_only(self) -> Start | None:
        """Without what the answers themselves taught: for those of whom some are hidden."""
        if self.pseudo_counts is None:
            return None
        return Start(pseudo_counts=self.pseudo_counts)


def with_prior(start: Start | None, pseudo_counts: Floats | None) -> Start | None:
    """A start, warm or not, that also has these pseudo-answers."""
    if pseudo_counts is None:
        return start
    return replace(start or Start(), pseudo_counts=pseudo_counts)


def aligned(values: Floats, where: Any, n_workers: int) -> Floats:
    """Rows of earlier workers at their place of today, (n_workers, ...); zeros for the others.

    `where` (n_earlier,) is each earlier worker's row of today, -1 if it is gone.
    """
    rows = np.zeros((n_workers, *values.shape[1:]))
    here = where >= 0
    rows[where[here]] = values[here]
    return rows
