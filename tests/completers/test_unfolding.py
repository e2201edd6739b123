"""The unfolding's algebra equals that of the dense tensor it stands for."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from misc_cli.completers import tucker as module
from misc_cli.completers.tucker import (
    ITEMS,
    Unfolding,
    item_rows,
    leading_left,
    right_scaled,
)
from misc_cli.data.types import Floats
from misc_cli.data.votes import LabelTensor, SparseVotes
from misc_cli.engines.local import LocalEngine
from misc_cli.engines.protocol import SLICE, WriteRows
from tests.tensors import dense, random_tensor, votes_of


def engine_of(tensor: LabelTensor) -> LocalEngine:
    return LocalEngine(tensor.votes, {SLICE: tensor.slice})


def unfolded(tensor: LabelTensor) -> Floats:
    """T_(2) as one array, (n_items, (n_workers + 1) * n_classes)."""
    return dense(tensor).transpose(1, 0, 2).reshape(tensor.votes.n_items, -1)


def test_products_gram_and_norm_equal_the_dense_ones() -> None:
    tensor = random_tensor(7, 23, 3, seed=1)
    engine, whole, flat = engine_of(tensor), dense(tensor), unfolded(tensor)
    unfolding = Unfolding(engine)
    table = np.random.default_rng(2).random((8 * 3, 4))
    engine.sweep(WriteRows(partial(item_rows, table=table), (SLICE,), (ITEMS,)))
    np.testing.assert_allclose(engine.whole(ITEMS), flat @ table)
    np.testing.assert_allclose(unfolding.gram_times(table), flat.T @ flat @ table)
    assert tensor.squared_norm == pytest.approx(np.square(whole).sum())
    assert np.trace(unfolding.times_slice()[-3:]) == pytest.approx(np.square(whole[-1]).sum())


def test_the_class_basis_counts_fibres_with_two_labels() -> None:
    """`--duplicates all` keeps contradictions: the Gram matrix is then no longer diagonal."""
    votes = votes_of([[1, 2], [2, 0]], 3)
    both = votes.matrix.toarray()
    both[0, 1] = 1.0  # worker 0 also calls item 0 the second class
    tensor = LabelTensor(SparseVotes(type(votes.matrix)(both), 2, 3), np.eye(3)[[0, 2]])
    whole, unfolding = dense(tensor), Unfolding(engine_of(tensor))
    basis = unfolding.class_basis(2, unfolding.times_slice()[-3:])
    np.testing.assert_allclose(unfolding.known["class gram"][0, 1], 1.0)
    exact = np.linalg.svd(np.moveaxis(whole, 2, 0).reshape(3, -1))[0][:, :2]
    np.testing.assert_allclose(basis @ basis.T, exact @ exact.T, atol=1e-12)


@pytest.mark.parametrize(("n_workers", "n_items"), [(40, 90), (60, 300), (150, 260), (150, 70)])
def test_the_start_spans_the_leading_singular_vectors(
    n_workers: int, n_items: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More items than columns and fewer, formed Gram matrices and Lanczos: one subspace.

    So exactly that no engine's order of sums, nor the start, shows in a label.
    """
    tensor = random_tensor(n_workers, n_items, 2, seed=3)
    _, sizes, right = np.linalg.svd(unfolded(tensor))
    exact = (right[:6].T * sizes[:6] ** 2) @ right[:6]
    for tiny_side in (0, 10_000):
        monkeypatch.setattr(module, "TINY_SIDE", tiny_side)
        for seed, in_memory in ((0, None), (1, None), (0, tensor)):
            unfolding = Unfolding(engine_of(tensor), in_memory=in_memory)
            basis = unfolding.projected_basis(6, unfolding.times_slice(), seed)
            np.testing.assert_allclose(basis @ basis.T, exact, atol=1e-10 * sizes[0] ** 2)


def test_the_start_of_a_tensor_of_lower_rank_is_the_same_every_time() -> None:
    """200 workers who agree on 300 items: three directions, and seventeen that are zero."""
    labels = np.tile(np.arange(300) % 3 + 1, (200, 1))
    tensor = LabelTensor(votes_of(labels.tolist(), 3), np.eye(3)[np.arange(300) % 3])
    unfolding = Unfolding(engine_of(tensor))
    basis = unfolding.projected_basis(20, unfolding.times_slice(), seed=0)
    size = np.sqrt(201 * 100)
    np.testing.assert_allclose(np.linalg.norm(basis, axis=0), [size] * 3 + [0.0] * 17, atol=1e-6)
    again = unfolding.projected_basis(20, unfolding.times_slice(), seed=0)
    np.testing.assert_array_equal(basis, again)


def test_leading_left_has_zero_columns_beyond_the_rank_and_no_nan() -> None:
    rng = np.random.default_rng(4)
    low_rank = rng.random((9, 2)) @ rng.random((2, 20))
    for matrix in (low_rank[:, :5], low_rank, np.zeros((9, 5)), rng.random((9, 2))):
        left = leading_left(matrix, 4)
        rank = np.linalg.matrix_rank(matrix)
        assert left.shape == (9, 4)
        np.testing.assert_allclose(
            left.T @ left, np.diag([1.0] * rank + [0.0] * (4 - rank)), atol=1e-10
        )
        np.testing.assert_allclose(left @ (left.T @ matrix), matrix, atol=1e-10)


def test_a_gram_matrix_gives_the_same_left_vectors() -> None:
    """Also of a matrix of lower rank, and of one whose directions differ a thousandfold."""
    rng = np.random.default_rng(5)
    for sizes in ([1.0, 0.1, 0.01, 1e-3], [1.0, 0.5, 0.0, 0.0]):
        matrix = np.linalg.qr(rng.random((30, 4)))[0] * sizes @ np.linalg.qr(rng.random((4, 4)))[0]
        left, values, _ = np.linalg.svd(matrix, full_matrices=False)
        theirs = left[:, :3] * (values[:3] > 1e-12)
        for ours in (matrix @ right_scaled(matrix.T @ matrix, 3), leading_left(matrix, 3)):
            np.testing.assert_allclose(ours @ ours.T, theirs @ theirs.T, atol=1e-9)
