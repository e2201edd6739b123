"""Random starts of ebcc: vote fractions, split among the subtypes.

A restart draws a table of splits, and the votes on an item choose one of them. So a start does not
depend on the order or the names of items: it is the same on every engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from misc_cli.aggregators.confusion_kernels import Sums, VoteFractions
from misc_cli.aggregators.ebcc.kernels import Priors, Restart, SubtypeSums, rows_of
from misc_cli.data.holdout import mixed, sums_between
from misc_cli.data.types import Floats
from misc_cli.engines.protocol import POSTERIORS, Block, Engine, FusedKernels, RowArrays

# Number of splits that a restart draws: many, so that items rarely share one, but not many more
# than items; with many classes fewer, so that the table stays small.
MOST_SPLITS, LEAST_SPLITS = 4096, 64
MOST_NUMBERS = 1 << 20


# Rows: vote fractions, (n_block_items, n_classes), and a hash of the votes, (n_block_items,).
FRACTIONS, KEYS = "fractions", "keys"


@dataclass(frozen=True)
class FractionsAndKeys:
    """Write vote fractions, also as the first posteriors, and the keys of items."""

    needs: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[tuple[str, ...]] = (POSTERIORS, FRACTIONS, KEYS)

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, Sums]:
        fractions, sums = VoteFractions()(block, rows)
        matrix = block.matrix
        keys = sums_between(mixed(matrix.indices.astype(np.uint64) + np.uint64(1)), matrix.indptr)
        return {**fractions, FRACTIONS: fractions[POSTERIORS], KEYS: keys}, sums


@dataclass(frozen=True)
class SplitFractions:
    """Split the vote fractions among subtypes: q(z, g) of a restart before its first sweep.

    splits  (n_splits, n_classes, n_subtypes): Dirichlet(1) draws for each class
    """

    number: int
    splits: Floats

    needs: ClassVar[tuple[str, ...]] = (FRACTIONS, KEYS)

    @property
    def writes(self) -> tuple[str, ...]:
        return (rows_of(self.number),)

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, SubtypeSums]:
        fractions = rows[FRACTIONS]
        # items with the same votes share a split, a different one in every restart
        places = mixed(rows[KEYS] + np.uint64(self.number)) % np.uint64(len(self.splits))
        joint = self.splits[places.astype(np.intp)]
        joint *= fractions[:, :, None]
        flat = joint.reshape(len(fractions), -1)
        sums = SubtypeSums(block.matrix.T @ flat, flat.sum(axis=0))
        return {rows_of(self.number): fractions}, sums


def initial_restarts(
    engine: Engine, priors: Priors, seed: int, numbers: Sequence[int]
) -> list[Restart]:
    """Return these restarts before their first sweep; each draws from its own random stream."""
    n_classes, n_subtypes = engine.n_classes, priors.subtypes
    most = max(LEAST_SPLITS, MOST_NUMBERS // (n_classes * n_subtypes))
    n_splits = min(MOST_SPLITS, 2 * engine.n_items, most)
    kernels = []
    for number in numbers:
        # normalised exponentials are Dirichlet(1)
        splits = np.random.default_rng([seed, number]).standard_exponential(
            (n_splits, n_classes, n_subtypes)
        )
        splits /= splits.sum(axis=2, keepdims=True)
        kernels.append(SplitFractions(number, splits))
    classes = np.repeat(np.arange(n_classes), n_subtypes)
    found = engine.sweep(FusedKernels(tuple(kernels)))
    return [
        Restart(
            number,
            classes,
            sums.subtype_sizes,
            sums.counts.reshape(engine.n_workers, n_classes, len(classes)),
        )
        for number, sums in zip(numbers, found.each, strict=True)
    ]
