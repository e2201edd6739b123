"""Compare labels with the truth and with older labels.

Error, calibration, confusion matrix, precision and recall; items new, gone or flipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.data.encode import distinct, order_names, trimmed
from misc_cli.data.posteriors import tied_classes
from misc_cli.data.types import Codes, Floats, KnownLabels, LabelTable
from misc_cli.errors import InputError

Z = 1.96  # of a 95 % interval
EXAMPLES = 5
# The columns of a file of changes; what does not apply to a row is empty.
TEXTS = ("change", "item", "old_label", "new_label")
NUMBERS = ("old_confidence", "new_confidence")
SCHEMA = pa.schema(
    [*((name, pa.string()) for name in TEXTS), *((name, pa.float64()) for name in NUMBERS)]
)


def expected_error(posteriors: Floats, truth: Codes) -> float:
    """Return the share of wrong labels among items with truth; a tie costs its expected error.

    posteriors (n_items, n_classes), truth (n_items,) class codes, -1 where unknown. A truth outside
    the known classes is coded n_classes: always wrong.
    """
    known = truth >= 0
    rows, right = posteriors[known], truth[known]
    if len(rows) == 0:
        return float("nan")
    tied = tied_classes(rows)
    inside = right < rows.shape[1]
    hit = np.zeros(len(rows), dtype=bool)
    hit[inside] = tied[np.flatnonzero(inside), right[inside]]
    return float(1.0 - (hit / tied.sum(axis=1)).mean())


def calibration_error(confidence: Floats, correct: npt.NDArray[np.bool_], bins: int = 10) -> float:
    """Return the expected calibration error: |mean confidence − accuracy|, weighted over bins."""
    which = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    stated, right = (np.bincount(which, of, bins) for of in (confidence, correct.astype(float)))
    return float(np.abs(stated - right).sum() / max(len(which), 1))


def wilson(share: Floats, n_answers: Floats) -> tuple[Floats, Floats]:
    """Return Wilson's 95 % interval of a share of `n_answers` answers."""
    width = 1.0 + Z**2 / n_answers
    centre = (share + Z**2 / (2.0 * n_answers)) / width
    half = Z * np.sqrt(share * (1.0 - share) / n_answers + Z**2 / (4.0 * n_answers**2)) / width
    return centre - half, centre + half


@dataclass(frozen=True)
class Evaluation:
    """Figures of labels against the truth, over the items that have both.

    error              share of wrong labels; a visible tie costs its expected error
    error_as_written   share of wrong labels as they are written
    confusion          (n_classes, n_classes) number of items: [true, label]
    calibration_error  expected calibration error of the confidence, 10 bins; None without one
    unlabelled         items with truth and no label; `unjudged`: with a label and no truth
    """

    n_items: int
    error: float
    error_as_written: float
    n_ties: int
    classes: tuple[str, ...]
    confusion: npt.NDArray[np.int64]
    calibration_error: float | None
    unlabelled: tuple[str, ...]
    unjudged: tuple[str, ...]

    @property
    def scores(self) -> dict[str, Floats]:
        """Return precision, recall and F1 of each class; NaN where it was never given or true."""
        hits = np.diagonal(self.confusion).astype(np.float64)
        given, true = self.confusion.sum(axis=0), self.confusion.sum(axis=1)
        with np.errstate(invalid="ignore"):  # 0/0 is NaN
            return {
                "precision": hits / given,
                "recall": hits / true,
                "f1": 2 * hits / (given + true),
            }

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers and names; an undefined number (0/0) is None."""
        items, labels = self.confusion.sum(axis=1), self.confusion.sum(axis=0)
        columns = {"class": self.classes, "items": items.tolist(), "labels": labels.tolist()}
        for name, score in self.scores.items():
            columns[name] = [value if value == value else None for value in score.tolist()]
        return {
            "items": self.n_items,
            "error": self.error,
            "accuracy": 1.0 - self.error,
            "error_as_written": self.error_as_written,
            "ties": self.n_ties,
            "calibration_error": self.calibration_error,
            "classes": [
                dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
            ],
            "confusion": self.confusion.tolist(),
            "items_without_label": len(self.unlabelled),
            "items_without_truth": len(self.unjudged),
            "examples_without_label": list(self.unlabelled[:EXAMPLES]),
            "examples_without_truth": list(self.unjudged[:EXAMPLES]),
        }


def evaluate(table: LabelTable, known: KnownLabels) -> Evaluation:
    """Compare by item name; each side may lack items of the other, or have empty labels."""
    which, which_truth = table.name or "the labels", known.name or "the truth"
    items, rows = distinct(table.items, table.labels, which)
    true_items, true_rows = distinct(known.items, known.labels, which_truth)
    for names, name in ((items, which), (true_items, which_truth)):
        if not len(names):
            raise InputError(f"{name}: every label is empty; give a file that has some")
    position = pc.index_in(true_items, items)
    shared = pc.is_valid(position)
    if not pc.any(shared).as_py():
        raise InputError(
            f"no item is in both files (labels have {items[0].as_py()!r}, "
            f"the truth has {true_items[0].as_py()!r}); are these the same items?"
        )
    chosen = rows[position.filter(shared).to_numpy()]
    labels = trimmed(table.labels).take(pa.array(rows))
    truths = trimmed(known.labels).take(pa.array(true_rows))
    named = {*pc.unique(labels).to_pylist(), *pc.unique(truths).to_pylist()}
    classes = (*table.classes, *order_names(named.difference(table.classes))[0])
    predicted, truth = (
        pc.index_in(own, pa.array(classes, pa.string())).to_numpy().astype(np.int32)
        for own in (labels.take(position.filter(shared)), truths.filter(shared))
    )
    confusion = np.zeros((len(classes), len(classes)), dtype=np.int64)
    np.add.at(confusion, (truth, predicted), 1)
    wrong = float((predicted != truth).mean())
    error, n_ties = wrong, 0
    if table.probabilities is not None:
        # classes without a probability come last: they are never right
        posteriors = table.probabilities[chosen]
        error = expected_error(posteriors, np.minimum(truth, posteriors.shape[1]))
        n_ties = int((tied_classes(posteriors).sum(axis=1) > 1).sum())
    calibration = None
    if table.confidence is not None:
        calibration = calibration_error(table.confidence[chosen], predicted == truth)
    return Evaluation(
        n_items=len(truth),
        error=error,
        error_as_written=wrong,
        n_ties=n_ties,
        classes=classes,
        confusion=confusion,
        calibration_error=calibration,
        unlabelled=tuple(true_items.filter(pc.invert(shared)).to_pylist()),
        unjudged=tuple(items.filter(pc.invert(pc.is_in(items, true_items))).to_pylist()),
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
