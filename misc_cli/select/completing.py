"""Whether completion is worth it: its candidates against what would be written without it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from misc_cli.core.types import Floats
from misc_cli.select import racing
from misc_cli.select.choose import SIGNIFICANT, lead
from misc_cli.select.incumbent import Staying, staying
from misc_cli.select.judging import Judging
from misc_cli.select.leaderboard import Score, completed_table
from misc_cli.select.trial import Method


@dataclass(frozen=True)
class Completed:
    """What came of judging completed candidates.

    voters     those that write the labels together; none: the pure result stands
    ahead      by how many standard errors the best voter is ahead of the pure result
    staying    what stays of an earlier choice of completed candidates
    table      for run.json, one row for each candidate
    """

    voters: Sequence[Score] = ()
    ahead: float = 0.0
    staying: Staying | None = None
    table: Sequence[Mapping[str, Any]] = ()


def completed_of(
    work: Judging,
    methods: Sequence[Method],
    base: Score,
    reference: Floats,
    *,
    insist: bool,
    incumbent: Mapping[str, float],
) -> Completed:
    """The candidates of these methods, which build on the fits of `base`.

    reference  (n_hidden,) hard scores of the pure result
    insist     the best candidates are taken, whatever is said of them
    incumbent  as in `search`
    """
    tried = racing.completed(work, methods, base.posteriors, reference, insist)
    work.left_out += [] if tried else ["completion"]
    # a gain that what it builds on has without it is not completion's
    rivals = [reference, _hard(base)]
    voters = _voters(work, tried, rivals, insist)
    # some voters stopped after the first folds; the best is always among the others
    whole = [_hard(score) for score in voters if score.n_folds == len(work.folds)]
    new = np.mean(whole, axis=0) if whole else reference
    before = staying(tried, incumbent, _hard, new, work.workers)
    if before is not None and incumbent.keys() != {score.candidate.name for score in voters}:
        voters = before.scores
    else:
        before = None
    whole = [_hard(score) for score in voters if score.n_folds == len(work.folds)]
    ahead = max((lead(values, reference, work.workers) for values in whole), default=0.0)
    table = completed_table(tried, voters, rivals, work.workers)
    return Completed(voters, ahead, before, table)


def _voters(
    work: Judging, tried: Sequence[Score], rivals: Sequence[Floats], insist: bool
) -> list[Score]:
    """All that cannot be told apart from the best, if that is ahead of all rivals.

    What did not go on after the first folds must have been nearer to it on those.
    """
    whole = [_hard(score) for score in tried if score.n_folds == len(work.folds)]
    if not whole:
        return []
    top = max(whole, key=lambda values: float(values.mean()))
    if not insist and min(lead(top, rival, work.workers) for rival in rivals) < SIGNIFICANT:
        return []
    voters = []
    for score in tried:
        values = _hard(score)
        count = len(values)
        limit = SIGNIFICANT if count == len(top) else racing.HOPELESS
        if values is top or lead(top[:count], values, work.workers[:count]) < limit:
            voters.append(score)
    return voters


def _hard(score: Score) -> Floats:
    return score.views["hard"]
