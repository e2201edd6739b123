"""The frames of a report say what can be counted by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd

from misc_cli.api import aggregate
from misc_cli.data.encode import text_frame
from misc_cli.run.result import queue_columns
from tests.report.crowds import answers, batch, result

VOTES = [
    ("ann", "q1", "yes"), ("bob", "q1", "yes"), ("eve", "q1", "no"),
    ("ann", "q2", "no"), ("bob", "q2", "no"), ("eve", "q2", "yes"),
    ("ann", "q3", "yes"), ("bob", "q3", "no"),
]  # fmt: skip


def test_every_frame_is_what_hand_counting_gives() -> None:
    truth = pd.DataFrame([("q1", "yes"), ("q2", "yes")], columns=["item", "label"])
    table = pd.DataFrame(VOTES, columns=["worker", "item", "label"])
    frames = aggregate(table, aggregator="mv", truth=truth).report()
    items = frames["items"].set_index("item")
    assert list(items.index) == ["q3", "q1", "q2"], "least sure first"
    assert items["answers"].to_dict() == {"q1": 3, "q2": 3, "q3": 2}
    assert items["votes"].to_dict() == {"q1": 2, "q2": 2, "q3": 1}
    assert items["tie"].to_dict() == {"q1": False, "q2": False, "q3": True}
    assert not items["outvoted"].any()
    assert items["right"].to_dict() == {"q1": True, "q2": False, "q3": None}
    classes = frames["classes"].set_index("class")
    assert classes["votes"].to_dict() == {"no": 4, "yes": 4}
    assert classes["labels"].to_dict() == {"no": 2, "yes": 1}
    assert frames["confidence"]["items"].sum() == 3
    assert frames["confidence"]["known"].sum() == 2
    assert frames["workers"]["worker"].iloc[0] == "eve", "worst first"
    assert np.allclose(frames["crowd"].sum(axis=1), 1)
    # q2 is "no" by 2 of 3, q3 by half, q1 by 1 of 3: 4 votes of "yes" on items that are "no"
    confusions = frames["confusions"].set_index(["true", "said"])
    assert confusions["answers"].to_dict() == {("no", "yes"): 2, ("yes", "no"): 2}
    bands = frames["confidence"].set_index("from")
    assert bands["items"].to_dict() == {0.6: 2, 0.5: 1}, "the surest first"
    assert bands["right"][0.6] == 0.5


def test_an_outvoted_label_is_not_the_most_frequent_answer() -> None:
    frames = result().report()
    items, votes = frames["items"], answers()
    assert items["outvoted"].any()
    for row in items.to_dict("records"):
        counts = votes[votes["item"] == row["item"]]["label"].value_counts()
        own = counts.get(row["label"], 0)
        assert row["votes"] == own
        assert row["outvoted"] == (own < counts.max())
        assert row["overruled"] == (own == 0 and len(counts) == 1)


def test_a_label_is_overruled_only_if_all_answers_agree_on_another() -> None:
    """Nobody voted for the known label of q1, on which answers differ, nor for that of q2."""
    votes = [("ann", "q1", "yes"), ("bob", "q1", "no"), ("eve", "q1", "no")]
    votes += [("ann", "q2", "yes"), ("bob", "q2", "yes"), ("ann", "q3", "yes"), ("bob", "q4", "no")]
    votes += [("eve", "q5", "maybe")]
    gold = pd.DataFrame([("q1", "maybe"), ("q2", "maybe")], columns=["item", "label"])
    table = pd.DataFrame(votes, columns=["worker", "item", "label"])
    items = aggregate(table, aggregator="mv", gold=gold).report()["items"].set_index("item")
    assert items["label"].loc[["q1", "q2"]].tolist() == ["maybe", "maybe"]
    assert items["votes"].loc[["q1", "q2"]].tolist() == [0, 0]
    assert set(items.index[items["outvoted"]]) == {"q1", "q2"}
    assert set(items.index[items["overruled"]]) == {"q2"}


def test_the_items_to_ask_again_are_those_of_the_queue() -> None:
    found = aggregate(batch(80), aggregator="ds-em")
    asked = found.report()["ask_again"]
    assert (asked["gain"].diff().dropna() <= 0).all(), "most gain first"
    queue = text_frame(queue_columns(found.outcome, None))
    pd.testing.assert_frame_equal(asked, queue)
