"""A time budget leaves out what it must, and says so."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from misc_cli import registry
from misc_cli.data.types import Aggregation, Iteration, Labels, OnIteration, ignore_iteration
from misc_cli.engines.local import MemoryEngine
from misc_cli.errors import MiscWarning
from misc_cli.selection import candidates, worker_pool
from misc_cli.selection.candidates import Method
from misc_cli.selection.compare import compare
from misc_cli.selection.search import search
from tests.selection.crowds import method, simulated


class OnPaper:
    """A clock that only the test moves; `then` is the time after the first look at it."""

    now = 0.0
    then: float | None = None

    @classmethod
    def read(cls) -> float:
        found = cls.now
        cls.now = cls.now if cls.then is None else cls.then
        return found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> type[OnPaper]:
    """Of 60 seconds, judging has 36, and fits are over after 54."""
    monkeypatch.setattr(OnPaper, "now", 0.0)
    monkeypatch.setattr(OnPaper, "then", None)
    monkeypatch.setattr(worker_pool, "clock", OnPaper.read)
    return OnPaper


@dataclass(frozen=True)
class Tiring:
    """ds-mf, after which, on more than `n_answers`, it is late in the day."""

    n_answers: int
    late: float
    within: bool = False  # in the midst of it, not after it

    def __call__(self, labels: Labels, on_iteration: OnIteration = ignore_iteration) -> Aggregation:
        found = method("ds-mf").aggregator(labels)
        if labels.votes.n_votes > self.n_answers:
            OnPaper.now = self.late
            if self.within:
                on_iteration(Iteration("vote", 1))
        return found


@pytest.mark.parametrize(("late", "taken"), [(40.0, "ds-em"), (55.0, "mv")])
def test_a_time_budget_that_is_too_short_to_judge_gives_what_can_be_had(
    late: float, taken: str, clock: type[OnPaper]
) -> None:
    labels, _ = simulated()
    clock.then = late
    with pytest.warns(MiscWarning, match="no time for choosing and calibrating"):
        found = search(MemoryEngine(labels), [method("ds-em"), method("mv")], time_budget=60.0)
    assert found.selection["chosen"] == [taken]
    assert found.selection["cut_short"]
    assert np.allclose(found.posteriors.sum(axis=1), 1.0)


@pytest.mark.parametrize(
    "tiring",
    [
        Tiring(0, 40.0),
        pytest.param(Tiring(0, 40.0, within=True), id="in the midst of a fold"),
        pytest.param(Tiring(1_400, 55.0, within=True), id="in the midst of the last fit"),
    ],
)
def test_a_time_budget_leaves_out_what_was_not_done_in_time(
    tiring: Tiring, clock: type[OnPaper]
) -> None:
    """The result is that of a search without what was left out."""
    labels, _ = simulated()
    assert labels.votes.n_votes == 1_500
    methods = [method("ds-em"), Method("tiring", tiring)]
    alone = search(MemoryEngine(labels), methods[:1])
    with pytest.warns(MiscWarning, match="the time budget left no time for tiring"):
        found = search(MemoryEngine(labels), methods, time_budget=60.0)
    assert found.selection["chosen"] == ["ds-em"]
    assert found.selection["why"].endswith("there was no time for tiring")
    assert found.posteriors.tobytes() == alone.posteriors.tobytes()
    if tiring.n_answers == 0:
        clock.now = 0.0
        with pytest.warns(MiscWarning, match="no time for tiring"):
            standings = compare(MemoryEngine(labels), methods, time_budget=40.0)
        assert [standing.method for standing in standings] == ["ds-em", "null"]


def test_no_time_for_the_fits_that_completion_builds_on(clock: type[OnPaper]) -> None:
    labels, _ = simulated()
    tiring = Method("tiring", Tiring(1_400, 55.0, within=True))
    completer = registry.create("completer", "tucker")
    completed = candidates.completions(
        MemoryEngine(labels), "tucker", completer, tiring.aggregator, {"passes": 1}
    )
    with pytest.warns(MiscWarning, match="no time for choosing and calibrating"):
        found = search(
            MemoryEngine(labels), [tiring, method("mv")], completed, insist=True, time_budget=60.0
        )
    assert found.selection["chosen"] == ["mv"]
    assert clock.now == 55.0


@pytest.mark.parametrize("n_items", [120, 300])  # of 600 answers and of 300, one per item
def test_too_few_answers_to_judge_may_still_take_too_long(
    n_items: int, clock: type[OnPaper]
) -> None:
    per_item = 5 if n_items == 120 else 1
    labels, _ = simulated(items=n_items, answers_per_item=per_item)
    tiring = Method("tiring", Tiring(0, 55.0, within=True))
    methods = [method("ds-em"), method("mv")]
    with pytest.warns(MiscWarning, match="no time for choosing and calibrating"):
        found = search(MemoryEngine(labels), methods, few=[tiring, method("mv")], time_budget=60.0)
    assert found.selection["chosen"] == ["mv"]
    assert clock.now == 55.0
