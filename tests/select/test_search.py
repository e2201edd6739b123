"""Choosing without truth: what is hidden, what is chosen, and that nothing else decides it."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from misc_cli.aggregators.confusion.em import confusions_of
from misc_cli.core.encode import encode, encode_gold
from misc_cli.core.holdout import answers_of, fold_plan, folds, log_score
from misc_cli.core.parallel import thread_limit
from misc_cli.core.types import Answers, Codes, Labels
from misc_cli.core.votes import SparseVotes
from misc_cli.errors import InputError, MiscWarning
from misc_cli.evaluate.metrics import calibration_error, expected_error
from misc_cli.run import plan, registry
from misc_cli.run.pipeline import run
from misc_cli.run.request import Request
from misc_cli.run.settings import Settings, build
from misc_cli.select.calibrate import (
    MODEL_SHRINKAGE,
    TEMPERATURES,
    VOTE_WEIGHTS,
    Calibration,
    best_calibration,
    calibration_surface,
    temper,
    vote_shares,
)
from misc_cli.select.choose import SIGNIFICANT, lead, null_score, weights
from misc_cli.select.compare import compare
from misc_cli.select.leaderboard import Score
from misc_cli.select.processes import Deadline
from misc_cli.select.search import _voters, calibration_of, search
from misc_cli.select.trial import Candidate, Method
from misc_cli.simulate import Simulation, answer_columns, simulate, truth_columns
from tests.conftest import PAPER_SIX, Load
from tests.crowds import labels_from


def simulated(**settings: float) -> tuple[Labels, Codes]:
    """A crowd, and the truth in the order of its items."""
    options = {"workers": 30, "items": 300, "classes": 3, "answers_per_item": 5, "seed": 1}
    crowd = simulate(Simulation(**{**options, **settings}))  # type: ignore[arg-type]
    names = [str(code) for code in range(int(settings.get("classes", 3)))]
    labels = encode(Answers(**answer_columns(crowd, names))).labels
    truth = truth_columns(crowd, names)
    return labels, encode_gold(labels, truth["item"], truth["label"])


def method(name: str, preset: str = "robust") -> Method:
    return Method(name, registry.create("aggregator", name, preset))


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


@pytest.mark.parametrize(("errors", "insist"), [(0.9, False), (1.1, False), (0.9, True)])
def test_completion_is_declined_unless_it_is_clearly_ahead(errors: float, insist: bool) -> None:
    """Ahead of the pure result by so many times what is significant, on all folds."""
    random = np.random.default_rng(0)
    pure, noise = random.normal(size=(2, 40))
    noise = (noise - noise.mean()) / noise.std(ddof=1)
    ahead = pure + noise + errors * SIGNIFICANT / np.sqrt(40)
    tucker = Candidate(method("ds-em"), passes=1)
    score = Score(tucker, {"hard": ahead}, seconds=0.0, posteriors=[np.empty((0, 3))])
    work: Any = SimpleNamespace(folds=[None], workers=np.arange(40, dtype=np.int32))
    assert lead(ahead, pure, work.workers) == pytest.approx(errors * SIGNIFICANT)
    assert _voters(work, [score], pure, insist) == ([score] if errors > 1 or insist else [])


def test_methods_count_by_their_share_of_the_best_lead() -> None:
    assert weights([1.0]) == [1.0]
    assert weights([0.5, 0.49, 0.46]) == pytest.approx([0.5, 0.5, 0.0])
    assert weights([1.0, 0.95, 0.93, -0.2]) == pytest.approx([2 / 3, 1 / 3, 0.0, 0.0])


def test_the_null_knows_how_often_a_worker_says_what() -> None:
    labels, _ = simulated()
    kept, hidden = next(folds(labels, 1, 0.1, seed=0))
    left = answers_of(kept.votes)  # type: ignore[arg-type]
    crowd = np.bincount(left.classes, minlength=3) / len(left)
    own = np.bincount(left.classes[left.workers == hidden.workers[0]], minlength=3)
    expected = (own + 2.0 * crowd) / (own.sum() + 2.0)
    found = null_score(kept, hidden)
    assert found[0] == pytest.approx(np.log(expected[hidden.classes[0]]))


def test_calibration_keeps_labels_and_what_is_known() -> None:
    labels, _ = simulated()
    posteriors = method("ds-em").aggregator(labels).posteriors
    gold = np.full(labels.n_items, -1, dtype=np.int32)
    gold[0] = int(posteriors[0].argmax())
    soft = Calibration(4.0, 0.9)(posteriors, replace(labels, gold=gold))
    assert np.allclose(soft.sum(axis=1), 1.0)
    assert (soft.argmax(axis=1) == posteriors.argmax(axis=1)).all()
    assert soft[0].max() == 1.0
    assert Calibration()(posteriors, labels) == pytest.approx(posteriors)
    agree = np.flatnonzero(vote_shares(labels).argmax(axis=1) == posteriors.argmax(axis=1))[1:]
    mixed = 0.1 * temper(posteriors, 4.0) + 0.9 * vote_shares(labels)
    assert soft[agree] == pytest.approx(mixed[agree])


def test_five_to_none_is_surer_than_three_to_two() -> None:
    """The same five workers, items that are alike but for the split of their votes."""
    random = np.random.default_rng(3)
    rows = [
        (f"w{w}", f"i{i}", "ab"[int(random.random() < 0.3)]) for i in range(56) for w in range(5)
    ]
    rows += [(f"w{w}", "none", "a") for w in range(5)]
    rows += [(f"w{w}", "two", "a" if w < 3 else "b") for w in range(5)]
    columns = [pa.array(column).dictionary_encode() for column in zip(*rows, strict=True)]
    outcome = run(Request(build(Settings()), Answers(*columns)))
    sure = dict(
        zip(outcome.labels.items.to_pylist(), outcome.decision.confidence.tolist(), strict=True)
    )
    assert sure["none"] > sure["two"] + 0.05
    assert len({round(value, 3) for value in sure.values()}) > 5


def test_the_surface_is_the_log_score_of_mixed_forecasts() -> None:
    """Without votes: against the whole forecast of every class, Σ_c posterior · confusion."""
    labels, _ = simulated()
    kept, hidden = next(folds(labels, 1, 0.1, seed=0))
    posteriors = method("ds-em").aggregator(kept).posteriors
    surface = calibration_surface(kept, posteriors, hidden)
    confusions = confusions_of(kept, posteriors, MODEL_SHRINKAGE)
    for at, temperature in enumerate(TEMPERATURES[:3]):
        soft = temper(posteriors, temperature)
        forecast = np.einsum("pc,pck->pk", soft[hidden.items], confusions[hidden.workers])
        assert surface[at, 0] == pytest.approx(log_score(forecast, hidden).sum())
    assert surface.shape == (len(TEMPERATURES), len(VOTE_WEIGHTS))


def test_the_best_calibration_is_the_peak_of_the_surface_between_its_temperatures() -> None:
    curve = -500.0 * (np.log(TEMPERATURES) - np.log(2.3)) ** 2
    found = best_calibration([curve[:, None] - 900.0 * (VOTE_WEIGHTS - 0.1) ** 2])
    assert found.temperature == pytest.approx(2.3**1.5, rel=0.01)
    assert found.votes == pytest.approx(0.1)
    # nothing known: the prior says to leave confidences alone
    nothing = best_calibration([np.zeros((len(TEMPERATURES), len(VOTE_WEIGHTS)))])
    assert nothing.temperature == pytest.approx(1.0, rel=0.05)
    assert nothing.votes == 0.0


@pytest.mark.parametrize("name", ["rte", "temp", "dog"])
def test_calibration_lowers_the_calibration_error_without_looking_at_truth(
    name: str, dataset: Load
) -> None:
    labels, truth = dataset(name)
    chosen = method("ds-em")
    raw = chosen.aggregator(labels).posteriors
    calibration = calibration_of(chosen, labels)
    assert calibration is not None
    calibrated = calibration(raw, labels)
    right = raw.argmax(axis=1) == truth
    before, after = (calibration_error(p.max(axis=1), right) for p in (raw, calibrated))
    assert after < 0.8 * before


def test_a_search_is_the_same_on_any_number_of_threads_and_gives_its_reasons() -> None:
    labels, truth = simulated(items=900)
    pure = [method("mv"), method("ds-em")]
    completer = registry.create("completer", "tucker")
    completed = plan.completions(labels, "tucker", completer, pure[1].aggregator, {"passes": 2})
    found = []
    for threads in (1, 2):
        with thread_limit(threads):
            found.append(search(labels, pure, completed[:2]))
    assert found[0].aggregation.posteriors.tobytes() == found[1].aggregation.posteriors.tobytes()
    selection = found[0].selection
    assert {row["candidate"] for row in selection["pure"]} == {"mv", "ds-em"}
    assert len(selection["completed"]) == 2
    assert selection["chosen"] == ["ds-em"]
    assert "ds-em forecasts hidden answers best" in selection["why"]
    assert expected_error(found[0].aggregation.posteriors, truth) < 0.2


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


def test_gold_items_calibrate_by_fits_that_did_not_know_them(dataset: Load) -> None:
    """Workers on `bm` err together: hidden answers cannot show how often, fifty known items do."""
    labels, truth = dataset("bm")
    gold = np.where(np.arange(labels.n_items) % 20 == 0, truth, -1).astype(np.int32)
    judged = np.flatnonzero(gold < 0)
    errors = []
    for known in (None, gold):
        posteriors = search(replace(labels, gold=known), [method("ds-em")]).aggregation.posteriors
        right = posteriors.argmax(axis=1) == truth
        errors.append(calibration_error(posteriors.max(axis=1)[judged], right[judged]))
    assert errors[1] < 0.6 * errors[0]


def test_gold_stays_with_its_items() -> None:
    """In every fold; and known items that the fit has right sharpen, those it has wrong soften."""
    labels, _ = simulated()
    top = method("ds-em").aggregator(labels).posteriors.argmax(axis=1).astype(np.int32)
    known = np.arange(labels.n_items) % 5 == 0
    temperatures = []
    for classes in (top, (top + 1) % 3):
        gold = np.where(known, classes, -1).astype(np.int32)
        with_gold = replace(labels, gold=gold)
        for kept, _ in folds(with_gold, 2, 0.1, seed=0):
            np.testing.assert_array_equal(kept.gold, gold)
        found = calibration_of(method("ds-em"), with_gold)
        assert found is not None
        temperatures.append(found.temperature)
    without = calibration_of(method("ds-em"), labels)
    assert without is not None
    assert temperatures[0] < without.temperature < temperatures[1]


@pytest.mark.filterwarnings("ignore:ds-mf did not converge")
def test_where_answers_say_nothing_of_items_the_vote_shares_count() -> None:
    """Answers at random: no method beats the null, so nothing is completed or calibrated."""
    rng = np.random.default_rng(0)
    worker = np.concatenate([rng.permutation(20)[:5] for _ in range(400)])
    item = np.repeat(np.arange(400, dtype=np.int32), 5)
    label = rng.integers(0, 3, len(item), dtype=np.int32)
    labels = labels_from(worker, item, label, (400, 20, 3))
    pure = [method("ds-em"), method("mv")]
    completer = registry.create("completer", "tucker")
    completed = plan.completions(labels, "tucker", completer, pure[0].aggregator, {"passes": 1})
    fallback = plan.fallback("robust", 0)
    with pytest.warns(MiscWarning, match="vote shares count"):
        found = search(labels, pure, completed[:1], fallback=fallback)
    assert not found.selection["null"]["beaten"]
    assert found.selection["completed"] == []
    assert found.calibration is None
    joint = vote_shares(labels) * fallback.aggregator(labels).posteriors
    joint /= joint.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.aggregation.posteriors, joint, atol=1e-12)


def test_items_with_one_answer_each_leave_nothing_to_hide() -> None:
    labels, _ = simulated(answers_per_item=1)
    methods = [method("ds-em"), method("mv")]
    assert search(labels, methods).selection["chosen"] == ["ds-em"]
    with pytest.raises(InputError, match="items with one answer each leave none to hide"):
        compare(labels, methods)


def test_a_comparison_is_of_all_that_these_answers_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other packages' methods too; those that want ordered classes only where they are."""
    point = EntryPoint(
        "theirs", "misc_cli.aggregators.majority:MajorityVote", "misc_cli.aggregators"
    )
    monkeypatch.setattr(registry, "_plugins", lambda kind: {"theirs": point})
    labels, _ = simulated()
    everything = [*registry.AGGREGATORS, "theirs"]
    assert plan.applicable(labels) == everything
    everything.remove("mmce-o")
    assert plan.applicable(replace(labels, ordered=False)) == everything


