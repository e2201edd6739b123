"""What is tried at all: methods these answers allow, ranks that fit."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import EntryPoint

import pytest

from misc_cli import registry
from misc_cli.engines.local import MemoryEngine
from misc_cli.selection import candidates
from tests.selection.crowds import simulated


def test_a_comparison_is_of_all_that_these_answers_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other packages' methods too; those that want ordered classes only where they are."""
    point = EntryPoint(
        "theirs", "misc_cli.aggregators.methods:MajorityVote", "misc_cli.aggregators"
    )
    monkeypatch.setattr(registry, "_plugins", lambda kind: {"theirs": point})
    labels, _ = simulated()
    everything = [*registry.AGGREGATORS, "theirs"]
    assert candidates.applicable(MemoryEngine(labels)) == everything
    everything.remove("mmce-o")
    assert candidates.applicable(MemoryEngine(replace(labels, ordered=False))) == everything


def test_methods_that_would_take_minutes_are_not_tried() -> None:
    def tried(**settings: float) -> set[str]:
        engine = MemoryEngine(simulated(**settings)[0])
        return {method.name for method in candidates.roster(engine, "robust", {}, 0)}

    everything = set(candidates.ROSTER)
    assert tried() == everything
    assert tried(classes=30) == everything - {"mmce-c"}
    assert tried(items=50_000) == everything - {"mmce-c", "ebcc"}
    # the answers of few workers cannot tell ebcc's subtypes apart
    assert tried(workers=8) == everything - {"ebcc"}


def test_ranks_that_the_data_is_too_small_for_are_not_tried() -> None:
    assert candidates.tucker_ranks((178, 2665, 5))[-1] == (10, 40, 5)
    assert candidates.tucker_ranks((4, 10, 2)) == [(2, 2, 2), (3, 3, 2)]
    assert candidates.tucker_ranks((1, 1, 1)) == []


def test_completion_is_tried_by_the_numbers_it_finds_not_by_cells_alone() -> None:
    """A few thousand answers in a hundred classes took minutes: every rank is R1 · (K − 1)."""

    def tried(classes: int, most: int) -> list[str]:
        labels, _ = simulated(classes=classes, items=1_500, workers=60)
        made = registry.create("completer", "tucker"), registry.create("aggregator", "ds-em")
        found = candidates.completions(MemoryEngine(labels), "tucker", *made, {}, max_cells=most)
        return [method.name for method in found]

    assert len(tried(5, candidates.MAX_TRIED_CELLS)) == len(candidates.WORKER_RANKS)
    assert tried(100, candidates.MAX_TRIED_CELLS) == []
    assert (
        tried(100, candidates.MAX_COMPLETED_CELLS)[0] == "tucker(2,198,100) × 4"
    )  # who asks gets it
