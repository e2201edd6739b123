"""What a run says of its workers, on crowds in which everybody's part is known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from misc_cli import registry
from misc_cli.__main__ import run
from misc_cli.data.types import Codes, Floats, Labels
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.protocol import POSTERIORS
from misc_cli.quality.verdicts import (
    ALWAYS,
    CHECK,
    COPIES,
    FINE,
    SPAMMER,
    TOO_FEW,
    judge,
    verdict_texts,
)
from misc_cli.quality.worker_dependence import WorkerPairs, compare_workers
from misc_cli.quality.worker_scores import PeerAgreement, peer_agreement, report_workers
from misc_cli.simulate import KINDS, Crowd, Simulation, simulate
from tests.crowds import labels_from, labels_of

MIX = {
    "experts": 0.05,
    "honest": 0.6,
    "spammers": 0.1,
    "constants": 0.1,
    "beginners": 0.1,
    "copiers": 0.05,
}


def engine_of(labels: Labels, posteriors: Floats) -> MemoryEngine:
    return MemoryEngine(labels, {POSTERIORS: posteriors})


def judged(crowd: Crowd) -> tuple[Codes, npt.NDArray[np.bool_]]:
    """The verdict on each worker, and whether it gave at least 30 answers."""
    labels = labels_of(crowd)
    fitted = registry.create("aggregator", "ds-em", "robust")(labels)
    verdicts = judge(
        peer_agreement(engine_of(labels, fitted.posteriors)), compare_workers(MemoryEngine(labels))
    )
    return verdicts.kind, np.bincount(crowd.worker, minlength=len(crowd.kinds)) >= 30


def test_planted_workers_are_told_apart() -> None:
    """docs/workers.md has the figures of more and larger crowds (benchmarks/verdicts.py)."""
    found = {kind: np.zeros(6) for kind in KINDS}
    for seed in range(4):
        crowd = simulate(Simulation(workers=100, items=2_000, accuracy=0.75, mix=MIX, seed=seed))
        verdicts, enough = judged(crowd)
        for code, kind in enumerate(KINDS):
            of = verdicts[(crowd.kinds == code) & enough]
            found[kind] += np.bincount(of, minlength=6)
    spammers, constants = found["spammers"], found["constants"]
    assert (spammers[SPAMMER] + spammers[ALWAYS]) / spammers.sum() >= 0.9
    assert constants[ALWAYS] / constants.sum() >= 0.9
    everybody = np.sum(list(found.values()), axis=0)
    rightly = spammers[SPAMMER] + constants[SPAMMER]
    assert rightly / everybody[SPAMMER] >= 0.95
    assert (spammers[ALWAYS] + constants[ALWAYS]) / everybody[ALWAYS] >= 0.95
    beginners = found["beginners"]
    assert 1 - (beginners[FINE] + beginners[TOO_FEW]) / beginners.sum() <= 0.05
    # of a copier and its original one copies the other, and the other is to be looked at
    copiers = found["copiers"]
    assert (copiers[COPIES] + copiers[CHECK]) / copiers.sum() >= 0.7


def nobody_alike(n_workers: int) -> WorkerPairs:
    none, nothing = np.empty(0, dtype=np.int32), np.empty(0)
    return WorkerPairs(
        np.zeros(n_workers, dtype=np.int64), none, none, nothing, nothing, nothing, nothing
    )


def told(
    kappa: float,
    answers: float = 1000.0,
    *,
    noise: float = 0.0,
    share: float = 0.5,
    surprise: float = 9.0,
    typical: float = 0.8,
) -> int:
    """The verdict on one worker beside five typical ones; `noise` is the standard error of κ.

    Not looking would be right half of the time and telling the truth always: κ = 2 right − 1.
    """
    kappas = np.array([kappa, *[typical] * 5])
    counts = np.array([answers, *[1000.0] * 5])
    shares = np.array([share, *[0.5] * 5])
    found = PeerAgreement(
        answers=counts,
        right=counts * (1.0 + kappas) / 2.0,
        at_best=counts,
        chance=counts / 2.0,
        noise=counts * np.array([answers * (noise / 2.0) ** 2, *[0.0] * 5]),
        said=counts[:, None] * np.column_stack([shares, 1.0 - shares]),
        surprise=np.full((6, 2), surprise),
    )
    return int(judge(found, nobody_alike(6)).kind[0])


@pytest.mark.parametrize(
    ("verdict", "worker"),
    [
        (SPAMMER, {"kappa": 0.17}),  # below 0.18
        (FINE, {"kappa": 0.19}),
        (SPAMMER, {"kappa": 0.09, "typical": 0.3}),  # below a third of the median
        (FINE, {"kappa": 0.11, "typical": 0.3}),
        (SPAMMER, {"kappa": 0.0, "answers": 10}),
        (TOO_FEW, {"kappa": 0.0, "answers": 9}),
        (ALWAYS, {"kappa": 0.5, "share": 0.951}),
        (FINE, {"kappa": 0.5, "share": 0.949}),
        (ALWAYS, {"kappa": 0.5, "share": 1.0, "surprise": 7.0}),
        (FINE, {"kappa": 0.5, "share": 1.0, "surprise": 6.9}),  # a typical worker's chance
        (TOO_FEW, {"kappa": 0.29, "noise": 0.15}),  # less than two noises above zero
        (FINE, {"kappa": 0.31, "noise": 0.15}),
        (SPAMMER, {"kappa": 0.12, "noise": 0.11}),  # half a noise is given
        (TOO_FEW, {"kappa": 0.13, "noise": 0.11}),
        (SPAMMER, {"kappa": -0.05, "noise": 0.41}),  # a typical worker is 0.62 above the limit
        (TOO_FEW, {"kappa": -0.05, "noise": 0.42}),
        (CHECK, {"kappa": -0.11}),  # reliably wrong
        (SPAMMER, {"kappa": -0.09}),
        (CHECK, {"kappa": -0.26, "noise": 0.1}),
        (SPAMMER, {"kappa": -0.24, "noise": 0.1}),
    ],
)
def test_verdicts_on_both_sides_of_their_limits(verdict: int, worker: dict[str, float]) -> None:
    assert told(**worker) == verdict


@pytest.mark.parametrize(
    ("answers", "copier"),
    [((300.0, 200.0), 1), ((200.0, 300.0), 0), ((200.0, 200.0), 1)],
)
def test_who_gave_fewer_answers_copies_the_other(answers: tuple[float, float], copier: int) -> None:
    """Of equals it is the later by name."""
    counts = np.array([*answers, 200.0])
    half = counts[:, None] / np.array([2.0, 2.0])
    found = PeerAgreement(
        counts, 0.9 * counts, counts, counts / 2, np.zeros(3), half, np.zeros((3, 2))
    )
    one = np.ones(1)
    ends = np.zeros(1, dtype=np.int32), np.ones(1, dtype=np.int32)
    verdicts = judge(
        found,
        WorkerPairs(
            np.zeros(3, dtype=np.int64), *ends, 150 * one, 150 * one, 90 * one, 1e-30 * one
        ),
    )
    assert verdicts.kind[copier] == COPIES
    assert verdicts.partner[copier] == 1 - copier
    assert verdicts.kind[1 - copier] == CHECK
    assert verdicts.kind[2] == FINE


@pytest.mark.filterwarnings("ignore::misc_cli.errors.ConvergenceWarning")
def test_few_answers_are_no_verdict() -> None:
    crowd = simulate(Simulation(workers=200, items=300, answers_per_item=4, seed=3))
    verdicts, _ = judged(crowd)
    answers = np.bincount(crowd.worker, minlength=200)
    assert set(verdicts[answers == 0]) == {TOO_FEW}
    assert np.isin(verdicts[answers <= 3], [TOO_FEW, FINE, CHECK]).mean() > 0.9


def test_the_interval_holds_the_accuracy() -> None:
    """95 of 100 where the model is true; labels are inferred, and still nine in ten must hold."""
    inside, total = 0, 0
    for seed in range(3):
        crowd = simulate(Simulation(workers=80, items=1_000, mix={"honest": 1.0}, seed=seed))
        labels = labels_of(crowd)
        fitted = registry.create("aggregator", "ds-em", "robust")(labels)
        engine = engine_of(labels, fitted.posteriors)
        report = report_workers(engine, fitted.confusions, fitted.class_prior)
        true = np.einsum("wcc->w", crowd.confusions) / 4
        answers, low, high = (report[n] for n in ("answers", "accuracy_low", "accuracy_high"))
        known = answers > 0
        inside += int(((low <= true) & (true <= high))[known].sum())
        total += int(known.sum())
        assert (low <= report["accuracy"]).all()
        assert (report["accuracy"] <= high).all()
        few, many = answers <= 20, answers >= 100
        width = high - low
        assert width[few & known].min() > width[many].max()
    assert 0.9 <= inside / total <= 0.99


def test_a_rare_class_counts_rarely_in_the_accuracy() -> None:
    """Right on 9 of 10 of a class that nearly all items are of, on 2 of 10 of the other."""
    worker, item = np.zeros(100, dtype=np.int32), np.arange(100, dtype=np.int32)
    labels = labels_from(worker, item, np.zeros(100, dtype=np.int32), (100, 1, 2))
    posteriors = np.tile([1.0, 0.0], (100, 1))
    confusions = np.array([[[0.9, 0.1], [0.8, 0.2]]])
    found = {}
    for share in (0.5, 0.99):
        prior = np.array([share, 1.0 - share])
        found[share] = report_workers(engine_of(labels, posteriors), confusions, prior)
        assert found[share]["accuracy"] == pytest.approx([0.9 * share + 0.2 * (1.0 - share)])
    # it answered nothing of the other class: that matters where half of all items are of it
    width = {
        share: float(report["accuracy_high"][0] - report["accuracy_low"][0])
        for share, report in found.items()
    }
    assert width[0.99] < 0.2 < 0.4 < width[0.5]


def test_verdicts_are_said_in_words() -> None:
    crowd = simulate(Simulation(workers=60, items=1_500, mix=MIX, seed=1))
    labels = labels_of(crowd)
    fitted = registry.create("aggregator", "ds-em", "robust")(labels)
    verdicts = judge(
        peer_agreement(engine_of(labels, fitted.posteriors)), compare_workers(MemoryEngine(labels))
    )
    words, reasons = verdict_texts(verdicts, MemoryEngine(labels).vocabulary)
    for worker, word in enumerate(words):
        if crowd.kinds[worker] == KINDS.index("constants"):
            said = int(crowd.label[crowd.worker == worker][0])
            assert word == f"always says c{said:05d}"
    assert any(word.startswith("copies w") for word in words)
    assert all(reasons)


def test_two_columns_of_one_name_are_both_kept(tmp_path: Path) -> None:
    """Classes x and x_said_x: true_x_said_x_said_x is the name of two cells."""
    answers = tmp_path / "answers.csv"
    classes = ("x_said_x", "x", "x")
    rows = [f"w{w},i{i},{classes[(i + w * i) % 3]}" for w in range(4) for i in range(9)]
    answers.write_text("worker,item,label\n" + "\n".join(rows) + "\n")
    workers = tmp_path / "workers.csv"
    words = ["--aggregator", "ds-em", "--workers", str(workers), "-o", str(tmp_path / "labels.csv")]
    assert run(["aggregate", str(answers), *words]) == 0
    header = workers.read_text().splitlines()[0].split(",")
    assert header[-4:] == [
        "true_x_said_x",
        "true_x_said_x_said_x",
        "true_x_said_x_said_x_2",
        "true_x_said_x_said_x_said_x",
    ]
    assert len(set(header)) == len(header)
    assert "effective-votes" in json.loads((tmp_path / "labels.run.json").read_text())["figures"]
