"""What each worker adds to the labels."""

from __future__ import annotations

import numpy as np

from misc_cli.aggregators.confusion_kernels import PSEUDO_ANSWERS, confusions_of
from misc_cli.data.encode import encode
from misc_cli.data.types import Answers, Codes
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.protocol import POSTERIORS
from misc_cli.quality.worker_scores import labels_that_change, smallest_panel
from misc_cli.simulate import Simulation, answer_columns, simulate


def engine_of(crowd_seed: int) -> MemoryEngine:
    """Return a small crowd with the shares of its answers as posteriors."""
    settings = Simulation(workers=8, items=150, classes=3, answers_per_item=5, seed=crowd_seed)
    labels = encode(Answers(**answer_columns(simulate(settings)))).labels
    totals = labels.votes.class_totals(slice(0, labels.n_items))
    return MemoryEngine(labels, {POSTERIORS: totals / totals.sum(axis=1, keepdims=True)})


def scores_of(engine: MemoryEngine, workers: list[int]) -> Codes:
    """Return the labels of an E-step with these workers alone, answer by answer."""
    labels, posteriors = engine.labels, engine.whole(POSTERIORS)
    confusions = confusions_of(labels, posteriors, PSEUDO_ANSWERS)
    prior = (posteriors.sum(axis=0) + 1.0) / (labels.n_items + labels.n_classes)
    scores = np.tile(np.log(prior), (labels.n_items, 1))
    matrix = labels.votes.block(slice(0, labels.n_items)).tocoo()
    for item, column in zip(matrix.row, matrix.col, strict=True):
        worker, said = divmod(int(column), labels.n_classes)
        if worker in workers:
            scores[item] += np.log(confusions[worker][:, said])
    found: Codes = scores.argmax(axis=1)
    return found


def test_labels_that_change_are_those_of_an_e_step_without_the_worker() -> None:
    engine = engine_of(1)
    everybody = list(range(8))
    full = scores_of(engine, everybody)
    expected = [
        int((scores_of(engine, [v for v in everybody if v != worker]) != full).sum())
        for worker in everybody
    ]
    assert max(expected) > 0
    assert labels_that_change(engine).tolist() == expected


def test_the_smallest_panel_gives_the_same_labels_up_to_what_is_allowed() -> None:
    engine = engine_of(2)
    labels, posteriors = engine.labels, engine.whole(POSTERIORS)
    kept = smallest_panel(labels, posteriors, 0.1)
    assert 0 < len(kept) < 8
    full = scores_of(engine, list(range(8)))
    assert (scores_of(engine, kept) != full).mean() <= 0.1
    for worker in kept:  # nobody else may go
        assert (scores_of(engine, [v for v in kept if v != worker]) != full).mean() > 0.1
