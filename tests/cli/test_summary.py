"""What a person at a terminal reads after a run."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from misc_cli import aggregate
from misc_cli.cli.summary import summary
from misc_cli.simulate import Simulation, answer_columns, simulate


def test_agreement_confidences_and_the_workers_to_look_at() -> None:
    mix = {"honest": 0.8, "constants": 0.1, "copiers": 0.1}
    crowd = simulate(Simulation(workers=40, items=800, classes=3, mix=mix, seed=1))
    columns = {name: column.to_pylist() for name, column in answer_columns(crowd).items()}
    outcome = aggregate(pd.DataFrame(columns), aggregator="ds-em").outcome
    rows = dict(summary(outcome, {}, closely=True))
    assert rows["agree"].startswith(f"alpha {outcome.figures['alpha']:.3f}, two answers")
    assert "of workers err together" in rows["agree"]
    bars, _, rest = rows["sure"].removeprefix("0 ").partition(" 1, ")
    assert len(bars) == 10
    assert rest.endswith("of items below 0.6")
    assert rows["look at"].count("always says") == 3
    assert "more workers" in rows["look at"]
    assert not {"agree", "sure", "look at"} & set(dict(summary(outcome, {"labels": Path("l.csv")})))
