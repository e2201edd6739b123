"""What a person at a terminal reads after a run."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import pytest

from misc_cli import aggregate
from misc_cli.__main__ import run
from misc_cli.cli.aggregate import summary
from misc_cli.errors import MiscWarning
from misc_cli.simulate import Simulation, answer_columns, simulate


def test_the_workers_to_look_at() -> None:
    mix = {"honest": 0.8, "constants": 0.1, "copiers": 0.1}
    crowd = simulate(Simulation(workers=40, items=800, classes=3, mix=mix, seed=1))
    columns = {name: column.to_pylist() for name, column in answer_columns(crowd).items()}
    outcome = aggregate(pd.DataFrame(columns), aggregator="ds-em").outcome
    rows = dict(summary(outcome, {}, closely=True))
    assert rows["look at"].count("always says") == 3
    assert "more workers" in rows["look at"]
    assert "look at" not in dict(summary(outcome, {"labels": Path("l.csv")}))


def coin_flips(n_items: int, n_classes: int) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    worker = np.concatenate([rng.permutation(40)[:3] for _ in range(n_items)])
    return pd.DataFrame(
        {
            "worker": [f"w{code}" for code in worker],
            "item": [f"i{at // 3}" for at in range(3 * n_items)],
            "label": [f"c{code}" for code in rng.integers(n_classes, size=3 * n_items)],
        }
    )


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("method", ["auto", "ds-em", "mv"])
def test_coin_flips_are_guesses(method: Literal["auto", "ds-em", "mv"], n_classes: int) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MiscWarning)
        outcome = aggregate(coin_flips(400, n_classes), aggregator=method).outcome
    confidence, evidence = outcome.figures["confidence"], outcome.figures["evidence"]
    assert confidence is not None
    assert evidence is not None
    assert confidence <= 1 / n_classes + 0.08
    assert evidence < 0.5
    assert any("the labels are guesses" in str(one.message) for one in caught)
    first = summary(outcome, {})[0]
    assert first == ("evidence", "these answers agree no more than chance: the labels are guesses")


@pytest.mark.filterwarnings("ignore::misc_cli.errors.MiscWarning")
def test_raw_posteriors_stay_and_the_words_are_said(tmp_path: Path) -> None:
    coin_flips(400, 2).to_csv(tmp_path / "answers.csv", index=False)
    words = ["aggregate", str(tmp_path / "answers.csv"), "--aggregator", "mv", "-q"]
    confidences = {}
    for name, more in {
        "usual": [],
        "raw": ["--no-calibrate"],
        "disk": ["--engine", "disk", "--spill", str(tmp_path)],
    }.items():
        out = tmp_path / f"{name}.csv"
        assert run([*words, *more, "-o", str(out)]) == 0
        record = json.loads((tmp_path / f"{name}.run.json").read_text())
        assert any("the labels are guesses" in text for text in record["warnings"])
        confidences[name] = pd.read_csv(out, dtype=str)
    assert confidences["raw"]["confidence"].astype(float).mean() > 0.7
    assert confidences["usual"].equals(confidences["disk"])
    assert confidences["usual"]["label"].equals(confidences["raw"]["label"])
    assert run([*words, "--fail-if", "evidence<0.5", "-o", str(tmp_path / "no.csv")]) == 3
