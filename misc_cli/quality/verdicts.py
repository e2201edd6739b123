"""Give each worker a verdict and its reason.

always says X    nearly all answers are X, which a typical worker would not give to these items
copies Y         gives the answers of Y, who answered more (likeness of 0.9 and more)
spammer          answers do not, or hardly, depend on the item
check            reliably wrong, or errs together with another worker
too few to tell  the answers could be those of a spammer or of a typical worker
fine             all others

κ = (o − e) / (p − e) scales the agreement o of a worker with the labels that all other answers
give (`PeerAgreement`): 0 for a random worker with the same shares of labels (e), 1 for one who
always tells the truth (p, below 1 because the others are unsure themselves). `noise` is the
standard error of κ of the random worker. A spammer has κ + noise / 2 below 0.18, or below a third
of the crowd's median where that is less, because on hard items nobody has a high κ. A worker whose
κ is less than two noises above zero cannot be told from a spammer, and no worker can where the
distance from a typical worker to the limit is less than one and a half noises. The limits were
chosen on simulated crowds (benchmarks/verdicts.py); docs/workers.md has the results.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from misc_cli.data.types import Codes, Floats
from misc_cli.engines.protocol import Vocabulary
from misc_cli.quality.worker_dependence import WorkerPairs
from misc_cli.quality.worker_scores import PeerAgreement

FINE, CHECK, SPAMMER, ALWAYS, COPIES, TOO_FEW = range(6)
WORDS = ("fine", "check", "spammer", "always says", "copies", "too few to tell")
USELESS = 0.18  # κ of a spammer is below
OF_MEDIAN = 0.33  # that limit as a share of the crowd's median
MARGIN = 0.5  # noises
TYPICAL = 1.5  # noises that must fit between a typical worker and the limit
TOLD_APART = 2.0  # noises above zero: answers depend on the items
WRONGS = 2.5  # noises below zero: reliably wrong
WRONG = -0.1  # and κ is at most this
LEAST_NOISE = 1e-4  # a variance
LEAST_ROOM = 0.01  # between chance and truth
CONSTANT = 0.95  # share of one label from which a worker always says it
ENOUGH = 10  # answers: nobody with fewer is called a spammer
FEWEST = 5  # answers: workers with fewer do not count in the median
ODD = 7.0  # −log of the probability, a thousandth, that a typical worker gives these answers


@dataclass(frozen=True)
class Verdicts:
    """Verdicts of workers, (n_workers,) each.

    kind       code into WORDS
    label      the most frequent answer
    partner    the worker who errs most together with this one, -1 if none; for a copy the original
    likeness   ρ with the partner, 0 if none
    right      share of the answers that the other workers confirm
    chance     that share for a random worker with the same shares of labels
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


def judge(evidence: PeerAgreement, pairs: WorkerPairs) -> Verdicts:
    """Return for each worker the first verdict whose condition holds."""
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


def _company(pairs: WorkerPairs, answers: Floats) -> tuple[Codes, Floats, Codes]:
    """Return for each worker the partner, the likeness with it, and the original; -1 for none.

    Of two copies the one with fewer answers copies the other; of equals the later by name.
    """
    partner, copied = np.full((2, pairs.n_workers), -1, dtype=np.int32)
    likeness, rho = np.zeros(pairs.n_workers), pairs.likeness
    order = np.argsort(rho, kind="stable")  # the most alike come last and stay
    alike, copies = order[pairs.alike[order]], order[pairs.copies[order]]
    for ends, others in ((pairs.first, pairs.second), (pairs.second, pairs.first)):
        chosen = alike[rho[alike] > likeness[ends[alike]]]
        partner[ends[chosen]], likeness[ends[chosen]] = others[chosen], rho[chosen]
    first, second = pairs.first[copies], pairs.second[copies]
    second_copies = answers[second] <= answers[first]
    copied[np.where(second_copies, second, first)] = np.where(second_copies, first, second)
    return partner, likeness, copied


def worst(verdicts: Verdicts) -> Codes:
    """Return the workers with a bad verdict, the worst first, then the most active."""
    grave = np.array([-1, 0, 2, 2, 1, -1])[verdicts.kind]  # in the order of WORDS
    order = np.lexsort((np.arange(len(grave)), -verdicts.answers, -grave))
    chosen: Codes = order[grave[order] >= 0].astype(np.int32)
    return chosen


def words(verdicts: Verdicts, at: int, names: Vocabulary) -> str:
    """Return the verdict of one worker in words."""
    kind = int(verdicts.kind[at])
    if kind == ALWAYS:
        return f"{WORDS[kind]} {names.classes[int(verdicts.label[at])].as_py()}"
    if kind == COPIES:
        return f"{WORDS[kind]} {names.workers[int(verdicts.partner[at])].as_py()}"
    return WORDS[kind]


def verdict_texts(verdicts: Verdicts, names: Vocabulary) -> tuple[list[str], list[str]]:
    """Return the verdict and the reason of each worker, in words."""
    said, reasons = [], []
    for at, kind in enumerate(verdicts.kind.tolist()):
        partner = int(verdicts.partner[at])
        below_chance = partner < 0 or verdicts.right[at] <= verdicts.chance[at]
        text = _BELOW_CHANCE if kind == CHECK and below_chance else _REASONS[kind]
        reason = text.format(
            answers=f"{verdicts.answers[at]:,.0f}",
            right=f"{100 * verdicts.right[at]:.0f} %",
            chance=f"{100 * verdicts.chance[at]:.0f} %",
            typical=f"{100 * verdicts.typical:.0f} %",
            label=names.classes[int(verdicts.label[at])].as_py(),
            partner=names.workers[partner].as_py() if partner >= 0 else "",
            likeness=f"{verdicts.likeness[at]:.2f}",
        )
        said.append(words(verdicts, at, names))
        reasons.append(reason)
    return said, reasons


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
