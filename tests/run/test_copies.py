"""Copies count once where the run is automatic, and are judged by all of their answers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from misc_cli.core.decide import decide
from misc_cli.errors import MiscWarning
from misc_cli.evaluate.alike import compare_pairs
from misc_cli.run import registry
from misc_cli.run.copies import judged_by_all_answers, once_per_copy
from misc_cli.simulate import Simulation, simulate
from tests.crowds import labels_of, with_copies

CROWD = Simulation(workers=40, items=600, seed=1)


def test_a_few_accounts_of_one_worker_do_not_take_the_labels_over() -> None:
    crowd = simulate(CROWD)
    original = int(np.bincount(crowd.worker).argmax())
    labels = with_copies(crowd, original, 3)
    pairs = compare_pairs(labels.votes)
    with pytest.warns(MiscWarning, match=rf"3 workers give .* those of 'w{original:05d}'"):
        counted = once_per_copy(labels, pairs)
    assert counted.votes.n_votes == len(crowd.worker)
    method = registry.create("aggregator", "ds-em", "robust")
    crowds = {"all": labels, "once": counted, "alone": labels_of(crowd)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = {name: method(given) for name, given in crowds.items()}
    wrong = {name: decide(fit.posteriors).label != crowd.truth for name, fit in fits.items()}
    errors = {name: float(items.mean()) for name, items in wrong.items()}
    assert errors["once"] == errors["alone"] < 0.12
    assert errors["all"] > 0.25
    judged = judged_by_all_answers(fits["once"], labels, pairs)
    assert np.allclose(judged.confusions[40:], judged.confusions[original])


def test_without_copies_nothing_changes() -> None:
    labels = labels_of(simulate(CROWD))
    assert once_per_copy(labels, compare_pairs(labels.votes)) is labels
