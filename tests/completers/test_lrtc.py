"""lrtc against a dense SiLRTC, dense SVDs, planted tensors and its own promises."""

from __future__ import annotations

import tracemalloc
import warnings
from itertools import groupby, pairwise

import numpy as np
import pytest

from misc_cli.completers.label_matrix import observe
from misc_cli.completers.lrtc import (
    LowRank,
    LowRankCompletion,
    LowRankPlusSparse,
    bytes_of,
    complete_observed,
    default_rho,
    leading_spectrum,
    on_fibres,
)
from misc_cli.completers.parameters import LRTC
from misc_cli.data import resources
from misc_cli.data.types import Floats, Iteration
from misc_cli.data.votes import LabelTensor
from misc_cli.errors import ConfigError, ConvergenceWarning
from tests.completers.planted import Mask, crowd, planted
from tests.tensors import dense


@pytest.fixture
def tensor() -> LabelTensor:
    return crowd()


def entries(completed: LowRankPlusSparse) -> Floats:
    """The whole tensor, (n_workers + 1, n_items, n_classes)."""
    dense = np.einsum("wr,icr->wic", completed.near.rows, completed.near.columns)
    dense += np.einsum("ir,wcr->wic", completed.far.rows, completed.far.columns)
    sparse = [completed.fibres.matrix(values).toarray().T for values in completed.corrections]
    whole: Floats = dense + np.stack(sparse, axis=2)
    return whole


def dense_silrtc(
    tensor: Floats, mask: Mask, rho: float, weights: tuple[float, ...], n_iterations: int
) -> tuple[Floats, float]:
    """Liu et al.'s Algorithm 1 with whole arrays and LAPACK's SVD: Σ α_n M_n and what is minimised.

    That is eq. 12, Σ_n α_n (‖M_n‖_* + rho/2 ‖X − M_n‖²), at the last M_n and the X before them.
    """
    x = tensor * mask
    smoothed, objective = x, 0.0
    for _ in range(n_iterations):
        smoothed, objective = np.zeros_like(x), 0.0
        for mode, weight in enumerate(weights):
            front = np.moveaxis(x, mode, 0)
            left, values, right = np.linalg.svd(front.reshape(len(front), -1), full_matrices=False)
            kept = np.maximum(values - 1 / rho, 0)
            low_rank = (left * kept) @ right
            share = weight / sum(weights)
            distance = np.square(front.reshape(low_rank.shape) - low_rank).sum()
            objective += share * (kept.sum() + rho / 2 * distance)
            smoothed += share * np.moveaxis(low_rank.reshape(front.shape), 0, mode)
        x = np.where(mask, tensor, smoothed)
    return smoothed, objective


def random_tensor() -> LowRankPlusSparse:
    """A tensor in every part of the form: two low-rank parts and corrections on the fibres."""
    fibres, targets = on_fibres(planted(3, (14, 20, 3), 2, 0.3)[1])
    generator = np.random.default_rng(4)
    near = LowRank(generator.standard_normal((14, 3)), generator.standard_normal((20, 3, 3)))
    far = LowRank(generator.standard_normal((20, 2)), generator.standard_normal((14, 3, 2)))
    return LowRankPlusSparse(near, far, targets, fibres)


