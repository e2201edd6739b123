"""The simulated year of `make bench-nightly`, a few nights of it."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from misc_cli.state import session
from tests.conftest import REPO

BENCHMARK = REPO / "benchmarks" / "nightly.py"


def test_a_few_nights_of_a_year(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "clock", session.clock)  # the year replaces it
    year = runpy.run_path(str(BENCHMARK))["simulated_year"](
        tmp_path, nights=6, per_night=400, cold_on=[6], workers=20, aggregator="ds-em"
    )
    last = year.cold[6]
    assert abs(last["warm_error"] - last["error"]) <= 0.5  # two of the 480 items
    assert last["differ"] <= 5
    assert year.changes == 0
    assert year.state_bytes[-1] < 300 * last["items"]
    assert year.named[6]["warm"]["iterations"] < year.named[6]["cold"]["iterations"]
    assert len(year.flips) == 6
    table = {what: found for what, _, found in year.table(since=3)}
    assert table["changes of method"] == "0"
    assert table["nights that chose, and what"] == "1: ds-em; 4: ds-em"  # four times the answers
