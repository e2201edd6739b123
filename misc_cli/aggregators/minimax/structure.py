"""Two structures of the parameters of mmce: free (mmce-c) and ordinal (mmce-o).

A *segment* is a worker, an item or the crowd; it adds `logits[c, k]` to the log-odds of the answer
k if the truth is c. A *slot* is a (segment, class); logits by slot are (n_classes, n_slots).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from misc_cli.aggregators.minimax.newton import Derivatives, sum_by
from misc_cli.data.types import Floats

Index = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Slots:
    """The slots in use: segment and class of each, (n_slots,), among `n_segments` segments."""

    segments: Index
    classes: Index
    n_segments: int

    @classmethod
    def every(cls, n_segments: int, n_classes: int) -> Slots:
        segments = np.repeat(np.arange(n_segments), n_classes)
        return cls(segments, np.tile(np.arange(n_classes), n_segments), n_segments)


class Structure(Protocol):
    """The map from parameters of segments to logits. `owned` parameters are those of used slots."""

    @property
    def n_classes(self) -> int: ...
    def zeros(self, n_segments: int) -> Floats:
        """Return parameters whose logits are zero, (n_parameters, n_segments, ...)."""

    def owned(self, parameters: Floats, slots: Slots) -> Floats:
        """Return the parameters of these slots as independent problems, (d, n_problems)."""

    def stored(self, owned: Floats, slots: Slots) -> Floats:
        """Return the parameters of all segments; those of unused slots are zero, their optimum."""

    def logits(self, owned: Floats, slots: Slots) -> Floats:
        """Return the logits by slot, (n_classes, n_slots)."""

    def pull_back(self, by_slot: Derivatives, slots: Slots) -> Derivatives:
        """Return derivatives by owned parameters from derivatives by slot logits."""


@dataclass(frozen=True)
class Free:
    """mmce-c: one parameter per (class, answer); every slot is an independent problem.

    Parameters are (n_classes answers, n_segments, n_classes truths).
    """

    n_classes: int

    def zeros(self, n_segments: int) -> Floats:
        return np.zeros((self.n_classes, n_segments, self.n_classes))

    def owned(self, parameters: Floats, slots: Slots) -> Floats:
        return parameters[:, slots.segments, slots.classes]

    def stored(self, owned: Floats, slots: Slots) -> Floats:
        parameters = self.zeros(slots.n_segments)
        parameters[:, slots.segments, slots.classes] = owned
        return parameters

    def logits(self, owned: Floats, slots: Slots) -> Floats:
        return owned

    def pull_back(self, by_slot: Derivatives, slots: Slots) -> Derivatives:
        return by_slot


@dataclass(frozen=True)
class Ordinal:
    """mmce-o: two parameters per threshold s = 2..K, for truths from s on and for truths below s.

    Each moves the odds between answers from s on and answers below. The four indicator blocks of
    Zhou et al. 2014 come in pairs, [c ≥ s][k ≥ s] with [c ≥ s][k < s] and so on, whose sum does
    not depend on k: softmax ignores it and the penalty makes it 0. A pair (u, −u) is therefore one
    parameter √2·u with the same penalty, hence the 1/√2 below. The blocks of s = 1 are constant
    and vanish likewise.
    """

    n_classes: int

    @property
    def features(self) -> Floats:
        """(n_classes truths, 2 (K − 1) parameters, n_classes answers)."""
        rank = np.arange(self.n_classes)
        above = rank[None, :] >= np.arange(1, self.n_classes)[:, None]  # [s, rank]
        sign = np.where(above, 1.0, -1.0) / np.sqrt(2.0)
        upper = above.T[:, :, None] * sign
        lower = ~above.T[:, :, None] * -sign
        return np.concatenate([upper, lower], axis=1)

    def zeros(self, n_segments: int) -> Floats:
        return np.zeros((2 * (self.n_classes - 1), n_segments))

    def owned(self, parameters: Floats, slots: Slots) -> Floats:
        return parameters

    def stored(self, owned: Floats, slots: Slots) -> Floats:
        return owned

    def logits(self, owned: Floats, slots: Slots) -> Floats:
        logits = np.empty((self.n_classes, len(slots.classes)))
        for c, features in enumerate(self.features):
            here = np.flatnonzero(slots.classes == c)
            logits[:, here] = features.T @ owned[:, slots.segments[here]]
        return logits

    def pull_back(self, by_slot: Derivatives, slots: Slots) -> Derivatives:
        n_parameters, n_segments = 2 * (self.n_classes - 1), slots.n_segments
        value = sum_by(slots.segments, by_slot.value, n_segments)
        gradient = np.zeros((n_parameters, n_segments))
        curvature = np.zeros((n_parameters, n_parameters, n_segments))
        for c, features in enumerate(self.features):
            here = np.flatnonzero(slots.classes == c)  # at most one slot per segment
            segments = slots.segments[here]
            # for a given truth only K − 1 parameters matter: one per threshold
            acting = np.flatnonzero(features.any(axis=1))
            acts = features[acting]
            gradient[acting[:, None], segments] += acts @ by_slot.gradient[:, here]
            half = np.tensordot(acts, by_slot.curvature[:, :, here], axes=1)
            both = np.tensordot(acts, half.transpose(1, 0, 2), axes=1)
            curvature[acting[:, None, None], acting[:, None], segments] += both
        return Derivatives(value, gradient, curvature)
