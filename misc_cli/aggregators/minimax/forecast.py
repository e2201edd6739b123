"""What a fitted minimax entropy model says of workers, items and answers not yet given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from misc_cli.aggregators.minimax.steps import ITEMS
from misc_cli.aggregators.minimax.structure import Slots, Structure
from misc_cli.core.engines.protocol import POSTERIORS, Block, RowArrays
from misc_cli.core.types import Codes, Floats


@dataclass(frozen=True)
class Forecast:
    """P(w answers k on i) = Σ_c Q_i[c] · softmax(α_w[c] + β_i[c])[k]."""

    structure: Structure
    posteriors: Floats
    workers: Floats
    items: Floats

    def __call__(self, workers: Codes, items: Codes) -> Floats:
        n_classes = self.structure.n_classes
        forecast = np.zeros((len(items), n_classes))
        for c in range(n_classes):
            logits = _logits(self.structure, self.workers, workers, c)
            logits += _logits(self.structure, self.items, items, c)
            forecast += self.posteriors[items, c, None] * _softmax(logits).T
        return forecast


@dataclass(frozen=True)
class Difficulty:
    """The chance that the mean worker answers an item wrong, (n_items,): rows for item details.

    crowd  the mean worker's parameters, as those of one worker
    """

    structure: Structure
    crowd: Floats

    needs: ClassVar[tuple[str, ...]] = (POSTERIORS, ITEMS)
    writes: ClassVar[tuple[str, ...]] = ("difficulty",)

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, int]:
        posteriors, items = np.asarray(rows[POSTERIORS]), np.moveaxis(rows[ITEMS], 0, 1)
        n_items, n_classes = posteriors.shape
        everywhere = np.arange(n_items, dtype=np.int32)
        right = np.zeros(n_items)
        for c in range(n_classes):
            logits = _logits(self.structure, items, everywhere, c)
            logits += _logits(self.structure, self.crowd, np.zeros(1, dtype=np.int32), c)
            right += posteriors[:, c] * _softmax(logits)[c]
        return {"difficulty": 1.0 - right}, 0


def confusions_of(structure: Structure, workers: Floats) -> Floats:
    """softmax(α_w): how each worker answers an item of no difficulty of its own."""
    every = np.arange(workers.shape[1], dtype=np.int32)
    rows = [_softmax(_logits(structure, workers, every, c)).T for c in range(structure.n_classes)]
    return np.stack(rows, axis=1)


def _logits(structure: Structure, parameters: Floats, segments: Codes, c: int) -> Floats:
    """(n_classes, n) logits of these segments where the truth is c."""
    slots = Slots(segments.astype(np.int64), np.full(len(segments), c), parameters.shape[1])
    return structure.logits(structure.owned(parameters, slots), slots)


def _softmax(logits: Floats) -> Floats:
    weights = np.exp(logits - logits.max(axis=0))
    shares: Floats = weights / weights.sum(axis=0)
    return shares
