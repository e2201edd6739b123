"""What a run says about each worker: how much, how well, and how it confuses the classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from misc_cli.core.decide import Decision
from misc_cli.core.parallel import map_in_order
from misc_cli.core.types import Aggregation, Codes, Floats, Labels, WorkerTable
from misc_cli.errors import InputError


@dataclass(frozen=True)
class WorkerReport:
    """Per worker, (n_workers,) each.

    answers      how many answers it gave
    accuracy     Σ_c p_c · π[c, c]: the chance that it is right on an item drawn from the classes
    agreement    share of its answers that equal the items' final labels
    information  mutual information of the true class and its answer, in bits: 0 for a spammer,
                 however often it happens to be right; high for one who is reliably wrong
    confusions   (n_workers, n_classes, n_classes): [worker, true, observed]
    """

    answers: Floats
    accuracy: Floats
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
    return WorkerReport(
        answers=answers,
        accuracy=np.einsum("c,wcc->w", prior, confusions),
        agreement=agreed / np.maximum(answers, 1.0),
        information=_information(prior, confusions),
        confusions=confusions,
    )


def _sums(groups: Codes, values: Floats, n_groups: int) -> Floats:
    return np.bincount(groups, values, minlength=n_groups).astype(np.float64)


def _information(prior: Floats, confusions: Floats) -> Floats:
    """I(true; observed) = Σ_ck p_c π[c, k] log₂(π[c, k] / Σ_c p_c π[c, k]), (n_workers,)."""
    joint = prior[:, None] * confusions
    marginal = joint.sum(axis=1, keepdims=True)
    ratio = np.where(joint > 0, confusions, 1.0) / np.where(joint > 0, marginal, 1.0)
    bits: Floats = (joint * np.log2(ratio)).sum(axis=(1, 2))
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
