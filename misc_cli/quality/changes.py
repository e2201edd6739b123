"""Compare the labels and workers of two runs: items new, gone or flipped, workers who changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.data.encode import distinct, trimmed
from misc_cli.data.types import Floats, LabelTable, WorkerTable
from misc_cli.quality.evaluation import wilson

# The columns of a file of changes; what does not apply to a row is empty.
TEXTS = ("change", "item", "worker", "old_label", "new_label")
NUMBERS = ("old_confidence", "new_confidence", "old_accuracy", "new_accuracy")
SCHEMA = pa.schema(
    [*((name, pa.string()) for name in TEXTS), *((name, pa.float64()) for name in NUMBERS)]
)


@dataclass(frozen=True)
class Changes:
    """Changes of items and, where both runs have a worker table, of workers.

    rows    one per change, by SCHEMA: items flipped, new and gone, by name; workers fell and rose
    counts  of items and of workers (None without their tables), as JSON shows them
    """

    rows: pa.Table
    counts: Mapping[str, Any]

    @property
    def figures(self) -> dict[str, float | int]:
        """Return the figures that --fail-if knows, by name."""
        items, workers = self.counts["items"], self.counts["workers"]
        figures = {"flips": items["flips_percent"]}
        figures |= {"new-items": items["appeared"], "gone-items": items["gone"]}
        return figures if workers is None else {**figures, "worker-drop": workers["drop_percent"]}

    @property
    def columns(self) -> dict[str, Any]:
        """Return the rows as columns of a table to be written."""
        whole = {name: self.rows[name].combine_chunks() for name in SCHEMA.names}
        return {
            name: column.to_numpy(zero_copy_only=False) if name in NUMBERS else column
            for name, column in whole.items()
        }


def compare(
    old: LabelTable, new: LabelTable, workers: tuple[WorkerTable, WorkerTable] | None = None
) -> Changes:
    """Compare `new` with `old`; `workers` are the old worker table and the new one."""
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
    counts: dict[str, Any] = {
        "items": {
            "old": len(before),
            "new": len(after),
            "both": len(now),
            "appeared": sizes["new"],
            "gone": sizes["gone"],
            "flipped": sizes["flipped"],
            "flips_percent": round(100.0 * sizes["flipped"] / max(len(now), 1), 6),
        },
        "workers": None,
    }
    if workers is not None:
        own, counts["workers"] = _compare_workers(*workers)
        rows |= own
    tables = [
        pa.table({"change": pa.repeat(change, len(next(iter(columns.values())))), **columns})
        for change, columns in rows.items()
    ]
    whole = pa.concat_tables([SCHEMA.empty_table(), *tables], promote_options="default")
    return Changes(whole, counts)


def _compare_workers(
    old: WorkerTable, new: WorkerTable
) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Return rows of workers in both tables whose intervals of accuracy do not meet, and counts."""
    where = pc.index_in(new.workers, old.workers)
    known = pc.is_valid(where).to_numpy(zero_copy_only=False)
    at = where.drop_null().to_numpy()
    low_then, high_then = (bound[at] for bound in _interval(old))
    low_now, high_now = (bound[known] for bound in _interval(new))
    names, then, now = new.workers.filter(pa.array(known)), old.accuracy[at], new.accuracy[known]
    changed = {"fell": high_now < low_then, "rose": low_now > high_then}
    rows = {
        change: {
            "worker": names.filter(pa.array(mask)),
            "old_accuracy": then[mask],
            "new_accuracy": now[mask],
        }
        for change, mask in changed.items()
    }
    n_both, n_fell = len(at), int(changed["fell"].sum())
    counts = {
        "both": n_both,
        "appeared": len(known) - n_both,
        "gone": len(old.workers) - n_both,
        "fell": n_fell,
        "rose": int(changed["rose"].sum()),
        "drop_percent": round(100.0 * n_fell / max(n_both, 1), 6),
    }
    return rows, counts


def _interval(table: WorkerTable) -> tuple[Floats, Floats]:
    """Return the table's 95 % interval of each accuracy; Wilson's if it has none."""
    if table.low is not None and table.high is not None:
        return table.low, table.high
    return wilson(table.accuracy, np.maximum(table.answers, 1.0))


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
