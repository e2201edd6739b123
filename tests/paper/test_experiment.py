"""Sparser and noisier answers: exactly as sparse and as noisy as asked for."""

from __future__ import annotations

import numpy as np
import pytest

from misc_cli.data.holdout import answers_of
from misc_cli.data.types import Labels
from misc_cli.data.votes import SparseVotes
from misc_cli.errors import ConfigError
from misc_cli.paper.experiment import NOISES, PAPER_ERROR_RATES, degrade
from tests.conftest import Load


def sparse(labels: Labels) -> SparseVotes:
    assert isinstance(labels.votes, SparseVotes)
    return labels.votes


@pytest.mark.parametrize("noise", NOISES)
def test_rates_are_met_and_noise_is_nested(dataset: Load, noise: str) -> None:
    labels, truth = dataset("rte")
    original = answers_of(sparse(labels))
    given = {(w, i): k for w, i, k in zip(*vars(original).values(), strict=True)}
    spoilt_before: set[tuple[int, int]] = set()
    for error_rate in PAPER_ERROR_RATES:
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
