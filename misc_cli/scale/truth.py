"""How wrong an engine's labels are by known ones, which the client has: `run/figures.py` there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.data.encode import distinct, trimmed, warn_of_outside
from misc_cli.data.holdout import Hashes, name_hashes
from misc_cli.data.types import Codes, KnownLabels, Names
from misc_cli.engines.protocol import POSTERIORS, Array, Block, Engine, RowArrays, Summed
from misc_cli.quality.evaluation import expected_error
from misc_cli.quality.figures import error_figures
from misc_cli.run.pipeline import warn_of_no_truth
from misc_cli.run.result import Figure


@dataclass
class Wrong(Summed):
    """wrong  expected, among the items whose class is known; outside  places of the known labels
    that are no class of the answers."""

    n_known: int
    wrong: float
    outside: list[Array]


@dataclass(frozen=True)
class Compare:
    """Labels with known ones.

    names, classes  (n_known,) each; the class is n_classes where no worker gave it
    order           (n_known,) sorts them by the hashes of the names
    hashes          (n_known,) in that order

    A block's items are looked up by their hashes, so that no block has to go through all names.
    """

    names: Names
    classes: Codes
    order: Array
    hashes: Hashes

    writes: ClassVar[tuple[str, ...]] = ()

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, Wrong]:
        posteriors, items = np.asarray(rows[POSTERIORS]), block.items
        n_classes = posteriors.shape[1]
        sought = name_hashes(items)
        near = np.minimum(np.searchsorted(self.hashes, sought), len(self.hashes) - 1)
        here = np.flatnonzero(self.hashes[near] == sought)
        at = self.order[near[here]]
        same = pc.equal(self.names.take(pa.array(at)), items.take(pa.array(here)))
        chosen = same.to_numpy(zero_copy_only=False)
        here, at = here[chosen], at[chosen]
        if len(at) == 0:
            return {}, Wrong(0, 0.0, [])
        classes = self.classes[at]
        wrong = len(at) * expected_error(posteriors[here], classes)
        return {}, Wrong(len(at), wrong, [at[classes == n_classes]])


def judged(engine: Engine, classes: Names, truth: KnownLabels) -> dict[str, Figure]:
    """The error, and of how many items; nothing where no item's truth is known."""
    which = truth.called("truth")
    names, first = distinct(truth.items, truth.labels, which)
    texts = trimmed(truth.labels).take(pa.array(first))
    codes = pc.fill_null(pc.index_in(texts, classes), len(classes)).to_numpy()
    hashes = name_hashes(names)
    order = np.argsort(hashes)
    found = Wrong(0, 0.0, [])
    if len(names):
        found = engine.sweep(Compare(names, codes, order, hashes[order]))
    if not found.n_known:
        warn_of_no_truth()
        return {}
    outside = np.concatenate(found.outside)
    if len(outside):
        at = int(outside.min())
        warn_of_outside(which, names[at].as_py(), texts[at].as_py(), len(outside))
    return error_figures(found.wrong / found.n_known, found.n_known)
