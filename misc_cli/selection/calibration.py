"""Calibrate confidences by held-out answers or by gold, where workers err together.

    written = (1 − w) · mean of the methods' posteriors + w · softened
    softened = (1 − v) · p^(1/T) / Σ p^(1/T) + v · (n_c + 1/K) / (n + 1)

p is the methods' logarithmic pool (the normalised product of their posteriors, each to the power
of its weight): a mean of logarithms tells 0.99 from 0.999, which a mean of probabilities hardly
does. T, the temperature, softens all items alike (Guo et al. 2017 fit it
on truth; we have none). v is the weight of the votes themselves, n_c of an item's n, with one vote
spread evenly over the K classes. T and v maximise the log-likelihood of hidden answers, which see
only a part of the overconfidence: workers who err together confirm each other. Over the sets of
`make accuracy` the truth asks for about `SHARED_ERRORS` times the temperature.

w says whether workers err together: the check below tells crowds that the model describes
(w = 0) from those whose workers do (w = 1). A single method that fits noise, as ds-em does with
many classes and few answers, is softened where w = 0, too (`Calibration.own`); a mean of methods
has averaged that out.
Gold items show all of the overconfidence: where there are any, they choose T and v. All parts rise
with the evidence, so their mean does, too; none changes a label.

**Do workers err together?** A posterior predictive check.
A model in which workers err independently, given an item's class, is too sure where they do not:
items differ in difficulty, and what misleads one worker misleads others. Where the model holds, its
posteriors are right as they are. The answers tell which is the case (Gelman, Meng & Stern 1996).
With d_w the indicator of worker w's answer less its probabilities, given the item's most likely
class, an item's statistic is

    Σ over pairs w ≠ v of its answers: d_w · d_v  =  |Σ d_w|² − Σ |d_w|²

how far answers agree beyond what the class explains. It is biased because labels follow the
answers, so it is compared with crowds simulated by the model: the same workers on the same items,
classes drawn from the posteriors, answers from the confusions, labels found anew. On simulated
crowds the difference is a standard normal number; on public ones it is between 1 and 56.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from misc_cli.aggregators.confusion_kernels import shrunk_rows
from misc_cli.data.holdout import FLOOR, SEEDS, Names, Triplets, answers_of, item_keys
from misc_cli.data.holdout import mixed as hashed
from misc_cli.data.posteriors import normalise_scores
from misc_cli.data.types import Codes, Floats
from misc_cli.data.votes import SparseVotes

TEMPERATURES: Floats = np.geomspace(0.5, 20.0, 13)
VOTE_WEIGHTS: Floats = np.linspace(0.0, 0.2, 5)  # they never outweigh the model
# Few hidden answers say little: a normal prior on log T with this standard deviation.
PRIOR_WIDTH = 1.0
SHARED_ERRORS = 1.5
# Hidden answers ask for about this temperature where a method is right about its confidences.
OF_RIGHT_MODEL = 1.2
# Pseudo-answers per class that pull a worker's confusions towards the crowd's in these forecasts.
MODEL_SHRINKAGE = 0.3
VOTE_SHRINKAGE = 2.0
MANY_SHRINKAGE = 10.0  # where there are so many that noise would be taken for overconfidence
# What gold items choose from; one of them that is certain and wrong must not decide alone.
GOLD_TEMPERATURES: Floats = np.geomspace(0.3, 60.0, 25)
GOLD_VOTE_WEIGHTS: Floats = np.linspace(0.0, 0.5, 7)
GOLD_PRIOR_WIDTH = 0.5
VOTES_PRIOR_WIDTH = 0.3
GOLD_FLOOR = 1e-6
# A vote share understates: two to one is more than two thirds. For a forecast, and where votes
# alone decide, it is squared.
VOTE_SHARPNESS = 0.5
# How near a class that the votes or the pool prefer may come to the label, where it was farther.
JUST_AHEAD = 1e-6
FAKES = 10
# Items are drawn by their names until they have about so many answers: more prove nothing more.
MOST_ANSWERS = 100_000
# Pseudo-answers per class that pull a worker's confusions towards the crowd's.
SHRINKAGE = 2.0
# By so many standard errors the crowd may differ from made-up ones and pass; by so many it fails.
PASSED, FAILED = 1.0, 2.0

Chosen = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Calibration:
    """Parameters of the calibration; the defaults do not change the posteriors of one method.

    `evidence` is for posteriors of a completed matrix, which rest on answers that were never given:
    they choose the labels, and the given answers say how sure each label is. `own` is the
    temperature of a single method whatever `weight` is: hidden answers see that it fits noise.
    """

    temperature: float = 1.0
    votes: float = 0.0
    weight: float = 1.0
    evidence: bool = False
    own: float = 1.0

    def soften(self, posteriors: Floats, shares: Floats | None, pooled: Floats | None) -> Floats:
        """Calibrate the posteriors of some items, given their vote shares (None: no weight)."""
        softened = temper(posteriors if pooled is None else pooled, self.temperature)
        if shares is not None:
            softened = mixed(softened, shares, self.votes)
        alone = temper(posteriors, self.own) if self.own > 1.0 else posteriors
        return mixed(alone, softened, self.weight)


def pool(posteriors: Sequence[Floats], shares: Sequence[float]) -> Floats:
    """Return the normalised product of posteriors to the power of their shares, (n, n_classes)."""
    logs = [np.log(np.maximum(of_one, 1e-300)) for of_one in posteriors]
    return _normalised(np.average(logs, axis=0, weights=shares))


def temper(posteriors: Floats, temperature: float) -> Floats:
    """Return posteriors^(1/T), (n, n_classes), rows normalised; computed in logs."""
    return _normalised(np.log(np.maximum(posteriors, 1e-300)) / temperature)


def _normalised(logs: Floats) -> Floats:
    """Return the posteriors of logarithms, (n, n_classes)."""
    chances = np.exp(logs - logs.max(axis=1, keepdims=True))
    posteriors: Floats = chances / chances.sum(axis=1, keepdims=True)
    return posteriors


def voted(totals: Floats, posteriors: Floats) -> Floats:
    """Return posteriors that follow the votes of each class, (n, n_classes).

    The given posteriors count as half a vote: they break ties and overrule no majority.
    """
    return temper(shares_of(totals + 0.5 * posteriors), VOTE_SHARPNESS)


def shares_of(totals: Floats) -> Floats:
    """Return vote shares from the votes of each class on each item, (n, n_classes) both."""
    shares = totals + 1.0 / totals.shape[1]
    normalised: Floats = shares / shares.sum(axis=1, keepdims=True)
    return normalised


def mixed(first: Floats, second: Floats, weight: float) -> Floats:
    """Return the mean of two posteriors, (n, n_classes), with `weight` for the second.

    The second weighs less where it would change the label of the first: it then only makes that
    label as doubtful as possible.
    """
    rows = np.arange(len(first))
    label = first.argmax(axis=1)
    ahead = first[rows, label][:, None] - first
    against = np.maximum(second - second[rows, label][:, None], 0.0)
    # class c overtakes the label at weight ahead / (ahead + against)
    room = np.maximum(ahead - JUST_AHEAD, 0.0)
    with np.errstate(invalid="ignore"):
        most = np.where(against > 0.0, room / (ahead + against), 1.0).min(axis=1)
    weights = np.minimum(weight, most)[:, None]
    mixed: Floats = (1.0 - weights) * first + weights * second
    return mixed


def tempered_forecasts(
    of_items: Floats, counts: Floats, shrinkage: float, hidden: Triplets
) -> Floats:
    """Return the likelihood of held-out answers at each of TEMPERATURES, (n, n_hidden).

    of_items (n_hidden, n_classes) are the posteriors of their items, counts (n_workers, n_classes,
    n_classes) those that a fit expects of the kept answers.
    """
    said = shrunk_rows(counts, shrinkage)[hidden.workers, :, hidden.classes]
    found = [np.einsum("pc,pc->p", temper(of_items, at), said) for at in TEMPERATURES]
    return np.array(found)


def surface(
    of_items: Floats,
    counts: Floats,
    hidden: Triplets,
    totals: Floats | None = None,
    counts_of: Callable[[Floats], Floats] | None = None,
) -> Floats:
    """Return the summed log score of held-out answers by TEMPERATURES and VOTE_WEIGHTS.

    totals (n_items, n_classes) are the votes, and `counts_of` gives the counts that posteriors make
    expect: mixing posteriors mixes their forecasts. Without them votes have no weight (one column):
    of many answers they would make up for nothing but noisy confusions.
    """
    if totals is None or counts_of is None:
        by_model = tempered_forecasts(of_items, counts, MANY_SHRINKAGE, hidden)
        alone: Floats = np.log(np.maximum(by_model, FLOOR)).sum(axis=1)[:, None]
        return alone
    votes = temper(shares_of(totals), VOTE_SHARPNESS)
    said = shrunk_rows(counts_of(votes), VOTE_SHRINKAGE)[hidden.workers, :, hidden.classes]
    by_votes = np.einsum("pc,pc->p", votes[hidden.items], said)
    found = []
    for by_model in tempered_forecasts(of_items, counts, MODEL_SHRINKAGE, hidden):
        mixture = by_model[:, None] + VOTE_WEIGHTS * (by_votes - by_model)[:, None]
        found.append(np.log(np.maximum(mixture, FLOOR)).sum(axis=0))
    return np.array(found)


def best_calibration(surfaces: Sequence[Floats]) -> Calibration:
    """Return the peak of the summed surfaces, refined by a parabola along the temperatures."""
    logs = np.log(TEMPERATURES)
    posterior = np.sum(surfaces, axis=0) - 0.5 * (logs / PRIOR_WIDTH)[:, None] ** 2
    top, column = np.unravel_index(int(posterior.argmax()), posterior.shape)
    peak = float(logs[top])
    if 0 < top < len(logs) - 1:
        left, middle, right = posterior[top - 1 : top + 2, column]
        bend = left - 2.0 * middle + right
        peak += float(0.5 * (left - right) / bend * (logs[1] - logs[0])) if bend < 0 else 0.0
    temperature = float(np.exp(peak))
    return Calibration(
        SHARED_ERRORS * temperature,
        float(VOTE_WEIGHTS[column]),
        own=max(temperature / OF_RIGHT_MODEL, 1.0),
    )


def calibration_of_known(
    posteriors: Sequence[Floats],
    weights: Sequence[float],
    totals: Floats,
    classes: Codes,
    hidden: Calibration,
) -> Calibration:
    """Fit the calibration on gold items, near the one that held-out answers gave.

    Arguments are, for the gold items, the posteriors of weighted fits that did not know them, their
    votes, (n, n_classes) each, and classes (n,).
    """
    known: Floats = np.average(posteriors, axis=0, weights=weights)
    pooled = pool(posteriors, weights) if len(posteriors) > 1 else None
    shares = shares_of(totals)
    right = np.arange(len(classes)), classes
    usual = hidden.weight * np.log(hidden.temperature), hidden.weight * hidden.votes
    best, most = hidden, -np.inf
    for temperature in GOLD_TEMPERATURES:
        away = (np.log(temperature) - usual[0]) / GOLD_PRIOR_WIDTH
        for votes in GOLD_VOTE_WEIGHTS:
            asked = Calibration(float(temperature), float(votes))
            written = asked.soften(known, shares, pooled)
            score = float(np.log(np.maximum(written[right], GOLD_FLOOR)).sum())
            score -= 0.5 * (away**2 + ((votes - usual[1]) / VOTES_PRIOR_WIDTH) ** 2)
            if score > most:
                best, most = asked, score
    return best


def looked_at(names: Names, n_votes: int, seed: int) -> Chosen:
    """Return the mask of the items to check, (n_items,); it depends on their names alone."""
    keys = item_keys(names)
    with np.errstate(over="ignore"):
        places = hashed(keys + np.uint64(seed % 2**64) * np.uint64(SEEDS)) / 2.0**64
    chosen: Chosen = places < MOST_ANSWERS / max(n_votes, 1)
    return chosen


def evidence_of_votes(matrix: sp.csr_array, confusions: Floats, class_sizes: Floats) -> Floats:
    """Return what votes say of their items, (n_items, K), given the workers' confusions.

    class_sizes (K,) is how many items each class is expected to have.
    """
    votes = answers_of(SparseVotes(matrix, *confusions.shape[:2]))
    prior = (class_sizes + 1.0) / (class_sizes + 1.0).sum()
    logs = np.log(confusions)
    return _posteriors(votes.items, votes.workers, votes.classes, logs, prior, matrix.shape[0])


def standard_errors(matrix: sp.csr_array, counts: Floats, seed: int = 0) -> float:
    """Return how many standard errors more answers agree than those of simulated crowds."""
    votes = answers_of(SparseVotes(matrix, *counts.shape[:2]))
    items, workers, n_items = votes.items, votes.workers, matrix.shape[0]
    confusions = shrunk_rows(counts, SHRINKAGE)
    said = counts.sum(axis=(0, 2))
    prior, logs = (said + 1.0) / (said + 1.0).sum(), np.log(confusions)

    def drawn(chances: Floats) -> Codes:
        """Draw a class for each row of probabilities, (n, n_classes)."""
        places = random.random(len(chances))[:, None]
        codes: Codes = (chances.cumsum(axis=1)[:, :-1] < places).sum(axis=1, dtype=np.int32)
        return codes

    posteriors = _posteriors(items, workers, votes.classes, logs, prior, n_items)
    answers, found = votes.classes, posteriors
    random = np.random.default_rng(seed)
    agreements = []  # of the crowd, then of the simulated ones
    for fake in range(FAKES + 1):
        if fake:
            of_items = drawn(posteriors)
            answers = drawn(confusions[workers, of_items[items]])
            found = _posteriors(items, workers, answers, logs, prior, n_items)
        # how far answers to each item agree beyond what its class explains, (n_items,)
        label = found.argmax(axis=1)[items]
        agreed = np.zeros(n_items)
        for code in range(confusions.shape[2]):
            beyond = (answers == code) - confusions[workers, label, code]
            squared = np.bincount(items, beyond, n_items) ** 2
            agreed += squared - np.bincount(items, beyond**2, n_items)
        agreements.append(agreed)
    real, *made = agreements
    spread = n_items * float(np.mean([one.var() for one in made]))
    if spread <= 0.0:
        return 0.0
    ahead = real.sum() - np.mean([one.sum() for one in made])
    return float(ahead / np.sqrt(spread * (1.0 + 1.0 / FAKES)))


def _posteriors(
    items: Codes, workers: Codes, classes: Codes, logs: Floats, prior: Floats, n_items: int
) -> Floats:
    """Return posteriors, (n_items, K), by one E-step (Dawid & Skene 1979, eq. 2.5)."""
    summed = [
        np.bincount(items, logs[workers, true, classes], n_items) for true in range(len(prior))
    ]
    scores = np.log(prior) + np.stack(summed, axis=1)
    normalise_scores(scores)
    return scores
