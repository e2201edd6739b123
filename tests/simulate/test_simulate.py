"""The made-up crowd: what benchmarks and examples rely on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from misc_cli.errors import ConfigError
from misc_cli.simulate import KINDS, Simulation, simulate
from tests.conftest import REPO


@pytest.mark.parametrize("answers_per_item", [3.6, 5.0, 39.0])  # both ways to pick workers
def test_every_item_is_answered_by_different_workers(answers_per_item: float) -> None:
    crowd = simulate(Simulation(workers=40, items=3000, answers_per_item=answers_per_item))
    pairs = np.stack([crowd.item, crowd.worker])
    assert np.unique(pairs, axis=1).shape == pairs.shape
    assert len(crowd.label) / 3000 == pytest.approx(answers_per_item, abs=0.05)
    assert np.all(np.diff(crowd.item) >= 0)
    np.testing.assert_allclose(crowd.confusions.sum(axis=2), 1.0)


def test_answers_follow_each_workers_confusions() -> None:
    crowd = simulate(Simulation(workers=10, items=60_000, classes=3, activity_skew=0.0))
    counts = np.zeros_like(crowd.confusions)
    np.add.at(counts, (crowd.worker, crowd.truth[crowd.item], crowd.label), 1.0)
    shares = counts / counts.sum(axis=2, keepdims=True)
    # about 10,000 answers per row: four standard errors are below 0.02
    np.testing.assert_allclose(shares, crowd.confusions, atol=0.02)


def test_kinds_of_workers_behave_as_they_are_called() -> None:
    crowd = simulate(Simulation(workers=500, items=20_000, classes=4, accuracy=0.7))
    right = crowd.label == crowd.truth[crowd.item]
    kind = crowd.kinds[crowd.worker]
    accuracy = {name: right[kind == code].mean() for code, name in enumerate(KINDS[:5])}
    assert accuracy["experts"] > 0.88
    assert accuracy["honest"] == pytest.approx(0.7, abs=0.05)
    assert 0.35 < accuracy["biased"] < 0.6
    assert accuracy["spammers"] == pytest.approx(0.25, abs=0.05)
    assert accuracy["adversaries"] < 0.2
    assert np.bincount(crowd.kinds).tolist() == [50, 300, 75, 50, 25]


def test_planted_workers_do_what_they_are_called() -> None:
    mix = {"honest": 0.6, "constants": 0.1, "beginners": 0.2, "copiers": 0.1}
    crowd = simulate(Simulation(workers=100, items=10_000, accuracy=0.7, mix=mix))
    right = crowd.label == crowd.truth[crowd.item]
    kind = crowd.kinds[crowd.worker]
    assert right[kind == KINDS.index("beginners")].mean() == pytest.approx(0.55, abs=0.04)
    for worker in np.flatnonzero(crowd.kinds == KINDS.index("constants")):
        assert len(np.unique(crowd.label[crowd.worker == worker])) == 1
    copiers = np.flatnonzero(crowd.originals >= 0)
    assert len(copiers) == 10
    for worker in copiers:
        own, model = crowd.worker == worker, crowd.worker == crowd.originals[worker]
        assert np.array_equal(crowd.item[own], crowd.item[model])
        assert np.array_equal(crowd.label[own], crowd.label[model])
    assert (np.diff(crowd.item) >= 0).all()


def test_skew_is_in_who_answers_how_often() -> None:
    even = simulate(Simulation(workers=100, items=5000, activity_skew=0.0))
    skewed = simulate(Simulation(workers=100, items=5000, activity_skew=1.5))
    top = [np.sort(np.bincount(c.worker, minlength=100))[-10:].sum() for c in (even, skewed)]
    assert top[0] < 0.15 * len(even.worker)
    assert top[1] > 0.35 * len(skewed.worker)


def test_seed_decides_everything() -> None:
    first, again, other = (simulate(Simulation(seed=seed)) for seed in (7, 7, 8))
    assert np.array_equal(first.label, again.label)
    assert np.array_equal(first.worker, again.worker)
    assert not np.array_equal(first.truth, other.truth)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"answers_per_item": 101.0}, "--answers-per-item"),
        ({"accuracy": 1.0}, "--accuracy"),
        ({"activity_skew": float("inf")}, "--activity-skew"),
        ({"seed": -1}, "--seed"),
        ({"classes": 1}, "--classes"),
        ({"mix": {"robots": 1.0}}, "--mix"),
    ],
)
def test_impossible_settings_name_the_flag(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Simulation(**settings)  # type: ignore[arg-type]


def test_sample_data_is_what_make_sample_writes(tmp_path: Path) -> None:
    """The commands of its README, which are those of the Makefile."""
    sample = REPO / "sample_data"
    makefile = (sample.parent / "Makefile").read_text()
    readme = (sample / "README.md").read_text().replace("\\\n", " ")
    commands = [
        line.split() for line in readme.splitlines() if line.startswith("    misc simulate")
    ]
    assert len(commands) == 3
    for command in commands:
        for word in command:
            assert word in makefile
        words = [word.replace("sample_data", str(tmp_path)) for word in command[1:]]
        subprocess.run([sys.executable, "-m", "misc_cli", *words], check=True, cwd=sample.parent)
    for path in sample.glob("*.csv"):
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


def test_members_of_a_group_share_their_confusions() -> None:
    crowd = simulate(Simulation(workers=90, items=500, classes=4, groups=3, mix={"honest": 1}))
    assert len(np.unique(crowd.confusions, axis=0)) == 3
    sizes = np.unique(crowd.confusions, axis=0, return_counts=True)[1]
    assert sizes.tolist() == [30, 30, 30]
    with pytest.raises(ConfigError, match="--groups"):
        Simulation(workers=5, groups=6)
