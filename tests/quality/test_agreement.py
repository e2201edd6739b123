"""Alpha and agreement: published values, another implementation, intervals that hold."""

from __future__ import annotations

from typing import Any

import krippendorff
import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats

from misc_cli.data.types import Codes, Floats
from misc_cli.data.votes import SparseVotes
from misc_cli.quality.agreement import (
    _interval,
    agreement_intervals,
    agreement_of,
)
from misc_cli.simulate import Simulation, simulate

# Krippendorff 2011, "Computing Krippendorff's alpha-reliability", example C: four observers,
# twelve units, five values, "*" where nobody looked. alpha: nominal .743.
OBSERVERS = """
1 2 3 3 2 1 4 1 2 * * *
1 2 3 3 2 2 4 1 2 5 * 3
* 3 3 3 2 3 4 2 2 5 1 *
1 2 3 3 2 4 4 1 2 5 1 *
"""


def votes_of(table: Floats, n_classes: int) -> SparseVotes:
    """Votes of a workers × items table of class codes, NaN where nobody answered."""
    worker, item = np.nonzero(~np.isnan(table))
    columns = worker * n_classes + table[worker, item].astype(np.int64)
    shape = (table.shape[1], len(table) * n_classes)
    matrix = sp.csr_array((np.ones(len(item)), (item, columns)), shape=shape)
    return SparseVotes(matrix, len(table), n_classes)


def the_published_table() -> Floats:
    rows = [line.split() for line in OBSERVERS.strip().splitlines()]
    return np.array([[np.nan if c == "*" else float(c) - 1 for c in row] for row in rows])


def test_krippendorffs_own_example() -> None:
    votes = votes_of(the_published_table(), 5)
    assert round(agreement_of(votes)[0], 3) == 0.743


@pytest.mark.parametrize("seed", range(5))
def test_alpha_is_that_of_another_implementation(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_classes = int(rng.integers(2, 7))
    truth = rng.integers(n_classes, size=300)
    table = np.where(rng.random((20, 300)) < 0.6, truth, rng.integers(n_classes, size=(20, 300)))
    sparse = np.where(rng.random((20, 300)) < 0.15, table, np.nan)
    votes = votes_of(sparse, n_classes)

    alpha: Any = krippendorff.alpha
    theirs = float(alpha(sparse, level_of_measurement="nominal"))
    assert agreement_of(votes)[0] == pytest.approx(theirs, abs=1e-6)


def test_fleiss_own_example() -> None:
    """Fleiss 1971: ten subjects, fourteen raters, five categories, mean agreement .378."""
    counts = """0 0 0 0 14 · 0 2 6 4 2 · 0 0 3 5 6 · 0 3 9 2 0 · 2 2 8 1 1
              · 7 7 0 0 0 · 3 2 6 3 0 · 2 5 3 2 2 · 6 5 2 1 0 · 0 2 2 3 7"""
    rows = [[int(n) for n in row.split()] for row in counts.split("·")]
    table = np.array([np.repeat(np.arange(5.0), row) for row in rows]).T
    votes = votes_of(table, 5)
    assert round(agreement_of(votes)[1], 3) == 0.378


def test_nothing_to_compare_is_not_a_number_and_no_error() -> None:
    alone = votes_of(np.array([[0.0, 1.0, np.nan], [np.nan, np.nan, 1.0]]), 2)
    one_class = votes_of(np.zeros((3, 4)), 1)
    for votes in (alone, one_class):
        found = agreement_intervals(votes)
        assert np.isnan([agreement_of(votes)[0], found[0].low]).all()
    assert np.isnan(agreement_of(alone)[1])
    assert agreement_of(one_class)[1] == agreement_intervals(one_class)[1].low == 1.0


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_an_interval_is_scipys_of_the_same_draws(level: float) -> None:
    """Of a skewed sample, whose mean spreads the more the larger it is."""
    sample = np.random.default_rng(3).exponential(size=30)
    found = scipy.stats.bootstrap(
        (sample,), np.mean, confidence_level=level, method="BCa", n_resamples=2000, random_state=0
    )
    without_one = (sample.sum() - sample) / 29
    ours = _interval(sample.mean(keepdims=True), found.bootstrap_distribution, without_one, level)
    theirs = found.confidence_interval
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), rel=1e-9)
    middle = (ours.low + ours.high) / 2
    assert middle - ours.value > 0.01, "nothing skewed was compared"


def part(worker: Codes, item: Codes, label: Codes, n_classes: int) -> SparseVotes:
    n_workers, first = int(worker.max()) + 1, int(item.min())
    columns = worker.astype(np.int64) * n_classes + label
    shape = (int(item.max()) - first + 1, n_workers * n_classes)
    matrix = sp.csr_array((np.ones(len(item)), (item - first, columns)), shape=shape)
    return SparseVotes(matrix, n_workers, n_classes)


def test_intervals_hold_the_true_value() -> None:
    """The value of 20,000 items is as good as true for 200 crowds of 100 of them each.

    benchmarks/verdicts.py has the whole of it: 500 crowds of several kinds.
    """
    crowd = simulate(Simulation(workers=50, items=20_000, classes=3, seed=4))
    votes = part(crowd.worker, crowd.item, crowd.label, 3)
    true = agreement_of(votes)
    hits = np.zeros(2)
    for first in range(0, 20_000, 100):
        rows = slice(*np.searchsorted(crowd.item, [first, first + 100]))
        few = part(crowd.worker[rows], crowd.item[rows], crowd.label[rows], 3)
        found = agreement_intervals(few, resamples=500, seed=first)
        for at, interval in enumerate(found):
            hits[at] += interval.low <= true[at] <= interval.high
    # 95 % of 200 is 190; three standard deviations are 9
    assert (np.abs(hits - 190) <= 9).all()


def test_many_items_are_resampled_in_groups_and_the_seed_repeats() -> None:
    crowd = simulate(Simulation(workers=200, items=30_000, seed=2))
    votes = part(crowd.worker, crowd.item, crowd.label, 4)
    found = agreement_intervals(votes, resamples=300)
    assert found == agreement_intervals(votes, resamples=300)
    assert found[0].value == pytest.approx(agreement_of(votes)[0], abs=1e-12)
    first = slice(0, np.searchsorted(crowd.item, 1_500))
    few = part(crowd.worker[first], crowd.item[first], crowd.label[first], 4)
    narrower = agreement_intervals(few, resamples=300)[0]
    ratio = (narrower.high - narrower.low) / (found[0].high - found[0].low)
    assert ratio == pytest.approx(np.sqrt(20), rel=0.15)
