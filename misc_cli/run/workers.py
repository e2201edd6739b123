"""What a run says about each worker: how much, how well, and how it confuses the classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc
import scipy.sparse as sp

from misc_cli.core.decide import Decision
from misc_cli.core.parallel import map_in_order
from misc_cli.core.types import Aggregation, Codes, Floats, Labels, WorkerTable
from misc_cli.errors import InputError

Z = 1.96  # 95 of 100
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


def report_workers(labels: Labels, aggregation: Aggregation, decision: Decision) -> WorkerReport:
    """Everything by blocks of items."""
    votes = labels.votes
    confusions = aggregation.confusions
    prior = aggregation.class_prior

    def kernel(rows: slice) -> tuple[Floats, Floats]:
        block = votes.block(rows)
        worker, answer = np.divmod(block.indices, votes.n_classes)
        final = np.repeat(decision.label[rows], np.diff(block.indptr))
        agreed = block.data * (answer == final)
        return _sums(worker, block.data, votes.n_workers), _sums(worker, agreed, votes.n_workers)

    answers, agreed = np.zeros(votes.n_workers), np.zeros(votes.n_workers)
    for partial_answers, partial_agreed in map_in_order(kernel, votes.blocks):
        answers += partial_answers
        agreed += partial_agreed
    accuracy = np.einsum("c,wcc->w", prior, confusions)
    low, high = accuracy_interval(labels, aggregation, accuracy)
    return WorkerReport(
        answers=answers,
        accuracy=accuracy,
        low=low,
        high=high,
        agreement=agreed / np.maximum(answers, 1.0),
        information=_information(prior, confusions),
        confusions=confusions,
    )


def accuracy_interval(
    labels: Labels, aggregation: Aggregation, accuracy: Floats
) -> tuple[Floats, Floats]:
    """Wilson's interval around the accuracy, (n_workers,) each, of as many answers as it rests on.

    accuracy = Σ_c p_c a_c, and of a_c = π[c, c] there are n_c = Σ_i T_ic answers, so its variance
    is Σ_c p_c² a_c (1 − a_c) / (n_c + 1): a class that it hardly saw widens the interval. Labels
    are not known but inferred: answers whose item is surely of one class tell more than those whose
    item may be of two, and Σ_c T_ic² is the share of an answer that counts. An interval of so many
    answers, n = accuracy (1 − accuracy) / variance, is Wilson's, which does not leave 0 to 1. That
    the labels may be wrong together is in no interval.
    """
    votes, posteriors = labels.votes, aggregation.posteriors
    right = np.diagonal(aggregation.confusions, axis1=1, axis2=2)  # (n_workers, n_classes)
    sharpness = (posteriors**2).sum(axis=1)
    seen = np.zeros((votes.n_workers, votes.n_classes))
    for rows in votes.blocks:
        block = votes.block(rows)
        shape = (block.shape[0], votes.n_workers)
        who = sp.csr_array(
            (np.ones(block.nnz), block.indices // votes.n_classes, block.indptr), shape=shape
        )
        seen += who.T @ (posteriors[rows] * sharpness[rows, None])
    smoothed = (right * seen + 0.5) / (seen + 1.0)
    prior = aggregation.class_prior
    variance = (prior**2 * smoothed * (1.0 - smoothed) / (seen + 1.0)).sum(axis=1)
    middle = np.clip(accuracy, 0.0, 1.0)
    # at 0 and at 1 a share has no variance of its own: one more answer of either kind gives it some
    total = seen.sum(axis=1)
    inside = (middle * total + 1.0) / (total + 2.0)
    n_answers = np.maximum(inside * (1.0 - inside) / np.maximum(variance, 1e-12), 1e-9)
    n_answers = np.minimum(n_answers, np.maximum(total, 1e-9))
    centre = (middle + Z**2 / (2.0 * n_answers)) / (1.0 + Z**2 / n_answers)
    reach = Z * np.sqrt(middle * (1.0 - middle) / n_answers + Z**2 / (4.0 * n_answers**2))
    reach /= 1.0 + Z**2 / n_answers
    return np.clip(centre - reach, 0.0, middle), np.clip(centre + reach, middle, 1.0)


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
