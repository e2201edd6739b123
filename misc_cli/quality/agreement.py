"""Measure how far answers agree with each other, without a model, labels or truth.

Notation (Krippendorff 2011, "Computing Krippendorff's alpha-reliability"), over items u with at
least two answers, the only ones that can agree or disagree:
    n_u, n_uc  → answers on item u, and those of class c
    n_c, n     → answers of class c on all such items, and all of them
    D_o        = (1/n) Σ_u (n_u² − Σ_c n_uc²) / (n_u − 1)         observed within items
    D_e        = (n² − Σ_c n_c²) / (n (n − 1))                    expected by chance
    alpha      = 1 − D_o / D_e
Sums go over an item's answers, never over their pairs. Classes have no order here.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp

from misc_cli.data.encode import encode
from misc_cli.data.resources import map_in_order
from misc_cli.data.types import Answers, Floats
from misc_cli.data.votes import Votes, votes_by_worker, votes_per_item

RESAMPLES = 2_000
# More items than this are resampled in random groups: the same interval at a bounded cost.
MOST_GROUPS = 2_000
RESAMPLES_AT_ONCE = 100


class Interval(NamedTuple):
    """A figure and its bootstrap bounds; NaN where undefined."""

    value: float
    low: float
    high: float


def of_sums(table: Floats) -> tuple[Floats, Floats]:
    """Return Krippendorff's alpha and pairwise agreement of each row of sums (`item_sums`).

    Alpha is 1 where workers always agree, 0 as by chance, below 0 worse than chance. The agreement
    is the probability that two answers to the same item agree, the item drawn first (Fleiss's P̄).
    Both are NaN without two answers to an item, alpha also with one class.
    """
    total, seen, items, agreeing, classes = *table[:, :4].T, table[:, 4:]
    by_chance = total**2 - (classes**2).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        alphas: Floats = 1.0 - seen * (total - 1.0) / by_chance
        agreements: Floats = agreeing / items
    # by_chance is 0 with one class, or without an item with two answers; rounding may leave a rest
    alphas[~(by_chance > 1e-12 * total**2)] = np.nan
    return alphas, agreements


def agreement_of(votes: Votes) -> tuple[float, float]:
    """Return Krippendorff's alpha and the pairwise agreement."""
    sums = sum(item_sums(votes.class_totals(rows))[0].sum(axis=0) for rows in votes.blocks)
    alpha, agreement = of_sums(np.atleast_2d(sums))
    return float(alpha[0]), float(agreement[0])


def agreement_intervals(
    votes: Votes, *, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[Interval, Interval]:
    """Return alpha and pairwise agreement with 95 % bootstrap intervals (BCa, Efron 1987).

    Items are resampled: the bounds tell what other items would have given with the same workers.
    """
    rng = np.random.default_rng(seed)
    n_groups = min(votes.n_items, MOST_GROUPS)
    table = _sums_by_group(votes, rng.permutation(votes.n_items) % n_groups)
    draws = [
        rng.multinomial(n_groups, np.full(n_groups, 1 / n_groups), size) @ table
        for size in np.diff([*range(0, resamples, RESAMPLES_AT_ONCE), resamples])
    ]
    whole = np.ones((1, n_groups), dtype=np.int64) @ table
    samples = whole, np.concatenate(draws), table.sum(axis=0) - table
    alpha, agreement = zip(*map(of_sums, samples), strict=True)
    return _interval(*alpha), _interval(*agreement)


def _sums_by_group(votes: Votes, group: npt.NDArray[np.int64]) -> Floats:
    """Return the rows of `item_sums` summed by group of items, (n_groups, 4 + n_classes)."""
    table = np.zeros((int(group.max(initial=0)) + 1, 4 + votes.n_classes))

    def kernel(rows: slice) -> Floats:
        own, paired = item_sums(votes.class_totals(rows))
        of = group[rows][paired]
        members = sp.csr_array((np.ones(len(of)), (of, np.arange(len(of)))), (len(table), len(of)))
        return np.asarray(members @ own)

    for partial_sums in map_in_order(kernel, votes.blocks):
        table += partial_sums
    return table


def item_sums(totals: Floats) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return a row of sums for each item with two answers, and a mask of these items.

    totals   (n_items, n_classes) votes of each class
    columns  n_u · (n_u² − Σ_c n_uc²) / (n_u − 1) · 1 · the share of u's pairs of answers that
             agree · n_uc of each class
    """
    answers = totals.sum(axis=1)
    paired = answers >= 2
    totals, answers = totals[paired], answers[paired]
    differ = answers**2 - (totals**2).sum(axis=1)
    agreeing = 1.0 - differ / (answers * (answers - 1.0))
    columns = [answers, differ / (answers - 1.0), np.ones(len(answers)), agreeing, totals]
    return np.column_stack(columns), paired


def _interval(whole: Floats, draws: Floats, without_one: Floats, level: float = 0.95) -> Interval:
    """Return the bias-corrected and accelerated (BCa) percentiles of the draws.

    z0 = Φ⁻¹(share of draws below the value); a = Σ d³ / 6 (Σ d²)^(3/2), where d is the mean of the
    values without one group minus each of them; bounds at Φ(z0 + (z0 ± z)/(1 − a(z0 ± z))).
    """
    value = float(whole[0])
    draws = draws[np.isfinite(draws)]
    if not np.isfinite(value) or len(draws) == 0:
        return Interval(value, float("nan"), float("nan"))
    below = float(np.mean(draws < value) + np.mean(draws <= value)) / 2.0
    normal, least = NormalDist(), 1.0 / (len(draws) + 1)
    bias = normal.inv_cdf(min(max(below, least), 1.0 - least))
    jackknife = without_one[np.isfinite(without_one)]
    deviations = jackknife.mean() - jackknife if len(jackknife) else np.zeros(1)
    spread = float((deviations**2).sum())
    acceleration = 0.0 if spread == 0.0 else float((deviations**3).sum()) / (6.0 * spread**1.5)
    z = normal.inv_cdf((1.0 + level) / 2.0)
    sides = (bias - z, bias + z)
    at = [normal.cdf(bias + side / (1.0 - acceleration * side)) for side in sides]
    low, high = np.quantile(draws, at)
    return Interval(value, float(low), float(high))


def summarize(answers: Answers, duplicates: str | None = None) -> dict[str, Any]:
    """Return counts, classes, answers per item and worker, agreement, one-label workers."""
    encoding = encode(answers, duplicates=duplicates or "last")
    labels, counts = encoding.labels, encoding.counts
    votes = labels.votes
    by_worker = votes_by_worker(votes)
    per_worker = by_worker.sum(axis=1)
    monotone = (per_worker >= 5) & (by_worker.max(axis=1) == per_worker)
    per_class = map(int, by_worker.sum(axis=0))
    alpha, agreement = (
        round(one, 4) if math.isfinite(one) else None for one in agreement_of(votes)
    )

    def spread(counts: Any) -> dict[str, float]:
        mean = round(float(counts.mean()), 2)
        return {"least": int(counts.min()), "mean": mean, "most": int(counts.max())}

    return {
        "answers": votes.n_votes,
        "workers": labels.n_workers,
        "items": labels.n_items,
        "classes": dict(zip(labels.classes.to_pylist(), per_class, strict=True)),
        "ordered": labels.ordered,
        "empty": counts.n_empty,
        "repeats": counts.n_repeats,
        "conflicts": counts.n_conflicts,
        "answers_per_item": spread(votes_per_item(votes)),
        "answers_per_worker": spread(per_worker),
        "alpha": alpha,
        "agreement": agreement,
        "one_label_workers": labels.workers.filter(pa.array(monotone)).to_pylist(),
    }
