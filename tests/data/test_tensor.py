"""The label tensor: votes and a slice."""

from __future__ import annotations

import numpy as np

from misc_cli.data.votes import LabelTensor
from tests.tensors import dense, random_tensor, votes_of


def test_paper_example_1_binarises_the_label_matrix() -> None:
    tensor = LabelTensor(votes_of([[1, 0, 4], [1, 3, 0]], 4), np.zeros((3, 4)))
    first = [[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]
    second = [[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
    np.testing.assert_array_equal(dense(tensor)[:2], [first, second])


def test_the_next_pass_keeps_what_depends_on_the_votes_alone() -> None:
    tensor = random_tensor(5, 6, 2, seed=5)
    kept = tensor.once("something", lambda: [1, 2, 3])
    assert tensor.with_slice(np.ones((6, 2))).once("something", lambda: [0]) is kept
