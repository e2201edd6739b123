"""Tucker completion: the paper's example, a dense reference, a peer, and hard cases."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from misc_cli.completers import tucker
from misc_cli.completers.label_matrix import FactorCompletion, completed_matrix
from misc_cli.completers.parameters import LRTC, Tucker, check_ranks, rule_of_thumb
from misc_cli.data.resources import limits
from misc_cli.data.types import Floats, Iteration
from misc_cli.data.votes import LabelCodes, LabelTensor, Rows, SparseVotes
from misc_cli.errors import ConfigError
from tests.tensors import dense, random_tensor, votes_of


def completed(completion: FactorCompletion) -> Floats:
    """[[G; U(1), U(2), U(3)]] as one array."""
    whole: Floats = np.einsum(
        "wr,iq,qrc->wic", completion.workers, completion.items, completion.mixer
    )
    return whole


def reference(whole: Floats, ranks: tuple[int, int, int], initial: int, sweeps: int) -> Floats:
    """Algorithms 1 and 2 to the letter: every mode's SVD on a dense unfolding."""

    def leading(tensor: Floats, mode: int, rank: int) -> Floats:
        unfolding = np.moveaxis(tensor, mode, 0).reshape(tensor.shape[mode], -1)
        return np.linalg.svd(unfolding, full_matrices=False)[0][:, :rank]

    factors = [leading(whole, mode, initial) for mode in range(3)]
    for _ in range(sweeps):
        factors[0] = leading(
            np.einsum("wic,iq,cs->wqs", whole, factors[1], factors[2]), 0, ranks[0]
        )
        factors[1] = leading(
            np.einsum("wic,wr,cs->ris", whole, factors[0], factors[2]), 1, ranks[1]
        )
        factors[2] = leading(
            np.einsum("wic,wr,iq->rqc", whole, factors[0], factors[1]), 2, ranks[2]
        )
    core = np.einsum("wic,wr,iq,cs->rqs", whole, *factors)
    back: Floats = np.einsum("rqs,wr,iq,cs->wic", core, *factors)
    return back


