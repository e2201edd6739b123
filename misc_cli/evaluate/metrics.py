"""How good posteriors are, given the truth for some items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from misc_cli.core.decide import tied_classes
from misc_cli.core.types import Codes, Floats

Z = 1.96  # 95 cases of 100


def expected_error(posteriors: Floats, truth: Codes) -> float:
    """Share of wrong labels among items with truth (truth ≥ 0); a tie costs its expected error.

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
    """Expected calibration error: |mean confidence − accuracy| over equal-width bins, weighted."""
    which = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    size = np.bincount(which, minlength=bins)
    gap = np.abs(
        np.bincount(which, confidence, minlength=bins)
        - np.bincount(which, correct.astype(np.float64), minlength=bins)
    )
    return float(gap.sum() / max(size.sum(), 1))


def wilson(share: Floats, n_answers: Floats) -> tuple[Floats, Floats]:
    """Wilson's interval of a share of so many answers: where it lies in 95 cases of 100."""
    width = 1.0 + Z**2 / n_answers
    centre = (share + Z**2 / (2.0 * n_answers)) / width
    half = Z * np.sqrt(share * (1.0 - share) / n_answers + Z**2 / (4.0 * n_answers**2)) / width
    return centre - half, centre + half


def wrong_among_least_sure(posteriors: Floats, truth: Codes, share: float = 0.2) -> float:
    """Share of the wrong labels that are among the least sure `share` of the items with truth.

    Items that are equally sure count by expectation, as do labels that tie. NaN if none is wrong.
    """
    known = truth >= 0
    rows, right = posteriors[known], truth[known]
    tied = tied_classes(rows)
    inside = np.flatnonzero(right < rows.shape[1])
    wrong = np.ones(len(rows))
    wrong[inside] -= tied[inside, right[inside]] / tied[inside].sum(axis=1)
    _, which, sizes = np.unique(rows.max(axis=1).round(9), return_inverse=True, return_counts=True)
    before = np.cumsum(sizes) - sizes
    taken = np.clip((share * len(rows) - before) / sizes, 0.0, 1.0)
    total = float(wrong.sum())
    return float((wrong * taken[which]).sum()) / total if total > 0 else float("nan")


def confusion_counts(truth: Codes, predicted: Codes, n_classes: int) -> npt.NDArray[np.int64]:
    """How many items of each true class got each label, (n_classes, n_classes): [true, label]."""
    cells = truth.astype(np.int64) * n_classes + predicted
    counts = np.bincount(cells, minlength=n_classes * n_classes).reshape(n_classes, n_classes)
    return counts.astype(np.int64)


@dataclass(frozen=True)
class ClassScores:
    """Per class, (n_classes,) each; NaN where a class was never given (or never true)."""

    precision: Floats
    recall: Floats
    f1: Floats


def class_scores(confusion: npt.NDArray[np.int64]) -> ClassScores:
    """Precision, recall and F1 of every class from counts [true, label]."""
    hits = np.diagonal(confusion).astype(np.float64)
    given, true = confusion.sum(axis=0), confusion.sum(axis=1)
    with np.errstate(invalid="ignore"):  # 0/0 is NaN: there is nothing to be right or wrong about
        return ClassScores(hits / given, hits / true, 2 * hits / (given + true))
