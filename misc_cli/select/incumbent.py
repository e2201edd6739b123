"""An earlier choice stays unless the new one is clearly better on the same hidden answers.

Which of two methods that are about equally good forecasts a draw of hidden answers better is luck.
A choice that follows it changes labels from night to night and improves none of them. So the new
choice must forecast hidden answers better by as many standard errors as completion must
(choose.SIGNIFICANT), paired by answer and clustered by worker; and among pure methods, where with
many answers anything is significant, the earlier one must also have less of the lead over the null
than a method that counts fully (choose.FULL_SHARE). Pure methods are compared by their log scores,
as they were when they were chosen, completed ones by the labels they would write. Those labels are
no judge of pure methods: where workers are bad, a majority vote that is wrong twice as often as
ds-em scores as well, for it goes with the workers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from misc_cli.core.types import Codes, Floats
from misc_cli.select.choose import FULL_SHARE, SIGNIFICANT, lead
from misc_cli.select.leaderboard import Score


@dataclass(frozen=True)
class Staying:
    """What stays of an earlier choice, each with its weight, and how far the new one is ahead."""

    scores: list[Score]
    shares: list[float]
    ahead: float


def staying(
    scores: Sequence[Score],
    incumbent: Mapping[str, float],
    of_score: Callable[[Score], Floats],
    rival: Floats,
    workers: Codes,
    null: Floats | None = None,
) -> Staying | None:
    """The incumbents among these scores, if the rival is not clearly better; else None.

    `incumbent` has weights by name. `of_score` gives the scores by hidden answer to compare by,
    `rival` (n_hidden,) are those of the new choice, `null` those of the null forecaster if shares
    of the lead over it count. Methods that are no longer tried (the data outgrew them) are gone,
    and the others share their weight.
    """
    found = [score for score in scores if score.candidate.name in incumbent]
    if not found:
        return None
    shares = [incumbent[score.candidate.name] for score in found]
    shares = [share / sum(shares) for share in shares]
    parts = [of_score(score) for score in found]
    count = min(map(len, parts))  # completion may be tried on the first folds only
    earlier = np.average([part[:count] for part in parts], axis=0, weights=shares)
    rival, workers = rival[:count], workers[:count]
    ahead = lead(rival, earlier, workers)
    near = null is not None and _share(earlier, rival, null[:count]) >= FULL_SHARE
    return None if ahead >= SIGNIFICANT and not near else Staying(found, shares, ahead)


def _share(earlier: Floats, rival: Floats, null: Floats) -> float:
    """The part of the rival's lead over the null that the earlier choice has."""
    return float((earlier - null).mean()) / max(float((rival - null).mean()), 1e-12)
