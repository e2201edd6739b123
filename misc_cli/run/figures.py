"""The run in numbers, by the names that --fail-if knows, and what they should make one wonder at.

overruled        % of the items on which all answers agree (a single answer does) and whose label is
                 another; items of --gold are left out: their label is the user's
classes-lost     classes that lead the vote on some item and that no label is of
effective-votes  the mean over items of Σ_w 1 / (1 + Σ_v ρ_wv): what its answers amount to when
                 workers who err together are counted for what they add (misc_cli/evaluate/alike.py)
"""

from __future__ import annotations

import math
import warnings

import numpy as np

from misc_cli.core.decide import Decision
from misc_cli.core.encode import Encoding
from misc_cli.core.types import Aggregation, Codes, Labels
from misc_cli.errors import MiscWarning
from misc_cli.evaluate.agreement import krippendorff_alpha
from misc_cli.evaluate.alike import Pairs, answer_weights, effective_votes
from misc_cli.evaluate.ballots import Ballots, count_ballots
from misc_cli.evaluate.metrics import expected_error
from misc_cli.run.outcome import Figure

# Above these a run is still done, but says so. Of 19 public sets on which ds-em does its work
# overruled is at most 4 %, but for `relevance` (21 %); on the two where it fails 36 % and 68 %.
MOST_OVERRULED = 5.0
FEWEST_OVERRULED = 5  # items: fewer are no pattern
LEAST_EFFECTIVE = 0.8  # of the answers per item
NAMES_SHOWN = 3


def figures(
    encoding: Encoding,
    aggregation: Aggregation,
    decision: Decision,
    truth: Codes | None,
    pairs: Pairs,
) -> dict[str, Figure]:
    """Every figure of a run; None where there is nothing to judge. Warns of what looks wrong."""
    labels = encoding.labels
    votes = labels.votes
    n_pairs = labels.n_items * labels.n_workers
    found: dict[str, Figure] = {
        "answers": votes.n_votes,
        "items": labels.n_items,
        "workers": labels.n_workers,
        "classes": labels.n_classes,
        "answers-per-item": round(votes.n_votes / labels.n_items, 6),
        "density": round(100.0 * votes.n_votes / n_pairs, 6),
        "empty": encoding.n_empty,
        "repeats": encoding.n_repeats,
        "conflicts": encoding.n_conflicts,
        "iterations": aggregation.iterations,
        "converged": aggregation.converged,
        "confidence": round(float(decision.confidence.mean()), 6),
        "lowest-confidence": round(float(decision.confidence.min()), 6),
        "ties": int(decision.tied.sum()),
    }
    ballots = count_ballots(votes)
    found["alpha"] = _rounded(krippendorff_alpha(votes))
    paired = ballots.agreement[ballots.answers >= 2]
    found["agreement"] = _rounded(float(paired.mean())) if len(paired) else None
    found.update(_overruled(labels, ballots, decision))
    found.update(_lost(labels, ballots, decision))
    found.update(_effective(labels, pairs))
    if truth is not None and (truth >= 0).any():
        share = expected_error(aggregation.posteriors, truth)
        found.update(error_figures(share, int((truth >= 0).sum())))
    return found


def error_figures(share: float, n_known: int) -> dict[str, Figure]:
    """The share of wrong labels among so many items with truth."""
    return {"error": round(100.0 * share, 6), "items-with-truth": n_known}


def _overruled(labels: Labels, ballots: Ballots, decision: Decision) -> dict[str, Figure]:
    judged = ballots.unanimous if labels.gold is None else ballots.unanimous & (labels.gold < 0)
    against = judged & (ballots.leader != decision.label)
    n_unanimous, n_against = int(judged.sum()), int(against.sum())
    share = 100.0 * n_against / max(n_unanimous, 1)
    if share > MOST_OVERRULED and n_against >= FEWEST_OVERRULED:
        of_several = int((against & (ballots.answers >= 2)).sum())
        example = labels.items[int(np.flatnonzero(against)[0])].as_py()
        _warn(
            f"{n_against:,} of {n_unanimous:,} items on which all answers agree got another label "
            f"({of_several:,} of them have two answers or more; the first is {example!r}): the "
            "classes of the model may no longer mean the labels; compare with --aggregator mv and "
            "look at these items"
        )
    return {"unanimous": n_unanimous, "overruled": round(share, 6)}


def _lost(labels: Labels, ballots: Ballots, decision: Decision) -> dict[str, Figure]:
    led = np.bincount(ballots.leader[ballots.leader >= 0], minlength=labels.n_classes)
    given = np.bincount(decision.label, minlength=labels.n_classes)
    lost = np.flatnonzero((led > 0) & (given == 0))
    if len(lost):
        names = [labels.classes[int(code)].as_py() for code in lost[np.argsort(-led[lost])]]
        shown = ", ".join(map(repr, names[:NAMES_SHOWN]))
        more = f" and {len(lost) - NAMES_SHOWN:,} more" if len(lost) > NAMES_SHOWN else ""
        _warn(
            f"no item got the label {shown}{more}, though it leads the vote on "
            f"{int(led[lost].sum()):,} items; if these classes are real, take --aggregator mv or "
            "give some of their items as --gold"
        )
    return {"classes-lost": len(lost)}


def _effective(labels: Labels, pairs: Pairs) -> dict[str, Figure]:
    votes = labels.votes
    alike = pairs.alike
    per_item = votes.n_votes / labels.n_items
    effective = per_item
    if alike.any():
        weights = answer_weights(votes, pairs.matrix(alike))
        effective = float(effective_votes(votes, weights).mean())
    if effective < LEAST_EFFECTIVE * per_item:
        _warn(
            f"workers err together ({int(alike.sum()):,} pairs): {per_item:.1f} answers per item "
            f"count as {effective:.1f} independent ones, so confidences are likely too high; "
            "--workers FILE says who is alike with whom"
        )
    return {"effective-votes": round(effective, 6), "alike-pairs": int(alike.sum())}


def _rounded(figure: float) -> float | None:
    return round(figure, 6) if math.isfinite(figure) else None


def _warn(text: str) -> None:
    warnings.warn(text, MiscWarning, stacklevel=4)
