"""Label matrices, items × workers."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from misc_cli.errors import InputError
from misc_cli.readers.options import ReadOptions
from misc_cli.readers.read import read_answer_columns


def save(folder: Path, matrix: Any) -> str:
    np.save(folder / "votes.npy", matrix)
    return str(folder / "votes.npy")


@pytest.mark.parametrize(
    "matrix",
    [
        np.array([[0, 1, np.nan], [np.nan, 1, 1]]),
        np.array([[0, 1, -2], [-2, 1, 1]], dtype=np.int8),
        np.array([["0", "1", ""], ["", "1", "1"]]),
    ],
)
def test_what_is_answered(tmp_path: Path, matrix: Any) -> None:
    declared = ReadOptions(layout="matrix")
    answers = read_answer_columns([save(tmp_path, matrix)], declared).answers
    columns = (answers.worker, answers.item, answers.label)
    assert list(zip(*(column.to_pylist() for column in columns), strict=True)) == [
        ("0", "0", "0"),
        ("1", "0", "1"),
        ("1", "1", "1"),
        ("2", "1", "1"),
    ]


@pytest.mark.parametrize(
    "matrix",
    [
        np.arange(3),
        np.zeros((2, 2, 2), int),
        np.array([[0.5, 0.5]]),
        np.array([[{}, 1]]),
        np.array(1),
    ],
)
def test_what_is_no_label_matrix(tmp_path: Path, matrix: Any) -> None:
    with pytest.raises(InputError):
        read_answer_columns([save(tmp_path, matrix)])


def test_votes_that_may_abstain_are_asked_about(tmp_path: Path) -> None:
    """-1 and 1 with 0 for none, or 0 and 1 with -1 for none: nothing tells."""
    path = save(tmp_path, np.array([[0, 1, -1], [-1, 1, 1], [0, 0, 1], [1, 0, 0]]))
    with pytest.raises(InputError, match="a matrix without names"):
        read_answer_columns([path])
    declared = ReadOptions(layout="matrix", no_answer="0")
    assert set(read_answer_columns([path], declared).answers.label.to_pylist()) == {"-1", "1"}


def test_counts_are_votes_of_nobody(tmp_path: Path) -> None:
    counts = np.array([[5, 0, 0], [3, 2, 0], [0, 1, 4]] * 4)
    with pytest.raises(InputError, match="--layout counts"):
        read_answer_columns([save(tmp_path, counts)])
    result = read_answer_columns([save(tmp_path, counts)], ReadOptions(layout="counts"))
    assert result.anonymous
    assert len(result.answers) == 60
    with pytest.raises(InputError, match="a matrix without names"):  # rows of different sums
        read_answer_columns([save(tmp_path, np.array([[50, 0, 0], [3, 12, 0], [0, 1, 64]] * 4))])


def test_a_damaged_matrix(tmp_path: Path) -> None:
    stream = io.BytesIO()
    np.save(stream, np.zeros((5, 5), int))
    (tmp_path / "a.npy").write_bytes(stream.getvalue()[:-8])
    with pytest.raises(InputError, match="not a whole"):
        read_answer_columns([str(tmp_path / "a.npy")])


def test_zstd_needs_nothing_else(tmp_path: Path) -> None:
    text = b"worker,item,label\nw1,i1,cat\nw2,i1,dog\n"
    (tmp_path / "a.csv.zst").write_bytes(pa.compress(text, codec="zstd", asbytes=True))
    assert read_answer_columns([str(tmp_path / "a.csv.zst")]).answers.label.to_pylist() == [
        "cat",
        "dog",
    ]
    (tmp_path / "b.csv.zst").write_bytes(pa.compress(text, codec="zstd", asbytes=True)[:-6])
    with pytest.raises(InputError, match="damaged zstd"):
        read_answer_columns([str(tmp_path / "b.csv.zst")])
