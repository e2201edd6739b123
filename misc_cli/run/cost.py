"""What an automatic choice will cost, from counted work; it informs and never decides.

Seconds of one fit per unit of work, measured once: 2026-11-16, one thread of a 2-core machine,
processor seconds of every trial of the automatic choice on 21 public sets.
How many iterations a set needs is not known beforehand: half or twice that is possible.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from misc_cli.data.holdout import fold_plan
from misc_cli.data.iteration import COST
from misc_cli.data.parallel import may_start_processes, threads
from misc_cli.data.types import Iteration, Labels, OnIteration
from misc_cli.selection.candidates import Method
from misc_cli.selection.cross_validation import MANY_ANSWERS, WORTH_A_PROCESS
from misc_cli.selection.racing import FINALISTS, FIRST_FOLDS

# Starting, reading and writing a small file.
AT_LEAST = 0.7
# A fold that begins where the fit on all answers ended takes this part of it.
WARM = 0.1
# How likely completion is to promise a lead, so that it is tried further.
CHANCE = 0.5
# Methods that a line of progress names.
SHOWN = 2


@dataclass(frozen=True)
class Size:
    """What the work is counted by."""

    answers: int
    workers: int
    items: int
    classes: int


def _ebcc(size: Size) -> float:
    """One restart; an item has 10 subtypes per class, and most of them die soon."""
    of_workers = 5.0e-6 * size.workers * size.classes**2
    return 4e-4 + of_workers + 30e-6 * size.items + 0.1e-6 * size.answers * size.classes


def _mmce(size: Size, rounds: float) -> float:
    of_answers: float = 0.8e-6 * size.answers * size.classes**1.5
    return 1e-2 + of_answers + rounds * 0.9e-6 * size.items * size.classes**2


def _confusions(size: Size) -> float:
    """A sweep normalises K² numbers of every worker and takes their logarithms: 14 ns each.

    Where they are most of the work, workers have few answers, and nearly all of the 100 sweeps that
    are allowed are made, whatever the model of a worker.
    """
    return 1.4e-6 * size.workers * size.classes**2


# Per registered class of aggregator, on all answers; others are taken to be like the first.
SECONDS: dict[str, Callable[[Size], float]] = {
    "DawidSkene": lambda size: 3e-3 + 0.35e-6 * size.answers * size.classes + _confusions(size),
    "OneCoin": lambda size: 3e-3 + 0.13e-6 * size.answers * size.classes + _confusions(size),
    "MajorityVote": lambda size: 1e-3 + 0.05e-6 * size.answers * size.classes,
    "MinimaxEntropy": lambda size: _mmce(size, rounds=4.5),
    "OrdinalMinimaxEntropy": lambda size: 1.4 * _mmce(size, rounds=4.5),
}


def seconds_of(method: Method, size: Size, *, in_fold: bool = False) -> float:
    """One fit of a method, all of its passes if it completes."""
    if method.completer is not None:
        return _completed_seconds(method.completer, size)
    name = type(method.aggregator).__name__
    if name == "EnhancedBcc":
        fitted: Any = method.aggregator
        return float((fitted.in_folds if in_fold else fitted).restarts) * _ebcc(size)
    if method.brief:  # few iterations
        name = "MajorityVote"
    if name == "MinimaxEntropy" and in_fold:
        return _mmce(size, rounds=1.0)
    return SECONDS.get(name, SECONDS["DawidSkene"])(size)


def _completed_seconds(completer: Any, size: Size) -> float:
    """Six passes and two last steps, by the rank of the items."""
    ranks = getattr(completer, "ranks", None)
    rank = ranks[1] if ranks is not None else 5 * size.classes
    of_ranks = 1.9e-6 * (size.items + size.workers * size.classes) * rank
    of_answers = 0.32e-6 * size.answers * size.classes
    return 2e-2 + 0.15e-6 * size.workers * size.items + of_answers + of_ranks


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

    def on(method: Method, folds: int, chance: float = 1.0) -> Part:
        each = seconds_of(method, size, in_fold=True)
        return Part(method.name, folds, chance * each)

    def race(method: Method) -> Part:
        if not (many and hasattr(method.aggregator, "again")):
            return on(method, n_folds)
        return Part(method.name, 1, seconds_of(method, size) * (1 + WARM * n_folds))

    def voting(method: Method, chance: float) -> Part:
        """Its candidates on all answers, if completion wins: each makes its own passes."""
        every = seconds_of(method, size) / max(method.passes)
        each = every * sum(method.passes) / len(method.passes)
        return Part(method.name, len(method.passes), chance * each)

    slow = [method for method in pure if getattr(method.aggregator, "slow", False)]
    quick = [method for method in pure if method not in slow]
    refitted = [method for method in pure if not (many and method in slow)]
    scouts = list(completed if insist else completed[::2])
    others = [method for method in completed if method not in scouts]
    finalists = completed[1 : 1 + FINALISTS]  # which it will be is not known: of middling ranks
    chance = 1.0 if insist else CHANCE
    first = min(FIRST_FOLDS, n_folds)
    stages = [
        [on(method, n_folds) for method in quick],
        [race(method) for method in slow],
        [on(method, first) for method in scouts],
        [on(method, first, chance) for method in others],
        [on(method, n_folds - first, chance) for method in finalists],
        [Part(method.name, 1, seconds_of(method, size)) for method in refitted],
        [voting(method, chance) for method in completed],
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
        at = next((at for at, stage in enumerate(self.left) if stage.get(name)), None)
        if at is not None:
            self._settle(self.left[at], name, 1)
            for stage in self.left[:at]:  # over: what it did not need is never done
                for other in stage:
                    self._settle(stage, other, len(stage[other]))
        self._tell()

    def _settle(self, stage: dict[str, list[float]], name: str, count: int) -> None:
        for _ in range(count):
            self.work_done += stage[name].pop()
        self.done += count

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