def test_methods_that_would_take_minutes_are_not_tried() -> None:
    def tried(**settings: float) -> set[str]:
        return {method.name for method in plan.roster(simulated(**settings)[0], "robust", {}, 0)}

    everything = set(plan.ROSTER)
    assert tried() == everything
    assert tried(classes=30) == everything - {"mmce-c"}
    assert tried(items=50_000) == everything - {"mmce-c", "ebcc"}
    # the answers of few workers cannot tell ebcc's subtypes apart
    assert tried(workers=8) == everything - {"ebcc"}


def test_ranks_that_the_data_is_too_small_for_are_not_tried() -> None:
    assert plan.tucker_ranks((178, 2665, 5))[-1] == (14, 56, 5)
    assert plan.tucker_ranks((4, 10, 2)) == [(2, 2, 2), (3, 3, 2)]
    assert plan.tucker_ranks((1, 1, 1)) == []


@pytest.mark.parametrize("name", [name for name in PAPER_SIX if name != "web"])
def test_automatic_ranks_are_never_much_worse_than_none(name: str, dataset: Load) -> None:
    labels, truth = dataset(name)
    chosen = method("ds-em", "paper")
    completer = registry.create("completer", "tucker", "paper")
    completed = plan.completions(labels, "tucker", completer, chosen.aggregator, {})
    found = search(labels, [chosen], completed)
    pure = expected_error(chosen.aggregator(labels).posteriors, truth)
    assert expected_error(found.aggregation.posteriors, truth) <= pure + 0.003


# ds-em needs more than its 100 iterations on web, completed or not
@pytest.mark.filterwarnings("ignore:ds-em did not converge")
def test_automatic_ranks_halve_the_error_on_web(
    dataset: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "WORKER_RANKS", (5, 10))  # some of them: the others take a minute
    labels, truth = dataset("web")
    chosen = method("ds-em", "paper")
    completer = registry.create("completer", "tucker", "paper")
    completed = plan.completions(labels, "tucker", completer, chosen.aggregator, {})
    found = search(labels, [chosen], completed)
    assert expected_error(found.aggregation.posteriors, truth) <= 0.085


def test_too_few_answers_get_the_mean_of_what_has_little_to_get_wrong() -> None:
    crowd = simulate(Simulation(workers=5, items=20, classes=3, answers_per_item=3, seed=0))
    answers = Answers(**answer_columns(crowd, ["a", "b", "c"]))
    outcome = run(Request(build(Settings()), answers))
    assert outcome.selection is not None
    assert outcome.selection["chosen"] == ["ds-em(2)", "one-coin", "mv"]
    assert "fewer than 1,000 answers" in outcome.selection["why"]