def test_products_and_grams_are_the_dense_ones() -> None:
    x = random_tensor()
    dense = entries(x)
    generator = np.random.default_rng(0)
    for unfolding, seen in zip(x.unfoldings(), (dense, dense.transpose(1, 0, 2)), strict=True):
        flat = seen.reshape(len(seen), -1)
        assert unfolding.shape == flat.shape
        vectors = generator.standard_normal((*seen.shape[1:], 5))
        np.testing.assert_allclose(unfolding.times(vectors), flat @ vectors.reshape(-1, 5))
        vectors = generator.standard_normal((len(seen), 5))
        product = unfolding.transposed_times(vectors)
        np.testing.assert_allclose(product.reshape(-1, 5), flat.T @ vectors, atol=1e-12)
    gram = x.class_gram(x.low_rank_on_fibres())
    np.testing.assert_allclose(gram, np.einsum("wic,wid->cd", dense, dense))
    both = LowRank(x.near.rows[:, :2], x.near.columns[:, :, :2]).plus(
        LowRank(x.near.rows[:, 2:], x.near.columns[:, :, 2:]), drop=1e-9
    )
    expected = np.einsum("wr,icr->wic", x.near.rows, x.near.columns)
    np.testing.assert_allclose(np.einsum("wr,icr->wic", both.rows, both.columns), expected)


@pytest.mark.parametrize("threshold", [0.5, 8.0, 1e6])
@pytest.mark.parametrize("warm", [0, 4])
def test_spectrum_is_that_of_a_dense_svd(threshold: float, warm: int) -> None:
    x = random_tensor()
    dense = entries(x)
    generator = np.random.default_rng(0)
    for unfolding, seen in zip(x.unfoldings(), (dense, dense.transpose(1, 0, 2)), strict=True):
        flat = seen.reshape(len(seen), -1)
        start = generator.standard_normal((len(seen), warm))
        found = leading_spectrum(unfolding, start, threshold, generator, 1e-14)
        left, values, right = np.linalg.svd(flat, full_matrices=False)
        kept = found.above(threshold)
        assert kept == (values > threshold).sum()
        np.testing.assert_allclose(found.values[:kept], values[:kept], rtol=1e-6)
        ours = found.vectors[:, :kept] @ found.image.reshape(-1, len(found.values)).T[:kept]
        np.testing.assert_allclose(ours, (left * values)[:, :kept] @ right[:kept], atol=1e-4)


@pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0), (2.0, 1.0, 0.0), (0.0, 1.0, 3.0)])
def test_equals_a_dense_implementation(weights: tuple[float, float, float]) -> None:
    tensor = crowd(n_items=30, n_workers=16)
    votes = dense(tensor)
    mask = np.broadcast_to(votes.any(axis=2, keepdims=True), votes.shape).copy()
    mask[-1] = True
    expected, objective = dense_silrtc(votes, mask, 0.5, weights, 400)
    completer = LRTC(weights, 0.5, completer_tol=1e-10, completer_max_iter=2000)
    lines: list[Iteration] = []
    completion = completer(tensor, lines.append)
    assert lines[-1].objective == pytest.approx(objective, rel=1e-6)
    np.testing.assert_allclose(entries(completion.tensor), expected, atol=1e-3)
    np.testing.assert_allclose(completion.slice, expected[-1], atol=1e-3)


def test_planted_tensors_with_half_of_the_fibres_missing_are_recovered() -> None:
    truth, observed, mask = planted(0, (60, 80, 10), 2, 0.5)
    assert mask[:-1].mean() == pytest.approx(0.5, abs=0.03)
    completer = LRTC(completer_tol=1e-6, completer_max_iter=1000)
    recovered = entries(complete_observed(completer, observed, rho=30.0))
    assert np.linalg.norm(recovered - truth) < 1e-3 * np.linalg.norm(truth)


def test_objective_falls_under_each_threshold_and_runs_repeat(tensor: LabelTensor) -> None:
    lines: list[Iteration] = []
    before = tensor.votes.matrix.toarray(), tensor.slice.copy()
    completer = LRTC(rho=0.5)
    first = completer(tensor, lines.append)
    for _, group in groupby(lines, key=lambda line: line.extra["rho"]):
        objectives = [line.objective or 0.0 for line in group]
        assert all(0 < b <= a * (1 + 1e-6) for a, b in pairwise(objectives))
    assert lines[-1].extra["rho"] == pytest.approx(0.5)
    assert 0 < float(lines[-1].extra["residual"] or 0) < 1
    again = completer(tensor)
    np.testing.assert_array_equal(first.slice, again.slice)
    np.testing.assert_array_equal(tensor.votes.matrix.toarray(), before[0])
    np.testing.assert_array_equal(tensor.slice, before[1])


