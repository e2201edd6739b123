"""Evidence that answers depend on items: without it, every confidence is a guess.

Under the null hypothesis a worker answers by its own label shares, whatever the item. Two workers
then agree on an item by chance alone. Notation, over items i and their answers x_w, x_v (w ≠ v):

    p_w   worker w's label shares, drawn towards the crowd's by SHRINKAGE pseudo-answers
    d_w   (indicator of x_w − p_w) / f_w, where f_w makes up for w's own answers in p_w
    Σ_w   diag(p_w) − p_w p_wᵀ, the covariance of d_w under the null
    A     Σ_i Σ_wv d_w · d_v            agreement beyond chance; 0 is expected under the null
    V     2 Σ_i Σ_wv tr(Σ_w Σ_v)        its variance: two pairs of workers are uncorrelated
    M     Σ_i Σ_wv √(tr Σ_w tr Σ_v)     the most that A could be
    a = A / M, e = √V / M               the estimate and its standard error

All are sums over an item's answers, never over pairs: Σ_wv d_w·d_v = |Σ d_w|² − Σ |d_w|².
Where that leaves doubt it is asked once more with each d_w times u_w, how far w agrees with the
others: spammers then count little, and who always contradicts agrees. u_w of half of the items
weighs the answers to the other half, so that under the null A is still 0. The surer one counts.
Where answers do not depend on items the true agreement is 0; where they do it has the density
6a(1 − a), which is low near 0: no crowd of people we know is below 0.16. Bayes' rule weighs the two
by how well they explain the estimate, from odds of ODDS to 1 against: a crowd shows its evidence,
and does not agree by the luck of two or three standard errors. What is
written is the mean of both: the posteriors where answers depend on items, the class shares where
they do not.

Workers who only ever say one label (labelling functions) have d = 0 and say nothing so. What they
may show is which of them speak together: with q the share of pairs of distinct workers with the
same label, were they to speak at random, B = Σ_i (pairs with the same label − q · pairs).
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from misc_cli.data.holdout import item_keys
from misc_cli.data.posteriors import clamp, tied_classes
from misc_cli.data.types import Floats
from misc_cli.engines.protocol import GOLD, POSTERIORS, Block, Engine, RowArrays, SumOver, WriteRows
from misc_cli.errors import MiscWarning

SHRINKAGE = 2.0
MOST_CLASSES = 8  # covariances take K² numbers per worker: more are put together, by their codes
ODD = 7.0  # −log of the chance, a thousandth, that who answers as the crowd does says one label
# Where more of the answers than this are by workers who only ever say one label, hidden answers say
# nothing of items, and who speaks together decides. Of 19 public crowds at most 12 % are such; of
# labelling functions all, or most.
ONE_LABEL_SHARE = 0.5
ODDS = 20.0  # that answers do not depend on items, before they are seen
FEWEST_ANSWERS = 50  # fewer decide nothing
# A standard error up to the first tells agreement from chance; from the second on, nothing would.
TELLING, POWERLESS = 0.15, 0.25
GUESSES = 0.5  # below this probability the run says that its labels are guesses
CERTAIN = 0.99  # from this probability on nothing is doubted
GUESSES_SAID = "these answers agree no more than chance: the labels are guesses"
FEW_PAIRS = 10.0  # of answers that a worker needs before its agreement with others counts half
LEAST_LEAD = 2e-9  # of a label that was ahead: `decide` takes less than half of it for a tie

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Evidence:
    """The evidence that answers depend on items.

    probability  that they depend on items; None where no two answers, or too few, could have told
    weight       of the posteriors against the class shares: the probability, 1 where it is None
    agreement    beyond chance: 0 none, 1 all there can be; NaN where there is nothing to compare
    error        its standard error under the null hypothesis
    shares       (n_classes,) of all answers: what is left to say of an item without evidence
    one_label    whether most answers are by workers who only ever say one label
    """

    probability: float | None
    weight: float
    agreement: float
    error: float
    shares: Floats
    one_label: bool


def evidence_of(engine: Engine) -> Evidence:
    """Return the evidence in an engine's votes: two sweeps, two more where there is doubt."""
    said = said_by_workers(engine)
    alone = one_label_workers(said)
    if said[alone].sum() > ONE_LABEL_SHARE * said.sum():
        q = same_label_chance(said[alone])
        summed = engine.sweep(SumOver(partial(_said_together, one_label=alone, same_label=q)))
        return _weighed(summed * [1.0, 1.0, 1.0 - q if q > 0.0 else 0.0], said, True)
    beyond = partial(agreement_beyond_chance, habits=label_habits(said))
    found = _weighed(engine.sweep(SumOver(beyond)), said)
    if found.weight == 1.0:
        return found
    agreed, most = engine.sweep(SumOver(partial(beyond, by_worker=True))).swapaxes(0, 1)
    # drawn towards 0 for who has few pairs
    weights = np.asarray(agreed / (most + FEW_PAIRS))
    closer = _weighed(engine.sweep(SumOver(partial(beyond, weights=weights))), said)
    return max(found, closer, key=lambda one: one.weight)


