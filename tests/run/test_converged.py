"""“Converged” means: every loop that ran stopped because it moved less than its tolerance."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from misc_cli.__main__ import run
from misc_cli.arguments import ReadOptions, answers_of
from misc_cli.data.solver import FIXED, Step, iterate, joined_stops
from misc_cli.data.types import ignore_iteration
from misc_cli.errors import ConvergenceWarning
from misc_cli.run import pipeline
from misc_cli.run.result import RunResult
from misc_cli.run.settings import Settings, build
from tests.conftest import REPO


@pytest.fixture(scope="module")
def answers() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 3, 60)
    rows = [
        (f"w{worker}", f"i{item}", str(truth[item] if rng.random() < 0.7 else rng.integers(0, 3)))
        for item in range(60)
        for worker in range(6)
    ]
    return pd.DataFrame(rows, columns=["worker", "item", "label"])


def outcome_of(answers: pd.DataFrame, **options: Any) -> RunResult:
    """Run with these settings; the rest are parameters of methods, as flags give them."""
    of_run = ("aggregator", "completer", "calibrate")
    own = {name: options.pop(name) for name in of_run if name in options}
    columns, _, _ = answers_of(answers, ReadOptions())
    return pipeline.run(columns, build(Settings(**own, options=options)))


@pytest.mark.parametrize(
    ("options", "stopped"),
    [
        ({"aggregator": "mv"}, {}),
        ({"aggregator": "ds-em"}, {"ds-em": "tolerance"}),
        ({"aggregator": "ds-em", "tol": 0.0, "max_iter": 1}, {"ds-em": "fixed"}),
        ({"aggregator": "ebcc", "tol": 0.0, "max_iter": 3, "restarts": 2}, {"ebcc": "fixed"}),
        ({"aggregator": "ds-mf", "max_iter": 1}, {"ds-mf": "limit"}),
        ({"aggregator": "mmce-c", "max_iter": 1}, {"mmce-c": "limit"}),
        (
            {"aggregator": "ds-em", "completer": "tucker", "ranks": (2, 3, 3), "passes": 1},
            {"ds-em": "tolerance", "pass": "limit"},
        ),
    ],
)
def test_what_stopped_each_loop(
    answers: pd.DataFrame, options: dict[str, Any], stopped: dict[str, str]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        outcome = outcome_of(answers, calibrate=False, **options)
    assert outcome.fit.stopped == stopped
    assert outcome.fit.converged == all(reason == "tolerance" for reason in stopped.values())
    assert outcome.figures["converged"] == outcome.fit.converged


def test_a_tolerance_of_zero_runs_all_iterations_of_a_loop_that_stands_still() -> None:
    """And that is no convergence: nobody asked whether it moves."""
    end = iterate(
        lambda count: Step(count + 1, change=0.0),
        0,
        stage="count",
        tol=0.0,
        max_iter=5,
        on_iteration=ignore_iteration,
    )
    assert (end.state, end.iterations, end.stopped) == (5, 5, FIXED)
    assert not end.converged


def test_of_several_loops_of_a_stage_the_worst_counts() -> None:
    """So a mean of methods has converged only if all of them have."""
    both = joined_stops({"ds-em": "tolerance"}, {"ds-em": "limit"}, {"ebcc": "tolerance"})
    assert both == {"ds-em": "limit", "ebcc": "tolerance"}
    assert joined_stops({"pass": "fixed"}, {"pass": "tolerance"}) == {"pass": "fixed"}


def test_a_mean_of_methods_has_not_converged_if_one_of_them_has_not(answers: pd.DataFrame) -> None:
    """So few answers get a mean of two iterations of ds-em, one-coin and mv: one has a limit."""
    outcome = outcome_of(answers, tol=1e-9)
    assert len(outcome.fit.members) == 3
    assert outcome.fit.converged
    with pytest.warns(ConvergenceWarning, match="one-coin did not converge"):
        outcome = outcome_of(answers, max_iter=1)
    assert outcome.fit.stopped == {"one-coin": "limit"}
    assert not outcome.fit.converged


def test_a_gate_trips_when_the_outer_loop_did_not_converge(
    answers: pd.DataFrame, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place, labels = str(tmp_path / "answers.csv"), str(tmp_path / "labels.csv")
    answers.to_csv(place, index=False)
    method = ["--aggregator", "ds-em", "--completer", "tucker", "--ranks", "2,3,3", "--passes", "1"]
    gate = ["--fail-if", "converged=false"]
    assert run(["aggregate", place, *method, *gate, "--verbose", "-o", labels]) == 3
    said = capfd.readouterr().err
    assert "NOT converged" in said
    assert "pass: the limit came first" in said


def test_as_many_passes_as_were_chosen_are_no_failure(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Hidden answers choose among results after so many passes: no tolerance ends them."""
    method = ["--completer", "tucker", "--aggregator", "mv", "--passes", "2"]
    labels = str(tmp_path / "labels.csv")
    assert (
        run(
            [
                "aggregate",
                str(REPO / "sample_data" / "answers.csv"),
                *method,
                "--verbose",
                "-o",
                labels,
            ]
        )
        == 0
    )
    said = capfd.readouterr().err
    assert "NOT converged" not in said
