"""Algorithm 3 on an engine: the slice stays with its items, only shared state comes and goes.

A completer that can say its completed slice as T_(2) @ table, with a table as long as workers ×
classes, needs nothing of the size of the items in one place (tucker can). The last step judges the
real answers; the completed label matrix, workers × items, is for one machine's memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from misc_cli.aggregators.confusion_kernels import judge
from misc_cli.completers.completion_loop import SLICE_TOLERANCE, harden, stamped
from misc_cli.completers.parameters import Loop
from misc_cli.completers.tucker.unfolding import unfolded
from misc_cli.data.logdomain import clamp
from misc_cli.data.solver import Step, iterate, joined_stops
from misc_cli.data.types import Floats, OnIteration, Start
from misc_cli.engines.protocol import (
    GOLD,
    POSTERIORS,
    SLICE,
    Block,
    Engine,
    EngineMethod,
    Fitted,
    RowArrays,
    Summed,
)


class EngineCompleter(Protocol):
    """A completer that runs on any engine whose rows have the slice."""

    def slice_table(
        self, engine: Engine, on_iteration: OnIteration, known: dict[str, Any]
    ) -> Floats:
        """((n_workers + 1) * n_classes, n_classes): T_(2) times this is the completed slice.

        `known` keeps what depends on the votes alone, for the passes to come.
        """

    def resolve_ranks(self, shape: tuple[int, int, int]) -> tuple[int, ...]:
        """The ranks used on a tensor of this shape."""


@dataclass
class Moved(Summed):
    """How far a pass moved the slice, and how many items changed their top class."""

    squared_step: float
    squared_length: float
    flipped: int

    @property
    def share(self) -> float:
        """‖ΔS‖ / ‖S‖."""
        return float((self.squared_step / (self.squared_length or 1.0)) ** 0.5)


@dataclass(frozen=True)
class FirstSlice:
    """The pure result, one class per item."""

    needs: ClassVar[tuple[str, ...]] = (POSTERIORS,)
    writes: ClassVar[tuple[str, ...]] = (SLICE,)

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, int]:
        return {SLICE: harden(np.asarray(rows[POSTERIORS]), rows.get(GOLD))}, 0


@dataclass(frozen=True)
class NextSlice:
    """S ← T_(2) @ table, as it is or one class per item; what is known stays known."""

    table: Floats
    hard: bool

    needs: ClassVar[tuple[str, ...]] = (SLICE,)
    writes: ClassVar[tuple[str, ...]] = (SLICE,)

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, Moved]:
        old, new = np.asarray(rows[SLICE]), unfolded(block, rows, self.table)
        if self.hard:
            new = harden(new, rows.get(GOLD))
        elif GOLD in rows:
            clamp(new, rows[GOLD])
        step = new - old
        return {SLICE: new}, Moved(
            float(np.vdot(step, step)),
            float(np.vdot(old, old)),
            int(np.count_nonzero(new.argmax(axis=1) != old.argmax(axis=1))),
        )


@dataclass(frozen=True)
class CompletedAnswers:
    """The loop with `final` "answers" as one method for engines: as `driver.mix`, where votes are.

    `tol` as there.
    """

    completer: EngineCompleter
    aggregator: EngineMethod
    loop: Loop
    tol: float = SLICE_TOLERANCE

    def solve(
        self, engine: Engine, on_iteration: OnIteration, start: Start | None = None
    ) -> Fitted:
        return self.run(engine, on_iteration, start)[0]

    def run(
        self, engine: Engine, on_iteration: OnIteration, start: Start | None = None
    ) -> tuple[Fitted, int]:
        """What was found, the posteriors staying on the engine, and how many passes it took."""
        self.ranks(engine)  # those that cannot be are told of before anything is fitted
        starter: EngineMethod = self.loop.start or self.aggregator  # type: ignore[assignment]
        initial = starter.solve(engine, stamped(on_iteration, 0), start)
        engine.sweep(FirstSlice())
        known: dict[str, Any] = {}

        def step(before: int) -> Step[int]:
            number = before + 1
            table = self.completer.slice_table(engine, stamped(on_iteration, number), known)
            moved = engine.sweep(NextSlice(table, self.loop.slice == "hard"))
            extra = {"flipped": moved.flipped}
            return Step(number, moved.share, posteriors=engine.whole(SLICE), extra=extra)

        solution = iterate(
            step,
            0,
            stage="pass",
            tol=self.tol,
            max_iter=self.loop.passes,
            on_iteration=lambda line: on_iteration(replace(line, pass_number=line.iteration)),
            warn=False,
        )
        passes = solution.iterations
        judged = judge(engine, stamped(on_iteration, passes))
        stopped = joined_stops(initial.stopped, {"pass": solution.stopped}, judged.stopped)
        return replace(judged, stopped=stopped), passes

    def ranks(self, engine: Engine) -> tuple[int, ...]:
        shape = (engine.n_workers + 1, engine.n_items, engine.n_classes)
        return self.completer.resolve_ranks(shape)
