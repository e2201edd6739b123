"""Ties go to the first class in order, and are visible."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import entropy as scipy_entropy

from misc_cli.data.posteriors import decide, entropy
from misc_cli.errors import MiscError


def test_labels_confidence_ties_and_runners_up() -> None:
    third = 1 / 3
    posteriors = np.array(
        [
            [0.2, 0.7, 0.1],
            [0.4, 0.2, 0.4],
            [third, third, third],
            [0.5 - 1e-13, 0.0, 0.5 + 1e-13],  # rounding noise must not decide
            [0.0, 0.0, 1.0],
        ]
    )
    found = decide(posteriors)
    assert found.label.tolist() == [1, 0, 0, 0, 2]
    assert found.tied.tolist() == [False, True, True, True, False]
    assert found.runner_up.tolist() == [0, 2, 1, 2, 0]
    np.testing.assert_allclose(found.confidence, [0.7, 0.4, third, 0.5, 1.0])


def test_a_single_class_has_no_runner_up() -> None:
    found = decide(np.ones((2, 1)))
    assert found.runner_up.tolist() == [-1, -1]
    assert not found.tied.any()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_no_label_comes_of_what_is_no_number(bad: float) -> None:
    with pytest.raises(MiscError, match="not finite"):
        decide(np.array([[0.5, 0.5], [bad, 0.0]]))


def test_entropy_is_scipys() -> None:
    posteriors = np.random.default_rng(0).dirichlet([0.2] * 4, size=50)
    posteriors[0] = [1, 0, 0, 0]
    np.testing.assert_allclose(entropy(posteriors), scipy_entropy(posteriors, base=2, axis=1))
