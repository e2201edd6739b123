"""Copies count once in an engine's automatic choice, as `run/copies.py` has it in memory.

Which workers are alike is counted block by block and judged here; an engine's kernels then see one
answer per item of every group of copies.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from misc_cli.aggregators.confusion_kernels import PSEUDO_ANSWERS, ExpectedCounts, shrunk_rows
from misc_cli.data.holdout import Positions
from misc_cli.data.types import Labels
from misc_cli.engines.protocol import Array, Block, Engine, Fitted, Kernel, RowArrays, Summed, Sums
from misc_cli.engines.views import KeptBlock, MaskedKernel, View
from misc_cli.quality.duplicate_workers import LEAST_SHARE, groups, superfluous, warn
from misc_cli.quality.worker_dependence import (
    Pairs,
    active_enough,
    activity_in,
    keys_of,
    pairs_in,
    pairs_of,
)


@dataclass(frozen=True)
class _Activity:
    """How many answers each worker gave."""

    n_classes: int
    writes: ClassVar[tuple[str, ...]] = ()

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, Array]:
        return {}, activity_in(block.matrix, self.n_classes)


@dataclass(frozen=True)
class _PairsAmong:
    """How many pairs of answers to one item these workers gave."""

    kept: Array
    n_classes: int
    writes: ClassVar[tuple[str, ...]] = ()

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, float]:
        return {}, pairs_in(block.matrix, self.kept, self.n_classes)


@dataclass
class _Keys(Summed):
    keys: list[Array]
    counts: Array


@dataclass(frozen=True)
class _PairKeys:
    """The pairs of answers themselves, and how often each class was said."""

    kept: Array
    n_classes: int
    writes: ClassVar[tuple[str, ...]] = ()

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, _Keys]:
        keys, counts = keys_of(block.matrix, self.kept, self.n_classes)
        return {}, _Keys([keys], counts)


@dataclass(frozen=True)
class Compared:
    """Every pair of workers that shares enough items; answers (n_workers,) each worker gave."""

    pairs: Pairs
    answers: Array


def compare_pairs(engine: Engine) -> Compared:
    """The workers two by two."""
    n_classes = engine.n_classes
    activity: Array = engine.sweep(_Activity(n_classes))
    kept = active_enough(activity, lambda kept: engine.sweep(_PairsAmong(kept, n_classes)))
    found = engine.sweep(_PairKeys(kept, n_classes))
    return Compared(pairs_of(found.keys, found.counts), activity)


@dataclass(frozen=True)
class _Once(MaskedKernel):
    """It sees one answer per item of every group.

    group   (n_workers,) of copies, -1 of all others
    answers (n_workers,) how many each gave in all
    """

    group: Array
    answers: Array
    n_classes: int

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, Any]:
        gone = superfluous(block.matrix, self.n_classes, self.group, self.answers)
        return self.kernel(KeptBlock(block, gone, self.n_classes), rows)


@dataclass(frozen=True)
class _Superfluous:
    """How many answers that view leaves out."""

    group: Array
    answers: Array
    n_classes: int
    writes: ClassVar[tuple[str, ...]] = ()

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, int]:
        gone: Positions = superfluous(block.matrix, self.n_classes, self.group, self.answers)
        return {}, len(gone)


@dataclass(frozen=True)
class OncePerCopy(View):
    """The engine with one answer per item of every group of copies."""

    group: Array
    answers: Array
    n_gone: int

    @property
    def n_votes(self) -> int:
        return self.engine.n_votes - self.n_gone

    def sweep(self, kernel: Kernel[Sums]) -> Sums:
        once: Kernel[Sums] = _Once(kernel, self.group, self.answers, self.n_classes)
        return self.engine.sweep(once)


def once_per_copy(engine: Engine, labels: Labels, compared: Compared) -> Engine:
    """The engine as a choice should see it; itself where copies are none, or too few to matter."""
    group, answers = groups(compared.pairs), compared.answers
    if (group < 0).all():
        return engine
    gone = engine.sweep(_Superfluous(group, answers, engine.n_classes))
    if gone < LEAST_SHARE * engine.n_votes:
        return engine
    warn(labels, group, answers)
    return OncePerCopy(engine, group, answers, gone)


def judged_by_all_answers(fitted: Fitted, counted: Engine) -> Fitted:
    """Confusions of the copies from all of their answers, which the fit did not see."""
    if not isinstance(counted, OncePerCopy):
        return fitted
    members = np.flatnonzero(counted.group >= 0)
    own = shrunk_rows(counted.engine.sweep(ExpectedCounts()).by_worker, PSEUDO_ANSWERS)
    confusions = fitted.confusions.copy()
    confusions[members] = own[members]
    return replace(fitted, confusions=confusions)
