"""A choice that was made before stays unless the new one is clearly better on hidden answers."""

from __future__ import annotations

import numpy as np
import pytest

from misc_cli.engines.local import MemoryEngine
from misc_cli.quality.evaluation import expected_error
from misc_cli.selection.candidates import SIGNIFICANT
from misc_cli.selection.ensemble import FitResult
from misc_cli.selection.search import search, staying
from tests.selection.crowds import method, scored, simulated

NEAR = [method("one-coin"), method("ds-em"), method("mv")]


def chosen(found: FitResult) -> tuple[str, ...]:
    return tuple(found.selection["chosen"])


def test_a_choice_does_not_follow_the_luck_of_the_draw() -> None:
    """Methods that are about equally good: another draw of hidden answers prefers others."""
    labels, _ = simulated(items=250, accuracy=0.7)
    fresh = [search(MemoryEngine(labels), NEAR, seed=seed) for seed in range(6)]
    assert len({chosen(found) for found in fresh}) > 1
    before = dict(fresh[0].selection["weights"])
    again = [search(MemoryEngine(labels), NEAR, seed=seed, incumbent=before) for seed in range(6)]
    assert {chosen(found) for found in again} == {chosen(fresh[0])}
    for found, free in zip(again, fresh, strict=True):
        assert found.selection["weights"] == (
            before if chosen(free) != chosen(fresh[0]) else free.selection["weights"]
        )
        if chosen(free) != chosen(fresh[0]):
            assert found.selection["ahead_of_earlier"] < SIGNIFICANT
            assert "as before" in found.selection["why"]


def test_what_is_clearly_better_takes_its_place() -> None:
    """A vote that is wrong twice as often does not stay, though its labels score well."""
    labels, truth = simulated(items=3000, accuracy=0.5)
    pure = [method("mv"), method("ds-em")]
    found = search(MemoryEngine(labels), pure, incumbent={"mv": 1.0})
    assert chosen(found) == chosen(search(MemoryEngine(labels), pure)) == ("ds-em",)
    assert expected_error(found.posteriors, truth) < 0.25
    assert found.selection["ahead_of_earlier"] is None
    assert "best" in found.selection["why"]


@pytest.mark.parametrize(("share", "stays"), [(0.99, True), (0.96, False)])
def test_what_has_nearly_all_of_the_lead_stays_however_surely_it_is_behind(
    share: float, stays: bool
) -> None:
    """With many answers anything is significant: from 0.97 of the lead on it counts fully."""
    n_hidden = 400
    workers = np.arange(n_hidden, dtype=np.int32) % 40
    rival = 1.0 + 0.001 * np.random.default_rng(0).normal(size=n_hidden)
    behind = np.full(n_hidden, share)
    score = scored(method("mv"), {"own": behind, "soft": behind[None] - 1.0})
    kept = staying([score], {"mv": 1.0}, rival, workers, np.zeros(n_hidden))
    assert (kept is not None) is stays


def test_of_a_choice_that_can_no_longer_be_tried_the_rest_stays() -> None:
    labels, _ = simulated(items=400, accuracy=0.6)
    found = search(MemoryEngine(labels), NEAR, incumbent={"ebcc": 0.7, "one-coin": 0.3})
    assert found.selection["weights"] == {"one-coin": 1.0}
    gone = search(MemoryEngine(labels), NEAR, incumbent={"ebcc": 1.0})
    assert gone.selection["weights"] == search(MemoryEngine(labels), NEAR).selection["weights"]
