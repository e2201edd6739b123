"""An earlier choice stays unless the new one is clearly better on the same hidden answers.

Which of two methods that are about equally good forecasts a draw of hidden answers better is luck.
A choice that follows it changes labels from night to night and improves none of them. So both
write their labels from the answers that are not hidden, and the new choice must forecast the hidden
ones better by as many standard errors as completion must (choose.SIGNIFICANT), paired by answer and
clustered by worker. The weights of the earlier choice count as they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from misc_cli.core.types import Floats
from misc_cli.select.choose import SIGNIFICANT, lead
from misc_cli.select.judging import Judging
from misc_cli.select.leaderboard import Score
from misc_cli.select.trial import hard_score


@dataclass(frozen=True)
class Staying:
    """What stays of an earlier choice, each with its weight, and how far the new one is ahead."""

    scores: list[Score]
    shares: list[float]
    ahead: float


def staying(
    work: Judging,
    scores: Sequence[Score],
    incumbent: Mapping[str, float],
    rival: Sequence[Floats],
) -> Staying | None:
    """The incumbents among these scores, if the rival is not clearly better; else None.

    `incumbent` has weights by name, `rival` the posteriors of the new choice per fold. Methods that
    are no longer tried (the data outgrew them) are gone, and the others share their weight.
    """
    found = [score for score in scores if score.candidate.name in incumbent and score.n_folds]
    if not found:
        return None
    shares = [incumbent[score.candidate.name] for score in found]
    shares = [share / sum(shares) for share in shares]
    n_folds = min(
        score.n_folds for score in found
    )  # completion may be tried on the first ones only
    folds = range(min(n_folds, len(rival)))
    earlier = [
        np.average([score.posteriors[fold] for score in found], axis=0, weights=shares)
        for fold in folds
    ]
    of_earlier, of_rival = (
        np.concatenate([hard_score(work.folds[f][0], of[f], work.folds[f][1]) for f in folds])
        for of in (earlier, rival)
    )
    ahead = lead(of_rival, of_earlier, work.workers[: len(of_rival)])
    return None if ahead >= SIGNIFICANT else Staying(found, shares, ahead)
