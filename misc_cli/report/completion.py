"""What completion did: the labels it changed, and maps of workers and items.

A map shows the two directions in which the factors of the completion differ most (principal
components). Workers whose points lie together answer alike, item by item; items whose points lie
together were answered alike.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from misc_cli.core.decide import decide
from misc_cli.core.types import Floats
from misc_cli.run.outcome import Outcome


def completion_frames(outcome: Outcome) -> dict[str, pd.DataFrame]:
    """changed, worker_map and item_map; none of them for a run without completion."""
    mixture = outcome.mixture
    if mixture is None or mixture.completion is None:
        return {}
    labels, decision = outcome.labels, outcome.decision
    classes = np.array(labels.classes.to_pylist(), dtype=object)
    before = decide(mixture.initial.posteriors).label
    items = pd.DataFrame(
        {
            "item": labels.items.to_pandas(),
            "label": classes[decision.label],
            "confidence": decision.confidence,
        }
    )
    changed = before != decision.label
    factor = getattr(mixture.completion, "items", None)  # lrtc has no factors: then its slice
    x, y = plane(mixture.completion.slice if factor is None else factor)
    found = {
        "changed": items.assign(before=classes[before])[changed],
        "item_map": items.assign(x=x, y=y),
    }
    directions = mixture.completion.directions
    if directions is not None:
        rows = directions[:-1]  # without the slice's
        x, y = plane(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300))
        own = outcome.aggregation
        accuracy = np.einsum("c,wcc->w", own.class_prior, own.confusions)
        found["worker_map"] = pd.DataFrame(
            {"worker": labels.workers.to_pandas(), "x": x, "y": y, "accuracy": accuracy}
        )
    return found


def plane(rows: Floats) -> tuple[Floats, Floats]:
    """The first two principal components of these rows, (n_rows,) each; zeros where there is one.

    Signs are fixed, so that a map does not turn over from run to run.
    """
    centred = rows - rows.mean(axis=0)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    best = vectors[:, ::-1][:, :2]
    best = best * np.where(best[np.abs(best).argmax(axis=0), range(best.shape[1])] < 0, -1.0, 1.0)
    flat = centred @ best
    return flat[:, 0], flat[:, 1] if flat.shape[1] > 1 else np.zeros(len(flat))
