"""The sparse tensor's algebra equals that of the dense tensor it stands for."""

from __future__ import annotations

import numpy as np
import pytest

from misc_cli.core import tensor as tensor_module
from misc_cli.core.tensor import LabelTensor, leading_left
from misc_cli.core.votes import SparseVotes
from tests.tensors import dense, random_tensor, votes_of


def test_paper_example_1_binarises_the_label_matrix() -> None:
    tensor = LabelTensor(votes_of([[1, 0, 4], [1, 3, 0]], 4), np.zeros((3, 4)))
    first = [[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]
    second = [[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
    np.testing.assert_array_equal(dense(tensor)[:2], [first, second])


def test_products_gram_and_norm_equal_the_dense_ones() -> None:
    tensor = random_tensor(7, 23, 3, seed=1)
    whole = dense(tensor)
    rng = np.random.default_rng(2)
    table, items = rng.random((8 * 3, 4)), rng.random((23, 5))
    np.testing.assert_allclose(
        tensor.times_columns(table), np.einsum("wic,wcr->ir", whole, table.reshape(8, 3, 4))
    )
    np.testing.assert_allclose(
        tensor.times_items(items).reshape(8, 3, 5), np.einsum("wic,ir->wcr", whole, items)
    )
    np.testing.assert_allclose(tensor.class_gram(), np.einsum("wic,wid->cd", whole, whole))
    assert tensor.squared_norm == pytest.approx(np.square(whole).sum())


def test_class_gram_counts_fibres_with_two_labels() -> None:
    """`--duplicates all` keeps contradictions: the Gram matrix is then no longer diagonal."""
    votes = votes_of([[1, 2], [2, 0]], 3)
    both = votes.matrix.toarray()
    both[0, 1] = 1.0  # worker 0 also calls item 0 the second class
    tensor = LabelTensor(SparseVotes(type(votes.matrix)(both), 2, 3), np.zeros((2, 3)))
    whole = dense(tensor)
    np.testing.assert_allclose(tensor.class_gram(), np.einsum("wic,wid->cd", whole, whole))
    assert tensor.class_gram()[0, 1] == 1.0


@pytest.mark.parametrize(("n_workers", "n_items"), [(40, 90), (60, 300), (150, 260)])
def test_item_basis_spans_the_leading_singular_vectors(
    n_workers: int, n_items: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both sides of the unfolding, the formed Gram matrix and Lanczos: one subspace."""
    tensor = random_tensor(n_workers, n_items, 2, seed=3)
    unfolding = dense(tensor).transpose(1, 0, 2).reshape(n_items, -1)
    exact = np.linalg.svd(unfolding)[0][:, :6]
    monkeypatch.setattr(tensor_module, "LANCZOS_TOLERANCE", 0.0)
    for tiny_side in (0, 10_000):
        monkeypatch.setattr(tensor_module, "TINY_SIDE", tiny_side)
        basis = tensor.item_basis(6)
        np.testing.assert_allclose(basis @ basis.T, exact @ exact.T, atol=1e-8)


def test_item_basis_of_a_tensor_of_lower_rank_is_the_same_every_time() -> None:
    """200 workers who agree on 300 items: three directions, and seventeen that are zero."""
    labels = np.tile(np.arange(300) % 3 + 1, (200, 1))
    tensor = LabelTensor(votes_of(labels.tolist(), 3), np.eye(3)[np.arange(300) % 3])
    basis = tensor.item_basis(20)
    np.testing.assert_allclose(np.linalg.norm(basis, axis=0), [1.0] * 3 + [0.0] * 17, atol=1e-8)
    np.testing.assert_array_equal(basis, tensor.item_basis(20))


def test_leading_left_has_zero_columns_beyond_the_rank_and_no_nan() -> None:
    rng = np.random.default_rng(4)
    for matrix in (rng.random((9, 2)) @ rng.random((2, 5)), np.zeros((9, 5)), rng.random((9, 2))):
        left = leading_left(matrix, 4)
        rank = np.linalg.matrix_rank(matrix)
        assert left.shape == (9, 4)
        np.testing.assert_allclose(
            left.T @ left, np.diag([1.0] * rank + [0.0] * (4 - rank)), atol=1e-10
        )
        np.testing.assert_allclose(left @ (left.T @ matrix), matrix, atol=1e-10)


def test_the_next_pass_keeps_what_depends_on_the_votes_alone() -> None:
    tensor = random_tensor(5, 6, 2, seed=5)
    kept = tensor.once("something", lambda: [1, 2, 3])
    assert tensor.with_slice(np.ones((6, 2))).once("something", lambda: [0]) is kept