def doubt(engine: Engine, evidence: Evidence, calibrate: bool) -> None:
    """Warn where labels are guesses, and where nobody can know whether they are.

    With `calibrate`, posteriors are drawn towards the class shares as far as evidence is missing.
    """
    text = ""
    if evidence.weight < GUESSES:
        text = f"{GUESSES_SAID}, and confidences are the class shares"
    elif evidence.probability is None and evidence.one_label:
        text = (
            "workers who only ever say one label, no two of them the same: nothing in these "
            "answers tells whether the labels are right"
        )
    if text:
        warnings.warn(text, MiscWarning, stacklevel=3)
    if calibrate and evidence.weight < 1.0:
        kernel = partial(weigh_evidence, weight=evidence.weight, shares=evidence.shares)
        engine.sweep(WriteRows(kernel, (POSTERIORS,), (POSTERIORS,)))


def _weighed(summed: Floats, said: Counts, one_label: bool = False) -> Evidence:
    """Return the evidence in the sums A, V and M, (3,); `said` is (n_workers, n_classes)."""
    agreed, variance, most = summed.tolist()
    probability, agreement, error = None, math.nan, math.nan
    if variance > 0.0 and most > 1e-9:  # there is something to compare
        agreement, error = agreed / most, math.sqrt(variance) / most
        if said.sum() >= FEWEST_ANSWERS:
            # who writes labelling functions has looked at items
            odds = 1.0 if one_label else ODDS
            probability = dependence_probability(agreement, error, odds)
    shares: Floats = said.sum(axis=0) / max(said.sum(), 1)
    weight = 1.0 if probability is None else probability
    return Evidence(probability, weight, agreement, error, shares, one_label)


def dependence_probability(agreement: float, error: float, odds: float = ODDS) -> float:
    """Return the probability that answers depend on items, by Bayes' rule from odds against it.

    The density of the estimate is normal around 0 if they do not, and normal around a, which has
    the density 6a(1 − a), if they do. A handful of answers decides nothing: it stays 1.
    """
    z = agreement / error
    power = min(max((POWERLESS - error) / (POWERLESS - TELLING), 0.0), 1.0)
    if z > 30.0 or power == 0.0:  # beyond what exp can say; too few
        return 1.0
    normal = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    above_0 = 0.5 * math.erfc(-z / math.sqrt(2.0))
    # ∫ (a − a²) N(agreement; a, error²) da over a > 0, by the moments of a truncated normal
    first = agreement * above_0 + error * normal
    second = (agreement**2 + error**2) * above_0 + agreement * error * normal
    depends = max(6.0 * (first - second), 1e-300)
    by_chance = odds * normal / error
    probability = 1.0 - power * by_chance / (by_chance + depends)
    return 1.0 if probability >= CERTAIN else probability


