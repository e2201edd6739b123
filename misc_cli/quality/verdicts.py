"""A verdict on every worker, in a word and with its reason.

always says X    nearly all answers are X, whatever the item; a typical worker's would not be
copies Y         gives the answers of Y, who answered more (likeness from 0.9, alike.py)
spammer          answers depend on the item not at all, or as good as not at all
check            reliably wrong, or alike with another worker
too few to tell  the answers could come from a spammer and from a typical worker alike
fine             the rest

κ = (o − e) / (p − e) places a worker's agreement o with what the others make of its items between
that of one who says what it says without looking, e, and that of one who always tells the truth,
p, which is below 1 because the others are unsure themselves (evidence.py). `noise` is the standard
error of κ of one who does not look. A spammer has κ + noise / 2 below 0.18, or below a third
of the crowd's median where that is less: on items that are hard for everybody little is a lot. A
worker whose κ is less than two noises above zero cannot be told from a spammer, nor can anybody
where one and a half noises reach from a typical worker down to that limit. The limits were
settled on simulated crowds (benchmarks/verdicts.py); docs/workers.md has what they give.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from misc_cli.data.types import Codes, Floats
from misc_cli.engines.protocol import Vocabulary
from misc_cli.quality.worker_dependence import Pairs
from misc_cli.quality.worker_scores import Evidence

FINE, CHECK, SPAMMER, ALWAYS, COPIES, TOO_FEW = range(6)
WORDS = ("fine", "check", "spammer", "always says", "copies", "too few to tell")
USELESS = 0.18  # κ below which a worker is as good as none
OF_MEDIAN = 0.33  # the same as a share of the crowd's median
MARGIN = 0.5  # noises
TYPICAL = 1.5  # noises that must fit between a typical worker and the limit
TOLD_APART = 2.0  # noises above zero: looks at the items
WRONGS = 2.5  # noises below zero: reliably wrong
WRONG = -0.1  # and at least so far below
LEAST_NOISE = 1e-4  # a variance
LEAST_ROOM = 0.01  # between chance and the truth: where there is none nobody can be told apart
CONSTANT = 0.95  # share of one label from which a worker always says it
ENOUGH = 10  # answers without which nobody is called a spammer
FEWEST = 5  # answers of those over whom the median is taken
ODD = 7.0  # −log of the chance, a thousandth, that a typical worker gives so many answers of it


@dataclass(frozen=True)
class Verdicts:
    """Per worker, (n_workers,) each.

    kind       a code into WORDS
    label      the class that one who always says it says
    partner    the worker most like it, -1 if none is alike; of a copy the one it copies
    likeness   ρ with the partner, 0 if none
    right      share of its answers that the others bear out; chance: what not looking would give
    typical    the crowd's median of `right`
    """

    kind: Codes
    label: Codes
    partner: Codes
    likeness: Floats
    answers: Floats
    right: Floats
    chance: Floats
    typical: float


def judge(evidence: Evidence, pairs: Pairs) -> Verdicts:
    """The first of the verdicts above that holds."""
    answers = np.maximum(evidence.answers, 1.0)
    right = evidence.right / answers
    said = evidence.said / answers[:, None]
    chance = evidence.chance / answers
    room = np.maximum(evidence.at_best / answers - chance, LEAST_ROOM)
    noise = np.sqrt(np.maximum(evidence.noise / answers, LEAST_NOISE) / answers) / room
    kappa = (right - chance) / room
    label = evidence.said.argmax(axis=1).astype(np.int32)
    rows = np.arange(len(label))
    partner, likeness, copies = _company(pairs, evidence.answers)
    constant = (said[rows, label] >= CONSTANT) & (evidence.surprise[rows, label] >= ODD)
    looking = (evidence.answers >= FEWEST) & ~constant
    usual = float(np.median(kappa[looking])) if looking.any() else 0.0
    limit = min(USELESS, OF_MEDIAN * max(usual, 0.0))
    room_for = (usual - limit) / TYPICAL
    kinds = np.select(
        [
            evidence.answers == 0,
            constant,
            copies >= 0,
            kappa < np.minimum(WRONG, -WRONGS * noise),
            (kappa + MARGIN * noise < limit) & (evidence.answers >= ENOUGH) & (noise <= room_for),
            kappa < TOLD_APART * noise,
            partner >= 0,
        ],
        [TOO_FEW, ALWAYS, COPIES, CHECK, SPAMMER, TOO_FEW, CHECK],
        FINE,
    )
    trusted = right[kinds == FINE]
    return Verdicts(
        kind=kinds.astype(np.int32),
        label=label,
        partner=np.where(copies >= 0, copies, partner).astype(np.int32),
        likeness=likeness,
        answers=evidence.answers,
        right=right,
        chance=chance,
        typical=float(np.median(trusted)) if len(trusted) else float("nan"),
    )


def _company(pairs: Pairs, answers: Floats) -> tuple[Codes, Floats, Codes]:
    """Of each worker: the most alike, how alike, and whom it copies; -1 for nobody.

    Of two copies the one with fewer answers copies the other; of equals the later by name.
    """
    n_workers = pairs.n_workers
    partner, copied = np.full((2, n_workers), -1, dtype=np.int32)
    likeness = np.zeros(n_workers)
    rho = pairs.likeness
    alike = np.flatnonzero(pairs.alike)
    order = alike[np.argsort(rho[alike], kind="stable")]  # the most alike come last and stay
    for ends, others in ((pairs.first, pairs.second), (pairs.second, pairs.first)):
        better = rho[order] > likeness[ends[order]]
        chosen = order[better]
        partner[ends[chosen]], likeness[ends[chosen]] = others[chosen], rho[chosen]
    chosen = np.flatnonzero(pairs.copies)
    chosen = chosen[np.argsort(rho[chosen], kind="stable")]
    first, second = pairs.first[chosen], pairs.second[chosen]
    second_copies = answers[second] <= answers[first]
    copied[np.where(second_copies, second, first)] = np.where(second_copies, first, second)
    return partner, likeness, copied


def worst(verdicts: Verdicts) -> Codes:
    """Workers neither fine nor too few to tell, the gravest first, then the most active."""
    grave = np.array([-1, 0, 2, 2, 1, -1])[verdicts.kind]  # in the order of WORDS
    order = np.lexsort((np.arange(len(grave)), -verdicts.answers, -grave))
    chosen: Codes = order[grave[order] >= 0].astype(np.int32)
    return chosen


def words(verdicts: Verdicts, at: int, names: Vocabulary) -> str:
    """The verdict on one worker."""
    kind, partner = int(verdicts.kind[at]), int(verdicts.partner[at])
    said = {
        ALWAYS: lambda: names.classes[int(verdicts.label[at])].as_py(),
        COPIES: lambda: names.workers[partner].as_py(),
    }
    return f"{WORDS[kind]} {said[kind]()}" if kind in said else WORDS[kind]


def verdict_texts(verdicts: Verdicts, names: Vocabulary) -> tuple[list[str], list[str]]:
    """The verdict and its reason for every worker, in words."""
    everybody = range(len(verdicts.kind))
    said = [words(verdicts, at, names) for at in everybody]
    return said, [_reason(verdicts, at, names) for at in everybody]


def _reason(verdicts: Verdicts, at: int, names: Vocabulary) -> str:
    kind, partner = int(verdicts.kind[at]), int(verdicts.partner[at])
    below_chance = verdicts.right[at] <= verdicts.chance[at]
    text = _REASONS[kind]
    if kind == CHECK and (partner < 0 or below_chance):
        text = _BELOW_CHANCE
    return text.format(
        answers=f"{verdicts.answers[at]:,.0f}",
        right=f"{100 * verdicts.right[at]:.0f} %",
        chance=f"{100 * verdicts.chance[at]:.0f} %",
        typical=f"{100 * verdicts.typical:.0f} %",
        label=names.classes[int(verdicts.label[at])].as_py(),
        partner=names.workers[partner].as_py() if partner >= 0 else "",
        likeness=f"{verdicts.likeness[at]:.2f}",
    )


_BORNE_OUT = "the others bear out {right} of its {answers} answers"
_BELOW_CHANCE = _BORNE_OUT + ", fewer than chance ({chance}): may have mixed up the labels"
_REASONS = {
    FINE: _BORNE_OUT + ", {typical} of a typical worker's",
    CHECK: "errs together with {partner} (likeness {likeness}): their answers are not independent",
    SPAMMER: _BORNE_OUT
    + "; not looking at the items would give {chance}, a typical worker {typical}",
    ALWAYS: "nearly all of its {answers} answers are {label}, whatever the item",
    COPIES: "gives the same answers as {partner} on the items of both, mistakes included "
    "(likeness {likeness})",
    TOO_FEW: "{answers} answers, {right} of them borne out by the others: not looking at the "
    "items could give as many ({chance})",
}
