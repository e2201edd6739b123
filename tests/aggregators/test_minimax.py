"""Minimax entropy against scipy.optimize, finite differences and the paper's digits."""

from __future__ import annotations

import dataclasses
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import log_softmax

from misc_cli import registry
from misc_cli.aggregators.methods import MinimaxEntropy, OrdinalMinimaxEntropy
from misc_cli.aggregators.minimax import fit as minimax_fit
from misc_cli.aggregators.minimax.newton import (
    Derivatives,
    Free,
    Ordinal,
    SlotPairs,
    Slots,
    Structure,
    maximise,
    solve_batched,
)
from misc_cli.data import resources
from misc_cli.data.encode import encode
from misc_cli.data.resources import limits
from misc_cli.data.types import Answers, Floats, Iteration, Labels
from misc_cli.errors import ConfigError
from misc_cli.quality.evaluation import expected_error
from tests.conftest import Load

N_CLASSES, N_SEGMENTS, N_PAIRS = 3, 2, 40


def simulated(n_workers: int = 6, n_items: int = 12, n_classes: int = 3) -> Labels:
    random = np.random.default_rng(7)
    truth = random.integers(0, n_classes, n_items)
    rows = [
        (str(w), str(i), str(truth[i] if random.random() < 0.6 else random.integers(n_classes)))
        for w in range(n_workers)
        for i in range(n_items)
        if random.random() < 0.8
    ]
    worker, item, label = (pa.array(column) for column in zip(*rows, strict=True))
    return encode(Answers(worker, item, label)).labels


class Case:
    """A few pairs of two segments, with the derivatives the optimiser sees."""

    def __init__(self, structure: Structure) -> None:
        random = np.random.default_rng(3)
        self.structure = structure
        self.slots = Slots.every(N_SEGMENTS, N_CLASSES)
        self.at = random.integers(0, N_SEGMENTS * N_CLASSES, N_PAIRS)
        self.targets = random.integers(0, N_CLASSES, N_PAIRS)
        self.weights = random.random(N_PAIRS)
        self.offsets = random.normal(size=(N_CLASSES, N_PAIRS))
        self.zeros = structure.owned(structure.zeros(N_SEGMENTS), self.slots)

    def derivatives(self, owned: Floats) -> Derivatives:
        n_slots = len(self.slots.classes)
        pairs = SlotPairs.of(self.at, self.offsets, self.targets, self.weights, self.at, n_slots)
        found = pairs.derivatives(self.structure.logits(owned, self.slots))
        return self.structure.pull_back(found, self.slots)

    def value(self, flat: Floats) -> float:
        """The log-likelihood by scipy's own softmax, of flattened parameters."""
        owned = flat.reshape(self.zeros.shape)
        logits = self.offsets + self.structure.logits(owned, self.slots)[:, self.at]
        chosen = log_softmax(logits, axis=0)[self.targets, np.arange(N_PAIRS)]
        return float(self.weights @ chosen)


@pytest.mark.parametrize("structure", [Free(N_CLASSES), Ordinal(N_CLASSES)])
def test_derivatives_are_those_of_finite_differences(structure: Structure) -> None:
    case = Case(structure)
    point = np.random.default_rng(4).normal(size=case.zeros.shape)
    found = case.derivatives(point)
    assert found.value.sum() == pytest.approx(case.value(point.ravel()), rel=1e-12)
    np.testing.assert_allclose(
        found.gradient.ravel(), approx_fprime(point.ravel(), case.value, 1e-7), atol=1e-5
    )

    def gradient_sums(flat: Floats) -> Floats:
        # problems are independent, so summing gradients over them keeps each one's curvature
        gradient: Floats = case.derivatives(flat.reshape(point.shape)).gradient.sum(axis=1)
        return gradient

    slopes = approx_fprime(point.ravel(), gradient_sums, 1e-7).reshape(-1, *point.shape)
    np.testing.assert_allclose(found.curvature, -slopes, atol=1e-5)


@pytest.mark.parametrize("structure", [Free(N_CLASSES), Ordinal(N_CLASSES)])
@pytest.mark.parametrize("ridge", [0.05, 2.0])
def test_the_optimum_is_scipys(structure: Structure, ridge: float) -> None:
    case = Case(structure)
    found = maximise(case.derivatives, case.zeros, ridge)

    def loss(flat: Floats) -> float:
        return 0.5 * ridge * float(flat @ flat) - case.value(flat)

    reference = minimize(
        loss,
        np.zeros(case.zeros.size),
        method="BFGS",
        options={"gtol": 1e-7},
    )
    np.testing.assert_allclose(found.ravel(), reference.x, atol=2e-5)


