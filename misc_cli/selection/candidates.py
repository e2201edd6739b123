"""Methods and candidates: what is fitted, judged by held-out answers, and chosen.

A method is a pure aggregator, or a completer whose trajectory gives a candidate after each of
several passes. A candidate's labelling is scored in three views, each a log probability per hidden
answer:
    own    the fitted model's own forecast (ebcc's subtypes, mmce's difficulty count here)
    soft   Σ_c posterior[c] · confusion[c, answer], confusions re-estimated from the posteriors,
           which are tempered, because calibration will repair overconfidence
    hard   given the one label we would write; the only fair one for completed labels, whose
           posteriors rest on invented answers and are all but certain
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from misc_cli.completers.parameters import DEFAULT_LOOP, Loop
from misc_cli.data.solver import FIXED, joined_stops
from misc_cli.data.types import Aggregator, Completer, Floats, OnIteration
from misc_cli.engines.local import solved
from misc_cli.engines.protocol import Engine, Fitted


@dataclass(frozen=True)
class Method:
    """A pure aggregator, or a completer with the passes after which it is judged.

    `preset` is the one that the parameters come from. `early_stopped` marks a method that
    is defined by its few iterations, so that they are no lack of convergence. `also` are other last
    steps of the loop that it may have.
    """

    name: str
    aggregator: Aggregator
    completer: Completer | None = None
    loop: Loop = DEFAULT_LOOP
    judged_after: tuple[int, ...] = ()
    preset: str = "robust"
    early_stopped: bool = False
    also: tuple[str, ...] = ()

    @property
    def variants(self) -> list[Method]:
        """The method, and the same with each of the other last steps that it may have."""
        others = [
            replace(self, name=f"{self.name} {last}", loop=replace(self.loop, final=last), also=())
            for last in self.also
        ]
        return [self, *others]

    @property
    def passes(self) -> tuple[int, ...]:
        return self.judged_after or (self.loop.passes,)

    @property
    def calibratable(self) -> bool:
        """Return False if the posteriors are calibrated already or rest on completed answers.

        Hidden answers cannot calibrate labels of completed ones (on web the calibration error of
        a vote of completed candidates is 0.03 as it is, 0.25 tempered).
        """
        if self.completer is None:
            return getattr(self.aggregator, "calibratable", True)
        return self.loop.final != "completed"

    @property
    def has_worker_model(self) -> bool:
        """Return True if the fit models what workers answer, as the dependence check needs."""
        return self.calibratable and not self.early_stopped


@dataclass(frozen=True)
class Candidate:
    """A method after a number of passes (0 for a pure one)."""

    method: Method
    passes: int = 0

    @property
    def name(self) -> str:
        times = f" × {self.passes}" if self.passes else ""
        return f"{self.method.name}{times}"


def fits(
    method: Method,
    engine: Engine,
    on_iteration: OnIteration,
    initial: Floats | None = None,
    whole: Fitted | None = None,
) -> Iterator[tuple[Candidate, Fitted]]:
    """Fit the candidates of a method in turn; the engine has the posteriors of the last one.

    `initial` (the aggregator's posteriors, in memory) saves a completer one fit; `whole` (the fit
    on all answers) is the start of an aggregator that has `refit_subset`.
    """
    aggregator, loop = method.aggregator, method.loop
    if method.completer is None:
        found = solved(aggregator, engine, on_iteration, whole)
        if method.early_stopped:  # it stops when it should
            found = replace(found, stopped={})
        yield Candidate(method), found
        return
    from misc_cli.completers.completion_loop import begin, check_memory, finish, passes

    check_memory(engine, method.completer, loop)
    begin(engine, loop.start or aggregator, None if loop.start else initial, on_iteration)
    most = max(method.passes)
    for solution in passes(engine, method.completer, most, loop.slice, 0.0, on_iteration):
        after = solution.state
        if after.number in method.passes:
            found, _ = finish(engine, after, aggregator, loop, on_iteration)
            stopped = joined_stops({"pass": FIXED}, found.stopped)
            yield Candidate(method, after.number), replace(found, stopped=stopped)
