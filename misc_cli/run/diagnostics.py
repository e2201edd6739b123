"""Record a run iteration by iteration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from misc_cli.data.types import Codes, Iteration, OnIteration, ignore_iteration
from misc_cli.quality.evaluation import expected_error

Record = dict[str, Any]


class Recorder:
    """Keeps one plain record per iteration, with the error in % where truth is known."""

    def __init__(self, truth: Codes | None = None, forward: OnIteration = ignore_iteration) -> None:
        self.records: list[Record] = []
        self.truth = truth
        self.forward = forward

    def judged(self, iteration: Iteration) -> Iteration:
        """Return the line with the error in place of the posteriors, where truth is known."""
        extra = dict(iteration.extra)
        if self.truth is not None and iteration.posteriors is not None:
            extra["error"] = round(100.0 * expected_error(iteration.posteriors, self.truth), 6)
        return replace(iteration, posteriors=None, extra=extra)

    def __call__(self, iteration: Iteration) -> None:
        self.records.append(
            {
                "stage": iteration.stage,
                "pass": iteration.pass_number,
                "iteration": iteration.iteration,
                "objective": iteration.objective,
                "change": iteration.change,
                "seconds": round(iteration.seconds, 6),
                **self.judged(iteration).extra,
            }
        )
        self.forward(iteration)


def iterations_by_stage(records: Sequence[Record]) -> dict[str, int]:
    """Count the iterations of each stage."""
    counts: dict[str, int] = {}
    for record in records:
        counts[record["stage"]] = counts.get(record["stage"], 0) + 1
    return counts


def strict(value: Any) -> Any:
    """Return the value for strict JSON: no NaN or infinity, no numpy, no tuples."""
    if isinstance(value, dict):
        return {str(key): strict(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [strict(entry) for entry in value]
    if hasattr(value, "tolist"):
        return strict(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
