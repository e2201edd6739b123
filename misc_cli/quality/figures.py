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
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from misc_cli.data.decide import decide
from misc_cli.data.encode import Encoding
from misc_cli.data.types import Aggregation, Floats, Labels
from misc_cli.engines.protocol import GOLD, POSTERIORS, SMALLEST, Block, Engine, RowArrays, Summed
from misc_cli.errors import MiscWarning
from misc_cli.quality.agreement import agreement_sums, ballots_of, of_sums
from misc_cli.quality.worker_dependence import Pairs, answer_weights
from misc_cli.run.result import Figure

# Above these a run is still done, but says so. Of 19 public sets on which ds-em does its work
# overruled is at most 4 %, but for `relevance` (21 %); on the two where it fails 36 % and 68 %.
MOST_OVERRULED = 5.0
FEWEST_OVERRULED = 5  # items: fewer are no pattern
LEAST_EFFECTIVE = 0.8  # of the answers per item
NAMES_SHOWN = 3

Counts = npt.NDArray[np.int64]


def figures(
    encoding: Encoding, engine: Engine, aggregation: Aggregation, pairs: Pairs
) -> dict[str, Figure]:
    """Every figure of the posteriors that are on the engine, and of its votes.

    None where there is nothing to judge. Warns of what looks wrong. One sweep, and one more where
    workers err together.
    """
    labels = encoding.labels
    n_votes, n_pairs = engine.n_votes, labels.n_items * labels.n_workers
    seen = engine.sweep(_Judge())
    alpha, agreement = of_sums(seen.agreement)
    return {
        "answers": n_votes,
        "items": labels.n_items,
        "workers": labels.n_workers,
        "classes": labels.n_classes,
        "answers-per-item": round(n_votes / labels.n_items, 6),
        "density": round(100.0 * n_votes / n_pairs, 6),
        "empty": encoding.n_empty,
        "repeats": encoding.n_repeats,
        "conflicts": encoding.n_conflicts,
        "iterations": aggregation.iterations,
        "converged": aggregation.converged,
        "confidence": round(seen.confidence / labels.n_items, 6),
        "lowest-confidence": round(seen.lowest, 6),
        "ties": seen.ties,
        "alpha": _rounded(alpha),
        "agreement": _rounded(agreement),
        **_overruled(seen),
        **_lost(labels, seen),
        **_effective(engine, pairs),
    }


def error_figures(share: float, n_known: int) -> dict[str, Figure]:
    """The share of wrong labels among so many items with truth."""
    return {"error": round(100.0 * share, 6), "items-with-truth": n_known}


@dataclass
class _Seen(Summed):
    """Sums over items.

    confidence  of the labels; `lowest` is the least one
    ties        items whose top classes tie
    agreement   as `agreement_sums` has it
    unanimous   items on which all answers agree, those of gold left out
    overruled   those of them that got another label; `several` of these have two answers or more
    examples    the first of the overruled in each block, by name
    led, given  (n_classes,) items on which the class leads the vote, and that got it as their label
    """

    confidence: float
    lowest: float = field(metadata=SMALLEST)
    ties: int
    agreement: Floats
    unanimous: int
    overruled: int
    several: int
    examples: list[str]
    led: Counts
    given: Counts


@dataclass(frozen=True)
class _Judge:
    """Labels beside the votes."""

    writes: ClassVar[tuple[str, ...]] = ()

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, _Seen]:
        decision = decide(np.asarray(rows[POSTERIORS]))
        totals = block.class_totals()
        n_classes, ballots = totals.shape[1], ballots_of(totals)
        judged = ballots.unanimous
        if GOLD in rows:
            judged = judged & (rows[GOLD] < 0)
        against = np.flatnonzero(judged & (ballots.leader != decision.label))
        return {}, _Seen(
            confidence=float(decision.confidence.sum()),
            lowest=float(decision.confidence.min()),
            ties=int(decision.tied.sum()),
            agreement=agreement_sums(totals),
            unanimous=int(judged.sum()),
            overruled=len(against),
            several=int((ballots.answers[against] >= 2).sum()),
            examples=[block.items[int(at)].as_py() for at in against[:1]],
            led=np.bincount(ballots.leader[ballots.leader >= 0], minlength=n_classes),
            given=np.bincount(decision.label, minlength=n_classes),
        )


def _overruled(seen: _Seen) -> dict[str, Figure]:
    share = 100.0 * seen.overruled / max(seen.unanimous, 1)
    if share > MOST_OVERRULED and seen.overruled >= FEWEST_OVERRULED:
        _warn(
            f"{seen.overruled:,} of {seen.unanimous:,} items on which all answers agree got "
            f"another label ({seen.several:,} of them have two answers or more; the first is "
            f"{min(seen.examples)!r}): the classes of the model may no longer mean the labels; "
            "compare with --aggregator mv and look at these items"
        )
    return {"unanimous": seen.unanimous, "overruled": round(share, 6)}


def _lost(labels: Labels, seen: _Seen) -> dict[str, Figure]:
    led = seen.led
    lost = np.flatnonzero((led > 0) & (seen.given == 0))
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


@dataclass(frozen=True)
class _Weigh:
    """What the answers amount to beside those of like workers (evaluate/alike.py)."""

    likeness: sp.csr_array
    n_classes: int

    writes: ClassVar[tuple[str, ...]] = ()

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, float]:
        return {}, float(answer_weights(block.matrix, self.likeness, self.n_classes).sum())


def _effective(engine: Engine, pairs: Pairs) -> dict[str, Figure]:
    alike = pairs.alike
    per_item = engine.n_votes / engine.n_items
    effective = per_item
    if alike.any():
        counted = engine.sweep(_Weigh(pairs.matrix(alike), engine.n_classes))
        effective = counted / engine.n_items
    if effective < LEAST_EFFECTIVE * per_item:
        _warn(
            f"workers err together ({int(alike.sum()):,} pairs): {per_item:.1f} answers per item "
            f"count as {effective:.1f} independent ones, so confidences are likely too high; "
            "--workers FILE says who is alike with whom"
        )
    return {"effective-votes": round(effective, 6), "alike-pairs": int(alike.sum())}


@dataclass(frozen=True)
class CountSure:
    """How many items are how sure: in ten steps from 0 to 1; last, below the limit. (11,)"""

    limit: float

    writes: ClassVar[tuple[str, ...]] = ()

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, Counts]:
        confidence = decide(np.asarray(rows[POSTERIORS])).confidence
        steps, _ = np.histogram(confidence, bins=10, range=(0.0, 1.0))
        return {}, np.append(steps, (confidence < self.limit).sum())


def _rounded(figure: float) -> float | None:
    return round(figure, 6) if math.isfinite(figure) else None


def _warn(text: str) -> None:
    warnings.warn(text, MiscWarning, stacklevel=4)
