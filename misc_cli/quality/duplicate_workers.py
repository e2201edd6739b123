"""Duplicate workers: in an automatic run, workers who give each other's answers count once.

Three accounts of one person outvote two honest workers, and whoever agrees with itself looks like
an expert. So before anything is fitted, groups of copies (worker_dependence.py: likeness from 0.9)
keep one answer per item, that of the member with the most answers, if that is at least one answer
in twenty of all; afterwards every member is judged by all of its own answers. A method that the
user names gets all answers as they are.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from misc_cli.aggregators.confusion_kernels import PSEUDO_ANSWERS, ExpectedCounts, shrunk_rows
from misc_cli.data.holdout import Positions, without
from misc_cli.data.types import Floats, Names
from misc_cli.data.votes import SparseVotes
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.protocol import (
    AnswerEngine,
    Block,
    Engine,
    RowArrays,
    SumOver,
)
from misc_cli.engines.views import KeptBlock, View
from misc_cli.errors import DuplicateWorkersWarning
from misc_cli.quality.worker_dependence import WorkerPairs

NAMES_SHOWN = 3
# Of all answers; fewer change no label for the better, and can tip a choice that hangs by a thread
# (zencrowd_us, where one pair gave the same 95 answers of 11,000).
LEAST_SHARE = 0.05

Groups = npt.NDArray[np.int64]


def superfluous(matrix: sp.csr_array, n_classes: int, group: Groups, answers: Groups) -> Positions:
    """Return the positions of a group's votes on some items, but for one per item.

    The one that stays is of the member with the most `answers` (n_workers,) in all.
    """
    worker = matrix.indices.astype(np.int64) // n_classes
    item = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
    among = np.flatnonzero(group[worker] >= 0)
    place = item[among] * (int(group.max()) + 1) + group[worker[among]]
    order = np.lexsort((worker[among], -answers[worker[among]], place))
    return np.sort(among[order][np.diff(place[order], prepend=-1) == 0])


def _count_superfluous(block: Block, _: RowArrays, **known: Any) -> int:
    return len(superfluous(block.matrix, **known))


def groups(pairs: WorkerPairs) -> Groups:
    """Return the group of each worker that is a copy of another, -1 of others, (n_workers,)."""
    copies = pairs.copies
    group = np.full(pairs.n_workers, -1, dtype=np.int64)
    if copies.any():
        from scipy.sparse.csgraph import connected_components

        _, component = connected_components(pairs.matrix(copies), directed=False)
        members = np.union1d(pairs.first[copies], pairs.second[copies])
        group[members] = np.unique(component[members], return_inverse=True)[1]
    return group


def _one_of_each(
    block: Block, rows: RowArrays, n_classes: int, **known: Any
) -> tuple[Block, RowArrays]:
    """Hide all answers but one per item of every group: the mask of a `View`."""
    gone = superfluous(block.matrix, n_classes, **known)
    return KeptBlock(block, gone, n_classes), rows


def once_per_copy(engine: AnswerEngine, pairs: WorkerPairs) -> Engine:
    """Return the engine with one answer per item of every group of copies.

    The engine itself is returned where there are no copies, or too few to matter.
    """
    group, answers = groups(pairs), pairs.answers
    if (group < 0).all():
        return engine
    known: dict[str, Any] = {"n_classes": engine.n_classes, "group": group, "answers": answers}
    gone = engine.sweep(SumOver(partial(_count_superfluous, **known)))
    if gone < LEAST_SHARE * engine.n_votes:
        return engine
    _warn(engine.vocabulary.workers, group, answers)
    if isinstance(engine, MemoryEngine):  # cut once, not in every sweep
        votes = engine.labels.votes
        assert isinstance(votes, SparseVotes)
        gone_now = superfluous(votes.matrix, votes.n_classes, group, answers)
        once = replace(votes, matrix=without(votes.matrix, gone_now))
        return engine.with_labels(replace(engine.labels, votes=once))
    return View(engine, partial(_one_of_each, **known), gone)


def judged_by_all_answers(confusions: Floats, engine: Engine, pairs: WorkerPairs) -> Floats:
    """Return confusions in which copies are judged by all of their answers.

    `engine` holds all answers and the posteriors of a fit that did not see the copies' own.
    """
    members = np.flatnonzero(groups(pairs) >= 0)
    own = shrunk_rows(engine.sweep(ExpectedCounts()).by_worker, PSEUDO_ANSWERS)
    judged = confusions.copy()
    judged[members] = own[members]
    return judged


def _warn(workers: Names, group: Groups, answers: Groups) -> None:
    """Warn of who copies whom."""
    members = np.flatnonzero(group >= 0)
    order = members[np.lexsort((members, -answers[members], group[members]))]
    first = np.diff(group[order], prepend=-1) != 0
    copies = workers.take(order[~first]).to_pylist()
    originals = workers.take(order[first][group[order[~first]]]).to_pylist()
    pairs = [f"{copy!r} those of {of!r}" for copy, of in zip(copies, originals, strict=True)]
    shown = ", ".join(pairs[:NAMES_SHOWN])
    more = f" and {len(pairs) - NAMES_SHOWN:,} more" if len(pairs) > NAMES_SHOWN else ""
    count = "1 worker gives" if len(pairs) == 1 else f"{len(pairs):,} workers give"
    text = (
        f"{count} the answers of another once more ({shown}{more}): on an item they "
        "count once; if they did not copy, name the method with --aggregator"
    )
    warnings.warn(DuplicateWorkersWarning(text, copies), stacklevel=3)
