"""Evidence that answers depend on items: by hand, pair by pair, on coin flips and on crowds."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from itertools import permutations

import numpy as np
import pytest

from misc_cli.data.posteriors import decide
from misc_cli.data.types import Codes, Floats, Labels
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.protocol import POSTERIORS, SumOver
from misc_cli.quality.evidence import (
    GUESSES,
    ODDS,
    POWERLESS,
    SHRINKAGE,
    Counts,
    Evidence,
    agreement_beyond_chance,
    dependence_probability,
    doubt,
    evidence_of,
    label_habits,
    one_label_workers,
    same_label_chance,
    toward_shares,
)
from misc_cli.simulate import Simulation, simulate
from tests.crowds import labels_from, labels_of


def crowd_of(answers: Floats, n_classes: int) -> Labels:
    """Labels of a table (n_workers, n_items) of class codes, -1 where nobody answered."""
    worker, item = np.nonzero(answers >= 0)
    said: Codes = answers[worker, item].astype(np.int32)
    shape = (answers.shape[1], len(answers), n_classes)
    return labels_from(worker.astype(np.int32), item.astype(np.int32), said, shape)


def evidence_in(labels: Labels) -> Evidence:
    return evidence_of(MemoryEngine(labels))


def summed(labels: Labels, said: Counts, by_worker: bool = False) -> Floats:
    """A, V and M of all items."""
    kernel = partial(agreement_beyond_chance, habits=label_habits(said), by_worker=by_worker)
    return MemoryEngine(labels).sweep(SumOver(kernel))


def coin_flips(
    n_items: int, per_item: int, n_classes: int, seed: int, n_workers: int = 30
) -> Labels:
    rng = np.random.default_rng(seed)
    worker = np.concatenate([rng.permutation(n_workers)[:per_item] for _ in range(n_items)])
    item = np.repeat(np.arange(n_items), per_item)
    said = rng.integers(n_classes, size=len(item))
    shape = (n_items, n_workers, n_classes)
    return labels_from(worker.astype(np.int32), item.astype(np.int32), said.astype(np.int32), shape)


def test_two_workers_who_agree_by_hand() -> None:
    # Both say a of the first item and b of the second. Shares (1 + 1) / (2 + 2) = 1/2 each;
    # f² = 1 − 2/4 + 2/16 = 5/8; d = ±(1/2, −1/2) / f, d·d = (1/2) / (5/8) = 4/5.
    # Four ordered pairs: A = 16/5; tr(Σ Σ) = 1/4, V = 2 · 4 · 1/4 = 2; tr Σ = 1/2, M = 4 · 1/2 = 2.
    found = evidence_in(crowd_of(np.array([[0, 1], [0, 1]]), 2))
    assert found.agreement == pytest.approx(3.2 / 2.0)
    assert found.error == pytest.approx(math.sqrt(2.0) / 2.0)
    assert found.error > POWERLESS
    assert found.probability is None  # too few to deny it
    assert found.weight == 1.0
    assert found.shares.tolist() == [0.5, 0.5]


def test_the_sums_are_those_over_pairs() -> None:
    rng = np.random.default_rng(5)
    answers = rng.integers(-1, 3, size=(6, 9)).astype(np.float64)
    labels = crowd_of(answers, 3)
    said = np.stack([(answers == c).sum(axis=1) for c in range(3)], axis=1)
    n = said.sum(axis=1)
    crowd = said.sum(axis=0) / said.sum()
    p = (said + SHRINKAGE * crowd) / (n + SHRINKAGE)[:, None]
    f = np.sqrt(1 - 2 / (n + SHRINKAGE) + n / (n + SHRINKAGE) ** 2)
    spread = [np.diag(row) - np.outer(row, row) for row in p]
    agreed = variance = most = 0.0
    for item in range(9):
        present = np.flatnonzero(answers[:, item] >= 0)
        d = {w: (np.eye(3)[int(answers[w, item])] - p[w]) / f[w] for w in present}
        for w, v in permutations(present, 2):
            agreed += d[w] @ d[v]
            variance += 2.0 * np.trace(spread[w] @ spread[v])
            most += math.sqrt(np.trace(spread[w]) * np.trace(spread[v]))
    assert summed(labels, said) == pytest.approx([agreed, variance, most])


def test_probability_by_hand() -> None:
    # z = 0 at an error of 0.1: 1 / (0.1 √2π) = 3.98942 by chance; otherwise the mean of 6a(1 − a)
    # over half a normal, 6 (0.1 · 0.398942 − 0.01 / 2) = 0.209365.
    wanted = 0.209365 / (0.209365 + ODDS * 3.98942)
    assert dependence_probability(0.0, 0.1) == pytest.approx(wanted, rel=1e-4)
    assert dependence_probability(0.3, 0.005) == 1.0
    assert dependence_probability(0.5, 0.3) == 1.0
    rising = [dependence_probability(z * 0.02, 0.02) for z in np.linspace(-5.0, 8.0, 40)]
    assert rising == sorted(rising)
    assert 0.0 <= rising[0] < 0.01
    assert rising[-1] > 0.99


def test_coin_flips_are_told() -> None:
    sizes = [(300, 3), (300, 5), (3_000, 3)]
    found = [
        evidence_in(coin_flips(*size, n_classes, seed))
        for size in sizes
        for n_classes in (2, 3, 4, 5, 20)
        for seed in range(12)
    ]
    # a weight of 0.25 is about what lifts the mean confidence of votes by 0.08
    assert sum(one.weight > 0.25 for one in found) == 0
    assert np.median([abs(one.agreement / one.error) for one in found]) < 1.5


def test_workers_habits_are_no_evidence() -> None:
    # each has label shares of its own, and half of them hardly ever differ from one label
    rng = np.random.default_rng(2)
    habits = rng.dirichlet([0.3, 0.3, 0.3], 40)
    zs = []
    for _ in range(20):
        worker = np.concatenate([rng.permutation(40)[:4] for _ in range(300)])
        said = (habits[worker].cumsum(axis=1)[:, :-1] < rng.random((1200, 1))).sum(axis=1)
        item = np.repeat(np.arange(300), 4)
        labels = labels_from(
            worker.astype(np.int32), item.astype(np.int32), said.astype(np.int32), (300, 40, 3)
        )
        found = evidence_in(labels)
        zs.append(found.agreement / found.error)
    assert abs(np.mean(zs)) < 0.7
    assert 0.5 < np.std(zs) < 1.6


@pytest.mark.parametrize("seed", range(3))
def test_a_crowd_that_looks_is_certain(seed: int) -> None:
    crowd = simulate(Simulation(workers=40, items=300, accuracy=0.6, seed=seed))
    assert evidence_in(labels_of(crowd)).weight == 1.0


def test_workers_who_answer_once_count() -> None:
    truth = np.random.default_rng(0).integers(2, size=200)
    item = np.repeat(np.arange(200), 3)
    said = truth[item].astype(np.int32)
    said[::5] = 1 - said[::5]
    worker = np.arange(600, dtype=np.int32)
    found = evidence_in(labels_from(worker, item.astype(np.int32), said, (200, 600, 2)))
    assert found.weight > 0.999


def functions(together: bool, n_labels: int = 2) -> Labels:
    """Eight workers of one label each, who speak of items of their class, or of any."""
    rng = np.random.default_rng(4)
    truth = rng.integers(2, size=600)
    own = np.arange(8) % n_labels
    right = truth[None, :] == own[:, None] % 2
    speaks = rng.random((8, 600)) < (np.where(right, 0.5, 0.15) if together else 0.3)
    return crowd_of(np.where(speaks, own[:, None], -1).astype(np.float64), n_labels)


def test_labelling_functions_are_judged_by_who_speaks_together() -> None:
    assert evidence_in(functions(together=True)).weight > 0.999
    assert evidence_in(functions(together=False)).weight < GUESSES
    # one function for each class: no two can agree, so nothing can be known
    assert evidence_in(functions(together=True, n_labels=8)).probability is None


def test_same_label_chance_leaves_out_workers_themselves() -> None:
    # three workers, ten answers each: two of label a. Ordered pairs 6 · 100, of a 2 · 100.
    said = np.array([[10, 0], [10, 0], [0, 10]])
    assert same_label_chance(said) == pytest.approx(1.0 / 3.0)
    assert one_label_workers(np.array([[30, 0], [3, 0], [9, 21]])).tolist() == [True, False, False]


def test_toward_shares_by_hand() -> None:
    posteriors = np.array([[0.9, 0.1, 0.0], [0.1, 0.9, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    shares = np.array([0.6, 0.3, 0.1])
    written = toward_shares(posteriors, shares, 0.0)
    assert np.allclose(written[0], [0.6, 0.3, 0.1], atol=1e-8)
    assert np.allclose(written[1], [0.45, 0.45, 0.1], atol=1e-8)  # as doubtful as can be
    assert written[1].argmax() == 1
    assert np.allclose(written[2], [0.45, 0.45, 0.1])  # a tie stays one
    assert np.allclose(written[3], [1 / 3, 1 / 3, 1 / 3], atol=1e-8)
    half = toward_shares(posteriors, shares, 0.5)
    assert np.allclose(half[0], [0.75, 0.2, 0.05])
    assert toward_shares(posteriors, shares, 1.0) is posteriors


@pytest.mark.parametrize("weight", [0.0, 0.01, 0.4])
def test_no_label_changes(weight: float) -> None:
    rng = np.random.default_rng(7)
    posteriors = rng.dirichlet(np.full(5, 0.3), 2_000)
    posteriors[:50] = np.nextafter(0.2, 1.0)
    posteriors[50] = [0.2 + 5e-9, 0.2, 0.2, 0.2, 0.2 - 5e-9]
    shares = np.array([0.5, 0.2, 0.15, 0.1, 0.05])
    before, after = decide(posteriors), decide(toward_shares(posteriors, shares, weight))
    assert (before.label == after.label).all()
    assert (before.tied == after.tied).all()


@pytest.mark.filterwarnings("ignore::misc_cli.errors.MiscWarning")
def test_gold_stays_certain() -> None:
    labels = crowd_of(np.array([[0, 1, 0], [0, 1, 1]]), 2)
    posteriors = np.array([[1.0, 0.0], [0.2, 0.8], [0.5, 0.5]])
    known = replace(labels, gold=np.array([0, -1, -1], dtype=np.int32))
    engine = MemoryEngine(known, {POSTERIORS: posteriors})
    doubt(engine, Evidence(0.0, 0.0, 0.0, 0.1, np.array([0.3, 0.7]), False), True)
    written = engine.whole(POSTERIORS)
    assert written is not None
    assert written[0].tolist() == [1.0, 0.0]
    assert np.allclose(written[1], [0.3, 0.7])


@pytest.mark.parametrize("seed", [38, 41])
def test_good_workers_among_spammers_and_adversaries_are_heard(seed: int) -> None:
    # alpha is below 0.06, yet ds-em errs on a fifth of the items at most: some workers look
    crowd = simulate(Simulation(workers=30, items=260, classes=2, answers_per_item=4, seed=seed))
    assert evidence_in(labels_of(crowd)).weight > 0.95


def test_what_workers_agree_on_adds_up() -> None:
    labels = coin_flips(50, 3, 3, 1)
    said = (
        np.stack(
            [
                np.bincount(labels.votes.block(rows).indices, minlength=90)
                for rows in labels.votes.blocks
            ]
        )
        .sum(axis=0)
        .reshape(30, 3)
    )
    agreed, _, most = summed(labels, said)
    assert summed(labels, said, by_worker=True).sum(axis=(0, 2)) == pytest.approx([agreed, most])


def test_who_contradicts_itself_on_an_item_does_not_disagree() -> None:
    said = np.array([[0, 1, 0, 1], [0, 1, 0, 1], [0, 1, 0, 1]])
    once = crowd_of(said, 2)
    worker, item = np.nonzero(said >= 0)
    more = labels_from(
        np.append(worker, [2, 2]).astype(np.int32),
        np.append(item, [0, 1]).astype(np.int32),
        np.append(said[worker, item], [1, 0]).astype(np.int32),
        (4, 3, 2),
    )
    counts = np.full((3, 2), 2)
    # items 0 and 1 keep one pair of three
    kept = (2 * 3 + 2 * 1) / (4 * 3)
    assert summed(more, counts)[[0, 2]] == pytest.approx(kept * summed(once, counts)[[0, 2]])
