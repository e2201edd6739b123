"""Whether today's answers are still those that a choice of methods was made by."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from misc_cli.core.types import Floats, Labels
from misc_cli.core.votes import votes_by_worker
from misc_cli.run.diagnostics import strict
from misc_cli.run.left import Left
from misc_cli.run.settings import Settings

# A choice is made anew when it rests on a quarter of today's answers, when half of them are by
# workers it did not know, or when the shares of the labels are others by a tenth.
GROWTH = 4.0
NEW_WORKERS = 0.5
MOVED_SHARES = 0.1
# Fewer answers than this share by workers that the state knows: it is of other data.
COMMON = 0.1


def reason_to_choose(
    left: Left, labels: Labels, settings: Settings, now: float, rechoose: float | None
) -> str | None:
    """Why the methods are to be chosen anew, in words; None to keep them.

    `rechoose` is the age in seconds from which a choice is old; None: never.
    """
    choice = left.choice
    if choice["settings"] != settings_key(settings):
        return "the settings are others"
    if not choice["members"] and not choice["named"]:
        return "there were too few answers to choose by"
    if labels.classes.to_pylist() != left.about["classes"]:
        return "the classes are others"
    if rechoose is not None and now - choice["at"] >= rechoose:
        return f"the choice is {(now - choice['at']) / 86400:.0f} days old"
    n_answers = labels.votes.n_votes
    if n_answers >= GROWTH * choice["answers"]:
        return f"{n_answers:,} answers, the choice was made by {choice['answers']:,}"
    new = pc.invert(pc.is_in(labels.workers, left.at_choice)).to_numpy(zero_copy_only=False)
    share = _share_by(labels, new)
    if share >= NEW_WORKERS:
        return f"{100 * share:.0f} % of the answers are by workers the choice did not know"
    moved = 0.5 * np.abs(shares(labels) - np.array(choice["shares"])).sum()
    if moved >= MOVED_SHARES:
        return f"the shares of the labels moved by {100 * moved:.0f} %"
    return None


def of_other_data(left: Left, labels: Labels) -> str | None:
    """Why this is no state of such data; None if it is."""
    classes = labels.classes.to_pylist()
    if not set(classes) & set(left.about["classes"]):
        return "no class of it is among today's"
    known = pc.is_in(labels.workers, left.workers["worker"].combine_chunks())
    share = _share_by(labels, known.to_numpy(zero_copy_only=False))
    if share < COMMON:
        return f"its workers gave only {100 * share:.0f} % of today's answers"
    return None


def settings_key(settings: Settings) -> Any:
    """The settings that a choice depends on, as JSON has them."""
    own = asdict(settings)
    return strict({name: own[name] for name in own if name not in ("threads", "time_budget")})


def shares(labels: Labels) -> Floats:
    """The share of each label among the answers, (n_classes,)."""
    totals = votes_by_worker(labels.votes).sum(axis=0)
    found: Floats = totals / totals.sum()
    return found


def _share_by(labels: Labels, workers: npt.NDArray[np.bool_]) -> float:
    """The share of the answers that these workers gave; `workers` is (n_workers,)."""
    counts = votes_by_worker(labels.votes).sum(axis=1)
    return float(counts[workers].sum() / max(labels.votes.n_votes, 1))
