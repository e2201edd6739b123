"""The result of a run, and the records of its iterations."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from misc_cli.data.posteriors import Decision, decide
from misc_cli.data.types import (
    Codes,
    Floats,
    Iteration,
    Labels,
    OnIteration,
    ignore_iteration,
)
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.protocol import POSTERIORS, TRUTH, AnswerEngine
from misc_cli.engines.views import gathered_engine
from misc_cli.quality.figures import Figure
from misc_cli.run.settings import Methods
from misc_cli.selection.ensemble import FitResult

if TYPE_CHECKING:
    from misc_cli.quality.verdicts import Verdicts
    from misc_cli.quality.worker_dependence import WorkerPairs


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
            from misc_cli.quality.evaluation import expected_error

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


@dataclass(frozen=True)
class RunResult:
    """Result of a run: the fit, its figures, warnings and timings.

    fit      confusions, members, calibration and reasons; its engine holds votes and posteriors
    methods  the methods as they were asked for
    records  one for each iteration
    figures  the numbers that --fail-if can judge
    pairs    the workers two by two
    timings  seconds by stage
    decided  the labels of a run that is read back; None: they follow from the posteriors
    """

    fit: FitResult
    methods: Methods
    records: list[Record]
    figures: dict[str, Figure]
    pairs: WorkerPairs
    timings: dict[str, float] = field(default_factory=dict)
    decided: Decision | None = None

    @property
    def engine(self) -> AnswerEngine:
        """Return the engine with the votes and the final posteriors."""
        return self.fit.engine

    @cached_property
    def memory(self) -> MemoryEngine:
        """Return the engine, gathered into memory if it is not there already."""
        return gathered_engine(self.engine, (POSTERIORS, *self.fit.detail_rows))

    @property
    def labels(self) -> Labels:
        return self.memory.labels

    @property
    def posteriors(self) -> Floats:
        """Return the posteriors, (n_items, n_classes), in memory."""
        return self.memory.whole(POSTERIORS)

    @property
    def item_details(self) -> dict[str, Floats]:
        """Return details of items from the method, (n_items,) by name."""
        return {name: self.memory.whole(name) for name in self.fit.detail_rows}

    @property
    def truth(self) -> Codes | None:
        """Return known classes for judging, (n_items,), -1 where unknown; None without truth."""
        return self.memory.whole(TRUTH) if self.memory.has(TRUTH) else None

    @cached_property
    def decision(self) -> Decision:
        return decide(self.posteriors) if self.decided is None else self.decided

    @cached_property
    def verdicts(self) -> Verdicts:
        """Return the verdicts of workers."""
        from misc_cli.quality.verdicts import judge
        from misc_cli.quality.worker_scores import peer_agreement

        return judge(peer_agreement(self.engine), self.pairs)
