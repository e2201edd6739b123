"""What `misc diff` and --changes say of two runs, checked by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from misc_cli.data.types import LabelTable, WorkerTable
from misc_cli.quality.changes import compare


def labels(rows: dict[str, tuple[str, float]]) -> LabelTable:
    return LabelTable(
        pa.array(list(rows), pa.string()),
        pa.array([label for label, _ in rows.values()], pa.string()),
        np.array([sure for _, sure in rows.values()]),
    )


def workers(rows: dict[str, tuple[int, float]]) -> WorkerTable:
    return WorkerTable(
        pa.array(list(rows), pa.string()),
        np.array([float(answers) for answers, _ in rows.values()]),
        np.array([accuracy for _, accuracy in rows.values()]),
    )


OLD = labels({"c": ("x", 0.9), "a": ("x", 0.6), "b": ("y", 0.8), "gone": ("y", 0.7)})
NEW = labels({"new": ("x", 0.5), "b": ("y", 0.9), "a": ("y", 0.7), "c": ("x", 0.9)})


def test_items_new_gone_and_flipped_with_both_confidences() -> None:
    found = compare(OLD, NEW)
    assert found.figures == {"flips": round(100 / 3, 6), "new-items": 1, "gone-items": 1}
    columns = found.columns
    assert columns["change"].to_pylist() == ["flipped", "new", "gone"]
    assert columns["item"].to_pylist() == ["a", "new", "gone"]
    assert columns["old_label"].to_pylist() == ["x", None, "y"]
    assert columns["new_label"].to_pylist() == ["y", "x", None]
    np.testing.assert_array_equal(columns["old_confidence"], [0.6, np.nan, 0.7])
    np.testing.assert_array_equal(columns["new_confidence"], [0.7, 0.5, np.nan])


def test_a_worker_fell_only_where_the_intervals_do_not_meet() -> None:
    old = workers({"sure": (1000, 0.9), "few": (5, 0.9), "same": (100, 0.8), "left": (10, 0.5)})
    new = workers({"sure": (1000, 0.8), "few": (5, 0.6), "same": (110, 0.8), "better": (9, 0.9)})
    found = compare(OLD, NEW, (old, new))
    assert [name for name in found.columns["worker"].to_pylist() if name] == ["sure"]
    counts = {"both": 3, "appeared": 1, "gone": 1, "fell": 1, "rose": 0}
    assert found.counts["workers"] == {**counts, "drop_percent": round(100 / 3, 6)}
    assert compare(OLD, NEW, (new, old)).figures["worker-drop"] == 0  # it rose


def test_nothing_in_common_is_no_flip() -> None:
    assert compare(labels({"a": ("x", 0.5)}), labels({"b": ("y", 0.5)})).figures["flips"] == 0.0
