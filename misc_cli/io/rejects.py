"""Rows that were set aside, as a table: --rejects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from misc_cli.io.results import Rejects


def reject_columns(rejects: Sequence[Rejects]) -> dict[str, Any]:
    """File, line and reason of every row that was set aside, by file and line."""
    found = sorted(
        (group.file, line, group.reason)
        for group in rejects
        for line in group.lines([int(row) for row in group.rows])
    )
    files, numbers, reasons = zip(*found, strict=True) if found else ((), (), ())
    return {
        "file": pa.array(files, pa.string()),
        "line": pa.array(numbers, pa.int64()),
        "reason": pa.array(reasons, pa.string()),
    }
