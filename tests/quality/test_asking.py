"""The expected gain of further answers, against brute force over every sequence of answers."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest

from misc_cli import aggregate, queue
from misc_cli.quality.asking import Asking, decided_by_hand, gain_of, gain_per_answer
from misc_cli.simulate import Simulation, answer_columns, simulate

CROWD = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])


def brute_force(posterior: list[float], n_answers: int) -> float:
    """E[max posterior after n answers] − max posterior, answer by answer."""
    after = 0.0
    for answers in product(range(3), repeat=n_answers):
        joint = np.array(posterior)
        for answer in answers:
            joint = joint * CROWD[:, answer]
        after += joint.max()
    return float(after - max(posterior))


@pytest.mark.parametrize("posterior", [[0.5, 0.3, 0.2], [0.9, 0.05, 0.05], [1 / 3, 1 / 3, 1 / 3]])
def test_the_gain_is_the_best_of_one_to_three_answers_each_paid_for(posterior: list[float]) -> None:
    expected = max(brute_force(posterior, m) / m for m in (1, 2, 3))
    assert gain_per_answer(np.array([posterior]), CROWD) == pytest.approx([max(expected, 0.0)])


def test_two_answers_may_pay_where_one_cannot() -> None:
    posterior = [0.9, 0.05, 0.05]
    assert brute_force(posterior, 1) == pytest.approx(0.0)
    assert gain_per_answer(np.array([posterior]), CROWD)[0] > 0.0


def test_many_classes_are_not_listed_in_all_their_combinations() -> None:
    """A thousand classes have 500,500 pairs of answers: too many to look at, so none are made."""
    tracemalloc.start()
    try:
        gains = gain_per_answer(np.full((1, 1000), 1e-3), np.eye(1000))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert gains == pytest.approx([0.999])
    assert peak < 64 << 20


def test_what_is_certain_gains_nothing() -> None:
    assert gain_per_answer(np.array([[1.0, 0.0, 0.0]]), CROWD)[0] == pytest.approx(0.0)


def test_a_doubt_that_no_answer_settles_ranks_below_one_that_an_answer_does() -> None:
    """Classes 0 and 1 look alike to the crowd; lowest confidence alone would ask about them."""
    alike = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    gains = gain_per_answer(np.array([[0.5, 0.5, 0.0], [0.6, 0.0, 0.4]]), alike)
    assert gains[0] == pytest.approx(0.0)
    assert gains[1] == pytest.approx(0.4)


def test_one_answer_gains_what_brute_force_says_it_does() -> None:
    posteriors = [[0.5, 0.3, 0.2], [0.4, 0.35, 0.25]]
    expected = [brute_force(posterior, 1) for posterior in posteriors]
    assert gain_of(np.array(posteriors), CROWD) == pytest.approx(expected)


def test_asking_promises_the_errors_that_gains_leave() -> None:
    asking = Asking(np.array([0.3, 0.2, 0.1, 0.04, 0.0]), errors=2.0, n_items=10)
    assert asking.pays == 3
    assert [asking.error(n) for n in (0, 3, 5)] == pytest.approx([0.2, 0.14, 0.136])
    asked, errors, _ = zip(*asking.curve(), strict=True)
    assert asked == (0, 1, 2, 3, 4)  # the fifth gains nothing
    assert errors == pytest.approx([0.2, 0.17, 0.15, 0.14, 0.136])


def test_a_person_decides_the_least_sure_until_the_rest_is_good_enough() -> None:
    confidences = np.array([1.0, 0.6, 0.9, 0.7, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])  # 0.8 errors
    found = [decided_by_hand(confidences, reach) for reach in (0.9, 0.92, 0.95, 0.96, 0.99, 1.0)]
    assert found == [0, 0, 1, 1, 2, 3]


@pytest.mark.filterwarnings("ignore::misc_cli.errors.MiscWarning")  # such crowds are hard
def test_what_asking_again_promises_is_what_it_gives() -> None:
    """On 20 crowds, 100 of 400 items asked once more: the mean error, within a fifth."""
    promised, got = np.array([_promised_and_got(seed) for seed in range(20)]).mean(axis=0)
    assert promised == pytest.approx(got, rel=0.2)


def _promised_and_got(seed: int) -> tuple[float, float]:
    """Return the error that the queue promises, and that of asking workers who had not answered."""
    rng = np.random.default_rng(seed)
    settings = Simulation(
        workers=30, items=400, classes=3, answers_per_item=3, accuracy=0.65, activity_skew=0.5
    )
    crowd = simulate(replace(settings, seed=seed))
    answers = pd.DataFrame({k: v.to_pylist() for k, v in answer_columns(crowd).items()})
    truth = dict(zip(answers["item"], crowd.truth[crowd.item], strict=True))
    names = dict(zip(crowd.worker, answers["worker"], strict=True))
    classes = sorted(answers["label"].unique())
    before = aggregate(answers, aggregator="ds-em")
    asked = queue(before).sort_values("gain_once", ascending=False).head(100)
    activity = np.bincount(crowd.worker, minlength=30)
    extra = []
    for item in asked["item"]:
        free = activity.astype(float)
        free[crowd.worker[answers["item"] == item]] = 0.0
        worker = rng.choice(30, p=free / free.sum())
        said = rng.choice(3, p=crowd.confusions[worker, truth[item]])
        extra.append((names[worker], item, classes[said]))
    more = pd.DataFrame(extra, columns=["worker", "item", "label"])
    after = aggregate(pd.concat([answers, more]), aggregator="ds-em").labels
    wrong = [
        classes.index(name) != truth[item] for item, name in after[["item", "label"]].to_numpy()
    ]
    doubts = 1.0 - before.labels["confidence"]
    return float(doubts.mean() - asked["gain_once"].sum() / 400), float(np.mean(wrong))
