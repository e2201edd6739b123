"""Algorithm 3: the paper's figures, gold, merging of workers, and what a run reports."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from misc_cli import registry
from misc_cli.aggregators.confusion_kernels import expected_counts, judge
from misc_cli.completers import completion_loop
from misc_cli.completers.completion_loop import LoopResult, begin, finish, passes
from misc_cli.completers.label_matrix import completed_matrix
from misc_cli.completers.parameters import DEFAULT_LOOP, FINALS, Loop, Tucker
from misc_cli.data import resources
from misc_cli.data.posteriors import harden
from misc_cli.data.types import (
    Aggregation,
    Floats,
    Iteration,
    Labels,
    OnIteration,
    Start,
    ignore_iteration,
)
from misc_cli.data.votes import DenseVotes, LabelTensor, SparseVotes
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.protocol import SLICE, gathered
from misc_cli.errors import ConfigError
from misc_cli.quality.evaluation import expected_error
from tests.conftest import Load
from tests.tensors import votes_of


def small_labels(n_workers: int = 12, n_items: int = 40, seed: int = 0) -> Labels:
    """Workers who are right four times in five on a third of the items."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(1, 4, n_items)
    wrong = rng.integers(1, 4, (n_workers, n_items))
    labels = np.where(rng.random((n_workers, n_items)) < 0.8, truth, wrong)
    labels[rng.random(labels.shape) > 0.35] = 0
    labels[0, labels.sum(axis=0) == 0] = 1
    return Labels(votes_of(labels.tolist(), 3), None, None, None)


def run_loop(
    labels: Labels, completer: Any, method: Any, loop: Loop = DEFAULT_LOOP, **more: Any
) -> tuple[Aggregation, LoopResult, Floats]:
    """Return the result in memory, what the loop says of itself, and its last slice."""
    engine = MemoryEngine(labels)
    ended = completion_loop.run_loop(engine, completer, method, loop, **more)
    return gathered(engine, ended.fitted), ended, engine.whole(SLICE)


def judged(labels: Labels, beliefs: Floats, on_iteration: OnIteration) -> Floats:
    engine = MemoryEngine(labels, {SLICE: beliefs})
    return gathered(engine, judge(engine, on_iteration)).posteriors


# ds-em needs more than its 100 iterations on web, in the paper's settings too
slow_on_web = pytest.mark.filterwarnings("ignore:ds-em did not converge")


@slow_on_web
@pytest.mark.parametrize(
    ("name", "aggregator", "ranks", "passes_made", "at_most"),
    [
        ("web", "ds-em", (10, 40, 5), 6, 6.5),
        ("web", "mv", (5, 25, 5), 4, 11.2),
        ("bluebirds", "ds-em", (5, 6, 2), 1, 8.34),
    ],
)
def test_the_papers_figures(
    dataset: Load,
    name: str,
    aggregator: str,
    ranks: tuple[int, int, int],
    passes_made: int,
    at_most: float,
) -> None:
    labels, truth = dataset(name)
    method = registry.create("aggregator", aggregator, "paper")
    completer = registry.create("completer", "tucker", "paper", ranks=ranks)
    found, *_ = run_loop(labels, completer, method, Loop(passes=passes_made, final="completed"))
    assert 100 * expected_error(found.posteriors, truth) <= at_most


@slow_on_web
def test_a_hard_slice_freezes_the_loop_on_web(dataset: Load) -> None:
    """Why soft is the default: made hard at each pass, ds-em + tucker stays near 17 to 18 %."""
    labels, truth = dataset("web")
    method = registry.create("aggregator", "ds-em", "paper")
    completer = Tucker((10, 40, 5))
    loop = Loop(passes=6, slice="hard", final="completed")
    found, *_ = run_loop(labels, completer, method, loop)
    assert 100 * expected_error(found.posteriors, truth) > 14


@slow_on_web
@pytest.mark.parametrize(
    ("name", "pure", "at_most"),
    [("web", 17.9, 11.0), ("product", 6.3, 7.0), ("ms", 21.6, 20.8), ("face", 35.0, 34.3)],
)
def test_the_defaults_gain_where_there_is_structure_and_lose_little_elsewhere(
    dataset: Load, name: str, pure: float, at_most: float
) -> None:
    """Ranks by rule of thumb, three passes, the real answers judged last: nothing was tuned."""
    labels, truth = dataset(name)
    found, ended, _ = run_loop(labels, Tucker(), registry.create("aggregator", "ds-em"))
    assert ended.ranks == (5, 5 * labels.n_classes, labels.n_classes)
    assert ended.initial is not None
    assert 100 * expected_error(ended.initial, truth) <= pure
    assert 100 * expected_error(found.posteriors, truth) <= at_most


