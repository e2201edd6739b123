"""Answers to votes: nothing of the input's order remains, nothing is lost unsaid."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from misc_cli.data.encode import Encoding, encode, encode_known
from misc_cli.data.types import Answers, KnownLabels
from misc_cli.errors import ConfigError, InputError

Rows = list[tuple[str, str, str]]


def encode_rows(rows: Rows, **options: object) -> Encoding:
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    return encode(Answers(*columns), **options)  # type: ignore[arg-type]


def votes_of(encoding: Encoding) -> Rows:
    """The votes as triplets again, by item, worker and class."""
    labels = encoding.labels
    matrix = labels.votes.block(slice(0, labels.n_items)).tocoo()
    workers, classes = np.divmod(matrix.col, labels.n_classes)
    names = labels.workers.to_pylist(), labels.items.to_pylist(), labels.classes.to_pylist()
    return [
        (names[0][w], names[1][i], names[2][c])
        for i, w, c in zip(matrix.row, workers, classes, strict=True)
    ]


text = st.sampled_from(["a", "b", " b", "c", "10", "9", "é", "Z"])
label = st.sampled_from(["x", "y", "y ", "10", "9", ""])


@given(st.lists(st.tuples(text, text, label), min_size=1, max_size=30), st.randoms())
def test_same_votes_as_pandas_in_any_row_order(rows: Rows, random: object) -> None:
    frame = pd.DataFrame(rows, columns=["worker", "item", "label"])
    frame = frame.apply(lambda column: column.str.strip())
    frame = frame[frame.label != ""]
    if frame.empty:
        with pytest.raises(InputError, match="no answers are left"):
            encode_rows(rows)
        return
    expected = frame.drop_duplicates().sort_values(["item", "worker"])
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for order in (rows, shuffled):
        encoding = encode_rows(order, duplicates="all")
        assert sorted(votes_of(encoding)) == sorted(map(tuple, expected.to_numpy().tolist()))
        assert encoding.labels.items.to_pylist() == sorted(set(expected.item), key=str.encode)
        assert encoding.counts.n_empty == len(rows) - len(frame)
        assert encoding.counts.n_repeats == len(frame) - len(expected)


def test_conflicts() -> None:
    rows = [("w", "i", "a"), ("v", "i", "a"), ("w", "i", "b"), ("w", "i", "b"), ("w", "i", "c")]
    last, first, both = (encode_rows(rows, duplicates=d) for d in ("last", "first", "all"))
    assert votes_of(last) == [("v", "i", "a"), ("w", "i", "c")]
    assert votes_of(first) == [("v", "i", "a"), ("w", "i", "a")]
    assert len(votes_of(both)) == 4
    # three labels of one worker for one item are one contradiction, whatever becomes of them
    assert {(e.counts.n_repeats, e.counts.n_conflicts) for e in (last, first, both)} == {(1, 1)}
    with pytest.raises(InputError, match="'w' gave different labels to item 'i'"):
        encode_rows(rows, duplicates="error")


def test_class_order() -> None:
    assert encode_rows([("w", "1", "10"), ("w", "2", "9")]).labels.classes.to_pylist() == [
        "9",
        "10",
    ]
    named = [("w", "1", "low"), ("w", "2", "high")]
    assert encode_rows(named).labels.classes.to_pylist() == ["high", "low"]
    ordered = encode_rows(named, class_order=["low", "mid", "high"]).labels
    assert ordered.classes.to_pylist() == ["low", "mid", "high"]
    assert ordered.ordered
    with pytest.raises(ConfigError, match="leaves out high"):
        encode_rows(named, class_order=["low"])


def test_numbers_that_are_equal_but_spelled_differently_stay_apart() -> None:
    classes = encode_rows([("w", "1", "1"), ("w", "2", "1.0"), ("w", "3", "01")]).labels.classes
    assert set(classes.to_pylist()) == {"1", "1.0", "01"}


def test_dictionary_and_chunked_columns_are_the_same_as_plain_ones() -> None:
    rows = [("w1", "i2", "b"), ("w2", "i1", "a"), ("w1", "i1", "b")]
    plain = encode_rows(rows)
    columns = [
        pa.chunked_array([pa.array(c[:2]).dictionary_encode(), pa.array(c[2:]).dictionary_encode()])
        for c in zip(*rows, strict=True)
    ]
    assert votes_of(encode(Answers(*columns))) == votes_of(plain)


def test_an_answer_needs_a_worker_and_an_item() -> None:
    with pytest.raises(InputError, match="row 2 has an empty worker"):
        encode_rows([("w", "i", "a"), (" ", "i", "a")])
    assert encode_rows([("w", "i", "a"), ("", "", "")]).counts.n_empty == 1


def test_gold() -> None:
    labels = encode_rows([("w", "i1", "a"), ("w", "i2", "b"), ("w", "i3", "a")]).labels
    gold = encode_known(
        labels, KnownLabels(pa.array([" i3", "elsewhere"]), pa.array(["b ", "q"])), "gold"
    )
    assert gold.tolist() == [-1, -1, 1]
    with pytest.raises(InputError, match="'q'"):
        encode_known(labels, KnownLabels(pa.array(["i1"]), pa.array(["q"])), "gold")
    # an empty label says nothing, a repeated one nothing new, a second one contradicts
    items, values = pa.array(["i1", "i1", "i1", None]), pa.array(["a", "", " a", "b"])
    assert encode_known(labels, KnownLabels(items, values), "gold").tolist() == [0, -1, -1]
    with pytest.raises(InputError, match="the truth: item 'i1' has more than one label"):
        encode_known(labels, KnownLabels(pa.array(["i1", "i1"]), pa.array(["a", "b"])))
