"""Panels: labels that change without each worker, and the smallest panel that gives the same ones.

Labels are those of one E-step with the confusions that the posteriors show, for a panel and for
what is left of it alike: nothing is fitted again. A worker without whom hardly a label changes is
redundant, which is not bad: its answers confirm those of others.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from misc_cli.aggregators.confusion_kernels import PSEUDO_ANSWERS, confusions_of
from misc_cli.data.types import Floats, Labels
from misc_cli.engines.protocol import GOLD, Block, Engine, RowArrays, SumOver
from misc_cli.quality.worker_scores import LeaveOneOut, parts_of

Counts = npt.NDArray[np.int64]
MOST = 30  # workers of a panel that a person can look at as a whole
MOST_VOTES = 300_000  # that `smallest_panel` goes through again and again
SAME = 0.01  # share of the labels that may differ from those of the whole panel


def labels_that_change(engine: Engine) -> Counts:
    """Return how many labels would be others without each worker's answers, (n_workers,)."""
    count = partial(_changed, n_classes=engine.n_classes, posteriors=LeaveOneOut.of(engine))
    found: Counts = engine.sweep(SumOver(count))
    return found


def _changed(block: Block, rows: RowArrays, n_classes: int, posteriors: LeaveOneOut) -> Counts:
    n_workers = block.matrix.shape[1] // n_classes
    found = np.zeros(n_workers, dtype=np.int64)
    for part, votes, item in parts_of(block.matrix, n_classes):
        with_it, without = (posteriors(votes, item, out).argmax(axis=1) for out in (0.0, 1.0))
        changed = with_it != without
        if GOLD in rows:
            changed &= rows[GOLD][part][item] < 0
        found += np.bincount(votes.indices[changed] // n_classes, minlength=n_workers)
    return found


def smallest_panel(labels: Labels, posteriors: Floats, tolerance: float = SAME) -> list[int]:
    """Return the workers who are left when no other can go without too many labels changing.

    Who changes the fewest labels goes first, as long as at most this share of all labels differs
    from what the whole panel gives. Each step looks at everybody left: for panels, not crowds.
    """
    n_classes, votes = labels.n_classes, labels.votes.block(slice(0, labels.n_items))
    confusions = confusions_of(labels, posteriors, PSEUDO_ANSWERS)
    tables = np.log(np.maximum(confusions, 1e-12)).transpose(0, 2, 1)  # [worker, observed, true]
    by_worker = [
        (votes[:, worker * n_classes : (worker + 1) * n_classes], tables[worker])
        for worker in range(labels.n_workers)
    ]
    prior = (posteriors.sum(axis=0) + 1.0) / (labels.n_items + n_classes)
    scores = votes @ tables.reshape(-1, n_classes) + np.log(prior)
    whole = scores.argmax(axis=1)
    asked = np.ones(len(whole), dtype=bool) if labels.gold is None else labels.gold < 0
    left = list(range(labels.n_workers))
    while len(left) > 1:
        changes = [
            int(((scores - said @ table).argmax(axis=1) != whole)[asked].sum())
            for said, table in (by_worker[worker] for worker in left)
        ]
        at = int(np.argmin(changes))
        if changes[at] > tolerance * len(whole):
            break
        said, table = by_worker[left.pop(at)]
        scores = scores - said @ table
    return left
