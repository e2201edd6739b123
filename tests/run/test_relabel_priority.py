"""The expected gain of further answers, against brute force over every sequence of answers."""

from __future__ import annotations

import tracemalloc
from itertools import product

import numpy as np
import pytest

from misc_cli.run.tables import gain_per_answer

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