@pytest.mark.parametrize("size", [6, 20])
def test_batched_solve_is_lapacks(size: int) -> None:
    random = np.random.default_rng(0)
    factor = random.normal(size=(50, size, size))
    matrices = factor @ factor.transpose(0, 2, 1) + 0.1 * np.eye(size)
    right = random.normal(size=(50, size))
    expected = np.linalg.solve(matrices, right[:, :, None])[:, :, 0]
    found = solve_batched(matrices.transpose(1, 2, 0), right.T)
    np.testing.assert_allclose(found.T, expected, rtol=1e-8, atol=1e-8)


def test_ordinal_spans_the_designs_four_blocks_at_the_same_penalty() -> None:
    """The smallest norm of the 4 K coefficients that makes these logits, up to a softmax."""
    n_classes, random = 4, np.random.default_rng(1)
    structure = Ordinal(n_classes)
    c, k = np.indices((n_classes, n_classes))
    blocks = [
        (side * other).ravel().astype(float)
        for s in range(n_classes)
        for side, other in (
            (c >= s, k >= s),
            (c >= s, k < s),
            (c < s, k < s),
            (c < s, k >= s),
        )
    ]
    centre = np.kron(np.eye(n_classes), np.eye(n_classes) - 1.0 / n_classes)
    parameters = random.normal(size=structure.zeros(1).shape)
    logits = structure.logits(parameters, Slots.every(1, n_classes)).T.ravel()
    coefficients, *_ = np.linalg.lstsq(centre @ np.array(blocks).T, centre @ logits, rcond=None)
    np.testing.assert_allclose(centre @ np.array(blocks).T @ coefficients, centre @ logits)
    assert coefficients @ coefficients == pytest.approx(float((parameters**2).sum()))


# The paper's table, pure columns. Measured one item off: rte (both methods), and mmce-o on web and
# dog. On each of these our error moves by an item or two between late rounds, so posteriors near a
# tie decide; that the reference's truncated L-BFGS tips them is likely but was not verified.
PAPER = {
    "mmce-c": {
        "web": 11.12,
        "bm": 27.10,
        "rte": 7.50,
        "dog": 16.23,
        "temp": 5.63,
        "bluebirds": 8.33,
    },
    "mmce-o": {
        "web": 10.33,
        "bm": 27.10,
        "rte": 7.50,
        "dog": 16.73,
        "temp": 5.63,
        "bluebirds": 8.33,
    },
}


@pytest.mark.parametrize("method", PAPER)
@pytest.mark.parametrize("name", PAPER["mmce-c"])
def test_the_papers_digits(dataset: Load, method: str, name: str) -> None:
    labels, truth = dataset(name)
    seen: list[Iteration] = []
    result = registry.create("aggregator", method, "paper")(labels, seen.append)
    one_item = 100 / (truth >= 0).sum()
    error = 100 * expected_error(result.posteriors, truth)
    assert error == pytest.approx(PAPER[method][name], abs=one_item + 0.01)
    objectives = np.array([i.objective for i in seen], dtype=np.float64)
    assert (np.diff(objectives) > -1e-6).all()


def test_rounds_end_where_scipy_finds_no_better_point() -> None:
    """The whole objective, written densely, is stationary in α and β at a converged fit."""
    labels = simulated()
    result = registry.create("aggregator", "mmce-c", "paper", tol=1e-7, max_iter=500)(labels)
    n_workers, n_items, n_classes = labels.n_workers, labels.n_items, labels.n_classes
    votes = labels.votes.block(labels.votes.blocks[0]).tocoo()
    workers, targets = np.divmod(votes.col, n_classes)
    worker_ridge = 0.25 * n_classes**2
    item_ridge = worker_ridge * n_items / n_workers
    cut = n_workers * n_classes**2

    def loss(flat: Floats) -> float:
        alpha = flat[:cut].reshape(n_workers, n_classes, n_classes)
        beta = flat[cut:].reshape(n_items, n_classes, n_classes)
        log_shares = log_softmax(alpha[workers] + beta[votes.row], axis=2)
        chosen = log_shares[np.arange(len(targets)), :, targets]
        scores = np.zeros((n_items, n_classes))
        np.add.at(scores, votes.row, chosen)
        evidence = np.logaddexp.reduce(scores - np.log(n_classes), axis=1).sum()
        penalty = worker_ridge * (alpha**2).sum() + item_ridge * (beta**2).sum()
        return float(0.5 * penalty - evidence)

    forecast = result.predictor
    flat = np.concatenate(
        [forecast.workers.transpose(1, 2, 0).ravel(), forecast.items.transpose(1, 2, 0).ravel()]
    )
    assert result.objective == pytest.approx(-loss(flat), rel=1e-9)
    assert np.abs(approx_fprime(flat, loss, 1e-6)).max() < 1e-3