def test_a_threshold_on_its_way_down_is_never_the_end(tensor: LabelTensor) -> None:
    """However coarse the tolerance, the problem that is solved last is the one that was asked."""
    lines: list[Iteration] = []
    LRTC(rho=0.5, completer_tol=0.09)(tensor, lines.append)
    assert float(lines[0].extra["rho"] or 0) < 0.25
    assert lines[-1].extra["rho"] == pytest.approx(0.5)


def test_labels_are_the_largest_entries_block_by_block(tensor: LabelTensor) -> None:
    completion = LRTC()(tensor)
    expected = entries(completion.tensor).argmax(axis=2).T
    np.testing.assert_array_equal(completion.label_rows(slice(0, 30)), expected[:30])
    np.testing.assert_array_equal(completion.label_rows(slice(30, 90)), expected[30:])
    truth = tensor.slice.argmax(axis=1)
    assert (expected[:, 30:40] == truth[:, None]).mean() > 0.9


def test_fibres_of_nothing_take_the_slices_label() -> None:
    x, (_, observed, _) = random_tensor(), planted(3, (14, 20, 3), 2, 0.3)
    nothing = LowRankPlusSparse(
        LowRank(x.near.rows[:, :0], x.near.columns[:, :, :0]),
        LowRank(x.far.rows[:, :0], x.far.columns[:, :, :0]),
        x.corrections,
        x.fibres,
    )
    labels = LowRankCompletion(nothing).label_rows(slice(0, 20))
    unlabelled = observed.fibres.toarray() == 0
    of_slice = np.broadcast_to(observed.slice.argmax(axis=1)[:, None], unlabelled.shape)
    np.testing.assert_array_equal(labels[:, :-1][unlabelled], of_slice[unlabelled])


def test_default_threshold_is_a_typical_workers_length(tensor: LabelTensor) -> None:
    answers_per_worker = tensor.votes.n_votes / 40
    assert default_rho(tensor) == pytest.approx(answers_per_worker**-0.5)


def test_unfinished_runs_warn_and_bad_settings_are_refused(tensor: LabelTensor) -> None:
    with pytest.warns(ConvergenceWarning, match="--completer-max-iter"):
        LRTC(completer_max_iter=1)(tensor)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LRTC(completer_tol=0.0, completer_max_iter=3)(tensor)
    with pytest.raises(ConfigError, match="--lrtc-weights"):
        LRTC(lrtc_weights=(0.0, 0.0, 0.0))(tensor)
    with pytest.raises(ConfigError, match="rho=0"):
        LRTC(rho=0.0)(tensor)


def test_memory_is_estimated_first_and_asked_for_again_before_more_is_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tensor = crowd(n_items=5_000, n_workers=60)
    method = LRTC(rho=0.02, completer_tol=0.0, completer_max_iter=3)
    method(tensor)  # what the first call of all imports, and what the tensor keeps
    tracemalloc.start()
    method(tensor)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    needed = method.bytes_needed(tensor.shape, tensor.votes.n_votes)
    assert 0.5 * needed < peak < needed
    few, many = (bytes_of(61, 15_000, n_vectors) for n_vectors in (10, 20))
    monkeypatch.setattr(resources, "available_bytes", lambda: (few + many) // 2)
    method(tensor)
    with pytest.raises(ConfigError, match=r"20 singular values .* lower --rho"):
        LRTC(rho=100.0)(tensor)


def test_observed_entries_meet_their_fibres(tensor: LabelTensor) -> None:
    fibres, targets = on_fibres(observe(tensor))
    np.testing.assert_array_equal(targets, dense(tensor)[fibres.workers, fibres.items].T)