def test_the_last_step_is_one_step_of_dawid_skene_with_the_slice_as_prior() -> None:
    """By hand: two workers, three items; worker 1 disagrees on the last."""
    votes = votes_of([[1, 2, 1], [1, 2, 2]], 2)
    beliefs = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    lines: list[Iteration] = []
    found = judged(Labels(votes, None, None, None), beliefs, lines.append)
    # Σ_i S_ic [worker answered k]: rows are the true class
    counts = np.array([[[1.5, 0.2], [0.5, 0.8]], [[0.9, 0.8], [0.1, 1.2]]])
    crowd = counts.sum(axis=0) / counts.sum(axis=(0, 2))[:, None]
    rows = counts + 0.5 * crowd
    rows /= rows.sum(axis=2, keepdims=True)
    answers = np.array([[0, 0], [1, 1], [0, 1]])
    likelihood = rows[0, :, answers[:, 0]] * rows[1, :, answers[:, 1]]
    expected = beliefs * likelihood
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert [line.stage for line in lines] == ["answers"]
    doubtful = judged(Labels(votes, None, None, None), -beliefs, lines.append)
    np.testing.assert_allclose(doubtful.sum(axis=1), 1.0)


def test_a_class_that_the_slice_rules_out_keeps_a_hundredth() -> None:
    """Of an item that nobody answered only the prior is known."""
    labels = Labels(votes_of([[1, 2, 0], [1, 2, 0]], 2), None, None, None)
    beliefs = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -0.2]])
    found = judged(labels, beliefs, ignore_iteration)
    np.testing.assert_allclose(found[2], [1 / 1.01, 0.01 / 1.01])


@pytest.mark.parametrize("final", ["answers", "completed"])
@pytest.mark.parametrize("aggregator", ["mv", "one-coin", "ds-em", "ds-mf"])
def test_any_aggregator_gives_posteriors_and_the_real_workers_confusions(
    aggregator: str, final: str
) -> None:
    labels = small_labels()
    method = registry.create("aggregator", aggregator)
    found, *_ = run_loop(labels, Tucker((3, 6, 3)), method, Loop(final=final))
    np.testing.assert_allclose(found.posteriors.sum(axis=1), 1.0)
    # of their own answers, each row with half an answer of the crowd's
    counts = expected_counts(labels, found.posteriors)
    rows = counts + 0.5 * counts.sum(axis=0) / counts.sum(axis=(0, 2))[:, None]
    np.testing.assert_allclose(found.confusions, rows / rows.sum(axis=2, keepdims=True), rtol=1e-9)


def test_one_trajectory_gives_every_number_of_passes() -> None:
    labels, completer = small_labels(), Tucker((3, 6, 3))
    method = registry.create("aggregator", "ds-em")
    engine = MemoryEngine(labels)
    begin(engine, method, method(labels).posteriors)
    for solution in passes(engine, completer, 3):
        for final in FINALS:
            loop = Loop(passes=solution.iterations, final=final)
            alone, _, slices = run_loop(labels, completer, method, loop, tol=0)
            np.testing.assert_array_equal(engine.whole(SLICE), slices)
            again = gathered(engine, finish(engine, solution, method, loop))
            np.testing.assert_array_equal(again.posteriors, alone.posteriors)


@pytest.mark.parametrize("final", FINALS)
def test_gold_stays_known_in_slice_and_posteriors(final: str) -> None:
    labels = small_labels()
    gold = np.full(labels.n_items, -1, dtype=np.int32)
    gold[[3, 8]] = [2, 0]
    method = registry.create("aggregator", "ds-em")
    known = replace(labels, gold=gold)
    found, _, slices = run_loop(known, Tucker((3, 6, 3)), method, Loop(final=final))
    for rows in (slices, found.posteriors):
        np.testing.assert_array_equal(rows[[3, 8]], np.eye(3)[[2, 0]])


def test_gold_stands_in_the_completed_matrix_where_the_slice_does() -> None:
    """Against what was completed, and in no other cell."""
    labels, completer = small_labels(), Tucker((1, 1, 1))  # too coarse to keep gold by itself
    majority = registry.create("aggregator", "mv")
    seen: list[Labels] = []

    def observed(labels: Labels, on_iteration: OnIteration = ignore_iteration) -> Any:
        seen.append(labels)
        return majority(labels, on_iteration)

    gold = np.full(labels.n_items, -1, dtype=np.int32)
    gold[:20] = (majority(labels).posteriors[:20].argmax(axis=1) + 1) % 3
    known = replace(labels, gold=gold)
    run_loop(known, completer, observed, Loop(passes=1, final="completed"))
    votes = seen[-1].votes
    assert isinstance(votes, DenseVotes)
    assert isinstance(known.votes, SparseVotes)
    first = LabelTensor(known.votes, harden(majority(known).posteriors, gold))
    expected = completer(first).label_rows(slice(0, labels.n_items))
    assert (expected[:20, -1] != gold[:20]).any()
    expected[:20, -1] = gold[:20]
    np.testing.assert_array_equal(votes.label_matrix, expected)


