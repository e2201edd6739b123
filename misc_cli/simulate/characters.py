"""What workers are like: the kind of each, and a confusion matrix of that kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import expit, logit

from misc_cli.core.types import Codes, Floats
from misc_cli.simulate.draws import below, normal
from misc_cli.simulate.settings import KINDS, Simulation

ACCURACY_SPREAD = 0.4  # standard deviation of a worker's accuracy, on the logit scale
FAVOURED = 0.5  # how often a biased worker gives the favourite
GROUP_HABIT = 4.0  # members of a group take a class for the same other one again and again


def characters(rng: np.random.Generator, settings: Simulation) -> tuple[Codes, Floats]:
    """Kinds (n_workers,) and confusions (n_workers, K, K), a group's members all alike."""
    if settings.groups is None:
        kinds = _kinds(rng, settings)
        return kinds, _confusions(rng, settings, kinds)
    few = replace(settings, workers=settings.groups, answers_per_item=1.0, groups=None)
    kinds = _kinds(rng, few)
    confusions = _confusions(rng, few, kinds, GROUP_HABIT)
    group = np.arange(settings.workers) % settings.groups
    group = group[np.argsort(rng.random(settings.workers), kind="stable")]
    return kinds[group], confusions[group]


def _kinds(rng: np.random.Generator, settings: Simulation) -> Codes:
    """Shares of the mix, rounded so that they add up, dealt to workers at random."""
    shares = np.array([settings.mix.get(kind, 0.0) for kind in KINDS])
    bounds = np.rint(np.cumsum(shares) / shares.sum() * settings.workers).astype(np.int64)
    kinds = np.searchsorted(bounds, np.arange(settings.workers), side="right").astype(np.int32)
    return kinds[np.argsort(rng.random(settings.workers), kind="stable")]


def _confusions(
    rng: np.random.Generator, settings: Simulation, kinds: Codes, habit: float = 1.0
) -> Floats:
    """(n_workers, n_classes, n_classes), rows sum to 1; with `habit` mistakes repeat themselves."""
    n_workers, n_classes = settings.workers, settings.classes
    shape = (n_workers, n_classes, n_classes)
    right: Floats = expit(logit(settings.accuracy) + ACCURACY_SPREAD * normal(rng, n_workers))
    right = np.where(kinds == KINDS.index("experts"), 1 - (1 - right) / 4, right)
    lower = (2 * right + 1 / n_classes) / 3
    right = np.where(kinds == KINDS.index("beginners"), lower, right)[:, None, None]
    identity = np.eye(n_classes)
    mistakes = (-np.log1p(-rng.random(shape)) * (1 - identity)) ** habit  # uneven, never right
    mistakes /= mistakes.sum(axis=2, keepdims=True)
    honest = right * identity + (1 - right) * mistakes
    favourite = identity[below(rng, n_classes, n_workers)][:, None, :]
    biased = FAVOURED * favourite + (1 - FAVOURED) * honest
    preferences = -np.log1p(-rng.random((n_workers, 1, n_classes)))
    spam = np.broadcast_to(preferences / preferences.sum(axis=2, keepdims=True), shape)
    reversed_ = np.roll(honest, 1, axis=2)  # what was said of class c is said of c + 1
    by_kind: dict[str, Floats] = {
        "biased": biased,
        "spammers": spam,
        "adversaries": reversed_,
        "constants": np.broadcast_to(favourite, shape),
    }
    confusions = honest
    for kind, rows in by_kind.items():
        confusions = np.where((kinds == KINDS.index(kind))[:, None, None], rows, confusions)
    return confusions
