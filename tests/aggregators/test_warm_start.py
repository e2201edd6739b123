"""Methods that start where an earlier fit ended, and workers known from elsewhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from misc_cli import registry
from misc_cli.data.encode import encode
from misc_cli.data.holdout import folds
from misc_cli.data.types import Aggregation, Answers, Floats, Labels, Start, aligned
from misc_cli.simulate import Simulation, answer_columns, simulate

CROWD = simulate(Simulation(workers=60, items=4_000, accuracy=0.55, seed=3))
METHODS = ["ds-em", "ds-mf", "one-coin"]


def labels_of(n_answers: int) -> Labels:
    columns = answer_columns(CROWD)
    order = np.random.default_rng(0).permutation(len(CROWD.item))[:n_answers]
    return encode(Answers(*(columns[name].take(order) for name in columns))).labels


def start_from(fitted: Aggregation) -> Start:
    everybody = np.arange(len(fitted.confusions))
    n_workers = len(everybody)
    return Start(
        confusions=fitted.confusions,
        class_prior=fitted.class_prior,
        known=np.ones(n_workers, bool),
        workers={
            name: aligned(values, everybody, n_workers)
            for name, values in fitted.own_workers.items()
        },
        shared=fitted.own_shared,
    )


@pytest.fixture(scope="module")
def nights() -> tuple[Labels, Labels]:
    first, second = labels_of(19_600), labels_of(19_800)
    assert first.workers.equals(second.workers)
    return first, second


def margin(posteriors: Floats) -> Floats:
    """How far the first class is ahead of the second, (n_items,)."""
    top = np.sort(posteriors, axis=1)
    lead: Floats = top[:, -1] - top[:, -2]
    return lead


@pytest.mark.parametrize("name", METHODS)
def test_half_the_iterations_and_the_same_labels_but_for_the_unsure(
    name: str, nights: tuple[Labels, Labels]
) -> None:
    method = registry.create("aggregator", name, "paper" if name == "ds-mf" else "robust")
    start = start_from(method(nights[0]))
    cold = method(nights[1])
    warm = method(replace(nights[1], start=start))
    assert warm.converged
    assert warm.iterations <= cold.iterations / 2
    differ = warm.posteriors.argmax(axis=1) != cold.posteriors.argmax(axis=1)
    assert differ.mean() < 0.002
    assert margin(cold.posteriors)[differ].max(initial=0.0) < 0.05


@pytest.mark.parametrize("name", METHODS)
def test_a_start_is_forgotten_where_answers_are_hidden(
    name: str, nights: tuple[Labels, Labels]
) -> None:
    method = registry.create("aggregator", name)
    warm = replace(nights[1], start=start_from(method(nights[1])))
    for (kept, _), (plain, _) in zip(folds(warm), folds(nights[1]), strict=True):
        assert kept.start is None
        assert plain.votes.n_votes == kept.votes.n_votes


@pytest.mark.parametrize("name", ["ebcc", "mmce-c"])
def test_methods_with_parameters_of_their_own_start_from_those(
    name: str, nights: tuple[Labels, Labels]
) -> None:
    few = {"restarts": 2} if name == "ebcc" else {}
    method = registry.create("aggregator", name, "paper", **few)
    start = start_from(method(nights[0]))
    assert start.workers
    cold = method(nights[1])
    warm = method(replace(nights[1], start=start))
    assert warm.iterations < cold.iterations
    differ = warm.posteriors.argmax(axis=1) != cold.posteriors.argmax(axis=1)
    assert differ.mean() < 0.005
    assert margin(cold.posteriors)[differ].max(initial=0.0) < 0.1
