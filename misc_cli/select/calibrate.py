"""Confidences that mean something: two numbers, fitted on answers that were hidden.

    (1 − v) · p^(1/T) / Σ p^(1/T) + v · (n_c + 1/K) / (n + 1)

T, the temperature, softens (or sharpens) all posteriors alike (Guo et al. 2017 fit it on truth; we
have none). v is the weight of the votes themselves, n_c of an item's n, with one vote spread
evenly over the K classes: where a split vote foretells the next answer better than a model that
is sure of every item, items differ in difficulty, and the split is what shows it. Both maximise
the log-likelihood of hidden answers. Both parts rise with the evidence, so their mean does.

Hidden answers see only a part of the overconfidence: workers who err together confirm each other.
Over the sets of `make accuracy` the temperature that the truth asks for is about the power
`SHARED_ERRORS` of the one that hidden answers ask for; where the model holds, both are 1.
Items whose class is known (gold) show all of it: they choose both numbers where there are any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from misc_cli.aggregators.confusion.em import confusions_of
from misc_cli.core.holdout import FLOOR, Triplets
from misc_cli.core.logdomain import clamp
from misc_cli.core.types import Codes, Floats, Labels

TEMPERATURES: Floats = np.geomspace(0.5, 20.0, 13)
VOTE_WEIGHTS: Floats = np.linspace(0.0, 0.4, 9)  # they never outweigh the model
# Few hidden answers say little: a normal prior on log T with this standard deviation.
PRIOR_WIDTH = 1.0
SHARED_ERRORS = 1.5
# Pseudo-answers per class that pull a worker's confusions towards the crowd's in these forecasts.
MODEL_SHRINKAGE = 0.3
VOTE_SHRINKAGE = 2.0
MANY_SHRINKAGE = 10.0  # where there are so many that noise would be taken for overconfidence
# What gold items choose from; one of them that is certain and wrong must not decide alone.
GOLD_TEMPERATURES: Floats = np.geomspace(0.3, 60.0, 25)
GOLD_VOTE_WEIGHTS: Floats = np.linspace(0.0, 0.9, 7)
VOTES_PRIOR_WIDTH = 0.3
GOLD_FLOOR = 1e-6
# A vote share understates: two to one is more than two thirds. For the forecast it is squared.
VOTE_SHARPNESS = 0.5
# How near, at the least, a class that the votes prefer may come to the label.
JUST_AHEAD = 1e-6


@dataclass(frozen=True)
class Calibration:
    """What posteriors are softened by; the defaults leave them as they are."""

    temperature: float = 1.0
    votes: float = 0.0

    def __call__(self, posteriors: Floats, labels: Labels) -> Floats:
        """Calibrated posteriors, (n_items, n_classes): the same labels, gold rows certain."""
        shares = vote_shares(labels) if self.votes > 0.0 else None
        return self.soften(posteriors, shares, labels.gold)

    def soften(self, posteriors: Floats, shares: Floats | None, gold: Codes | None) -> Floats:
        """The same of some items, given their vote shares (None: they have no weight)."""
        softened = temper(posteriors, self.temperature)
        if shares is not None:
            softened = _mixed(softened, shares, self.votes)
        if gold is not None:
            clamp(softened, gold)
        return softened


def temper(posteriors: Floats, temperature: float) -> Floats:
    """posteriors^(1/T), (n, n_classes), rows normalised, in logs."""
    scores = np.log(np.maximum(posteriors, 1e-300)) / temperature
    scores -= scores.max(axis=1, keepdims=True)
    softened = np.exp(scores)
    tempered: Floats = softened / softened.sum(axis=1, keepdims=True)
    return tempered


def vote_shares(labels: Labels) -> Floats:
    """Each class's share of an item's votes with one more vote for all alike, (n_items, K)."""
    votes = labels.votes
    return shares_of(np.concatenate([votes.class_totals(rows) for rows in votes.blocks]))


def shares_of(totals: Floats) -> Floats:
    """Vote shares from the votes that each class has on an item, (n, n_classes) both."""
    shares = totals + 1.0 / totals.shape[1]
    normalised: Floats = shares / shares.sum(axis=1, keepdims=True)
    return normalised


def _mixed(softened: Floats, shares: Floats, weight: float) -> Floats:
    """Posteriors and vote shares, (n, n_classes); the votes weigh less where they would change the
    label: then they only make it as doubtful as can be.
    """
    rows = np.arange(len(softened))
    label = softened.argmax(axis=1)
    ahead = softened[rows, label][:, None] - softened
    against = np.maximum(shares - shares[rows, label][:, None], 0.0)
    # class c overtakes the label at weight ahead / (ahead + against)
    with np.errstate(invalid="ignore"):
        most = np.where(against > 0.0, ahead / (ahead + against), 1.0).min(axis=1)
    weights = np.minimum(weight, (1.0 - JUST_AHEAD) * most)[:, None]
    mixed: Floats = (1.0 - weights) * softened + weights * shares
    return mixed


def calibration_surface(
    labels: Labels, posteriors: Floats, hidden: Triplets, *, many: bool = False
) -> Floats:
    """Summed log score of hidden answers at every (TEMPERATURES, VOTE_WEIGHTS).

    labels and posteriors are of what was kept. Mixing posteriors mixes their forecasts. Of `many`
    answers the votes have no weight: there they would make up for nothing but noisy confusions.
    """
    if many:
        said = _forecast(labels, posteriors, MANY_SHRINKAGE, hidden)[1]
        return surface_of_many(posteriors[hidden.items], said)
    shares = temper(vote_shares(labels), VOTE_SHARPNESS)
    by_votes = _forecast(labels, shares, VOTE_SHRINKAGE, hidden)[0]
    of_items = posteriors[hidden.items]
    said = _forecast(labels, posteriors, MODEL_SHRINKAGE, hidden)[1]
    surface = np.empty((len(TEMPERATURES), len(VOTE_WEIGHTS)))
    for at, temperature in enumerate(TEMPERATURES):
        by_model = np.einsum("pc,pc->p", temper(of_items, temperature), said)
        mixed = by_model[:, None] + VOTE_WEIGHTS * (by_votes - by_model)[:, None]
        surface[at] = np.log(np.maximum(mixed, FLOOR)).sum(axis=0)
    return surface


def surface_of_many(of_items: Floats, said: Floats) -> Floats:
    """The same, given the hidden answers' items' posteriors and how likely each class makes them,
    (n_hidden, n_classes) both: the votes have no weight.
    """
    column = [np.einsum("pc,pc->p", temper(of_items, at), said) for at in TEMPERATURES]
    alone: Floats = np.log(np.maximum(column, FLOOR)).sum(axis=1)[:, None]
    return alone


def _forecast(
    labels: Labels, posteriors: Floats, shrinkage: float, hidden: Triplets
) -> tuple[Floats, Floats]:
    """How likely the hidden answers are, (n,), and given each class, (n, n_classes)."""
    confusions = confusions_of(labels, posteriors, shrinkage)
    said: Floats = confusions[hidden.workers, :, hidden.classes]
    return np.einsum("pc,pc->p", posteriors[hidden.items], said), said


def best_calibration(surfaces: Sequence[Floats]) -> Calibration:
    """The peak of the summed surfaces, refined by a parabola along the temperatures."""
    logs = np.log(TEMPERATURES)
    posterior = np.sum(surfaces, axis=0) - 0.5 * (logs / PRIOR_WIDTH)[:, None] ** 2
    top, column = np.unravel_index(int(posterior.argmax()), posterior.shape)
    peak = float(logs[top])
    if 0 < top < len(logs) - 1:
        left, middle, right = posterior[top - 1 : top + 2, column]
        bend = left - 2.0 * middle + right
        peak += float(0.5 * (left - right) / bend * (logs[1] - logs[0])) if bend < 0 else 0.0
    power = SHARED_ERRORS if peak > 0 else 1.0
    return Calibration(float(np.exp(power * peak)), float(VOTE_WEIGHTS[column]))


def gold_calibration(
    posteriors: Floats, labels: Labels, gold: Codes, hidden: Calibration
) -> Calibration:
    """The calibration that gold items ask for, near the one that hidden answers ask for.

    posteriors and labels did not know the gold items; `gold` (n_items,) has -1 elsewhere.
    """
    rows = np.flatnonzero(gold >= 0)
    return calibration_of_known(posteriors[rows], vote_shares(labels)[rows], gold[rows], hidden)


def calibration_of_known(
    known: Floats, shares: Floats, classes: Codes, hidden: Calibration
) -> Calibration:
    """The same, given only the gold items: posteriors, vote shares (n, n_classes), classes."""
    right = np.arange(len(classes)), classes
    best, most = hidden, -np.inf
    for temperature in GOLD_TEMPERATURES:
        softened = temper(known, temperature)
        away = np.log(temperature / hidden.temperature) / PRIOR_WIDTH
        for votes in GOLD_VOTE_WEIGHTS:
            mixed = _mixed(softened, shares, votes)
            score = float(np.log(np.maximum(mixed[right], GOLD_FLOOR)).sum())
            score -= 0.5 * (away**2 + ((votes - hidden.votes) / VOTES_PRIOR_WIDTH) ** 2)
            if score > most:
                best, most = Calibration(float(temperature), float(votes)), score
    return best
