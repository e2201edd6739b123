"""What an automatic choice will cost is told before, and how far it is meanwhile."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from misc_cli import registry
from misc_cli.cli import console as console_module
from misc_cli.cli.console import Console, describe
from misc_cli.data.iteration import COST
from misc_cli.data.types import Iteration, Labels
from misc_cli.run import cost
from misc_cli.run.diagnostics import Recorder
from misc_cli.run.fitting import fit
from misc_cli.run.settings import Settings, build
from misc_cli.selection import roster
from misc_cli.selection.cross_validation import CrossValidation
from misc_cli.simulate import Simulation, simulate
from tests.crowds import labels_of


def crowd(n_items: int) -> Labels:
    settings = Simulation(workers=20, items=n_items, classes=3, answers_per_item=4, seed=3)
    return labels_of(simulate(settings))


def told(seconds: float, fast: float | None = 0.9, most: float | None = None) -> Iteration:
    extra = {"seconds": seconds, "fast": fast, "most": most, "of": 40, "share": 0.0}
    return Iteration(COST, 0, extra={**extra, "trying": "ds-em"})


def test_every_trial_is_counted_and_the_record_stays_as_it_was() -> None:
    heard: list[Iteration] = []
    recorder = Recorder(None, heard.append)
    labels = crowd(400)
    fit(labels, build(Settings()), recorder)
    costs = [line for line in heard if line.stage == COST]
    assert heard[0].stage == COST
    assert costs[0].extra["trying"] == "ds-em, ds-em(2) and others"
    shares = [float(line.extra["share"] or 0) for line in costs]
    assert shares == sorted(shares)
    assert shares[0] == 0.0
    assert 0.5 < shares[-1] <= 1.0 + 1e-9
    slow = [line.extra["trying"] for line in costs if line.extra["trying"] == "ebcc, mmce-c"]
    assert slow, "after the quick ones, those that are tried now are named"
    assert all(record["stage"] != COST and "share" not in record for record in recorder.records)
    assert cost._n_folds(cost.size_of(labels)) == len(CrossValidation(labels).folds)


def test_more_work_costs_more_and_fast_costs_less() -> None:
    costs = []
    for n_items in (400, 4_000):
        heard: list[Iteration] = []
        labels = crowd(n_items)
        methods = build(Settings(completer="none", time_budget=1e-9))  # nothing is run
        with pytest.warns(match="time budget"):
            fit(labels, methods, heard.append)
        costs.append(heard[0].extra)
    assert float(costs[0]["seconds"] or 0) < float(costs[1]["seconds"] or 0)
    assert float(costs[1]["fast"] or 0) < float(costs[1]["seconds"] or 0)


def test_workers_cost_by_their_confusions() -> None:
    """A sweep touches K² numbers of every worker: of many workers these are most of it."""
    labels = crowd(400)
    pure = roster.roster(labels, "robust", {}, 0)
    few = cost.Size(answers=160_000, workers=200, items=40_000, classes=5)
    many = replace(few, workers=17_000)
    seconds = [cost.seconds_of(pure[0], size) for size in (few, many)]
    assert seconds[1] > 2.0 * seconds[0]


def test_completed_candidates_that_may_vote_are_counted() -> None:
    labels = crowd(400)
    pure = roster.roster(labels, "robust", {}, 0)
    made = registry.create("completer", "tucker"), registry.create("aggregator", "ds-em")
    completed = roster.completions(labels, "tucker", *made, {})
    stages = cost.counted(labels, pure, completed).stages
    assert [part.name for part in stages[-1]] == [method.name for method in completed]
    assert all(part.reports == len(roster.PASSES) for part in stages[-1])


@pytest.mark.parametrize(
    ("seconds", "fast", "most", "line"),
    [
        (12.2, 0.9, None, "misc: about 12 s; --fast takes 1 s\n"),
        (12.2, 9.0, None, "misc: about 12 s\n"),
        (12.2, None, 5.0, "misc: about 5 s\n"),
        (2.9, 0.9, None, ""),
    ],
)
def test_the_cost_is_told_where_it_matters(
    seconds: float,
    fast: float | None,
    most: float | None,
    line: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Console(verbose=True).on_iteration(told(seconds, fast, most))
    assert capsys.readouterr().err == line
    Console().on_iteration(told(seconds, fast, most))  # no terminal, and nobody asked
    Console(verbose=True, quiet=True).on_iteration(told(seconds, fast, most))
    assert capsys.readouterr().err == ""


def test_time_left_follows_the_announcement_and_then_the_pace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    pace = console_module.ProgressEstimate()
    pace.hear(told(20.0))
    assert pace.seconds_left == 20.0
    now = 104.0
    assert describe(pace) == "tried 0 of 40 · now ds-em · 4 s · about 16 s left"
    now = 130.0
    half = {**told(20.0).extra, "share": 0.5, "trying": "ebcc"}
    pace.hear(Iteration(COST, 20, extra=half))
    assert pace.seconds_left == 20.0  # half of the 30 s it took, half of what was announced
    now = 200.0
    assert describe(pace) == "tried 20 of 40 · now ebcc · 100 s · longer than expected"
    console = Console(verbose=True)
    console.pace = pace
    console._beat()
    assert capsys.readouterr().err.startswith("misc: tried 20 of 40")


def test_verbose_off_a_terminal_says_every_ten_seconds_where_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console_module, "BEAT_SECONDS", 0.01)
    for verbose in (True, False):
        console = Console(verbose=verbose)
        with console.watching():
            console.on_iteration(told(20.0))
            time.sleep(0.3)
        assert ("tried 0 of 40 · now ds-em" in capsys.readouterr().err) == verbose
