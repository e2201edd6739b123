"""Items that are settled: they keep their label until they get new answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.core.decide import decide
from misc_cli.core.types import Floats, Labels
from misc_cli.core.votes import votes_per_item
from misc_cli.run.fingerprints import Hashes, item_fingerprints
from misc_cli.run.left import listed, unlisted


def item_table(labels: Labels, posteriors: Floats) -> Any:
    """What the next night needs to know of items: answers, their fingerprint and posteriors."""
    return pa.table(
        {
            "item": labels.items,
            "answers": votes_per_item(labels.votes).astype(np.int32),
            "fingerprint": item_fingerprints(labels),
            "posteriors": listed(posteriors),
        }
    )


def with_settled(
    labels: Labels, posteriors: Floats, items: Any, limits: tuple[float, float]
) -> tuple[Floats, int]:
    """The posteriors with those of settled items as they were, and how many those are.

    `items` is the last night's `item_table`; `limits` the confidence and the answers from which an
    item is settled.
    """
    earlier = unlisted(items["posteriors"], [labels.n_classes])
    sure, many = limits
    settled = decide(earlier).confidence >= sure
    settled &= items["answers"].to_numpy() >= many
    where = pc.fill_null(pc.index_in(items["item"], labels.items), -1)
    where = where.combine_chunks().to_numpy(zero_copy_only=False)
    settled &= where >= 0
    then: Hashes = items["fingerprint"].to_numpy()
    settled[settled] &= item_fingerprints(labels)[where[settled]] == then[settled]
    kept = posteriors.copy()
    kept[where[settled]] = earlier[settled]
    return kept, int(settled.sum())
