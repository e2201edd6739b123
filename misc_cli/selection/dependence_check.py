"""Check whether workers err independently given the class: a posterior predictive check.

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

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from misc_cli.aggregators.confusion_kernels import shrunk_rows
from misc_cli.data.holdout import SEEDS, Names, item_keys, mixed
from misc_cli.data.posteriors import normalise_scores
from misc_cli.data.types import Codes, Floats

FAKES = 10
# Items are drawn by their names until they have about so many answers: more prove nothing more.
MOST_ANSWERS = 100_000
# Pseudo-answers per class that pull a worker's confusions towards the crowd's.
SHRINKAGE = 2.0
# By so many standard errors the crowd may differ from made-up ones and pass; by so many it fails.
PASSED, FAILED = 1.0, 2.0

Chosen = npt.NDArray[np.bool_]


def looked_at(names: Names, n_votes: int, seed: int) -> Chosen:
    """Return the mask of the items to check, (n_items,); it depends on their names alone."""
    keys = item_keys(names)
    with np.errstate(over="ignore"):
        places = mixed(keys + np.uint64(seed % 2**64) * np.uint64(SEEDS)) / 2.0**64
    chosen: Chosen = places < MOST_ANSWERS / max(n_votes, 1)
    return chosen


@dataclass(frozen=True)
class Pattern:
    """The items and workers of votes, (n_votes,) each, and the number of items."""

    items: Codes
    workers: Codes
    n_items: int

    def per_item(self, values: Floats) -> Floats:
        return np.bincount(self.items, values, minlength=self.n_items).astype(np.float64)


def evidence_of_votes(matrix: sp.csr_array, confusions: Floats, class_sizes: Floats) -> Floats:
    """Return what votes say of their items, (n_items, K), given the workers' confusions.

    class_sizes (K,) is how many items each class is expected to have.
    """
    pattern, classes = _pattern(matrix.indptr, matrix.indices, len(class_sizes))
    prior = (class_sizes + 1.0) / (class_sizes + 1.0).sum()
    return _posteriors(pattern, classes, confusions, prior)


def standard_errors(
    pointers: npt.NDArray[np.integer],
    columns: npt.NDArray[np.integer],
    counts: Floats,
    seed: int = 0,
) -> float:
    """Return how many standard errors more answers agree than those of simulated crowds."""
    pattern, classes = _pattern(pointers, columns, counts.shape[1])
    confusions = shrunk_rows(counts, SHRINKAGE)
    said = counts.sum(axis=(0, 2))
    prior = (said + 1.0) / (said + 1.0).sum()
    posteriors = _posteriors(pattern, classes, confusions, prior)
    real = _agreement(pattern, classes, confusions, posteriors)
    random = np.random.default_rng(seed)
    made = []
    for _ in range(FAKES):
        drawn = _draw(posteriors, random)
        answers = _draw(confusions[pattern.workers, drawn[pattern.items]], random)
        found = _posteriors(pattern, answers, confusions, prior)
        made.append(_agreement(pattern, answers, confusions, found))
    spread = pattern.n_items * float(np.mean([of_items.var() for of_items in made]))
    if spread <= 0.0:
        return 0.0
    ahead = real.sum() - np.mean([of_items.sum() for of_items in made])
    return float(ahead / np.sqrt(spread * (1.0 + 1.0 / FAKES)))


def _pattern(
    pointers: npt.NDArray[np.integer], columns: npt.NDArray[np.integer], n_classes: int
) -> tuple[Pattern, Codes]:
    """Return the pattern of votes and their classes, (n_votes,)."""
    n_items = len(pointers) - 1
    workers, classes = np.divmod(columns.astype(np.int32), np.int32(n_classes))
    items = np.repeat(np.arange(n_items, dtype=np.int32), np.diff(pointers))
    return Pattern(items, workers, n_items), classes


def _draw(chances: Floats, random: np.random.Generator) -> Codes:
    """Draw a class for each row of probabilities, (n, n_classes)."""
    places = random.random(len(chances))
    drawn: Codes = (chances.cumsum(axis=1)[:, :-1] < places[:, None]).sum(axis=1, dtype=np.int32)
    return drawn


def _posteriors(pattern: Pattern, classes: Codes, confusions: Floats, prior: Floats) -> Floats:
    """Return posteriors, (n_items, K), by one E-step (Dawid & Skene 1979, eq. 2.5)."""
    logs = np.log(confusions)
    scores = np.log(prior) + np.stack(
        [
            pattern.per_item(logs[pattern.workers, true, classes])
            for true in range(confusions.shape[1])
        ],
        axis=1,
    )
    normalise_scores(scores)
    return scores


def _agreement(pattern: Pattern, classes: Codes, confusions: Floats, posteriors: Floats) -> Floats:
    """Return how far the answers to each item agree beyond what its class explains, (n_items,)."""
    label = posteriors.argmax(axis=1)[pattern.items]
    agreed = np.zeros(pattern.n_items)
    for said in range(confusions.shape[2]):
        beyond = (classes == said) - confusions[pattern.workers, label, said]
        agreed += pattern.per_item(beyond) ** 2 - pattern.per_item(beyond**2)
    return agreed
