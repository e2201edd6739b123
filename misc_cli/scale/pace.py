"""How many iterations a fit will take, from how fast its changes shrink: for the time left."""

from __future__ import annotations

import math
from dataclasses import replace

from misc_cli.data.types import Iteration, OnIteration

# Changes so many iterations apart tell the rate at which they shrink.
APART = 4


class Expecting:
    """Passes iterations on with how many there will be of their stage, as far as one can tell.

    EM's changes shrink at a rate that hardly varies once it has begun, and it never takes more than
    `max_iter`.
    """

    def __init__(self, forward: OnIteration, tol: float, max_iter: int) -> None:
        self.forward, self.tol, self.max_iter = forward, tol, max_iter
        self.stage, self.changes = "", [0.0]

    def __call__(self, iteration: Iteration) -> None:
        if iteration.stage != self.stage:
            self.stage, self.changes = iteration.stage, []
        self.changes.append(iteration.change or 0.0)
        if "of" not in iteration.extra and iteration.change is not None:
            of = max(self._expected(iteration.iteration), iteration.iteration)
            iteration = replace(iteration, extra={**iteration.extra, "of": of})
        self.forward(iteration)

    def _expected(self, done: int) -> int:
        if len(self.changes) <= APART or self.tol <= 0.0:
            return self.max_iter
        before, now = self.changes[-1 - APART], self.changes[-1]
        if not 0.0 < now < before:
            return self.max_iter
        left = APART * math.log(now / self.tol) / math.log(before / now)
        return min(self.max_iter, done + math.ceil(max(left, 0.0)))
