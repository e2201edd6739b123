"""A NumPy matrix of labels, items × workers, as the three columns of a Parquet file in memory.

Weak-supervision tools (Snorkel's L_train, WRENCH) and peerannot keep labels like this: a negative
number, NaN or an empty string is "no answer". Items and workers are called by their index, from 0.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from misc_cli.errors import InputError


def matrix_as_parquet(name: str, data: bytes) -> Any:
    """One row per answer: item, worker, label, in the matrix's own order."""
    matrix = _load(name, data)
    if matrix.ndim != 2 or not matrix.size:
        shape = " × ".join(map(str, matrix.shape)) or "a single number"
        raise InputError(f"{name}: {shape}, where items × workers was expected; reshape it")
    item, worker = np.nonzero(_answered(name, matrix))
    label = matrix[item, worker]
    if label.dtype.kind == "f":
        if not np.all(label == np.round(label)):
            raise InputError(
                f"{name}: fractions such as {label[label != np.round(label)][0]:g}; labels are "
                "whole numbers or text, so these may be scores or probabilities"
            )
        label = label.astype(np.int64)
    table = pa.table({"item": item, "worker": worker, "label": pa.array(label)})
    buffer = pa.BufferOutputStream()
    parquet.write_table(table, buffer)
    return buffer.getvalue()


def _load(name: str, data: bytes) -> Any:
    try:
        return np.load(io.BytesIO(data), allow_pickle=False)
    except Exception as error:  # a damaged header ends in errors of many kinds
        reason = " ".join(str(error).split())
        raise InputError(
            f"{name}: not a whole .npy matrix of numbers or text ({reason}); save it again"
        ) from None


def _answered(name: str, matrix: Any) -> Any:
    kind = matrix.dtype.kind
    if kind in "iu":
        return matrix >= 0
    if kind == "f":
        return np.isfinite(matrix) & (matrix >= 0)
    if kind == "U":
        return matrix != ""
    raise InputError(f"{name}: a matrix of {matrix.dtype}; give one of whole numbers or of text")
