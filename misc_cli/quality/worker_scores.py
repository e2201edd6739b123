"""Score each worker: accuracy with its interval, information, agreement, and what it adds.

What a worker adds is judged by labels of one E-step with the confusions that the posteriors show,
for a panel and for what is left of it alike: nothing is fitted again. A worker without whom hardly
a label changes is redundant, which is not bad: its answers confirm those of others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import scipy.sparse as sp

from misc_cli.aggregators.confusion_kernels import (
    PSEUDO_ANSWERS,
    Sums,
    confusions_of,
    expected_sums,
    shrunk_rows,
)
from misc_cli.data.encode import trimmed
from misc_cli.data.posteriors import decide, normalise_scores
from misc_cli.data.types import Answers, Floats, Labels, Names
from misc_cli.data.votes import Rows
from misc_cli.engines.protocol import GOLD, POSTERIORS, Block, Engine, RowArrays, SumOver
from misc_cli.quality.evaluation import wilson
from misc_cli.quality.evidence import said_by_workers

VOTE_CELLS_AT_ONCE = 1 << 21  # of votes × classes
CELLS_AT_ONCE = 1 << 22  # of workers × classes × classes, besides the confusions themselves
MOST_OF_PANEL = 30  # workers of a panel that a person can look at as a whole
MOST_VOTES = 300_000  # that `smallest_panel` goes through again and again
SAME = 0.01  # share of the labels that may differ from those of the whole panel

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class PeerAgreement:
    """Agreement of each worker with T⁻, the label that all other answers to an item give.

    T⁻_ic is the posterior of class c for item i without the worker's own answer (leave one out);
    items of `gold` have their known label.

    answers    (n_workers,)
    right      (n_workers,) Σ_i T⁻ of the class that the worker answered
    chance     (n_workers,) Σ_i e_i with e_i = Σ_k m_k T⁻_ik: `right` of a random worker who gives
               labels in the same shares m without looking at the items
    noise      (n_workers,) Σ_i (Σ_k m_k (T⁻_ik)² − e_i²): the variance of that random `right`
    at_best    (n_workers,) Σ_i Σ_c (T⁻_ic)²: `right` of a worker who always tells the truth
    said       (n_workers, n_classes) number of answers of each class
    surprise   (n_workers, n_classes) −Σ_i log Σ_c T⁻_ic C[c, k] over its answers k: how improbable
               they are for a typical worker, whose confusions are C
    """

    answers: Floats
    right: Floats
    at_best: Floats
    chance: Floats
    noise: Floats
    said: Floats
    surprise: Floats


def peer_agreement(engine: Engine) -> PeerAgreement:
    """Compare each worker with the others, from the posteriors on the engine, in three sweeps."""
    said = said_by_workers(engine).astype(np.float64)
    shares = said / np.maximum(said.sum(axis=1, keepdims=True), 1.0)
    counted = engine.sweep(SumOver(expected_sums))
    crowd = counted.by_worker.sum(axis=0) + 0.5 / engine.n_classes  # [true, observed]
    typical = crowd / crowd.sum(axis=1, keepdims=True)
    kernel = partial(_compare, tables=log_tables(counted), typical=typical, shares=shares)
    found = engine.sweep(SumOver(kernel))
    answers, right, at_best, chance, noise = found[:, :5].T
    return PeerAgreement(answers, right, at_best, chance, noise, said, found[:, 5:])


def _compare(
    block: Block,
    rows: RowArrays,
    tables: tuple[Floats, Floats],
    typical: Floats,
    shares: Floats,
) -> Floats:
    """Compare each answer with the posteriors that the other answers give.

    tables   of `log_tables`
    typical  C[c, k], (n_classes, n_classes): the confusions of the whole crowd
    shares   m, (n_workers, n_classes)
    Returns answers, right, at_best, chance, noise and surprise of `PeerAgreement` as columns.
    """
    n_workers, n_classes = shares.shape
    sums, surprise = np.zeros((n_workers, 5)), np.zeros_like(shares)
    for part, votes, item in parts_of(block.matrix, n_classes):
        worker, answer = np.divmod(votes.indices, n_classes)
        without = leave_one_out(votes, item, tables)
        if GOLD in rows:
            known = rows[GOLD][part][item]
            without[known >= 0] = np.eye(n_classes)[known[known >= 0]]
        each = np.arange(len(answer))
        own = without[each, answer]
        by_chance = np.einsum("vc,vc->v", shares[worker], without)
        squares = without**2
        noise = np.einsum("vc,vc->v", shares[worker], squares) - by_chance**2
        columns = [np.ones(len(own)), own, squares.sum(axis=1), by_chance, noise]
        at = sp.csr_array((np.ones(len(worker)), (worker, each)), (n_workers, len(worker)))
        sums += at @ np.column_stack(columns)
        odd = -np.log(np.einsum("vc,vc->v", without, typical.T[answer]))
        surprise += np.bincount(votes.indices, odd, shares.size).reshape(shares.shape)
    return np.hstack([sums, surprise])


def parts_of(block: sp.csr_array, n_classes: int) -> Iterator[tuple[Rows, sp.csr_array, Indices]]:
    """Yield rows, votes and the votes' items of parts whose votes × classes are bounded."""
    targets = np.arange(0, block.nnz, max(1, VOTE_CELLS_AT_ONCE // n_classes))
    cuts = np.unique(np.searchsorted(block.indptr[:-1], targets, side="left"))
    for first, last in pairwise([*cuts.tolist(), block.shape[0]]):
        if first < last:
            votes = block[first:last]
            items = np.repeat(np.arange(last - first), np.diff(votes.indptr))
            yield slice(first, last), votes, items


def log_tables(counted: Sums) -> tuple[Floats, Floats]:
    """Return log π_w[c, k] and the log prior, by expected counts.

    The first is (n_workers * n_classes, n_classes): of column (w, k) of the votes for each true
    class c.
    """
    sizes = counted.class_sizes + 1.0
    confusions = shrunk_rows(counted.by_worker, PSEUDO_ANSWERS)
    table = np.log(np.maximum(confusions, 1e-12)).transpose(0, 2, 1).reshape(-1, len(sizes))
    return table, np.log(sizes / sizes.sum())


def leave_one_out(
    votes: sp.csr_array, item: Indices, tables: tuple[Floats, Floats], out: float = 1.0
) -> Floats:
    """Return T⁻ of votes, (n_votes, n_classes): the posteriors of their items without them.

    `item` is (n_votes,); `out` is the share of a vote that is left out: 0 for none.
    """
    table, log_prior = tables
    # the scores of the items minus the part of the vote itself
    scores: Floats = (votes @ table)[item] - out * table[votes.indices]
    normalise_scores(scores, None, log_prior)
    return scores


def report_workers(engine: Engine, confusions: Floats, class_prior: Floats) -> dict[str, Floats]:
    """Score the workers by the posteriors on the engine and the labels that they decide.

    Returns columns, (n_workers,) each:
    answers      number of answers
    accuracy     Σ_c p_c · π[c, c]: the probability of a right answer to an item of a random class;
                 accuracy_low, accuracy_high are its 95 % interval (`_accuracy_interval`)
    agreement    share of the answers that equal the items' final labels
    information  mutual information of true class and answer, in bits: 0 for a spammer, even one who
                 is often right by chance; high for a worker who is reliably wrong
    """
    counted = engine.sweep(SumOver(_count))
    answers, agreed = counted[:, 0], counted[:, 1]
    accuracy = np.einsum("c,wcc->w", class_prior, confusions)
    low, high = _accuracy_interval(counted[:, 2:], confusions, class_prior, accuracy)
    return {
        "answers": answers,
        "accuracy": accuracy,
        "accuracy_low": low,
        "accuracy_high": high,
        "agreement": agreed / np.maximum(answers, 1.0),
        "information": _information(class_prior, confusions),
    }


def _count(block: Block, rows: RowArrays) -> Floats:
    """Count the answers of each worker, (n_workers, 2 + n_classes).

    Columns: all answers; those that equal the item's label; answers to items of each class, where
    answers to unsure items count less (`_accuracy_interval`).
    """
    matrix, n_classes = block.matrix, block.n_classes
    posteriors = np.asarray(rows[POSTERIORS])
    shape = (matrix.shape[0], matrix.shape[1] // n_classes)
    worker, answer = np.divmod(matrix.indices, n_classes)
    final = np.repeat(decide(posteriors).label, np.diff(matrix.indptr))
    agreed = matrix.data * (answer == final)
    who = sp.csr_array((np.ones(matrix.nnz), worker, matrix.indptr), shape)
    sharpness = (posteriors**2).sum(axis=1, keepdims=True)
    seen = who.T @ (posteriors * sharpness)
    counts = [np.bincount(worker, values, shape[1]) for values in (matrix.data, agreed)]
    return np.column_stack([*counts, seen])


def _accuracy_interval(
    seen: Floats, confusions: Floats, class_prior: Floats, accuracy: Floats
) -> tuple[Floats, Floats]:
    """Return Wilson's interval of each worker's accuracy, (n_workers,) each.

    accuracy = Σ_c p_c a_c, where a_c = π[c, c] rests on n_c answers, so its variance is
    Σ_c p_c² a_c (1 − a_c) / (n_c + 1), and the effective number of answers is
    accuracy (1 − accuracy) / variance. `seen`, (n_workers, n_classes), are the n_c; an answer to an
    item that may be of several classes counts less, Σ_c T_ic². The interval does not cover labels
    that are wrong because workers err together.
    """
    right = np.diagonal(confusions, axis1=1, axis2=2)  # (n_workers, n_classes)
    smoothed = (right * seen + 0.5) / (seen + 1.0)
    variance = (class_prior**2 * smoothed * (1.0 - smoothed) / (seen + 1.0)).sum(axis=1)
    middle = np.clip(accuracy, 0.0, 1.0)
    # at 0 and 1 a share has no variance: one more answer of either kind gives it some
    total = seen.sum(axis=1)
    inside = (middle * total + 1.0) / (total + 2.0)
    n_answers = np.maximum(inside * (1.0 - inside) / np.maximum(variance, 1e-12), 1e-9)
    n_answers = np.minimum(n_answers, np.maximum(total, 1e-9))
    low, high = wilson(middle, n_answers)
    return np.clip(low, 0.0, middle), np.clip(high, middle, 1.0)


def _information(prior: Floats, confusions: Floats) -> Floats:
    """Return I(true; observed) = Σ_ck p_c π[c, k] log₂(π[c, k] / Σ_c p_c π[c, k]), (n_workers,)."""
    bits = np.empty(len(confusions))
    step = max(1, CELLS_AT_ONCE // confusions[0].size)
    for start in range(0, len(confusions), step):
        some = confusions[start : start + step]
        joint = prior[:, None] * some
        marginal = joint.sum(axis=1, keepdims=True)
        ratio = np.where(joint > 0, some, 1.0) / np.where(joint > 0, marginal, 1.0)
        bits[start : start + step] = (joint * np.log2(ratio)).sum(axis=(1, 2))
    return np.maximum(bits, 0.0)


def median_seconds(answers: Answers, workers: Names) -> Floats | None:
    """Return the median seconds of each worker's answers, NaN if unknown; None if all are."""
    if answers.seconds is None:
        return None
    from scipy.ndimage import median  # seldom needed

    who = pc.fill_null(pc.index_in(trimmed(answers.worker), workers), -1).to_numpy()
    known = np.isfinite(answers.seconds)
    found = median(answers.seconds[known], who[known], np.arange(len(workers)))
    return np.where(np.isin(np.arange(len(workers)), who[known]), found, np.nan)


def labels_that_change(engine: Engine) -> Indices:
    """Return how many labels would be others without each worker's answers, (n_workers,)."""
    return engine.sweep(
        SumOver(partial(_changed, tables=log_tables(engine.sweep(SumOver(expected_sums)))))
    )


def _changed(block: Block, rows: RowArrays, tables: tuple[Floats, Floats]) -> Indices:
    n_classes = block.n_classes
    n_workers = block.matrix.shape[1] // n_classes
    found = np.zeros(n_workers, dtype=np.int64)
    for part, votes, item in parts_of(block.matrix, n_classes):
        with_it = leave_one_out(votes, item, tables, 0.0).argmax(axis=1)
        changed = with_it != leave_one_out(votes, item, tables).argmax(axis=1)
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
