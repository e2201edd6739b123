"""Draw a crowd: the truth, the workers, who answers what, and the answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from misc_cli.core.types import Codes, Floats
from misc_cli.simulate.assignment import BLOCK, assign
from misc_cli.simulate.characters import characters
from misc_cli.simulate.draws import below, normal
from misc_cli.simulate.settings import KINDS, Simulation


@dataclass(frozen=True)
class Crowd:
    """Answers sorted by item: `worker`, `item` and `label` are codes, (n_answers,).

    truth       (n_items,)
    kinds       (n_workers,), codes into KINDS
    originals   (n_workers,): whose answers a copier gives, -1 for all others
    confusions  (n_workers, n_classes, n_classes): [worker, true, observed]
    """

    worker: Codes
    item: Codes
    label: Codes
    truth: Codes
    kinds: Codes
    originals: Codes
    confusions: Floats


def simulate(settings: Simulation) -> Crowd:
    """Draw a crowd and its answers; every item is answered by different workers."""
    rng = np.random.default_rng(settings.seed)
    truth = below(rng, settings.classes, settings.items)
    kinds, confusions = characters(rng, settings)
    activity = np.exp(settings.activity_skew * normal(rng, settings.workers))
    copiers = kinds == KINDS.index("copiers")
    activity[copiers] = 0.0  # what they give is not their own
    whole, fraction = divmod(settings.answers_per_item, 1.0)
    n_answers = (int(whole) + (rng.random(settings.items) < fraction)).astype(np.int32)
    worker = assign(rng, activity / activity.sum(), n_answers)
    item = np.repeat(np.arange(settings.items, dtype=np.int32), n_answers)
    label = _answers(rng, confusions, worker, truth[item])
    originals = np.full(settings.workers, -1, dtype=np.int32)
    if copiers.any():
        models = np.flatnonzero(kinds == KINDS.index("honest"))
        originals[copiers] = models[below(rng, len(models), int(copiers.sum()))]
        confusions[copiers] = confusions[originals[copiers]]
        worker, item, label = _with_copies(worker, item, label, originals)
    return Crowd(worker, item, label, truth, kinds, originals, confusions)


def _with_copies(
    worker: Codes, item: Codes, label: Codes, originals: Codes
) -> tuple[Codes, Codes, Codes]:
    """Every copier gives its original's answers too; sorted by item and worker again."""
    copier = np.flatnonzero(originals >= 0).astype(np.int32)
    by_worker = np.argsort(worker, kind="stable")
    sizes = np.bincount(worker, minlength=len(originals))
    starts = np.cumsum(sizes) - sizes
    n_copied = sizes[originals[copier]]
    within = np.arange(n_copied.sum()) - np.repeat(np.cumsum(n_copied) - n_copied, n_copied)
    rows = by_worker[np.repeat(starts[originals[copier]], n_copied) + within]
    worker = np.concatenate([worker, np.repeat(copier, n_copied)])
    item, label = np.concatenate([item, item[rows]]), np.concatenate([label, label[rows]])
    order = np.lexsort((worker, item))
    return worker[order], item[order], label[order]


def _answers(rng: np.random.Generator, confusions: Floats, worker: Codes, true: Codes) -> Codes:
    """One label per answer, drawn from the worker's confusion row by inverting its sum."""
    n_classes = confusions.shape[1]
    cumulative = np.cumsum(confusions, axis=2).reshape(-1, n_classes)[:, :-1]
    label = np.empty(len(worker), dtype=np.int32)
    for rows in _blocks(len(worker)):
        bounds = cumulative[worker[rows].astype(np.int64) * n_classes + true[rows]]
        label[rows] = (rng.random(len(bounds))[:, None] >= bounds).sum(axis=1)
    return label


def _blocks(length: int) -> Iterator[slice]:
    return (slice(start, start + BLOCK) for start in range(0, length, BLOCK))
