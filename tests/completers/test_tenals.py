"""tenals against dense least squares, planted tensors and its own promises."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from misc_cli.completers.label_matrix import labelled_fibres, observe
from misc_cli.completers.parameters import TenALS
from misc_cli.completers.tenals import Factors, fit_factors, power_start, sweep
from misc_cli.data.types import Floats, Iteration
from misc_cli.data.votes import LabelTensor
from misc_cli.errors import ConfigError, ConvergenceWarning
from tests.completers.planted import Mask, crowd, dense_cp, hide, planted
from tests.tensors import dense


@pytest.fixture
def tensor() -> LabelTensor:
    return crowd()


def test_one_sweep_is_dense_least_squares_row_by_row() -> None:
    truth, observed, mask = planted(0, (40, 60, 5), 3, 0.4)
    tensor = truth * mask
    generator = np.random.default_rng(1)
    start = Factors(*(generator.standard_normal((n, 2)) for n in mask.shape))

    def dense_rows(
        target: Floats, seen: Mask, first: Floats, second: Floats, towards: Floats
    ) -> Floats:
        design = np.einsum("ar,br->abr", first, second).reshape(-1, 2)
        solved = np.empty((len(target), 2))
        for row, (values, shown) in enumerate(zip(target, seen, strict=True)):
            weighted = design * shown.reshape(-1, 1)
            # ridge as two more equations: √0.3 · x = √0.3 · towards
            system = np.vstack([weighted, np.sqrt(0.3) * np.eye(2)])
            wanted = np.append(values.ravel(), np.sqrt(0.3) * towards)
            solved[row] = np.linalg.lstsq(system, wanted, rcond=None)[0]
        return solved

    zero = np.zeros(2)
    by_item, by_class = tensor.transpose(1, 0, 2), tensor.transpose(2, 0, 1)
    items = dense_rows(by_item, mask.transpose(1, 0, 2), start.workers, start.classes, zero)
    workers = dense_rows(tensor, mask, items, start.classes, start.workers.sum(axis=0) / 41)
    classes = dense_rows(by_class, mask.transpose(2, 0, 1), workers, items, zero)

    parts = (slice(0, 20), slice(20, None))
    blocks = [(rows, observed.values[rows], observed.fibres[rows]) for rows in parts]
    ours, squared_residual = sweep(observed, blocks, start, ridge=0.3)
    np.testing.assert_allclose(ours.items, items, rtol=1e-9)
    np.testing.assert_allclose(ours.workers, workers, rtol=1e-9)
    np.testing.assert_allclose(ours.classes, classes, rtol=1e-9)
    left = np.square(mask * (tensor - dense_cp(workers, items, classes))).sum()
    assert squared_residual == pytest.approx(left, rel=1e-9)


def test_planted_tensors_with_70_percent_missing_are_recovered() -> None:
    truth, observed, mask = planted(2, (40, 60, 5), 3, 0.3)
    assert mask[:-1].mean() == pytest.approx(0.3, abs=0.03)
    method = TenALS(cp_rank=3, ridge=0.0, completer_tol=1e-11, completer_max_iter=500)
    found = fit_factors(method, observed)
    recovered = dense_cp(found.workers, found.items, found.classes)
    assert np.linalg.norm(recovered - truth) < 1e-3 * np.linalg.norm(truth)


def test_power_method_finds_orthogonal_terms_exactly() -> None:
    generator = np.random.default_rng(3)
    bases = [np.linalg.qr(generator.standard_normal((n, 3)))[0] for n in (12, 20, 6)]
    weights = np.array([5.0, 3.0, 2.0])
    tensor = dense_cp(bases[0] * weights, bases[1], bases[2])
    observed, _ = hide(tensor, np.ones(tensor.shape, dtype=bool))
    found = power_start(observed, 3, 10, np.random.default_rng(0))
    factors = (found.workers, found.items, found.classes)
    lengths = np.prod([np.linalg.norm(factor, axis=0) for factor in factors], axis=0)
    np.testing.assert_allclose(np.sort(lengths)[::-1], weights, rtol=1e-3)
    np.testing.assert_allclose(dense_cp(*factors), tensor, atol=2e-2)


def test_objective_falls_and_every_run_repeats(tensor: LabelTensor) -> None:
    lines: list[Iteration] = []
    before = tensor.votes.matrix.toarray(), tensor.slice.copy()
    completer = TenALS(cp_rank=4)
    first = completer(tensor, lines.append)
    objectives = [line.objective for line in lines if line.objective is not None]
    assert len(objectives) == len(lines) > 1
    assert all(b <= a + 1e-9 for a, b in pairwise(objectives))
    assert all(0 <= float(line.extra["residual"] or 0) <= 1 for line in lines)
    again = completer(tensor)
    np.testing.assert_array_equal(first.slice, again.slice)
    np.testing.assert_array_equal(tensor.votes.matrix.toarray(), before[0])
    np.testing.assert_array_equal(tensor.slice, before[1])


def test_the_last_objective_is_that_of_the_completed_tensor(tensor: LabelTensor) -> None:
    lines: list[Iteration] = []
    completion = TenALS(cp_rank=4, ridge=0.0)(tensor, lines.append)
    completed = np.einsum("wr,iq,qrc->wic", completion.workers, completion.items, completion.mixer)
    np.testing.assert_allclose(completion.slice, completed[-1], atol=1e-12)
    fibres = observe(tensor).fibres.toarray().T[:, :, None]
    shown = np.concatenate([fibres, np.ones((1, 90, 1))])
    left = np.square(shown * (dense(tensor) - completed)).sum()
    assert lines[-1].objective == pytest.approx(left / 2, rel=1e-9)
    labels = completion.label_rows(slice(10, 30))
    np.testing.assert_array_equal(labels, completed[:, 10:30].argmax(axis=2).T)


def test_good_workers_labels_are_filled_in(tensor: LabelTensor) -> None:
    """Where a skilled worker gave no answer, the completed label is mostly the truth's."""
    labels = TenALS()(tensor).label_rows(slice(0, 90))
    truth = tensor.slice.argmax(axis=1)
    assert (labels[:, 30:40] == truth[:, None]).mean() > 0.9


def test_unfinished_runs_warn_and_bad_settings_are_refused(tensor: LabelTensor) -> None:
    with pytest.warns(ConvergenceWarning, match="--completer-max-iter"):
        TenALS(completer_max_iter=1)(tensor)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TenALS(completer_tol=0.0, completer_max_iter=3)(tensor)
    with pytest.raises(ConfigError, match="cp_rank="):
        TenALS(cp_rank=0)(tensor)


def test_a_fibre_with_two_ones_counts_once_and_votes_stay_as_they_are() -> None:
    votes = sp.csr_array(np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]))
    before = votes.indptr.copy(), votes.indices.copy()
    np.testing.assert_array_equal(labelled_fibres(votes, 2).toarray(), [[1, 0], [0, 1]])
    np.testing.assert_array_equal(votes.indptr, before[0])
    np.testing.assert_array_equal(votes.indices, before[1])
