"""Methods with starts drawn at random, or with rows of their own, wherever the items are."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from misc_cli import registry
from misc_cli.data import votes
from misc_cli.data.encode import encode, encode_known
from misc_cli.data.types import Answers, Floats, Iteration, KnownLabels, Labels, ignore_iteration
from misc_cli.engines import partitioned
from misc_cli.engines.local import LocalEngine
from misc_cli.engines.partitioned import EncodingRules
from misc_cli.engines.protocol import POSTERIORS, Kernel, Sums
from misc_cli.spark import lineage
from tests.engines.crowds import crowd

ORDER = ["a", "b", "c"]


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a small crowd has many."""
    monkeypatch.setattr(votes, "BLOCK_VOTES", 100)


def answers() -> Answers:
    rows = [(worker, item.strip(), label) for worker, item, label in crowd() if label.strip()]
    columns = (pa.array(column).dictionary_encode() for column in zip(*rows, strict=True))
    return Answers(*columns)


def gold_of(labels: Labels) -> KnownLabels:
    known = labels.items.take(np.arange(0, labels.n_items, 9))
    return KnownLabels(known, pa.array(["c"] * len(known)))


def on_disk(method: Any, folder: Path, n_parts: int, gold: KnownLabels) -> tuple[Any, ...]:
    engine = partitioned.build([answers()], folder, n_parts, EncodingRules("last", ORDER, gold))
    lines: list[Iteration] = []
    method.solve(engine, ignore_iteration)  # a second fit on an engine forgets the first one
    fitted = method.solve(engine, lines.append)
    items = pa.concat_arrays([part.items for part in engine.parts])
    posteriors = np.concatenate([part.whole(POSTERIORS) for part in engine.parts])
    order = pc.sort_indices(items).to_numpy()
    return fitted, lines, items.take(order), posteriors[order]


@pytest.mark.parametrize("n_parts", [1, 3, 8])
@pytest.mark.parametrize("preset", ["robust", "paper"])
@pytest.mark.parametrize("name", ["ebcc", "mmce-c", "mmce-o"])
def test_parts_of_any_number_give_the_posteriors_of_memory(
    name: str, preset: str, n_parts: int, tmp_path: Path
) -> None:
    few: dict[str, Any] = {"restarts": 12} if name == "ebcc" else {}
    method = registry.create("aggregator", name, preset, **few)
    labels = encode(answers(), duplicates="last", class_order=ORDER).labels
    gold = gold_of(labels)
    labels = replace(labels, gold=encode_known(labels, gold, "gold"))
    seen: list[Iteration] = []
    here = method(labels, seen.append)
    fitted, lines, items, posteriors = on_disk(method, tmp_path, n_parts, gold)
    assert items.equals(labels.items)
    np.testing.assert_allclose(posteriors, here.posteriors, atol=1e-8)
    np.testing.assert_allclose(fitted.confusions, here.confusions, atol=1e-8)
    assert fitted.iterations == here.iterations
    np.testing.assert_allclose(_of(lines, "objective"), _of(seen, "objective"), rtol=1e-10)


class Forgetful(LocalEngine):
    """Loses all its rows at every third sweep, and makes them again from the log of kernels."""

    def __init__(self, labels: Labels) -> None:
        super().__init__(labels.votes, ordered=labels.ordered)
        self.log: list[Kernel[Any]] = []
        self.n_sweeps, self.n_again = 0, 0

    def sweep(self, kernel: Kernel[Sums]) -> Sums:
        self.n_sweeps += 1
        if self.n_sweeps % 3 == 0:
            self.arrays.clear()
            for again in self.log:
                self.n_again += 1
                super().sweep(pickle.loads(pickle.dumps(again)))
        self.log = lineage([*self.log, kernel])
        return super().sweep(kernel)


@pytest.mark.parametrize("name", ["ds-em", "ebcc", "mmce-c", "mmce-o"])
def test_rows_that_were_lost_come_back_as_they_were(name: str) -> None:
    few: dict[str, Any] = {"restarts": 10} if name == "ebcc" else {}
    method = registry.create("aggregator", name, max_iter=12, tol=0.0, **few)
    labels = encode(answers(), duplicates="last", class_order=ORDER).labels
    lines: list[Iteration] = []
    forgetful = Forgetful(labels)
    method.solve(forgetful, lines.append)
    seen: list[Iteration] = []
    here = method(labels, seen.append)
    np.testing.assert_allclose(forgetful.whole(POSTERIORS), here.posteriors, atol=1e-12)
    np.testing.assert_allclose(_of(lines, "change"), _of(seen, "change"), atol=1e-12)
    if name == "ds-em":  # one kernel is enough
        assert forgetful.n_again == forgetful.n_sweeps // 3


def _of(lines: list[Iteration], what: str) -> Floats:
    return np.array([getattr(line, what) for line in lines], dtype=np.float64)
