"""What an automatic choice will cost, from counted work; it informs and never decides.

Seconds of one fit per unit of work, measured once: 2026-11-16, one thread of a 2-core machine,
processor seconds of one fold of bluebirds, web, dog, product, face, ms, labelme and relevance.
How many iterations a set needs is not known beforehand: it may take half or twice that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from misc_cli.core.holdout import fold_plan
from misc_cli.core.iteration import COST
from misc_cli.core.parallel import may_start_processes, threads
from misc_cli.core.types import Iteration, Labels, OnIteration
from misc_cli.select.judging import FIRST_FOLDS, MANY_ANSWERS, WORTH_A_PROCESS
from misc_cli.select.trial import Method

# Starting, reading and writing a small file.
AT_LEAST = 0.7
# A fold that begins where the fit on all answers ended takes this part of it.
WARM = 0.1
# Methods that a line of progress names.
SHOWN = 2


@dataclass(frozen=True)
class Size:
    """What the work is counted by."""

    answers: int
    workers: int
    items: int
    classes: int


# Per registered class of aggregator; others are taken to be like the first.
SECONDS: dict[str, Callable[[Size], float]] = {
    "DawidSkene": lambda size: 0.4e-6 * size.answers * size.classes,
    "OneCoin": lambda size: 0.15e-6 * size.answers * size.classes,
    "MajorityVote": lambda size: 0.1e-6 * size.answers * size.classes,
    "EnhancedBcc": lambda size: (
        (6e-6 * (size.answers + size.workers * size.classes) + 40e-6 * size.items) * size.classes
    ),
    "MinimaxEntropy": lambda size: (
        (1.5e-6 * (size.answers + size.workers * size.classes) + 12e-6 * size.items)
        * size.classes**1.5
    ),
}


def seconds_of(method: Method, size: Size) -> float:
    """One fit of a method, all of its passes if it completes."""
    if method.completer is not None:
        return 0.5e-6 * size.workers * size.items + 3.5e-6 * size.answers * size.classes
    name = "OneCoin" if method.brief else type(method.aggregator).__name__  # few iterations alike
    return SECONDS.get(name, SECONDS["DawidSkene"])(size)


@dataclass(frozen=True)
class Part:
    """Tasks of one method that are alike: how many reports there will be, seconds of each."""

    name: str
    reports: int
    seconds: float


@dataclass(frozen=True)
class Cost:
    """What is to be done, in seconds of one core; `cores` share the work of each stage."""

    stages: Sequence[Sequence[Part]]
    cores: int

    @property
    def work(self) -> float:
        return sum(part.reports * part.seconds for stage in self.stages for part in stage)

    @property
    def seconds(self) -> float:
        """On the clock: a stage lasts as long as its longest task at least."""
        total = AT_LEAST
        for stage in self.stages:
            of_stage = sum(part.reports * part.seconds for part in stage)
            longest = max((part.seconds for part in stage), default=0.0)
            total += max(of_stage / self.cores, longest)
        return total


def counted(
    labels: Labels, pure: Sequence[Method], completed: Sequence[Method], *, insist: bool = False
) -> Cost:
    """The work of a choice among these; a slow method may be given up earlier."""
    size = size_of(labels)
    n_folds = _n_folds(size)
    many = size.answers >= MANY_ANSWERS

    def race(method: Method) -> Part:
        each = seconds_of(method, size)
        warm = many and hasattr(method.aggregator, "again")
        return Part(method.name, 1, each * (1 + WARM * n_folds if warm else n_folds))

    slow = [method for method in pure if getattr(method.aggregator, "slow", False)]
    quick = [method for method in pure if method not in slow]
    first = n_folds if insist else min(FIRST_FOLDS, n_folds)
    stages = [
        [Part(method.name, n_folds, seconds_of(method, size)) for method in quick],
        [race(method) for method in slow],
        [Part(method.name, first, seconds_of(method, size)) for method in completed],
        [Part(method.name, 1, seconds_of(method, size)) for method in quick],
    ]
    apart = size.answers >= WORTH_A_PROCESS and may_start_processes()
    return Cost(stages, threads() if apart else 1)


def fast_seconds(labels: Labels, baseline: Method) -> float:
    """What --fast takes: the baseline on all answers, and on the folds that calibrate it."""
    size = size_of(labels)
    return AT_LEAST + (1 + _n_folds(size)) * seconds_of(baseline, size)


def _n_folds(size: Size) -> int:
    """As many as are wanted, or as there are answers to hide: an item's only one never is."""
    wanted, share = fold_plan(size.answers)
    hidden = max(1, round(share * size.answers))
    return min(wanted, math.ceil(max(size.answers - size.items, 0) / hidden))


def size_of(labels: Labels) -> Size:
    """What the work on these labels is counted by."""
    return Size(labels.votes.n_votes, labels.n_workers, labels.n_items, labels.n_classes)


class Counting:
    """Passes reports on and tells who watches: the cost first, then what of it is done."""

    def __init__(self, cost: Cost, forward: OnIteration, **told: float | None) -> None:
        self.forward = forward
        self.told = {"seconds": round(cost.seconds, 3), **told}
        self.whole = max(cost.work, 1e-9)
        # what is still to be reported, stage by stage: name → seconds of each task
        self.left = [{part.name: [part.seconds] * part.reports for part in s} for s in cost.stages]
        self.of = sum(part.reports for stage in cost.stages for part in stage)
        self.done, self.work_done = 0, 0.0
        self._tell()

    def __call__(self, iteration: Iteration) -> None:
        self.forward(iteration)
        if "of" not in iteration.extra:
            return
        name = str(iteration.extra.get("candidate"))
        for stage in self.left:
            if stage.get(name):
                self.work_done += stage[name].pop()
                self.done += 1
                break
        self._tell()

    def _tell(self) -> None:
        now = next((stage for stage in self.left if any(stage.values())), {})
        trying = [name for name, tasks in now.items() if tasks]
        more = " and others" if len(trying) > SHOWN else ""
        self.forward(
            Iteration(
                COST,
                self.done,
                extra={
                    **self.told,
                    "of": self.of,
                    "share": self.work_done / self.whole,
                    "trying": ", ".join(trying[:SHOWN]) + more,
                },
            )
        )
