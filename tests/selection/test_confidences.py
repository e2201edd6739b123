"""What users rely on in confidences: right where the model is, lower where workers err together."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from misc_cli import registry
from misc_cli.aggregators.confusion_kernels import expected_counts
from misc_cli.completers.parameters import Loop
from misc_cli.data.posteriors import decide
from misc_cli.data.types import Aggregation, Codes, Floats, Labels, OnIteration, ignore_iteration
from misc_cli.data.votes import SparseVotes
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.protocol import POSTERIORS
from misc_cli.quality.evaluation import calibration_error
from misc_cli.selection.calibration import (
    MOST_ANSWERS,
    Calibration,
    looked_at,
    pool,
    standard_errors,
)
from misc_cli.selection.candidates import Method, fit
from misc_cli.selection.cross_validation import calibration_of
from misc_cli.selection.search import search
from tests.crowds import labels_from
from tests.selection.crowds import calibrated, method, simulated


def misled(seed: int, hard: float = 0.4) -> tuple[Labels, Codes]:
    """Seven answers per item by workers who are right nine times in ten, but for a share of hard
    items, of which half of them know the truth and the others believe the same wrong thing.
    """
    random = np.random.default_rng(seed)
    truth = random.integers(3, size=600).astype(np.int32)
    items = np.repeat(np.arange(600, dtype=np.int32), 7)
    workers = np.concatenate([random.choice(40, size=7, replace=False) for _ in range(600)])
    right = random.random(len(items)) < np.where(random.random(600) < hard, 0.5, 0.9)[items]
    lure = (truth + random.integers(1, 3, size=600)) % 3
    said = np.where(right, truth[items], lure[items])
    return labels_from(workers, items, said, (600, 40, 3)), truth


def excess(labels: Labels) -> float:
    """By how many standard errors these workers agree beyond what labels explain."""
    patient = registry.create("aggregator", "ds-em", "robust", max_iter=2000)
    counts = expected_counts(labels, patient(labels).posteriors)
    assert isinstance(labels.votes, SparseVotes)
    return standard_errors(labels.votes.matrix, counts)


def sureness(posteriors: Floats, truth: Codes) -> float:
    return calibration_error(posteriors.max(axis=1), posteriors.argmax(axis=1) == truth)


def test_crowds_that_err_independently_pass_and_those_that_err_together_do_not() -> None:
    sizes = [(2, 100, 20, 5), (3, 400, 40, 3), (4, 1000, 100, 5), (8, 600, 30, 6)]
    found = [
        excess(simulated(classes=k, items=n, workers=w, answers_per_item=a, seed=n + k)[0])
        for k, n, w, a in sizes
    ]
    assert max(found) < 1.5
    assert abs(np.mean(found)) < 1.0
    assert min(excess(misled(seed)[0]) for seed in range(3)) > 4.0


@pytest.mark.parametrize(
    "crowd",
    [
        {"items": 60, "answers_per_item": 4.6},
        {"items": 400, "workers": 40, "classes": 4},
        {"items": 1000, "workers": 100, "classes": 4, "accuracy": 0.9},
        {"items": 1500, "workers": 60, "classes": 2, "accuracy": 0.75},
        {"items": 8000, "workers": 150, "classes": 4, "seed": 5},
    ],
)
def test_where_the_model_is_true_confidences_are_no_worse_than_raw(crowd: dict[str, float]) -> None:
    labels, truth = simulated(**crowd)
    pure = [method("ds-em"), method("one-coin")]
    raw, written = (
        search(MemoryEngine(labels), pure, few=pure, calibrate=calibrate).posteriors
        for calibrate in (False, True)
    )
    assert sureness(written, truth) <= sureness(raw, truth) + 0.01
    assert (decide(written).label == decide(raw).label).all()


def test_where_workers_err_together_confidences_are_better_than_raw() -> None:
    labels, truth = misled(0)
    pure = [method("ds-em"), method("one-coin")]
    raw, found = (
        search(MemoryEngine(labels), pure, calibrate=calibrate) for calibrate in (False, True)
    )
    assert found.calibration is not None
    assert found.calibration.weight == 1.0
    before, after = (sureness(each.posteriors, truth) for each in (raw, found))
    assert after < before - 0.05


def test_no_calibration_changes_a_label() -> None:
    """Whatever the pool of the methods and the votes say, and however much they weigh."""
    random = np.random.default_rng(0)
    posteriors, pooled, shares = random.dirichlet(np.full(4, 0.5), size=(3, 500))
    posteriors[:50] = np.eye(4)[random.integers(4, size=50)]
    for weight in (0.0, 0.3, 1.0):
        for temperature, votes in ((1.0, 0.0), (5.0, 0.2), (0.5, 0.9)):
            written = Calibration(temperature, votes, weight).soften(posteriors, shares, pooled)
            assert np.allclose(written.sum(axis=1), 1.0)
            assert (decide(written).label == decide(posteriors).label).all()
    assert Calibration(9.0, 0.2, 0.0).soften(posteriors, shares, pooled) == pytest.approx(
        posteriors
    )


def test_the_pool_is_the_product_of_powers() -> None:
    first, second = np.array([[0.9, 0.1]]), np.array([[0.6, 0.4]])
    product = np.array([0.9**0.75 * 0.6**0.25, 0.1**0.75 * 0.4**0.25])
    assert pool([first, second], [3.0, 1.0])[0] == pytest.approx(product / product.sum())


def test_many_answers_are_looked_at_by_the_names_of_their_items() -> None:
    labels, _ = simulated(items=3000)
    n_votes = labels.votes.n_votes
    assert looked_at(labels.items, n_votes, 0).all()
    some = looked_at(labels.items, 4 * MOST_ANSWERS, 0)
    assert some.mean() == pytest.approx(0.25, abs=0.03)
    backwards = labels.items.take(np.arange(3000)[::-1])
    assert (looked_at(backwards, 4 * MOST_ANSWERS, 0) == some[::-1]).all()
    assert (looked_at(labels.items, 4 * MOST_ANSWERS, 1) != some).any()


def test_gold_items_say_how_sure_to_be() -> None:
    labels, truth = misled(1)
    gold = np.where(np.arange(600) < 60, truth, -1).astype(np.int32)
    raw, others = method("ds-em").aggregator(labels).posteriors, slice(60, None)
    calibration = calibration_of(method("ds-em"), MemoryEngine(replace(labels, gold=gold)))
    assert calibration is not None
    written = calibrated(calibration, raw, labels)
    assert sureness(written[others], truth[others]) < 0.6 * sureness(raw[others], truth[others])


def test_completed_labels_are_as_sure_as_the_answers_that_were_given() -> None:
    """A completed matrix is all but unanimous, which proves nothing."""
    labels, truth = misled(3)
    completer = registry.create("completer", "tucker", ranks=(3, 6, 3))
    loop = Loop(passes=2, final="completed")
    tucker = Method("tucker", method("ds-em").aggregator, completer, loop)
    engine = MemoryEngine(labels)
    fit(tucker, engine, ignore_iteration)
    raw = engine.whole(POSTERIORS)
    calibration = calibration_of(tucker, engine)
    assert calibration is not None
    assert calibration.evidence
    written = calibrated(calibration, raw, labels)
    assert (decide(written).label == decide(raw).label).all()
    assert sureness(written, truth) < 0.6 * sureness(raw, truth)


@dataclass(frozen=True)
class Informed:
    """Knows the truth of completed answers, or of given ones, and of the others nothing."""

    truth: Codes
    of_completed: bool

    def __call__(self, labels: Labels, on_iteration: OnIteration = ignore_iteration) -> Aggregation:
        is_completed = not isinstance(labels.votes, SparseVotes)
        knows = is_completed is self.of_completed
        shuffled = np.random.default_rng(0).permutation(self.truth)
        posteriors = np.eye(3)[self.truth if knows else shuffled]
        rows = np.full((labels.n_workers, 3, 3), 0.1) + 0.7 * np.eye(3)
        return Aggregation(posteriors, confusions=rows, class_prior=np.full(3, 1 / 3), iterations=1)


@pytest.mark.parametrize("completed_leads", [True, False])
def test_completed_labels_that_forecast_clearly_better_are_left_as_they_are(
    completed_leads: bool,
) -> None:
    labels, truth = simulated(accuracy=0.8)
    completer = registry.create("completer", "tucker", ranks=(3, 6, 3))
    loop = Loop(passes=1, final="completed")
    tucker = Method("tucker", Informed(truth, completed_leads), completer, loop)
    calibration = calibration_of(tucker, MemoryEngine(labels))
    if completed_leads:
        assert calibration is None
    else:
        assert calibration is not None
        assert calibration.evidence


def test_the_model_that_is_asked_is_one_that_counts() -> None:
    """In thirty classes ds-em finds little, and would call its own failure workers' agreement."""
    labels, truth = simulated(classes=30, items=600, workers=40, answers_per_item=5, seed=4)
    found = search(MemoryEngine(labels), [method("ds-em"), method("one-coin")])
    assert found.selection["chosen"] == ["one-coin"]
    assert found.calibration is not None
    assert found.calibration.weight < 0.5
    assert sureness(found.posteriors, truth) < 0.1
