"""Workers who err together: copies are found and count once, independent workers are left alone."""

from __future__ import annotations

import numpy as np
import pytest

from misc_cli.engines.local import MemoryEngine
from misc_cli.quality import worker_dependence
from misc_cli.quality.worker_dependence import compare_workers, effective_votes
from misc_cli.simulate import Simulation, simulate
from tests.conftest import Load
from tests.crowds import labels_from, labels_of, with_copies


def test_a_pair_by_hand() -> None:
    """Six workers, 80 items, two classes: four err on ten items each, two on the same twenty."""
    wrong = np.zeros((6, 80), dtype=bool)
    for number in range(4):
        wrong[number, 10 * number : 10 * number + 10] = True
    wrong[4:, 60:] = True
    answers = np.where(wrong, 1, 0) ^ (np.arange(80) % 2)
    worker, item = (codes.ravel().astype(np.int32) for codes in np.indices(answers.shape))
    labels = labels_from(worker, item, answers.ravel().astype(np.int32), (80, 6, 2))
    pairs = compare_workers(MemoryEngine(labels))
    assert len(pairs.first) == 15
    assert pairs.agreed.tolist() == [60.0] * 3 + [50.0] * 2 + [60.0] * 2 + [50.0] * 2 + [
        60.0,
        *[50.0] * 4,
        80.0,
    ]
    assert (pairs.first[-1], pairs.second[-1]) == (4, 5)
    assert pairs.likeness[-1] == pytest.approx(1.0)
    # P(A = n) = pⁿ is what the bound says of perfect agreement
    assert pairs.chance[-1] == pytest.approx((pairs.expected[-1] / 80) ** 80)
    assert pairs.alike.tolist() == pairs.copies.tolist() == [False] * 14 + [True]


@pytest.mark.parametrize("seed", range(4))
def test_independent_workers_are_not_alike(seed: int) -> None:
    """At a level of a hundredth a false pair in a crowd is rare; here are hundreds of pairs."""
    labels = labels_of(simulate(Simulation(workers=60, items=1_500, seed=seed)))
    pairs = compare_workers(MemoryEngine(labels))
    assert len(pairs.first) > 300
    assert not pairs.alike.any()


@pytest.mark.parametrize("copies", [1, 2, 4])
def test_copies_are_found_and_count_once(copies: int) -> None:
    crowd = simulate(Simulation(workers=40, items=600, mix={"honest": 1.0}, seed=3))
    original = int(np.bincount(crowd.worker).argmax())
    labels = with_copies(crowd, original, copies)
    pairs = compare_workers(MemoryEngine(labels))
    group = [original, *range(40, 40 + copies)]
    found = {(int(a), int(b)) for a, b in zip(pairs.first, pairs.second, strict=True)}
    assert {(a, b) for a in group for b in group if a < b} <= found
    ends = np.concatenate([pairs.first[pairs.alike], pairs.second[pairs.alike]])
    assert set(ends.tolist()) == set(group)
    own = np.bincount(crowd.worker, minlength=labels.n_workers).astype(float)
    own[group] = own[original]  # all together amount to the one that they copy
    counted = effective_votes(MemoryEngine(labels), pairs)
    assert counted == pytest.approx(
        np.where(np.isin(np.arange(len(own)), group), own / (1 + copies), own)
    )


def test_a_crowd_too_large_is_judged_by_its_most_active(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = simulate(Simulation(workers=40, items=600, mix={"honest": 1.0}, seed=3))
    labels = with_copies(crowd, int(np.bincount(crowd.worker).argmax()), 1)
    everyone = compare_workers(MemoryEngine(labels))
    monkeypatch.setattr(worker_dependence, "MOST_PAIRS_OF_ANSWERS", 2_000)
    some = compare_workers(MemoryEngine(labels))
    assert 0 < some.shared.sum() <= 2_000 < everyone.shared.sum()
    assert some.alike.sum() == everyone.alike.sum() == 1


def test_experts_and_those_who_always_say_the_same_are_not_alike() -> None:
    mix = {"experts": 0.3, "honest": 0.4, "biased": 0.3}
    crowd = simulate(Simulation(workers=60, items=2_000, accuracy=0.6, mix=mix, seed=5))
    label = np.where(crowd.worker < 6, 0, crowd.label).astype(np.int32)  # six say one class only
    labels = labels_from(crowd.worker, crowd.item, label, (2_000, 60, 4))
    assert not compare_workers(MemoryEngine(labels)).alike.any()


def test_models_of_one_family_are_alike(dataset: Load) -> None:
    """judgebench: one judge saw every question twice, the second time with the sides swapped."""
    labels, _ = dataset("judgebench")
    pairs = compare_workers(MemoryEngine(labels))
    found = {
        tuple(labels.workers[int(end)].as_py() for end in ends)
        for ends in zip(pairs.first[pairs.alike], pairs.second[pairs.alike], strict=True)
    }
    judge = "arena_hard:o1-mini-2024-09-12"
    assert found == {(judge, f"{judge}#swapped")}