def one_label_workers(said: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
    """Return which workers only ever say one label, beyond chance, (n_workers,).

    said (n_workers, n_classes) is how often each worker said each class.
    """
    answers, crowd = said.sum(axis=1), said.sum(axis=0)
    most = said.argmax(axis=1)
    surprise = answers * np.log(crowd.sum() / np.maximum(crowd[most], 1))
    alone: npt.NDArray[np.bool_] = (said.max(axis=1) == answers) & (surprise >= ODD)
    return alone


def same_label_chance(said: npt.NDArray[np.integer]) -> float:
    """Return the chance that answers of two distinct workers have the same label."""
    counts = said.astype(np.float64)
    of_workers = counts.sum(axis=1)
    same = float((counts.sum(axis=0) ** 2).sum() - (counts**2).sum())
    pairs = float(of_workers.sum() ** 2 - (of_workers**2).sum())
    return same / pairs if pairs > 0.0 else 0.0


def said_by_workers(engine: Engine) -> Counts:
    """Return how often each worker said each class, (n_workers, n_classes)."""
    return engine.sweep(SumOver(_said)).reshape(engine.n_workers, engine.n_classes)


def _said(block: Block, _: RowArrays) -> Counts:
    return np.bincount(block.matrix.indices, minlength=block.matrix.shape[1])


def label_habits(said: Counts) -> tuple[Floats, Floats]:
    """Return p_w, (n_workers, n_groups), and f_w, (n_workers,), of workers who said so much.

    Classes are put together into groups where there are many.
    """
    n_workers, n_classes = said.shape
    n_groups = min(n_classes, MOST_CLASSES)
    counts = np.zeros((n_workers, n_groups))
    np.add.at(counts.T, np.arange(n_classes) % n_groups, said.T)
    answers = np.maximum(counts.sum(axis=1), 1.0)  # who answers nothing divides nothing
    crowd = counts.sum(axis=0) / max(counts.sum(), 1.0)
    with_crowd = answers + SHRINKAGE
    shares = (counts + SHRINKAGE * crowd) / with_crowd[:, None]
    # Var(x − mean that counts x once in n + s): 1 − 2/(n + s) + n/(n + s)²
    return shares, np.sqrt(1.0 - 2.0 / with_crowd + answers / with_crowd**2)


def agreement_beyond_chance(
    block: Block,
    _: RowArrays,
    habits: tuple[Floats, Floats],
    weights: Floats | None = None,
    by_worker: bool = False,
) -> Floats:
    """Return A, V and M of a block's items, (3,).

    habits     p_w and f_w
    weights    (2, n_workers) u_w, of two halves of the items; None: all workers count the same
    by_worker  return A and M of the pairs of each worker on either half, (2, 2, n_workers)
    """
    matrix, (shares, scales) = block.matrix, habits
    n_workers = len(scales)
    workers, classes = np.divmod(matrix.indices, block.n_classes)
    groups = classes % shares.shape[1]
    items = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    u, halves = np.ones(len(items)), items
    if weights is not None or by_worker:  # by the items' names
        by_name = (item_keys(block.items) >> np.uint64(32)) & np.uint64(1)
        halves = by_name.astype(np.int64)[items]
    if weights is not None:
        u = weights[1 - halves, workers]
    # who contradicts itself on an item (--duplicates all) neither agrees nor disagrees there
    twice = (workers[1:] == workers[:-1]) & (items[1:] == items[:-1])
    u = u * ~np.append(twice, False) * ~np.insert(twice, 0, False)

    def by_item(values: Floats, columns: Counts, n_columns: int) -> sp.csr_array:
        return sp.csr_array((values, columns, matrix.indptr), (matrix.shape[0], n_columns))

    squares = (shares**2).sum(axis=1)
    scaled, spread = shares / scales[:, None], np.sqrt(1.0 - squares)
    own_scale = u / scales[workers]
    said = by_item(own_scale, groups, shares.shape[1]).toarray()
    beyond = said - by_item(u, workers, n_workers) @ scaled
    own = (1.0 - 2.0 * shares[workers, groups] + squares[workers]) * own_scale**2
    most = by_item(np.abs(u), workers, n_workers) @ spread
    root = np.abs(u) * spread[workers]
    if by_worker:
        # of each answer, with all others to the item: u_w d_w · (Σ u_v d_v) and the most of it
        with_others = beyond[items, groups] / scales[workers]
        with_others -= np.einsum("pk,pk->p", beyond[items], scaled[workers])
        each = u * with_others - own, root * (most[items] - root)
        places = halves * n_workers + workers
        summed = [np.bincount(places, values, minlength=2 * n_workers) for values in each]
        return np.stack([one.reshape(2, n_workers) for one in summed], axis=1)
    # Σ_w as a row, the upper triangle, so that the products of rows are tr(Σ_w Σ_v)
    one, other = np.triu_indices(shares.shape[1])
    covariances = -shares[:, one] * shares[:, other]
    covariances *= np.where(one == other, 1.0, math.sqrt(2.0))
    covariances[:, one == other] += shares
    together = by_item(u**2, workers, n_workers) @ covariances
    alone = (covariances**2).sum(axis=1)[workers]
    variance = 2.0 * float((together**2).sum() - (u**4 * alone).sum())
    agreed = float((beyond**2).sum() - own.sum())
    return np.array([agreed, variance, float((most**2).sum() - (root**2).sum())])


def _said_together(
    block: Block, _: RowArrays, one_label: npt.NDArray[np.bool_], same_label: float
) -> Floats:
    """Return B, Σ_i B_i² and the pairs of answers by workers of one label, (3,)."""
    workers, classes = np.divmod(block.matrix.indices, block.n_classes)
    counted = one_label[workers].astype(np.float64)
    shape = (block.matrix.shape[0], block.n_classes)
    totals = sp.csr_array((counted, classes, block.matrix.indptr), shape).toarray()
    answers = totals.sum(axis=1)
    pairs = answers * (answers - 1.0)
    same = (totals**2).sum(axis=1) - answers - same_label * pairs
    return np.array([same.sum(), (same**2).sum(), pairs.sum()])


def weigh_evidence(
    _: Block, rows: RowArrays, weight: float, shares: Floats
) -> tuple[RowArrays, int]:
    """Draw posteriors towards the class shares, by `Evidence.weight`; no label changes."""
    written = toward_shares(np.asarray(rows[POSTERIORS]), shares, weight)
    if GOLD in rows:
        clamp(written, rows[GOLD])
    return {POSTERIORS: written}, 0


def toward_shares(posteriors: Floats, shares: Floats, weight: float) -> Floats:
    """Return weight · posteriors + (1 − weight) · class shares, (n_items, n_classes).

    Where the shares prefer other classes than an item's label, they count as equal with it: the
    label stays and is as doubtful as can be. Ties stay ties.
    """
    if weight >= 1.0:
        return posteriors
    tied = tied_classes(posteriors)
    target = np.broadcast_to(shares, posteriors.shape).copy()
    level = np.zeros(len(posteriors))
    top = tied.copy()
    for _ in range(len(shares)):  # classes above the label's level join it, one level at a time
        level = (target * top).sum(axis=1) / top.sum(axis=1)
        above = ~top & (target > level[:, None])
        if not above.any():
            break
        top |= above
    target[top] = np.broadcast_to(level[:, None], top.shape)[top]
    rest = np.where(tied, -1.0, posteriors).max(axis=1)
    lead = np.maximum(posteriors.max(axis=1) - rest, LEAST_LEAD)
    weights = np.maximum(weight, np.minimum(LEAST_LEAD / lead, 1.0))[:, None]
    written: Floats = weights * posteriors + (1.0 - weights) * target
    return written
