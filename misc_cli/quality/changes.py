"""Compare the labels of two runs: items new, gone or flipped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.data.encode import distinct, trimmed
from misc_cli.data.types import LabelTable

# The columns of a file of changes; what does not apply to a row is empty.
TEXTS = ("change", "item", "old_label", "new_label")
NUMBERS = ("old_confidence", "new_confidence")
SCHEMA = pa.schema(
    [*((name, pa.string()) for name in TEXTS), *((name, pa.float64()) for name in NUMBERS)]
)


@dataclass(frozen=True)
class Changes:
    """Changes of items.

    rows    one per change, by SCHEMA: items flipped, new and gone, by name
    counts  of items, as JSON shows them
    """

    rows: pa.Table
    counts: Mapping[str, Any]

    @property
    def figures(self) -> dict[str, float | int]:
        """Return the figures that --fail-if knows, by name."""
        counts = self.counts["items"]
        figures = {"flips": "flips_percent", "new-items": "appeared", "gone-items": "gone"}
        return {figure: counts[name] for figure, name in figures.items()}

    @property
    def columns(self) -> dict[str, Any]:
        """Return the rows as columns of a table to be written."""
        whole = {name: self.rows[name].combine_chunks() for name in SCHEMA.names}
        return {
            name: column.to_numpy(zero_copy_only=False) if name in NUMBERS else column
            for name, column in whole.items()
        }


def compare(old: LabelTable, new: LabelTable) -> Changes:
    """Compare `new` with `old`."""
    before, after = _sorted(old), _sorted(new)
    where = pc.index_in(after["item"], before["item"])
    then, now = before.take(where.drop_null()), after.filter(pc.is_valid(where))
    flipped = pc.not_equal(then["label"], now["label"])
    left = pc.invert(pc.is_in(before["item"], after["item"]))
    rows = {
        "flipped": {**_side("old", then.filter(flipped)), **_side("new", now.filter(flipped))},
        "new": _side("new", after.filter(pc.is_null(where))),
        "gone": _side("old", before.filter(left)),
    }
    sizes = {change: len(columns["item"]) for change, columns in rows.items()}
    counts = {
        "old": len(before),
        "new": len(after),
        "both": len(now),
        "appeared": sizes["new"],
        "gone": sizes["gone"],
        "flipped": sizes["flipped"],
        "flips_percent": round(100.0 * sizes["flipped"] / max(len(now), 1), 6),
    }
    tables = [
        pa.table({"change": pa.repeat(change, sizes[change]), **columns})
        for change, columns in rows.items()
    ]
    whole = pa.concat_tables([SCHEMA.empty_table(), *tables], promote_options="default")
    return Changes(whole, {"items": counts})


def _side(which: str, table: pa.Table) -> dict[str, Any]:
    columns = {f"{which}_{name}": table[name] for name in ("label", "confidence")}
    return {"item": table["item"], **columns}


def _sorted(table: LabelTable) -> pa.Table:
    """Return item, label, confidence by item, each item once; two labels of one are an error."""
    items, labels = trimmed(table.items), trimmed(table.labels)
    sure = np.full(len(items), np.nan) if table.confidence is None else table.confidence
    plain = pa.table({"item": items, "label": labels, "confidence": sure})
    rising = pc.all(pc.less(items.slice(0, max(len(items) - 1, 0)), items.slice(1))).as_py()
    if rising is not False and not items.null_count and not pc.any(pc.equal(labels, "")).as_py():
        return plain.combine_chunks()  # as misc itself writes them
    _, rows = distinct(table.items, table.labels, table.name or "the labels")
    return plain.take(rows).sort_by("item").combine_chunks()
