"""The simulated year of `make bench-nightly`, a few nights of it."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from misc_cli.cli import nightly

BENCHMARK = Path(__file__).resolve().parent.parent / "benchmarks" / "nightly.py"


def test_a_few_nights_of_a_year(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nightly, "clock", nightly.clock)  # the year replaces it
    year = runpy.run_path(str(BENCHMARK))["simulated_year"](
        tmp_path, nights=6, per_night=400, cold_on=[6], workers=20, aggregator="ds-em"
    )
    figures = year.summary(since=3)
    warm_error, cold_error = figures["error, warm and cold, last night"]
    assert abs(warm_error - cold_error) <= 0.5  # two of the 480 items
    assert figures["labels that differ, last night"] <= 5
    assert figures["changes of method"] == 0
    assert figures["state bytes per item, most"] < 300
    ((warm, cold),) = figures["iterations of ds-em, warm and cold"].values()
    assert warm < cold
    assert year.warm_seconds[-1] < year.cold[6]["seconds"] * 1.5  # it is not slower, but for noise
    assert len(year.flips) == 6
