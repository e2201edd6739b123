"""What a run says about each worker: how much, how well, and how it confuses the classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow.compute as pc
import scipy.sparse as sp

from misc_cli.core.decide import decide
from misc_cli.core.engines.protocol import POSTERIORS, Block, Engine, RowArrays
from misc_cli.core.types import Codes, Floats, Labels, WorkerTable
from misc_cli.errors import InputError
from misc_cli.evaluate.metrics import wilson

CELLS_AT_ONCE = 1 << 22  # of workers × classes × classes, beside the confusions themselves


@dataclass(frozen=True)
class WorkerReport:
    """Per worker, (n_workers,) each.

    answers      how many answers it gave
    accuracy     Σ_c p_c · π[c, c]: the chance that it is right on an item drawn from the classes
    low, high    between which that lies in 95 cases of 100 (see `accuracy_interval`)
    agreement    share of its answers that equal the items' final labels
    information  mutual information of the true class and its answer, in bits: 0 for a spammer,
                 however often it happens to be right; high for one who is reliably wrong
    confusions   (n_workers, n_classes, n_classes): [worker, true, observed]
    """

    answers: Floats
    accuracy: Floats
    low: Floats
    high: Floats
    agreement: Floats
    information: Floats
    confusions: Floats


def report_workers(engine: Engine, confusions: Floats, class_prior: Floats) -> WorkerReport:
    """Of the posteriors that are on the engine; its labels are those that they decide."""
    counted = engine.sweep(_Count(engine.n_classes))
    answers, agreed = counted[:, 0], counted[:, 1]
    accuracy = np.einsum("c,wcc->w", class_prior, confusions)
    low, high = accuracy_interval(counted[:, 2:], confusions, class_prior, accuracy)
    return WorkerReport(
        answers=answers,
        accuracy=accuracy,
        low=low,
        high=high,
        agreement=agreed / np.maximum(answers, 1.0),
        information=_information(class_prior, confusions),
        confusions=confusions,
    )


@dataclass(frozen=True)
class _Count:
    """Per worker its answers, how many of them are the items' labels, and how many it gave to items
    of each class, those of unsure items for less (`accuracy_interval`): (n_workers, 2 + n_classes).
    """

    n_classes: int

    writes: ClassVar[tuple[str, ...]] = ()

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, Floats]:
        matrix, posteriors = block.matrix, np.asarray(rows[POSTERIORS])
        n_workers = matrix.shape[1] // self.n_classes
        worker, answer = np.divmod(matrix.indices, self.n_classes)
        final = np.repeat(decide(posteriors).label, np.diff(matrix.indptr))
        agreed = matrix.data * (answer == final)
        who = sp.csr_array(
            (np.ones(matrix.nnz), worker, matrix.indptr), shape=(matrix.shape[0], n_workers)
        )
        sharpness = (posteriors**2).sum(axis=1, keepdims=True)
        seen = who.T @ (posteriors * sharpness)
        counts = [_sums(worker, values, n_workers) for values in (matrix.data, agreed)]
        return {}, np.column_stack([*counts, seen])


def accuracy_interval(
    seen: Floats, confusions: Floats, class_prior: Floats, accuracy: Floats
) -> tuple[Floats, Floats]:
    """Wilson's interval around the accuracy, (n_workers,) each, of as many answers as it rests on.

    accuracy = Σ_c p_c a_c, and of a_c = π[c, c] there are n_c = Σ_i T_ic answers, so its variance
    is Σ_c p_c² a_c (1 − a_c) / (n_c + 1): a class that it hardly saw widens the interval. Labels
    are not known but inferred: answers whose item is surely of one class tell more than those whose
    item may be of two, and Σ_c T_ic² is the share of an answer that counts; `seen` (n_workers,
    n_classes) are n_c with these shares. An interval of so many answers,
    n = accuracy (1 − accuracy) / variance, is Wilson's, which does not leave 0 to 1. That
    the labels may be wrong together is in no interval.
    """
    right = np.diagonal(confusions, axis1=1, axis2=2)  # (n_workers, n_classes)
    smoothed = (right * seen + 0.5) / (seen + 1.0)
    variance = (class_prior**2 * smoothed * (1.0 - smoothed) / (seen + 1.0)).sum(axis=1)
    middle = np.clip(accuracy, 0.0, 1.0)
    # at 0 and at 1 a share has no variance of its own: one more answer of either kind gives it some
    total = seen.sum(axis=1)
    inside = (middle * total + 1.0) / (total + 2.0)
    n_answers = np.maximum(inside * (1.0 - inside) / np.maximum(variance, 1e-12), 1e-9)
    n_answers = np.minimum(n_answers, np.maximum(total, 1e-9))
    low, high = wilson(middle, n_answers)
    return np.clip(low, 0.0, middle), np.clip(high, middle, 1.0)


def _sums(groups: Codes, values: Floats, n_groups: int) -> Floats:
    return np.bincount(groups, values, minlength=n_groups).astype(np.float64)


def _information(prior: Floats, confusions: Floats) -> Floats:
    """I(true; observed) = Σ_ck p_c π[c, k] log₂(π[c, k] / Σ_c p_c π[c, k]), (n_workers,)."""
    bits = np.empty(len(confusions))
    step = max(1, CELLS_AT_ONCE // confusions[0].size)
    for start in range(0, len(confusions), step):
        some = confusions[start : start + step]
        joint = prior[:, None] * some
        marginal = joint.sum(axis=1, keepdims=True)
        ratio = np.where(joint > 0, some, 1.0) / np.where(joint > 0, marginal, 1.0)
        bits[start : start + step] = (joint * np.log2(ratio)).sum(axis=(1, 2))
    return np.maximum(bits, 0.0)


def pseudo_counts(labels: Labels, table: WorkerTable, weight: float) -> Floats:
    """What a table knows of these workers, as answers [worker, true, observed] beside theirs.

    A row of a worker's confusions counts for `weight` answers, but for no more than the worker gave
    then. Workers and classes that the table does not have get nothing.
    """
    names = labels.classes.to_pylist()
    counts = np.zeros((labels.n_workers, labels.n_classes, labels.n_classes))
    rows = pc.fill_null(pc.index_in(labels.workers, table.workers), -1)
    rows = rows.to_numpy(zero_copy_only=False)
    here = np.flatnonzero(rows >= 0)
    at = rows[here]
    for true, true_name in enumerate(names):
        for said, said_name in enumerate(names):
            column = table.columns.get(f"true_{true_name}_said_{said_name}")
            if column is not None:
                counts[here, true, said] = np.nan_to_num(column[at])
    if not counts.any():
        raise InputError(
            f"{table.name}: says nothing of these workers and classes; is it of the same workers?"
        )
    counts[here] *= np.minimum(weight, table.answers[at])[:, None, None]
    return counts