def test_paper_example_2_has_ranks_1_3_3() -> None:
    """Two workers and the slice agree on three items of four classes: (1, 3, 3) is exact."""
    tensor = LabelTensor(votes_of([[1, 3, 4], [1, 3, 4]], 4), np.eye(4)[[0, 2, 3]])
    np.testing.assert_allclose(completed(Tucker((1, 3, 3))(tensor)), dense(tensor), atol=1e-12)
    lines: list[Iteration] = []
    Tucker((1, 2, 2))(tensor, lines.append)
    assert lines[-1].extra["explained"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("initial_rank", [None, 2, 5])
@pytest.mark.parametrize("shape", [(9, 40, 3), (30, 12, 4), (25, 200, 2)])
def test_equals_dense_hooi(shape: tuple[int, int, int], initial_rank: int | None) -> None:
    tensor = random_tensor(*shape, seed=sum(shape))
    ranks = (3, 4, 2)
    ours = completed(Tucker(ranks, initial_rank, sweeps=4)(tensor))
    theirs = reference(dense(tensor), ranks, initial_rank or 4, sweeps=4)
    np.testing.assert_allclose(ours, theirs, atol=1e-8)


def test_equals_tensorly_at_convergence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Same start (HOSVD at the ranks themselves), same fixed point."""
    import tensorly
    import tensorly.decomposition

    rng = np.random.default_rng(0)
    labels = 1 + (rng.random((12, 30)) < 0.15) + (np.arange(30) % 2)[None]
    tensor = LabelTensor(votes_of(labels.tolist(), 3), rng.random((30, 3)))
    theirs = tensorly.decomposition.tucker(
        dense(tensor), rank=[3, 3, 3], n_iter_max=2000, tol=1e-14
    )
    monkeypatch.setattr(tucker, "RESIDUAL_TOLERANCE", 0.0)
    ours = completed(Tucker((3, 3, 3), initial_rank=3, sweeps=2000)(tensor))
    np.testing.assert_allclose(ours, tensorly.tucker_to_tensor(theirs), atol=1e-6)


def test_residual_falls_and_is_what_it_says() -> None:
    tensor = random_tensor(10, 50, 3, seed=7)
    lines: list[Iteration] = []
    completion = Tucker((4, 6, 2), sweeps=6)(tensor, lines.append)
    residuals = [line.objective for line in lines if line.objective is not None]
    assert residuals == sorted(residuals, reverse=True)
    assert residuals[-1] == pytest.approx(np.linalg.norm(completed(completion) - dense(tensor)))
    assert {line.stage for line in lines} == {"tucker"}


def test_stops_when_the_residual_stops_falling() -> None:
    tensor = LabelTensor(votes_of([[1, 2, 1], [1, 2, 1]], 2), np.eye(2)[[0, 1, 0]])
    lines: list[Iteration] = []
    Tucker((1, 2, 2), sweeps=50)(tensor, lines.append)
    assert len(lines) == 2


def test_labels_are_the_argmax_of_each_fibre_block_by_block() -> None:
    tensor = random_tensor(8, 31, 4, seed=8)
    completion = Tucker((4, 8, 4))(tensor)
    whole = completed(completion)
    parts = [completion.label_rows(slice(0, 13)), completion.label_rows(slice(13, 31))]
    np.testing.assert_array_equal(np.vstack(parts), whole.argmax(axis=2).T)
    np.testing.assert_allclose(completion.slice, whole[-1])


def with_empty_fibres() -> FactorCompletion:
    """Worker 1 answers items that nobody else does and rank 1 leaves its row at zero."""
    workers = np.array([[0.0], [1.0], [1.0]])
    return FactorCompletion(workers, np.array([[1.0], [1.0]]), np.array([[[0.0, 1.0]]]))


def test_an_empty_fibre_takes_the_slices_label() -> None:
    assert with_empty_fibres().label_rows(slice(0, 2)).tolist() == [[1, 1, 1], [1, 1, 1]]


@pytest.mark.parametrize("kind", ["tucker", "lrtc"])
def test_no_thread_makes_what_the_label_matrix_shares(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Since Python 3.12 a cached property has no lock: threads would each make their own."""
    completion = with_empty_fibres() if kind == "tucker" else LRTC()(random_tensor(2, 2, 2, seed=1))
    made: list[set[str]] = []
    label_rows = type(completion).label_rows

    def watched(self: Any, rows: Rows) -> LabelCodes:
        held = set(vars(self))
        codes = label_rows(self, rows)
        made.append(set(vars(self)) - held)
        return codes

    monkeypatch.setattr(type(completion), "label_rows", watched)
    completed_matrix(completion, (3, 2, 2))
    assert made == [set()]


def test_the_memory_that_it_asks_for_is_what_it_takes() -> None:
    """Tall data, whose Gram matrix is formed: the unfolding beside it is never made dense."""
    n_items, n_workers, n_classes = 60_000, 20, 5
    random = np.random.default_rng(0)
    columns = (np.arange(0, 100, 25) + random.integers(25, size=(n_items, 4))).ravel()
    pointers = np.arange(0, len(columns) + 1, 4, dtype=np.int32)
    matrix = sp.csr_array(
        (np.ones(len(columns)), columns.astype(np.int32), pointers),
        shape=(n_items, n_workers * n_classes),
    )
    tensor = LabelTensor(
        SparseVotes(matrix, n_workers, n_classes), random.random((n_items, n_classes))
    )
    method = Tucker((3, 5, 5))
    Tucker((1, 1, 1))(random_tensor(3, 4, 2, seed=0))  # what the first call of all imports
    assert tensor.votes.blocks
    tracemalloc.start()
    with limits(1):  # each holds a block
        method(tensor)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.3 * method.bytes_needed(tensor.shape, matrix.nnz)


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        ((7, 1, 2), r"R1 = 7 is too large; at most R2·R3 = 2"),
        ((1, 5, 2), r"R2 = 5 is too large; at most R1·R3 = 2"),
        ((1, 1, 2), r"R3 = 2 is too large; at most R1·R2 = 1"),
        ((12, 8, 2), r"R1 = 12 is too large; 10 workers and the slice allow at most 11"),
        ((5, 6, 4), r"R3 = 4 is too large; 3 classes allow at most 3"),
    ],
)
def test_impossible_ranks_say_why(ranks: tuple[int, int, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_ranks(ranks, (11, 40, 3))


def test_an_initial_rank_too_small_says_what_would_do() -> None:
    with pytest.raises(ConfigError, match="--initial-rank 5 or more"):
        Tucker((5, 5, 3), initial_rank=1)(random_tensor(9, 20, 3, seed=9))


@pytest.mark.parametrize("shape", [(1, 1, 2), (1, 9, 2), (2, 1, 3), (3, 4, 30), (400, 5000, 4)])
def test_the_rule_of_thumb_is_possible_at_any_size(shape: tuple[int, int, int]) -> None:
    check_ranks(rule_of_thumb((shape[0] + 1, *shape[1:])), (shape[0] + 1, *shape[1:]))


def test_degenerate_tensors_stay_finite() -> None:
    """One item, silent workers, identical items, ranks above the tensor's own."""
    for labels, n_classes in (
        ([[1]], 2),
        ([[0, 0, 0], [1, 2, 0]], 3),
        ([[1, 1, 1, 1], [1, 1, 1, 1]], 2),
        ([[1, 0, 0], [0, 2, 0], [0, 0, 3]], 3),
    ):
        n_items = len(labels[0])
        for slice_ in (np.zeros((n_items, n_classes)), np.eye(n_classes)[np.arange(n_items) % 2]):
            completion = Tucker()(LabelTensor(votes_of(labels, n_classes), slice_))
            assert np.isfinite(completed(completion)).all()
            assert completion.label_rows(slice(0, n_items)).max() < n_classes
