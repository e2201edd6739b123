"""Copies count once where the run is automatic, and are judged by all of their answers."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from misc_cli import registry
from misc_cli.__main__ import run
from misc_cli.data.posteriors import decide
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.protocol import POSTERIORS
from misc_cli.errors import MiscWarning
from misc_cli.quality.worker_dependence import (
    compare_workers,
    judged_by_all_answers,
    once_per_copy,
)
from misc_cli.simulate import Simulation, simulate
from tests.crowds import labels_of, with_copies

CROWD = Simulation(workers=40, items=600, seed=1)


def test_a_few_accounts_of_one_worker_do_not_take_the_labels_over() -> None:
    crowd = simulate(CROWD)
    original = int(np.bincount(crowd.worker).argmax())
    labels = with_copies(crowd, original, 3)
    engine = MemoryEngine(labels)
    pairs = compare_workers(engine)
    with pytest.warns(MiscWarning, match=rf"3 workers give .* those of 'w{original:05d}'"):
        counted = once_per_copy(engine, pairs)
    assert isinstance(counted, MemoryEngine)
    assert counted.n_votes == len(crowd.worker)
    method = registry.create("aggregator", "ds-em", "robust")
    crowds = {"all": labels, "once": counted.labels, "alone": labels_of(crowd)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = {name: method(given) for name, given in crowds.items()}
    wrong = {name: decide(fit.posteriors).label != crowd.truth for name, fit in fits.items()}
    errors = {name: float(items.mean()) for name, items in wrong.items()}
    assert errors["once"] == errors["alone"] < 0.12
    assert errors["all"] > 0.25
    engine.arrays[POSTERIORS] = fits["once"].posteriors
    judged = judged_by_all_answers(fits["once"].confusions, engine, pairs)
    assert np.allclose(judged[40:], judged[original])


def test_without_copies_nothing_changes() -> None:
    engine = MemoryEngine(labels_of(simulate(CROWD)))
    assert once_per_copy(engine, compare_workers(engine)) is engine


def test_the_command_line_counts_them_once_too(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    crowd = simulate(Simulation(workers=20, items=150, mix={"honest": 1.0}, seed=2))
    labels = with_copies(crowd, int(np.bincount(crowd.worker).argmax()), 2)
    matrix = labels.votes.block(labels.votes.blocks[0]).tocoo()
    answers = tmp_path / "answers.csv"
    lines = [f"w{w // 4},i{i},c{w % 4}" for i, w in zip(*matrix.coords, strict=True)]
    answers.write_text("\n".join(["worker,item,label", *lines]))
    assert run(["aggregate", str(answers), "-o", str(tmp_path / "labels.csv")]) == 0
    assert "2 workers give the answers of another once more" in capfd.readouterr().err