def test_gold_and_forecast(dataset: Load) -> None:
    labels, truth = dataset("bluebirds")
    labels = dataclasses.replace(labels, gold=np.where(np.arange(108) < 20, truth, -1))
    seen: list[Iteration] = []
    result = MinimaxEntropy()(labels, seen.append)
    np.testing.assert_array_equal(result.posteriors[np.arange(20), truth[:20]], 1.0)
    objectives = np.array([i.objective for i in seen], dtype=np.float64)
    assert (np.diff(objectives) > -1e-6).all()
    workers, items = np.indices((39, 108), dtype=np.int32).reshape(2, -1)
    forecast = result.predict(workers, items)
    np.testing.assert_allclose(forecast.sum(axis=1), 1.0)


@pytest.mark.parametrize("method", [MinimaxEntropy, OrdinalMinimaxEntropy])
def test_teams_of_workers_and_parts_of_items_do_not_matter(
    method: type[MinimaxEntropy], monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = simulated(n_workers=9, n_items=60, n_classes=4)
    whole = method(max_iter=4, tol=0)(labels)
    monkeypatch.setattr(minimax_fit, "PART", 300)
    in_parts = method(max_iter=4, tol=0)(labels)
    np.testing.assert_allclose(in_parts.posteriors, whole.posteriors, atol=1e-10)
    np.testing.assert_allclose(in_parts.confusions, whole.confusions, atol=1e-10)
    assert in_parts.objective == pytest.approx(whole.objective, rel=1e-12)


@pytest.mark.parametrize("method", [MinimaxEntropy, OrdinalMinimaxEntropy])
def test_many_classes_take_no_more_than_parameters_and_parts(
    method: type[MinimaxEntropy], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A curvature for each of 30 · 20 worker slots would be 240 thousand numbers, times copies."""
    n_classes, part = 20, 1 << 14
    labels = simulated(n_workers=30, n_items=60, n_classes=n_classes)
    monkeypatch.setattr(minimax_fit, "PART", part)
    structure = Ordinal(n_classes) if method.needs_order else Free(n_classes)
    parameters = structure.zeros(labels.n_items + 3 * labels.n_workers).size
    tracemalloc.start()
    with limits(1):
        method(max_iter=1, tol=0)(labels)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * (parameters + 10 * part)
    monkeypatch.setattr(resources, "available_bytes", lambda: 8 * parameters - 1)
    with pytest.raises(ConfigError, match="in 20 classes needs about"):
        method()(labels)


@pytest.mark.parametrize("weight", [0.0, float("nan"), float("inf")])
def test_weights_that_cannot_be(weight: float) -> None:
    with pytest.raises(ConfigError, match=r"give a (finite )?number"):
        MinimaxEntropy(worker_regularization=weight)


def test_ordinal_asks_for_an_order() -> None:
    labels = dataclasses.replace(simulated(), ordered=False)
    with pytest.raises(ConfigError, match="--class-order"):
        OrdinalMinimaxEntropy()(labels)


def test_centred_on_the_crowd_the_objective_still_rises_and_thin_workers_are_like_the_rest(
    dataset: Load,
) -> None:
    labels, _ = dataset("ms")
    seen: list[Iteration] = []
    result = MinimaxEntropy()(labels, seen.append)
    objectives = np.array([i.objective for i in seen], dtype=np.float64)
    assert (np.diff(objectives) > -1e-6).all()
    answers = sum(labels.votes.block(rows).sum(axis=0) for rows in labels.votes.blocks)
    thinnest = np.asarray(answers).reshape(labels.n_workers, -1).sum(axis=1).argmin()
    crowd = result.confusions.mean(axis=0)
    distances = np.abs(result.confusions - crowd).sum(axis=(1, 2))
    assert distances[thinnest] < np.median(distances)


def test_what_workers_share_is_the_crowds() -> None:
    """Moved there, it is penalised once: the penalty is least where Σ_w α_w = crowd."""
    found = MinimaxEntropy(max_iter=3, tol=0.0)(simulated())
    shared, crowd = found.own_workers["parameters"].sum(axis=0), found.own_shared["crowd"]
    assert np.abs(shared).max() > 0.01
    np.testing.assert_allclose(shared, crowd[:, 0], atol=1e-9)
