"""Labels against the truth: align the two by item, then every figure `misc evaluate` prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.core.decide import tied_classes
from misc_cli.core.encode import distinct, order_names, trimmed
from misc_cli.core.types import Codes, KnownLabels, LabelTable, Names
from misc_cli.errors import InputError
from misc_cli.evaluate.metrics import (
    ClassScores,
    calibration_error,
    class_scores,
    confusion_counts,
    expected_error,
)

EXAMPLES = 5


@dataclass(frozen=True)
class Evaluation:
    """Error rates are shares of the items that have both a label and a truth.

    error              a tie costs its expected error where probabilities show it
    error_as_written   every label taken at its word
    confusion          (n_classes, n_classes) counts: [true, label]
    calibration_error  expected calibration error of the confidence, 10 bins; None without one
    unlabelled         items with truth and no label; `unjudged` the other way round
    """

    n_items: int
    error: float
    error_as_written: float
    n_ties: int
    classes: tuple[str, ...]
    confusion: npt.NDArray[np.int64]
    scores: ClassScores
    calibration_error: float | None
    unlabelled: tuple[str, ...]
    unjudged: tuple[str, ...]

    @property
    def accuracy(self) -> float:
        return 1.0 - self.error

    def to_json(self) -> dict[str, Any]:
        """Plain numbers and names; what cannot be said (0/0) is null."""
        rows = zip(
            self.classes,
            self.confusion.sum(axis=1).tolist(),
            self.confusion.sum(axis=0).tolist(),
            *(column.tolist() for column in vars(self.scores).values()),
            strict=True,
        )
        keys = ("class", "items", "labels", *vars(self.scores))
        return {
            "items": self.n_items,
            "error": self.error,
            "accuracy": self.accuracy,
            "error_as_written": self.error_as_written,
            "ties": self.n_ties,
            "calibration_error": self.calibration_error,
            "classes": [
                {key: _finite(value) for key, value in zip(keys, row, strict=True)} for row in rows
            ],
            "confusion": self.confusion.tolist(),
            "items_without_label": len(self.unlabelled),
            "items_without_truth": len(self.unjudged),
            "examples_without_label": list(self.unlabelled[:EXAMPLES]),
            "examples_without_truth": list(self.unjudged[:EXAMPLES]),
        }


def evaluate(table: LabelTable, known: KnownLabels) -> Evaluation:
    """Compare by item name; both sides may have items that the other lacks, or an empty label."""
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
    classes = _classes(table.classes, labels, truths)
    predicted = _codes(labels.take(position.filter(shared)), classes)
    truth = _codes(truths.filter(shared), classes)
    confusion = confusion_counts(truth, predicted, len(classes))
    wrong = float((predicted != truth).mean())
    error, n_ties = wrong, 0
    if table.probabilities is not None:
        # classes nobody has a probability for come last: they are never right
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
        scores=class_scores(confusion),
        calibration_error=calibration,
        unlabelled=tuple(true_items.filter(pc.invert(shared)).to_pylist()),
        unjudged=tuple(items.filter(pc.invert(pc.is_in(items, true_items))).to_pylist()),
    )


def _classes(known: tuple[str, ...], labels: Names, truth: Names) -> tuple[str, ...]:
    """The probabilities' classes in their order, then any others; else the usual class order."""
    named = {*pc.unique(labels).to_pylist(), *pc.unique(truth).to_pylist()}
    return (*known, *order_names(named.difference(known))[0])


def _codes(names: Names, classes: tuple[str, ...]) -> Codes:
    codes: Codes = pc.index_in(names, pa.array(classes, pa.string())).to_numpy().astype(np.int32)
    return codes


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value