def test_completed_columns_do_not_start_where_workers_ended() -> None:
    """What an earlier night knew of workers is about other columns than the completed matrix's."""
    plain = small_labels()
    method = registry.create("aggregator", "ds-em")
    before = method(plain)
    labels = replace(plain, start=Start(before.confusions, before.class_prior))
    seen: list[Labels] = []

    def observed(labels: Labels, on_iteration: OnIteration = ignore_iteration) -> Any:
        seen.append(labels)
        return method(labels, on_iteration)

    run_loop(labels, Tucker((3, 6, 3)), observed, Loop(passes=1, final="completed"))
    assert [isinstance(one.votes, DenseVotes) for one in seen] == [False, True]
    assert seen[0].start is labels.start
    assert seen[1].start is None


@pytest.mark.parametrize(("final", "stage"), [("answers", "answers"), ("completed", "ds-em")])
def test_diagnostics_say_stage_pass_and_what_moved(final: str, stage: str) -> None:
    lines: list[Iteration] = []
    method = registry.create("aggregator", "ds-em")
    completer = Tucker((3, 6, 3))
    run_loop(
        small_labels(), completer, method, Loop(passes=2, final=final), on_iteration=lines.append
    )
    stages = [(line.pass_number, line.stage) for line in lines]
    order = list(dict.fromkeys(stages))
    assert order == [
        (0, "ds-em"),
        (1, "tucker"),
        (1, "pass"),
        (2, "tucker"),
        (2, "pass"),
        (2, stage),
    ]
    made = [line for line in lines if line.stage == "pass"]
    assert all(line.change is not None and "flipped" in line.extra for line in made)
    assert all("explained" in line.extra for line in lines if line.stage == "tucker")


def test_stops_when_the_slice_stops_evolving() -> None:
    """Workers who agree on everything: the completed slice is the slice."""
    labels = Labels(votes_of([[1, 2, 1, 2]] * 3, 2), None, None, None)
    found, ended, _ = run_loop(
        labels, Tucker((1, 2, 2)), registry.create("aggregator", "mv"), Loop(passes=20)
    )
    assert ended.passes == 1
    assert found.stopped == {"pass": "tolerance"}
    assert found.posteriors.argmax(axis=1).tolist() == [0, 1, 0, 1]


def test_a_slice_that_still_moves_by_a_few_thousandths_is_not_settled() -> None:
    """Grown by 1, 0.2 and 0.015 per cent it goes on; by 0.007 per cent it has stopped."""
    growth = iter((1e-2, 2e-3, 1.5e-4, 7e-5, 0.0))

    def grow(tensor: LabelTensor, on_iteration: OnIteration = ignore_iteration) -> Any:
        grown = tensor.slice * (1.0 + next(growth))
        return SimpleNamespace(slice=grown)

    majority = registry.create("aggregator", "mv")
    found, ended, _ = run_loop(small_labels(), grow, majority, Loop(passes=5))
    assert ended.passes == 4
    assert found.stopped == {"pass": "tolerance"}


def test_budgets_that_cannot_be_say_what_would(monkeypatch: pytest.MonkeyPatch) -> None:
    labels, method = small_labels(), registry.create("aggregator", "mv")
    monkeypatch.setattr(resources, "available_bytes", lambda: 1000)
    with pytest.raises(ConfigError, match=r"GiB are free; lower --ranks"):
        run_loop(labels, Tucker((3, 6, 3)), method)
    assert isinstance(labels.votes, SparseVotes)
    completion = Tucker((3, 6, 3))(LabelTensor(labels.votes, method(labels).posteriors))
    monkeypatch.setattr(resources, "available_bytes", lambda: 100)
    with pytest.raises(ConfigError, match="give --final answers"):
        completed_matrix(completion, (13, 40, 3))


def test_one_answer_per_item_is_no_trouble() -> None:
    labels = Labels(votes_of([[1, 0, 2, 0], [0, 2, 0, 1]], 2), None, None, None)
    for aggregator in ("mv", "ds-em", "ds-mf", "one-coin"):
        found, *_ = run_loop(labels, Tucker(), registry.create("aggregator", aggregator))
        assert np.isfinite(found.posteriors).all()
        assert found.posteriors.argmax(axis=1).tolist() == [0, 1, 1, 0]


def _label_matrix(labels: Labels) -> npt.NDArray[np.int64]:
    """Workers × items, 0 unlabelled, 1..n classes: the inverse of votes_of."""
    votes = labels.votes.block(slice(0, labels.n_items)).toarray()
    fibres = votes.reshape(labels.n_items, labels.n_workers, labels.n_classes)
    codes = (fibres * np.arange(1, labels.n_classes + 1)).sum(axis=2).T
    matrix: npt.NDArray[np.int64] = codes.astype(np.int64)
    return matrix
