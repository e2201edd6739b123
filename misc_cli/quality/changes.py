"""Compare the labels and workers of two runs: items new, gone or flipped, workers who changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.data.encode import distinct, trimmed
from misc_cli.data.types import Floats, LabelTable, Names, WorkerTable
from misc_cli.quality.evaluation import wilson

# The columns of a file of changes; what does not apply to a row is empty.
TEXTS = ("change", "item", "worker", "old_label", "new_label")
NUMBERS = ("old_confidence", "new_confidence", "old_accuracy", "new_accuracy")
SCHEMA = pa.schema(
    [*((name, pa.string()) for name in TEXTS), *((name, pa.float64()) for name in NUMBERS)]
)


@dataclass(frozen=True)
class ItemChanges:
    """Items that differ between two label files, each group sorted by name.

    `flipped` holds the old labels of the flipped items, `flipped_to` the new ones.
    """

    n_old: int
    n_new: int
    n_both: int
    new: LabelTable
    gone: LabelTable
    flipped: LabelTable
    flipped_to: LabelTable

    @property
    def flips(self) -> float:
        """Return the share of the items in both files whose label differs, in %."""
        return 100.0 * len(self.flipped.items) / max(self.n_both, 1)


@dataclass(frozen=True)
class WorkerChanges:
    """Workers in both tables whose new interval of accuracy does not overlap the old one."""

    n_both: int
    n_new: int
    n_gone: int
    workers: Names
    old: Floats
    new: Floats

    @property
    def fell(self) -> npt.NDArray[np.bool_]:
        return self.new < self.old

    @property
    def drops(self) -> float:
        """Return the share of workers in both tables whose accuracy fell, in %."""
        return 100.0 * float(self.fell.sum()) / max(self.n_both, 1)


@dataclass(frozen=True)
class Changes:
    """Changes of items and, where both runs have a worker table, of workers."""

    items: ItemChanges
    workers: WorkerChanges | None = None

    @property
    def figures(self) -> dict[str, float | int]:
        """Return the figures that --fail-if knows, by name."""
        figures: dict[str, float | int] = {
            "flips": round(self.items.flips, 6),
            "new-items": len(self.items.new.items),
            "gone-items": len(self.items.gone.items),
        }
        if self.workers is not None:
            figures["worker-drop"] = round(self.workers.drops, 6)
        return figures

    def to_json(self) -> dict[str, Any]:
        """Return counts; the rows are in the file of changes."""
        items, workers = self.items, self.workers
        found: dict[str, Any] = {
            "items": {
                "old": items.n_old,
                "new": items.n_new,
                "both": items.n_both,
                "appeared": len(items.new.items),
                "gone": len(items.gone.items),
                "flipped": len(items.flipped.items),
                "flips_percent": round(items.flips, 6),
            },
            "workers": None,
        }
        if workers is not None:
            found["workers"] = {
                "both": workers.n_both,
                "appeared": workers.n_new,
                "gone": workers.n_gone,
                "fell": int(workers.fell.sum()),
                "rose": int((~workers.fell).sum()),
                "drop_percent": round(workers.drops, 6),
            }
        return found


def compare(
    old: LabelTable,
    new: LabelTable,
    workers: tuple[WorkerTable, WorkerTable] | None = None,
) -> Changes:
    """Compare `new` with `old`; `workers` are the old worker table and the new one."""
    before, after = _sorted(old), _sorted(new)
    where = pc.fill_null(pc.index_in(after.items, before.items), -1).to_numpy()
    now = np.flatnonzero(where >= 0)
    then = where[now]
    labels = before.labels.take(pa.array(then)), after.labels.take(pa.array(now))
    flipped = pc.not_equal(*labels).to_numpy(zero_copy_only=False)
    gone = np.ones(len(before.items), dtype=bool)
    gone[then] = False
    items = ItemChanges(
        n_old=len(before.items),
        n_new=len(after.items),
        n_both=len(now),
        new=_rows(after, np.flatnonzero(where < 0)),
        gone=_rows(before, np.flatnonzero(gone)),
        flipped=_rows(before, then[flipped]),
        flipped_to=_rows(after, now[flipped]),
    )
    return Changes(items, None if workers is None else compare_workers(*workers))


def compare_workers(old: WorkerTable, new: WorkerTable) -> WorkerChanges:
    where = pc.index_in(new.workers, old.workers)
    both = pc.is_valid(where)
    at = where.filter(both).to_numpy(zero_copy_only=False).astype(np.intp)
    known = both.to_numpy(zero_copy_only=False)
    low_then, high_then = (bound[at] for bound in _interval(old))
    low_now, high_now = (bound[known] for bound in _interval(new))
    changed = (high_now < low_then) | (low_now > high_then)
    return WorkerChanges(
        n_both=int(known.sum()),
        n_new=int((~known).sum()),
        n_gone=len(old.workers) - int(known.sum()),
        workers=new.workers.filter(both).filter(pa.array(changed)),
        old=old.accuracy[at][changed],
        new=new.accuracy[known][changed],
    )


def _interval(table: WorkerTable) -> tuple[Floats, Floats]:
    """Return the table's 95 % interval of each accuracy; Wilson's if it has none."""
    if table.low is not None and table.high is not None:
        return table.low, table.high
    return wilson(table.accuracy, np.maximum(table.answers, 1.0))


def change_columns(changes: Changes) -> dict[str, Any]:
    """Return one row per change: items flipped, new and gone, then workers who fell and rose."""
    items, workers = changes.items, changes.workers
    groups: list[tuple[str, dict[str, Any]]] = [
        ("flipped", {**_side("old", items.flipped), **_side("new", items.flipped_to)}),
        ("new", _side("new", items.new)),
        ("gone", _side("old", items.gone)),
    ]
    if workers is not None:
        for name, mask in (("fell", workers.fell), ("rose", ~workers.fell)):
            accuracies = {"old_accuracy": workers.old[mask], "new_accuracy": workers.new[mask]}
            names = workers.workers.filter(pa.array(mask))
            groups.append((name, {"worker": names, **accuracies}))
    tables = [SCHEMA.empty_table()]
    for kind, columns in groups:
        n_rows = len(next(iter(columns.values())))
        tables.append(pa.table({"change": pa.repeat(kind, n_rows), **columns}))
    whole = pa.concat_tables(tables, promote_options="default").combine_chunks()
    return {
        name: whole[name].to_numpy() if name in NUMBERS else pa.array(whole[name].combine_chunks())
        for name in whole.column_names
    }


def _side(which: str, table: LabelTable) -> dict[str, Any]:
    sure = np.full(len(table.items), np.nan) if table.confidence is None else table.confidence
    return {"item": table.items, f"{which}_label": table.labels, f"{which}_confidence": sure}


def _sorted(table: LabelTable) -> LabelTable:
    """Return the table sorted by item, each item once; two labels of an item are an error."""
    plain = LabelTable(trimmed(table.items), trimmed(table.labels), table.confidence)
    if _is_sorted(plain.items) and not pc.any(pc.equal(plain.labels, "")).as_py():
        return plain  # as misc itself writes them
    _, rows = distinct(table.items, table.labels, table.name or "the labels")
    plain = _rows(plain, np.sort(rows))
    return _rows(plain, pc.array_sort_indices(plain.items).to_numpy())


def _is_sorted(names: Names) -> bool:
    """Return True if each name is greater than the one before it."""
    rising = pc.all(pc.less(names.slice(0, max(len(names) - 1, 0)), names.slice(1))).as_py()
    return rising is not False and not names.null_count


def _rows(table: LabelTable, at: npt.NDArray[np.intp]) -> LabelTable:
    sure = None if table.confidence is None else table.confidence[at]
    return LabelTable(table.items.take(pa.array(at)), table.labels.take(pa.array(at)), sure)
