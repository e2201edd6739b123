"""Workers who err together: copies are found and count once, independent workers are left alone."""

from __future__ import annotations

import numpy as np
import pytest

from misc_cli.core.decide import decide
from misc_cli.core.types import Codes, Labels
from misc_cli.evaluate import alike
from misc_cli.evaluate.alike import answer_weights, compare_pairs, effective_votes
from misc_cli.run import registry
from misc_cli.simulate import Simulation, simulate
from tests.conftest import Load
from tests.crowds import labels_from, labels_of, with_copies


def labelled(labels: Labels, aggregator: str = "ds-em") -> Codes:
    method = registry.create("aggregator", aggregator, "robust")
    return decide(method(labels).posteriors).label


def test_a_pair_by_hand() -> None:
    """Twelve items, all labelled c0; both workers err on the same three of them."""
    answers = np.array([[0] * 9 + [1] * 3, [0] * 9 + [1] * 3, [0] * 12])
    worker, item = (codes.ravel().astype(np.int32) for codes in np.indices(answers.shape))
    labels = labels_from(worker, item, answers.ravel().astype(np.int32), (12, 3, 2))
    pairs = compare_pairs(labels.votes, np.zeros(12, dtype=np.int32))
    assert list(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)) == [
        (0, 1),
        (0, 2),
        (1, 2),
    ]
    assert pairs.agreed.tolist() == [12, 9, 9]
    crowd = np.array([30, 6]) / 36
    rows = (np.array([[9, 3], [9, 3], [12, 0]]) + 0.5 * crowd) / 12.5
    by_chance = 12 * (rows[[0, 0, 1]] * rows[[1, 2, 2]]).sum(axis=1)
    assert pairs.expected == pytest.approx(by_chance)
    assert pairs.likeness[0] == pytest.approx(1.0)
    # P(A = 12) = p¹² is what the bound says of perfect agreement
    assert pairs.chance[0] == pytest.approx((by_chance[0] / 12) ** 12)


@pytest.mark.parametrize("seed", range(4))
def test_independent_workers_are_not_alike(seed: int) -> None:
    """At a level of a hundredth a false pair in a crowd is rare; here are hundreds of pairs."""
    labels = labels_of(simulate(Simulation(workers=60, items=1_500, seed=seed)))
    pairs = compare_pairs(labels.votes, labelled(labels))
    assert len(pairs.first) > 300
    assert not pairs.alike.any()


@pytest.mark.parametrize("copies", [1])
def test_copies_are_found_and_count_once(copies: int) -> None:
    crowd = simulate(Simulation(workers=40, items=600, mix={"honest": 1.0}, seed=3))
    original = int(np.bincount(crowd.worker).argmax())
    labels = with_copies(crowd, original, copies)
    pairs = compare_pairs(labels.votes, labelled(labels))
    group = [original, *range(40, 40 + copies)]
    found = {(int(a), int(b)) for a, b in zip(pairs.first, pairs.second, strict=True)}
    assert {(a, b) for a in group for b in group if a < b} <= found
    ends = np.concatenate([pairs.first[pairs.alike], pairs.second[pairs.alike]])
    assert set(ends.tolist()) == set(group)
    weights = answer_weights(labels.votes, pairs.matrix())
    counted = effective_votes(labels.votes, weights)
    alone = np.bincount(crowd.item, minlength=600)
    assert counted == pytest.approx(alone, abs=1e-9)
    worker = np.concatenate(
        [labels.votes.block(rows).indices // labels.n_classes for rows in labels.votes.blocks]
    )
    assert weights[np.isin(worker, group)] == pytest.approx(1 / (1 + copies))
    assert (weights[~np.isin(worker, group)] == 1.0).all()


def test_a_crowd_too_large_is_judged_by_its_most_active(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = simulate(Simulation(workers=40, items=600, mix={"honest": 1.0}, seed=3))
    labels = with_copies(crowd, int(np.bincount(crowd.worker).argmax()), 1)
    everyone = compare_pairs(labels.votes, labelled(labels))
    monkeypatch.setattr(alike, "MOST_PAIRS_OF_ANSWERS", 2_000)
    some = compare_pairs(labels.votes, labelled(labels))
    assert 0 < some.shared.sum() <= 2_000 < everyone.shared.sum()
    assert some.alike.sum() == everyone.alike.sum() == 1


def test_many_classes_take_one_accuracy_per_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = simulate(Simulation(workers=40, items=600, mix={"honest": 1.0}, seed=3))
    labels = with_copies(crowd, int(np.bincount(crowd.worker).argmax()), 1)
    monkeypatch.setattr(alike, "MOST_CELLS", 10)
    assert compare_pairs(labels.votes, labelled(labels)).alike.sum() == 1


def test_models_of_one_family_are_alike(dataset: Load) -> None:
    """judgebench: one judge saw every question twice, the second time with the sides swapped."""
    labels, _ = dataset("judgebench")
    pairs = compare_pairs(labels.votes, labelled(labels))
    found = {
        tuple(labels.workers[int(end)].as_py() for end in ends)
        for ends in zip(pairs.first[pairs.alike], pairs.second[pairs.alike], strict=True)
    }
    judge = "arena_hard:o1-mini-2024-09-12"
    assert found == {(judge, f"{judge}#swapped")}
