"""The scripts of the paper's experiments, in benchmarks/."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from misc_cli.data.holdout import answers_of
from misc_cli.data.types import Labels
from misc_cli.data.votes import SparseVotes
from misc_cli.errors import ConfigError
from misc_cli.paper.table import Cell, method_of, read_dataset
from misc_cli.selection.compare import errors
from tests.conftest import REPO, Load, dataset_folder

SPARSE_NOISY = runpy.run_path(str(REPO / "benchmarks" / "sparse_noisy.py"))
RANK_SEARCH = runpy.run_path(str(REPO / "benchmarks" / "rank_search.py"))
degrade = SPARSE_NOISY["degrade"]


def sparse(labels: Labels) -> SparseVotes:
    assert isinstance(labels.votes, SparseVotes)
    return labels.votes


@pytest.mark.parametrize("noise", SPARSE_NOISY["TITLES"])
def test_rates_are_met_and_noise_is_nested(dataset: Load, noise: str) -> None:
    labels, truth = dataset("rte")
    original = answers_of(sparse(labels))
    given = {(w, i): k for w, i, k in zip(*vars(original).values(), strict=True)}
    spoilt_before: set[tuple[int, int]] = set()
    for error_rate in SPARSE_NOISY["PAPER_ERROR_RATES"]:
        random = np.random.default_rng(7)
        worse = degrade(
            labels, truth, nonzero_rate=0.037, error_rate=error_rate, noise=noise, random=random
        )
        answers = answers_of(sparse(worse))
        assert len(answers) == round(0.037 * 164 * 800)
        assert len(np.unique(answers.items)) == 800
        assert len(np.unique(answers.workers)) == 164
        wrong = answers.classes != truth[answers.items]
        share = np.bincount(answers.workers, wrong) / np.bincount(answers.workers)
        assert share.mean() == pytest.approx(error_rate, abs=2e-3)
        rows = list(zip(*vars(answers).values(), strict=True))
        spoilt = {(w, i) for w, i, k in rows if given[w, i] != k}
        assert all(given[pair] == truth[pair[1]] for pair in spoilt)  # only right answers go wrong
        assert spoilt > spoilt_before
        spoilt_before = spoilt
    if noise == "workers":  # all but the last worker in turn are wrong throughout or untouched
        untouched = {w for w, _ in given} - {w for w, _ in spoilt}
        assert sum(share[w] < 1 for w in range(164) if w not in untouched) <= 1


def test_rates_that_cannot_be_are_errors(dataset: Load) -> None:
    labels, truth = dataset("rte")
    random = np.random.default_rng(0)
    with pytest.raises(ConfigError, match="there are 8000"):
        degrade(labels, truth, nonzero_rate=0.5, error_rate=0.3, noise="spread", random=random)
    with pytest.raises(ConfigError, match="without an answer"):
        degrade(labels, truth, nonzero_rate=0.002, error_rate=0.3, noise="spread", random=random)
    with pytest.raises(ConfigError, match="is below"):
        degrade(labels, truth, nonzero_rate=0.037, error_rate=0.01, noise="spread", random=random)


def test_the_script_writes_a_point_per_rate_and_strategy(tmp_path: Path) -> None:
    words = ["--from", str(dataset_folder("rte").parent), "--noise", "spread", "--seeds", "1"]
    words += ["--aggregators", "mv", "-o", str(tmp_path / "points.csv")]
    script = [sys.executable, str(REPO / "benchmarks" / "sparse_noisy.py"), *words]
    done = subprocess.run(script, capture_output=True, text=True, check=True)
    assert "Wrong answers spread over all workers" in done.stdout
    points = pd.read_csv(tmp_path / "points.csv").pivot(
        index="strategy", columns="error_rate", values="mean"
    )
    assert points.shape == (3, 4)
    assert points.loc["pure"].is_monotonic_increasing
    assert (points.loc["best"] <= points.loc["rule of thumb"]).all()


def test_the_search_finds_the_error_that_it_says() -> None:
    folder = dataset_folder("bluebirds")
    cell = Cell("bluebirds", "tucker", "ds-em")
    found = RANK_SEARCH["search_cell"](cell, folder, target=8.33, trials=40, seed=0)
    assert found.trials <= 40
    (error,) = errors(read_dataset(folder), [method_of(cell, found.options)]).values()
    assert error == pytest.approx(found.error)
    assert round(error, 2) <= 8.33
