"""What an item's answers say by themselves, before any model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from misc_cli.core.parallel import map_in_order
from misc_cli.core.types import Codes, Floats
from misc_cli.core.votes import Votes


@dataclass(frozen=True)
class Ballots:
    """Per item, (n_items,) each.

    answers    how many there are
    leader     the class with the most votes, -1 where several share the first place
    unanimous  whether all answers are the same; a single answer is
    agreement  the share of the item's pairs of answers that agree; NaN below two answers
    """

    answers: Floats
    leader: Codes
    unanimous: npt.NDArray[np.bool_]
    agreement: Floats


def ballots_of(totals: Floats) -> Ballots:
    """Of items with so many votes of each class, (n_items, n_classes)."""
    answers = totals.sum(axis=1)
    top = totals.max(axis=1)
    several = (totals == top[:, None]).sum(axis=1) > 1
    leader = np.where(several, -1, totals.argmax(axis=1)).astype(np.int32)
    pairs = answers * (answers - 1.0)
    same = (totals**2).sum(axis=1) - answers
    agreement = np.full(len(answers), np.nan)
    np.divide(same, pairs, out=agreement, where=pairs > 0)
    return Ballots(answers, leader, (top == answers) & (answers > 0), agreement)


def count_ballots(votes: Votes) -> Ballots:
    """Block of items by block."""
    parts = list(map_in_order(lambda rows: ballots_of(votes.class_totals(rows)), votes.blocks))
    return Ballots(
        answers=np.concatenate([part.answers for part in parts]),
        leader=np.concatenate([part.leader for part in parts]),
        unanimous=np.concatenate([part.unanimous for part in parts]),
        agreement=np.concatenate([part.agreement for part in parts]),
    )
