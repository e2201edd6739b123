"""Figures of answers before any model: what `misc inspect` shows of a question."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from misc_cli.data.encode import encode
from misc_cli.data.types import Answers
from misc_cli.data.votes import votes_by_worker, votes_per_item
from misc_cli.quality.agreement import krippendorff_alpha, pairwise_agreement


def overview(answers: Answers, duplicates: str | None = None) -> dict[str, Any]:
    """Return counts, classes, answers per item and worker, agreement, one-label workers."""
    encoding = encode(answers, duplicates=duplicates or "last")
    labels = encoding.labels
    votes = labels.votes
    by_worker = votes_by_worker(votes)
    per_class = by_worker.sum(axis=0)
    per_worker = by_worker.sum(axis=1)
    monotone = (per_worker >= 5) & (by_worker.max(axis=1) == per_worker)
    names = labels.workers.to_pylist() if monotone.any() else []
    return {
        "answers": votes.n_votes,
        "workers": labels.n_workers,
        "items": labels.n_items,
        "classes": dict(zip(labels.classes.to_pylist(), map(int, per_class), strict=True)),
        "ordered": labels.ordered,
        "empty": encoding.n_empty,
        "repeats": encoding.n_repeats,
        "conflicts": encoding.n_conflicts,
        "answers_per_item": _spread(votes_per_item(votes)),
        "answers_per_worker": _spread(per_worker),
        "alpha": _finite(krippendorff_alpha(votes)),
        "agreement": _finite(pairwise_agreement(votes)),
        "one_label_workers": [names[at] for at in np.flatnonzero(monotone)] if names else [],
    }


def _spread(counts: Any) -> dict[str, float]:
    return {
        "least": int(counts.min()),
        "mean": round(float(counts.mean()), 2),
        "most": int(counts.max()),
    }


def _finite(value: float) -> float | None:
    return round(value, 4) if math.isfinite(value) else None
