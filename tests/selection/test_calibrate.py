"""Confidences by hidden answers: labels stay, errors of calibration fall, gold counts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from misc_cli.aggregators.confusion_kernels import confusions_of, expected_counts
from misc_cli.data.holdout import folds, log_score
from misc_cli.data.types import Answers
from misc_cli.engines.local import MemoryEngine
from misc_cli.quality.evaluation import calibration_error
from misc_cli.run.pipeline import run
from misc_cli.run.settings import Settings, build
from misc_cli.selection.calibration import (
    MODEL_SHRINKAGE,
    TEMPERATURES,
    VOTE_WEIGHTS,
    Calibration,
    best_calibration,
    shares_of,
    surface,
    temper,
)
from misc_cli.selection.cross_validation import calibration_of
from misc_cli.selection.search import search
from tests.conftest import Load
from tests.selection.crowds import calibrated, method, simulated, vote_totals


def test_calibration_keeps_labels_and_what_is_known() -> None:
    labels, _ = simulated()
    posteriors = method("ds-em").aggregator(labels).posteriors
    gold = np.full(labels.n_items, -1, dtype=np.int32)
    gold[0] = int(posteriors[0].argmax())
    soft = calibrated(Calibration(4.0, 0.9), posteriors, replace(labels, gold=gold))
    assert np.allclose(soft.sum(axis=1), 1.0)
    assert (soft.argmax(axis=1) == posteriors.argmax(axis=1)).all()
    assert soft[0].max() == 1.0
    assert calibrated(Calibration(), posteriors, labels) == pytest.approx(posteriors)
    shares = shares_of(vote_totals(labels))
    agree = np.flatnonzero(shares.argmax(axis=1) == posteriors.argmax(axis=1))[1:]
    mixed = 0.1 * temper(posteriors, 4.0) + 0.9 * shares
    assert soft[agree] == pytest.approx(mixed[agree])


def test_five_to_none_is_surer_than_three_to_two() -> None:
    """The same five workers, items that are alike but for the split of their votes."""
    random = np.random.default_rng(3)
    truth = random.random(56) < 0.3
    rows = [
        (f"w{w}", f"i{i}", "ab"[int(truth[i] ^ (random.random() < 0.25))])
        for i in range(56)
        for w in range(5)
    ]
    rows += [(f"w{w}", "none", "a") for w in range(5)]
    rows += [(f"w{w}", "two", "a" if w < 3 else "b") for w in range(5)]
    columns = [pa.array(column).dictionary_encode() for column in zip(*rows, strict=True)]
    outcome = run(Answers(*columns), build(Settings()))
    sure = dict(
        zip(outcome.labels.items.to_pylist(), outcome.decision.confidence.tolist(), strict=True)
    )
    assert sure["none"] > sure["two"] + 0.05
    assert len({round(value, 3) for value in sure.values()}) > 5


def test_the_surface_is_the_log_score_of_mixed_forecasts() -> None:
    """Without votes: against the whole forecast of every class, Σ_c posterior · confusion."""
    labels, _ = simulated()
    kept, hidden = next(folds(labels, 1, 0.1, seed=0))
    posteriors = method("ds-em").aggregator(kept).posteriors
    counts = expected_counts(kept, posteriors)
    of_items, totals = posteriors[hidden.items], vote_totals(kept)
    found = surface(of_items, counts, hidden, totals, partial(expected_counts, kept))
    confusions = confusions_of(kept, posteriors, MODEL_SHRINKAGE)
    for at, temperature in enumerate(TEMPERATURES[:3]):
        soft = temper(posteriors, temperature)
        forecast = np.einsum("pc,pck->pk", soft[hidden.items], confusions[hidden.workers])
        assert found[at, 0] == pytest.approx(log_score(forecast, hidden).sum())
    assert found.shape == (len(TEMPERATURES), len(VOTE_WEIGHTS))


def test_the_best_calibration_is_the_peak_of_the_surface_between_its_temperatures() -> None:
    curve = -500.0 * (np.log(TEMPERATURES) - np.log(2.3)) ** 2
    found = best_calibration([curve[:, None] - 900.0 * (VOTE_WEIGHTS - 0.1) ** 2])
    assert found.temperature == pytest.approx(1.5 * 2.3, rel=0.01)
    assert found.votes == pytest.approx(0.1)
    # nothing known: hidden answers never show all of it
    nothing = best_calibration([np.zeros((len(TEMPERATURES), len(VOTE_WEIGHTS)))])
    assert nothing.temperature == pytest.approx(1.5, rel=0.05)
    assert nothing.votes == 0.0


@pytest.mark.parametrize("name", ["rte", "temp", "dog"])
def test_calibration_lowers_the_calibration_error_without_looking_at_truth(
    name: str, dataset: Load
) -> None:
    labels, truth = dataset(name)
    chosen = method("ds-em")
    raw = chosen.aggregator(labels).posteriors
    calibration = calibration_of(chosen, MemoryEngine(labels))
    assert calibration is not None
    softened = calibrated(calibration, raw, labels)
    right = raw.argmax(axis=1) == truth
    before, after = (calibration_error(p.max(axis=1), right) for p in (raw, softened))
    assert after < 0.8 * before


def test_gold_items_calibrate_by_fits_that_did_not_know_them(dataset: Load) -> None:
    """Workers on `bm` err together: hidden answers cannot show how often, fifty known items do."""
    labels, truth = dataset("bm")
    gold = np.where(np.arange(labels.n_items) % 20 == 0, truth, -1).astype(np.int32)
    judged = np.flatnonzero(gold < 0)
    errors = []
    for known in (None, gold):
        posteriors = search(MemoryEngine(replace(labels, gold=known)), [method("ds-em")]).posteriors
        right = posteriors.argmax(axis=1) == truth
        errors.append(calibration_error(posteriors.max(axis=1)[judged], right[judged]))
    assert errors[1] < 0.6 * errors[0]
