"""Copies count once: what an automatic run makes of workers who give each other's answers.

Three accounts of one person outvote two honest workers, and whoever agrees with itself looks like
an expert. So before anything is fitted, groups of copies (evaluate/alike.py: likeness from 0.9)
keep one answer per item, that of the member with the most answers, if that is at least one answer
in twenty of all; afterwards every member is judged by all of its own answers. A method that the
user names gets all answers as they are.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from misc_cli.aggregators.confusion_kernels import PSEUDO_ANSWERS, confusions_of
from misc_cli.data.holdout import Positions, without
from misc_cli.data.types import Aggregation, Labels
from misc_cli.data.votes import SparseVotes
from misc_cli.errors import MiscWarning
from misc_cli.quality.worker_dependence import Pairs

NAMES_SHOWN = 3
# Of all answers; fewer change no label for the better, and can tip a choice that hangs by a thread
# (zencrowd_us, where one pair gave the same 95 answers of 11,000).
LEAST_SHARE = 0.05


def once_per_copy(labels: Labels, pairs: Pairs) -> Labels:
    """The labels with one answer per item of every group of copies; themselves without copies."""
    votes = labels.votes
    group = groups(pairs)
    if (group < 0).all() or not isinstance(votes, SparseVotes):
        return labels
    worker = votes.matrix.indices // votes.n_classes
    answers = np.bincount(worker, minlength=votes.n_workers)
    gone = superfluous(votes.matrix, votes.n_classes, group, answers)
    if len(gone) < LEAST_SHARE * votes.n_votes:
        return labels
    warn(labels, group, answers)
    fewer = without(votes.matrix, gone)
    return replace(labels, votes=SparseVotes(fewer, votes.n_workers, votes.n_classes))


def superfluous(
    matrix: sp.csr_array,
    n_classes: int,
    group: npt.NDArray[np.int64],
    answers: npt.NDArray[np.int64],
) -> Positions:
    """Where, among the votes on some items, those of a group's members are but for one's per item.

    The one is the member's with the most `answers` (n_workers,) in all.
    """
    worker = matrix.indices.astype(np.int64) // n_classes
    item = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
    among = np.flatnonzero(group[worker] >= 0)
    place = item[among] * (int(group.max()) + 1) + group[worker[among]]
    order = among[np.lexsort((worker[among], -answers[worker[among]], place))]
    sorted_place = np.sort(place, kind="stable")
    return np.sort(order[np.flatnonzero(np.diff(sorted_place, prepend=-1) == 0)])


def judged_by_all_answers(aggregation: Aggregation, labels: Labels, pairs: Pairs) -> Aggregation:
    """Confusions of the copies from all of their answers, which the fit did not see."""
    members = np.flatnonzero(groups(pairs) >= 0)
    confusions = aggregation.confusions.copy()
    own = confusions_of(labels, aggregation.posteriors, PSEUDO_ANSWERS)
    confusions[members] = own[members]
    return replace(aggregation, confusions=confusions)


def groups(pairs: Pairs) -> npt.NDArray[np.int64]:
    """The group of each worker that is a copy of another, -1 of all others, (n_workers,)."""
    copies = pairs.copies
    group = np.full(pairs.n_workers, -1, dtype=np.int64)
    if copies.any():
        from scipy.sparse.csgraph import connected_components

        _, component = connected_components(pairs.matrix(copies), directed=False)
        members = np.union1d(pairs.first[copies], pairs.second[copies])
        group[members] = np.unique(component[members], return_inverse=True)[1]
    return group


def warn(labels: Labels, group: npt.NDArray[np.int64], answers: npt.NDArray[np.int64]) -> None:
    """Say who copies whom."""
    members = np.flatnonzero(group >= 0)
    order = members[np.lexsort((members, -answers[members], group[members]))]
    first = np.diff(group[order], prepend=-1) != 0
    originals = order[np.flatnonzero(first)][group[order[~first]]]
    shown = [
        f"{labels.workers[int(copy)].as_py()!r} those of {labels.workers[int(original)].as_py()!r}"
        for copy, original in list(zip(order[~first], originals, strict=True))[:NAMES_SHOWN]
    ]
    more = f" and {len(originals) - NAMES_SHOWN:,} more" if len(originals) > NAMES_SHOWN else ""
    count = "1 worker gives" if len(originals) == 1 else f"{len(originals):,} workers give"
    warnings.warn(
        f"{count} the answers of another once more ({', '.join(shown)}{more}): on an item they "
        "count once; if they did not copy, name the method with --aggregator",
        MiscWarning,
        stacklevel=3,
    )
