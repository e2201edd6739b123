"""The figures of a run: what one would count by hand, and when a run warns."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pytest

from misc_cli import registry
from misc_cli.data.encode import encode
from misc_cli.data.posteriors import decide
from misc_cli.data.types import Answers, Labels
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.protocol import POSTERIORS
from misc_cli.errors import MiscWarning
from misc_cli.quality.figures import Figure, figures
from misc_cli.quality.worker_dependence import compare_workers
from tests.conftest import Load


def judged(labels: Labels, label: list[int]) -> dict[str, Figure]:
    """Figures of a run that came to these labels."""
    posteriors = np.eye(labels.n_classes)[label]
    engine = MemoryEngine(labels, {POSTERIORS: posteriors})
    return figures(engine, compare_workers(engine), iterations=1, converged=True)


def encoded(*answers: str) -> Labels:
    """One text per item: its workers' answers, a letter each, "." for none."""
    rows = [
        (f"w{worker}", f"i{item:02d}", letter)
        for item, letters in enumerate(answers)
        for worker, letter in enumerate(letters)
        if letter != "."
    ]
    return encode(Answers(*(pa.array(column) for column in zip(*rows, strict=True)))).labels


def test_counted_by_hand() -> None:
    labels = encoded("aab", "aaa", "bb.", "b..", "ccc")
    found = judged(labels, [0, 0, 0, 1, 2])
    assert found["unanimous"] == 4  # all but the first; a single answer agrees with itself
    assert found["overruled"] == 25.0  # the third item
    assert found["classes-lost"] == 0
    assert found["agreement"] == pytest.approx((1 / 3 + 1 + 1 + 1) / 4, abs=1e-6)
    assert found["effective-votes"] == found["answers-per-item"] == 12 / 5


def test_gold_is_the_users_word_and_overrules_nobody() -> None:
    labels = encoded("aa", "aa", "bb")
    gold = np.array([1, -1, -1], dtype=np.int32)
    fixed = Labels(labels.votes, labels.workers, labels.items, labels.classes, gold=gold)
    found = judged(fixed, [1, 0, 1])
    assert (found["unanimous"], found["overruled"]) == (2, 0.0)


def test_nothing_to_compare_is_none() -> None:
    found = judged(encoded("a.", ".b"), [0, 1])
    assert found["alpha"] is None
    assert found["agreement"] is None


def test_a_lost_class_and_overruled_items_are_said_in_words() -> None:
    labels = encoded(*["aa"] * 20, *["bb"] * 10)
    with pytest.warns(MiscWarning) as caught:
        found = judged(labels, [0] * 30)
    said = [str(warning.message) for warning in caught]
    assert (found["classes-lost"], found["overruled"]) == (1, round(100 / 3, 6))
    assert "10 of 30 items on which all answers agree got another label" in said[0]
    assert "no item got the label 'b', though it leads the vote on 10 items" in said[1]


@pytest.mark.parametrize(
    ("name", "warned"),
    [
        ("youtube_lf", ["all answers agree got another label", "no item got the label 'SPAM'"]),
        ("yoruba_lf", ["all answers agree got another label", "no item got the label"]),
        ("ducks", ["workers err together"]),
        ("dog", []),
        ("bluebirds", []),
        ("temp", []),
    ],
)
def test_a_run_that_should_not_be_believed_says_so(
    name: str, warned: list[str], dataset: Load
) -> None:
    """Dawid–Skene on public data where it is confidently wrong, and where it is not."""
    labels, _ = dataset(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = registry.create("aggregator", "ds-em", "robust")(labels)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        judged(labels, decide(fitted.posteriors).label.tolist())
    assert len(caught) == len(warned)
    for text, warning in zip(warned, caught, strict=True):
        assert text in str(warning.message)
