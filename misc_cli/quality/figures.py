"""Figures of a run, by the names that --fail-if knows, and warnings of what looks wrong.

overruled        % of the items on which all answers agree (a single answer does) and whose label is
                 another; items of --gold are left out: their label is the user's
classes-lost     classes that lead the vote on some item and that no label is of
effective-votes  the mean over items of Σ_w 1 / (1 + Σ_v ρ_wv): what its answers amount to when
                 workers who err together are counted for what they add (worker_dependence.py)
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.data.encode import distinct, outside, trimmed
from misc_cli.data.holdout import Hashes, name_hashes
from misc_cli.data.posteriors import decide
from misc_cli.data.types import Codes, Floats, KnownLabels, Names
from misc_cli.engines.protocol import (
    GOLD,
    POSTERIORS,
    SMALLEST,
    TRUTH,
    AnswerEngine,
    Array,
    Block,
    RowArrays,
    Summed,
    SumOver,
    WriteRows,
)
from misc_cli.errors import MiscWarning
from misc_cli.quality.agreement import item_sums, of_sums
from misc_cli.quality.worker_dependence import WorkerPairs, effective_votes

Figure = float | int | bool | None

# Above these a run is still done, but says so. Of 19 public sets on which ds-em does its work
# overruled is at most 4 %, but for `relevance` (21 %); on the two where it fails 36 % and 68 %.
MOST_OVERRULED = 5.0
FEWEST_OVERRULED = 5  # items: fewer are no pattern
LEAST_EFFECTIVE = 0.8  # of the answers per item
NAMES_SHOWN = 3

Counts = npt.NDArray[np.int64]


def figures(
    engine: AnswerEngine,
    pairs: WorkerPairs,
    evidence: float | None = None,
    *,
    iterations: int,
    converged: bool,
) -> dict[str, Figure]:
    """Return every figure of the posteriors and votes on the engine; warn of what looks wrong.

    A figure is None where there is nothing to judge. `evidence` is the probability that answers
    depend on items (`quality.evidence`).
    """
    counts, n_items = engine.counts, engine.n_items
    per_item = engine.n_votes / n_items
    seen = engine.sweep(SumOver(_judge))
    agreed = [
        round(float(one[0]), 6) if math.isfinite(one[0]) else None
        for one in of_sums(seen.agreement[None, :])
    ]
    overruled = 100.0 * seen.overruled / max(seen.unanimous, 1)
    if overruled > MOST_OVERRULED and seen.overruled >= FEWEST_OVERRULED:
        _warn(
            f"{seen.overruled:,} of {seen.unanimous:,} items on which all answers agree got "
            f"another label (the first is {min(seen.examples)!r}): the classes of the model may no "
            "longer mean the labels; compare with --aggregator mv and look at these items"
        )
    lost = np.flatnonzero((seen.led > 0) & (seen.given == 0))
    if len(lost):
        classes = engine.vocabulary.classes
        names = classes.take(lost[np.argsort(-seen.led[lost])]).to_pylist()
        shown = ", ".join(map(repr, names[:NAMES_SHOWN]))
        more = f" and {len(lost) - NAMES_SHOWN:,} more" if len(lost) > NAMES_SHOWN else ""
        _warn(
            f"no item got the label {shown}{more}, though it leads the vote on "
            f"{int(seen.led[lost].sum()):,} items; if these classes are real, take --aggregator mv "
            "or give some of their items as --gold"
        )
    n_pairs, effective = int(pairs.alike.sum()), per_item
    if n_pairs:
        effective = float(effective_votes(engine, pairs).sum()) / n_items
    if effective < LEAST_EFFECTIVE * per_item:
        _warn(
            f"workers err together ({n_pairs:,} {'pair' if n_pairs == 1 else 'pairs'}): "
            f"{per_item:.1f} answers per item count as {effective:.1f} independent ones, so "
            "confidences are likely too high; --workers FILE says who is alike with whom"
        )
    judged: dict[str, Figure] = {}
    if seen.n_known:
        judged = {"error": round(100.0 * seen.wrong / seen.n_known, 6)}
        judged["items-with-truth"] = seen.n_known
    return {
        "answers": engine.n_votes,
        "items": n_items,
        "workers": engine.n_workers,
        "classes": engine.n_classes,
        "answers-per-item": round(per_item, 6),
        "density": round(100.0 * engine.n_votes / (n_items * engine.n_workers), 6),
        "empty": counts.n_empty,
        "repeats": counts.n_repeats,
        "conflicts": counts.n_conflicts,
        "iterations": iterations,
        "converged": converged,
        "confidence": round(seen.confidence / n_items, 6),
        "lowest-confidence": round(seen.lowest, 6),
        "ties": seen.ties,
        "alpha": agreed[0],
        "agreement": agreed[1],
        "evidence": None if evidence is None else round(evidence, 6),
        "unanimous": seen.unanimous,
        "overruled": round(overruled, 6),
        "classes-lost": len(lost),
        "effective-votes": round(effective, 6),
        "alike-pairs": n_pairs,
        **judged,
    }


def mark_truth(engine: AnswerEngine, truth: KnownLabels) -> None:
    """Put the truth of items beside them (`TRUTH`), and warn of truth that judges nothing."""
    which, classes = truth.called("truth"), engine.vocabulary.classes
    names, rows = distinct(truth.items, truth.labels, which)
    hashes = name_hashes(names)
    order = np.argsort(hashes)
    names, rows = names.take(order), rows[order]
    texts = trimmed(truth.labels).take(rows)
    codes = pc.fill_null(pc.index_in(texts, classes), len(classes)).to_numpy().astype(np.int32)
    kernel = partial(_mark_truth, names=names, classes=codes, hashes=hashes[order])
    found = engine.sweep(WriteRows(kernel, (), (TRUTH,))) if len(names) else []
    at = np.concatenate([np.zeros(0, dtype=np.int64), *found])
    if not len(at):
        _warn("no item with truth is among the answers' items: there is no error to report")
    elif len(unknown := at[codes[at] == len(classes)]):
        first = int(unknown[rows[unknown].argmin()])
        case = outside(which, names[first].as_py(), texts[first].as_py(), len(unknown))
        _warn(f"{case}; it counts as wrong")


def _mark_truth(
    block: Block, _: RowArrays, names: Names, classes: Codes, hashes: Hashes
) -> tuple[RowArrays, list[Array]]:
    """Look items up among those with truth, by hash: no block goes through all names.

    names, classes, hashes  (n_known,) each, sorted by hash; the class is n_classes where no worker
                            gave it
    Returns the positions of the items that it found beside their truth.
    """
    items = block.items
    sought = name_hashes(items)
    near = np.minimum(np.searchsorted(hashes, sought), len(hashes) - 1)
    here = np.flatnonzero(hashes[near] == sought)
    at = near[here]
    same = pc.equal(names.take(pa.array(at)), items.take(pa.array(here)))
    chosen = same.to_numpy(zero_copy_only=False).astype(bool)
    truth = np.full(len(items), -1, dtype=np.int32)
    truth[here[chosen]] = classes[at[chosen]]
    return {TRUTH: truth}, [at[chosen]]


@dataclass
class _Seen(Summed):
    """Sums over items.

    confidence  of the labels; `lowest` is the least one
    ties        items whose top classes tie
    agreement   sums of `item_sums`
    unanimous   items on which all answers agree, those of gold left out
    overruled   those of them that got another label
    examples    the first of the overruled in each block, by name
    led, given  (n_classes,) items on which the class leads the vote, and that got it as their label
    n_known     items with truth, of which so many labels are expected to be `wrong`
    """

    confidence: float
    lowest: float = field(metadata=SMALLEST)
    ties: int
    agreement: Floats
    unanimous: int
    overruled: int
    examples: list[str]
    led: Counts
    given: Counts
    n_known: int
    wrong: float


def _judge(block: Block, rows: RowArrays) -> _Seen:
    """Compare the labels with the votes."""
    posteriors = np.asarray(rows[POSTERIORS])
    decision = decide(posteriors)
    known = np.flatnonzero(rows[TRUTH] >= 0) if TRUTH in rows else np.zeros(0, dtype=np.intp)
    wrong = 0.0
    if len(known):
        from misc_cli.quality.evaluation import expected_error

        wrong = len(known) * expected_error(posteriors[known], np.asarray(rows[TRUTH])[known])
    totals = block.class_totals()
    answers, top, n_classes = totals.sum(axis=1), totals.max(axis=1), totals.shape[1]
    leader = totals.argmax(axis=1)
    leads = (totals == top[:, None]).sum(axis=1) == 1  # alone
    judged = (top == answers) & (answers > 0)  # unanimous; a single answer is
    if GOLD in rows:
        judged &= rows[GOLD] < 0
    against = np.flatnonzero(judged & (leader != decision.label))
    return _Seen(
        confidence=float(decision.confidence.sum()),
        lowest=float(decision.confidence.min()),
        ties=int(decision.tied.sum()),
        agreement=item_sums(totals)[0].sum(axis=0),
        unanimous=int(judged.sum()),
        overruled=len(against),
        examples=[block.items[int(at)].as_py() for at in against[:1]],
        led=np.bincount(leader[leads], minlength=n_classes),
        given=np.bincount(decision.label, minlength=n_classes),
        n_known=len(known),
        wrong=wrong,
    )


def count_sure(_: Block, rows: RowArrays, limit: float) -> Counts:
    """Count the items in ten steps of confidence and, last, below the limit, (11,)."""
    confidence = decide(np.asarray(rows[POSTERIORS])).confidence
    steps, _edges = np.histogram(confidence, bins=10, range=(0.0, 1.0))
    return np.append(steps, (confidence < limit).sum())


def _warn(text: str) -> None:
    warnings.warn(text, MiscWarning, stacklevel=3)
