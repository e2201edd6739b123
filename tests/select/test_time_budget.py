"""A time budget leaves out what it must, and says so."""

from __future__ import annotations

import numpy as np
import pytest

from misc_cli.errors import MiscWarning
from misc_cli.select.compare import compare
from misc_cli.select.processes import Deadline
from misc_cli.select.search import search
from tests.select.crowds import method, simulated


class Expiring(Deadline):
    """Passes once it was asked so many times."""

    after = 0

    def __init__(self, seconds: float | None) -> None:
        self.end = None
        self.asked = 0 if seconds else -1_000

    @property
    def passed(self) -> bool:
        self.asked += 1
        return self.asked > self.after


@pytest.mark.parametrize("after", [0, 1, 5])
def test_a_time_budget_that_is_too_short_to_judge_gives_what_can_be_had(
    after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Expiring, "after", after)
    monkeypatch.setattr("misc_cli.select.search.Deadline", Expiring)
    labels, _ = simulated()
    methods = [method("ds-em"), method("mv")]
    with pytest.warns(MiscWarning, match="no time for choosing and calibrating"):
        found = search(labels, methods, time_budget=60.0)
    assert found.selection["chosen"] == [["mv"], ["mv"], ["ds-em"]][[0, 1, 5].index(after)]
    assert found.cut_short
    assert np.allclose(found.aggregation.posteriors.sum(axis=1), 1.0)


def test_a_time_budget_leaves_out_what_has_not_seen_all_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The result is that of a search without what was left out."""
    labels, _ = simulated()
    methods = [method("ds-em"), method("mv")]
    alone = search(labels, methods[:1])
    monkeypatch.setattr(Expiring, "after", 15)
    monkeypatch.setattr("misc_cli.select.search.Deadline", Expiring)
    monkeypatch.setattr("misc_cli.select.compare.Deadline", Expiring)
    with pytest.warns(MiscWarning, match="the time budget left no time for mv"):
        found = search(labels, methods, time_budget=60.0)
    assert found.selection["chosen"] == ["ds-em"]
    assert found.selection["why"].endswith("there was no time for mv")
    assert found.aggregation.posteriors.tobytes() == alone.aggregation.posteriors.tobytes()
    with pytest.warns(MiscWarning, match="no time for mv"):
        standings = compare(labels, methods, time_budget=60.0)
    assert [standing.method for standing in standings] == ["ds-em", "null"]
