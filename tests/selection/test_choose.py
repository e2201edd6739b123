"""What is hidden, how a lead is counted, and the null that a forecast must beat."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from misc_cli.data.holdout import answers_of, fold_plan, folds
from misc_cli.data.types import Floats
from misc_cli.data.votes import SparseVotes
from misc_cli.engines.local import MemoryEngine
from misc_cli.errors import MiscWarning
from misc_cli.selection.candidates import (
    Score,
    holdout_uninformative,
    lead,
    standard_error,
    weights,
)
from misc_cli.selection.cross_validation import CrossValidation
from misc_cli.selection.search import hopeless, weighed
from tests.crowds import labels_from
from tests.selection.crowds import method, scored, simulated


def test_hidden_answers_are_disjoint_and_leave_every_item_an_answer() -> None:
    labels, _ = simulated()
    everything = answers_of(labels.votes)  # type: ignore[arg-type]
    seen: set[tuple[int, int]] = set()
    for kept, hidden in folds(labels, 3, 0.1, seed=0):
        pairs = set(zip(hidden.workers.tolist(), hidden.items.tolist(), strict=True))
        assert not seen & pairs
        seen |= pairs
        assert isinstance(kept.votes, SparseVotes)
        left = answers_of(kept.votes)
        assert len(left) + len(hidden) == len(everything)
        assert set(left.items.tolist()) == set(range(labels.n_items))
        assert not pairs & set(zip(left.workers.tolist(), left.items.tolist(), strict=True))
    assert len(seen) == 3 * round(0.1 * len(everything))


def test_large_data_hides_enough_and_small_data_all_it_can() -> None:
    assert fold_plan(5_000) == (10, 0.1)
    assert fold_plan(100_000) == (3, 0.1)
    assert fold_plan(300_000) == (1, 0.1)
    n_folds, share = fold_plan(10_000_000)
    assert (n_folds, share * 10_000_000) == (1, 50_000)


def test_a_lead_is_counted_in_standard_errors_of_workers() -> None:
    """A worker's answers are one observation: ten times the same answers prove nothing more."""
    random = np.random.default_rng(0)
    behind, workers = random.normal(size=40), np.arange(40, dtype=np.int32)
    ahead = behind + random.normal(0.3, size=40)
    alone = lead(ahead, behind, workers)
    difference = ahead - behind
    assert alone == pytest.approx(difference.mean() / (difference.std(ddof=1) / np.sqrt(40)))
    repeated = lead(np.repeat(ahead, 10), np.repeat(behind, 10), np.repeat(workers, 10))
    assert repeated == pytest.approx(alone)
    assert lead(behind, behind, workers) == 0.0


def test_methods_count_by_their_share_of_the_best_lead() -> None:
    assert weights([1.0]) == [1.0]
    assert weights([0.5, 0.49, 0.46]) == pytest.approx([0.5, 0.5, 0.0])
    assert weights([1.0, 0.95, 0.93, -0.2]) == pytest.approx([2 / 3, 1 / 3, 0.0, 0.0])


def test_the_null_knows_how_often_a_worker_says_what() -> None:
    work = CrossValidation(MemoryEngine(simulated()[0]))
    fold = work.folds[0]
    assert isinstance(fold.training, MemoryEngine)
    left, hidden = answers_of(fold.training.votes), fold.hidden  # type: ignore[arg-type]
    crowd = np.bincount(left.classes, minlength=3) / len(left)
    own = np.bincount(left.classes[left.workers == hidden.workers[0]], minlength=3)
    expected = (own + 2.0 * crowd) / (own.sum() + 2.0)
    assert work.blind[0][0] == pytest.approx(np.log(expected[hidden.classes[0]]))


@pytest.mark.parametrize(
    ("mean_lead", "errors", "one_label", "votes_decide"),
    [
        (0.14, 3.4, 0.0, False),  # a crowd
        (0.71, 2.7, 0.0, False),  # one whose largest worker gives half of the answers
        (0.14, 4.0, 0.4, False),  # one with many who never look
        (-0.01, -4.0, 0.0, True),  # answers at random
        (0.02, 1.9, 0.4, True),  # labelling functions, some of which say every label
        (0.002, 4.6, 1.0, True),  # labelling functions
    ],
)
def test_votes_decide_where_hidden_answers_say_nothing_of_items(
    mean_lead: float, errors: float, one_label: float, votes_decide: bool
) -> None:
    assert holdout_uninformative(mean_lead, errors, one_label) == votes_decide


def forecasting(values: Floats, n_folds: int = 1) -> Score:
    """A method with these scores by hidden answer."""
    return scored(method("mv"), {"own": values, "soft": values[None] - 1.0}, n_folds)


def drawn(work: CrossValidation, errors: float) -> Floats:
    """Values by hidden answer whose mean is so many of its standard errors."""
    noise = np.random.default_rng(0).normal(size=len(work.blind[0]))
    noise -= noise.mean()
    return noise + errors * standard_error(noise, work.workers)


@pytest.mark.parametrize(("errors", "given_up"), [(0.5, False), (1.9, False), (2.1, True)])
def test_a_slow_method_is_given_up_from_two_standard_errors_short(
    errors: float, given_up: bool
) -> None:
    """Short of 0.93 of the best lead, the least share that counts."""
    work = CrossValidation(MemoryEngine(simulated()[0]))
    values = work.blind[0] + 0.93 - drawn(work, errors)
    assert hopeless(work, values, work.blind[0] + 1.0) is given_up


@pytest.mark.parametrize(("errors", "is_luck"), [(2.9, True), (3.1, False)])
def test_a_lead_below_three_standard_errors_may_be_luck(errors: float, is_luck: bool) -> None:
    work = CrossValidation(MemoryEngine(simulated()[0]))
    values = work.blind[0] + drawn(work, errors)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _, reasons = weighed(work, [forecasting(values, len(work.folds))], {})
    assert reasons["null"]["beaten"]
    said = [str(one.message) for one in caught if issubclass(one.category, MiscWarning)]
    assert ["may be luck" in text for text in said] == [True] * is_luck


def test_what_forecasts_best_without_the_item_may_be_the_crowds_shares() -> None:
    """Workers of few answers, all alike: their own shares are noise, the crowd's are not."""
    random = np.random.default_rng(0)
    items = np.repeat(np.arange(200, dtype=np.int32), 3)
    workers = random.permutation(np.repeat(np.arange(150, dtype=np.int32), 4))
    said = random.choice(3, p=[0.6, 0.3, 0.1], size=600).astype(np.int32)
    alike = CrossValidation(MemoryEngine(labels_from(workers, items, said, (200, 150, 3))))
    by_crowd = []
    for fold in alike.folds:
        hidden, training = fold.hidden, fold.training
        assert isinstance(training, MemoryEngine)
        left = answers_of(training.votes)  # type: ignore[arg-type]
        shares = np.bincount(left.classes, minlength=3) / len(left)
        by_crowd.append(np.log(shares)[hidden.classes])
    null, crowd = alike.blind
    np.testing.assert_allclose(crowd, np.concatenate(by_crowd))
    assert crowd.mean() > null.mean()
    # where each worker has a label of its own, the worker's shares tell more
    own = CrossValidation(MemoryEngine(labels_from(workers % 30, items, workers % 3, (200, 30, 3))))
    null, crowd = own.blind
    assert null.mean() > crowd.mean()
