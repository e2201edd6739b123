"""Figures of `misc evaluate` are those that one counts by hand."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from misc_cli.data.types import KnownLabels, LabelTable
from misc_cli.errors import InputError
from misc_cli.quality.evaluation import evaluate, wilson


def column(text: str) -> pa.Array:
    return pa.array(text.split(), pa.string())


def known(items: str, labels: str) -> KnownLabels:
    return KnownLabels(column(items), column(labels))


def test_hand_counted_example() -> None:
    # items:            a    b    c    d     e (no truth); truth also has z (no label)
    table = LabelTable(
        items=column("a b c d e"),
        labels=column("cat cat dog dog cat"),
        confidence=np.array([0.95, 0.55, 0.85, 0.65, 0.9]),
    )
    found = evaluate(table, known("z d c b a", "cat cat dog dog cat"))
    assert found.n_items == 4
    assert found.error == found.error_as_written == 0.5
    assert found.classes == ("cat", "dog")
    assert found.confusion.tolist() == [[1, 1], [1, 1]]
    assert found.scores["precision"].tolist() == [0.5, 0.5]
    assert found.unlabelled == ("z",)
    assert found.unjudged == ("e",)
    # one item per bin: |0.95 - 1|, |0.55 - 0|, |0.85 - 1|, |0.65 - 0|, each a quarter
    assert found.calibration_error == pytest.approx((0.05 + 0.55 + 0.15 + 0.65) / 4)


def test_a_tie_costs_its_expected_error_where_probabilities_show_it() -> None:
    table = LabelTable(
        items=column("a b c"),
        labels=column("1 1 2"),
        probabilities=np.array([[0.4, 0.4, 0.2], [0.4, 0.4, 0.2], [0.1, 0.8, 0.1]]),
        classes=("1", "2", "10"),
    )
    found = evaluate(table, known("a b c", "2 10 2"))
    assert found.n_ties == 2
    assert found.error == pytest.approx((0.5 + 1 + 0) / 3)
    assert found.error_as_written == pytest.approx(2 / 3)


def test_a_truth_that_nobody_gave_is_a_class_of_its_own_and_always_wrong() -> None:
    table = LabelTable(
        items=column("a b"),
        labels=column("x y"),
        probabilities=np.array([[0.9, 0.1], [0.2, 0.8]]),
        classes=("x", "y"),
    )
    found = evaluate(table, known("a b", "never y"))
    assert found.classes == ("x", "y", "never")
    assert found.error == 0.5
    assert np.isnan(found.scores["precision"][2])
    assert found.scores["recall"][2] == 0
    text = json.dumps(found.to_json(), allow_nan=False)
    assert json.loads(text)["classes"][2]["precision"] is None


def test_classes_in_numeric_order_and_scores_against_their_definitions() -> None:
    random = np.random.default_rng(0)
    truth, given = random.integers(8, 12, (2, 400)).astype(str)
    items = pa.array([f"i{n}" for n in range(400)])
    found = evaluate(LabelTable(items, pa.array(given)), KnownLabels(items, pa.array(truth)))
    assert found.classes == ("8", "9", "10", "11")
    for code, name in enumerate(found.classes):
        both = ((truth == name) & (given == name)).sum()
        precision, recall = both / (given == name).sum(), both / (truth == name).sum()
        assert found.scores["precision"][code] == pytest.approx(precision)
        assert found.scores["recall"][code] == pytest.approx(recall)
        harmonic = 2 * precision * recall / (precision + recall)
        assert found.scores["f1"][code] == pytest.approx(harmonic)
    assert found.error == pytest.approx((truth != given).mean())


def test_order_of_rows_does_not_matter() -> None:
    random = np.random.default_rng(1)
    items = pa.array([f"i{n}" for n in range(60)])
    labels, truth = (pa.array(column) for column in random.integers(0, 3, (2, 60)).astype(str))
    confidence = random.uniform(0.3, 1, 60)
    judges = KnownLabels(items, truth)
    one = evaluate(LabelTable(items, labels, confidence), judges).to_json()
    mix = random.permutation(60)
    table = LabelTable(items.take(pa.array(mix)), labels.take(pa.array(mix)), confidence[mix])
    assert evaluate(table, judges).to_json() == one


def test_repeats_are_fine_contradictions_and_strangers_are_not() -> None:
    table = LabelTable(column("a b"), column("1 2"))
    assert evaluate(table, known("a a b", "1 1 2")).error == 0
    with pytest.raises(InputError, match="the truth: item 'a' has more than one label"):
        evaluate(table, known("a a b", "1 2 2"))
    with pytest.raises(InputError, match="are these the same items"):
        evaluate(table, known("x y", "1 2"))


def test_an_empty_label_is_no_class() -> None:
    table = LabelTable(column("a b"), column("1 2"))
    found = evaluate(table, KnownLabels(column("a b"), pa.array(["1", " "])))
    assert (found.error, found.classes, found.unjudged) == (0, ("1", "2"), ("b",))
    with pytest.raises(InputError, match="the truth: every label is empty"):
        evaluate(table, KnownLabels(column("a b"), pa.array(["", None])))
    nothing = LabelTable(column(""), column(""))
    with pytest.raises(InputError, match="the labels: every label is empty"):
        evaluate(nothing, known("a b", "1 2"))


def test_wilson_holds_the_share() -> None:
    low, high = wilson(np.array([0.0, 0.5]), np.array([10.0, 10.0]))
    # Wilson's interval of 5 in 10: 0.237 to 0.763 (e.g. Brown, Cai & DasGupta 2001)
    assert (low[1], high[1]) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert low[0] == pytest.approx(0)
