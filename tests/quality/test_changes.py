"""What `misc diff` and --changes say of two runs, checked by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from misc_cli.data.types import LabelTable
from misc_cli.quality.evaluation import compare


def labels(rows: dict[str, tuple[str, float]]) -> LabelTable:
    return LabelTable(
        pa.array(list(rows), pa.string()),
        pa.array([label for label, _ in rows.values()], pa.string()),
        np.array([sure for _, sure in rows.values()]),
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


def test_nothing_in_common_is_no_flip() -> None:
    assert compare(labels({"a": ("x", 0.5)}), labels({"b": ("y", 0.5)})).figures["flips"] == 0.0
