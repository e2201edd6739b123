"""Simulated crowds: answers of made-up workers, and the truth.

Every worker has a confusion matrix of one of eight kinds; some answer far more often than others.
All draws use uniform numbers of one seeded stream, which numpy keeps stable over versions: equal
settings give equal answers everywhere.

| kind        | given the true class, answers                                                  |
|-------------|--------------------------------------------------------------------------------|
| experts     | rightly, with a quarter of the honest workers' error                            |
| honest      | rightly with about `accuracy`; mistakes spread unevenly over the other classes  |
| biased      | like the honest, but half of the time a favourite class instead                 |
| spammers    | without reading the item: at random, each with own preferences                  |
| adversaries | with about `accuracy` the class after the true one                              |
| constants   | always one class                                                                |
| beginners   | like the honest, but two thirds as far above chance                             |
| copiers     | as one honest worker did: each repeats the answers of another                   |
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import expit, logit, ndtri

from misc_cli.data import resources
from misc_cli.data.parameters import COUNT, SEED, Number, check, parameter, parameters_of
from misc_cli.data.types import Codes, Floats
from misc_cli.errors import ConfigError

DEFAULT_MIX = {"experts": 0.1, "honest": 0.6, "biased": 0.15, "spammers": 0.1, "adversaries": 0.05}
KINDS = (*DEFAULT_MIX, "constants", "beginners", "copiers")
ACCURACY_SPREAD = 0.4  # standard deviation of a worker's accuracy, on the logit scale
FAVOURED = 0.5  # how often a biased worker gives the favourite
GROUP_HABIT = 4.0  # members of a group take a class for the same other one again and again
BLOCK = 1 << 20  # numbers to hold at a time
PATIENCE = 1000  # rounds of drawing again, before all workers are ranked


@dataclass(frozen=True)
class Simulation:
    """Settings of a crowd.

    answers_per_item  mean number of answers; fractions are shared out at random
    accuracy          of the median honest worker
    activity_skew     standard deviation of the log of a worker's activity; 0 makes all equal
    mix               shares of the kinds of workers, in any unit
    groups            number of confusion matrices that all workers share, dealt evenly: the
                      structure that completion exists for; None: each worker has its own
    """

    workers: int = parameter(100, "", COUNT)
    items: int = parameter(1000, "", COUNT)
    classes: int = parameter(4, "", Number(True, 2, most=10**5))
    answers_per_item: float = parameter(5.0, "", Number(False, 0, excluded=True))
    accuracy: float = parameter(0.7, "", Number(False, 1e-9, most=1 - 1e-9))
    activity_skew: float = parameter(1.0, "", Number(False, 0, most=20))
    mix: Mapping[str, float] = field(default_factory=lambda: DEFAULT_MIX)
    groups: int | None = parameter(None, "", COUNT)
    seed: int = parameter(0, "", SEED)

    def __post_init__(self) -> None:
        check(vars(self), parameters_of(type(self)))
        shares = self.mix.values()
        if not (set(self.mix) <= set(KINDS) and min(shares, default=-1) >= 0 < sum(shares)):
            raise ConfigError(f"--mix takes shares of {', '.join(KINDS)}")
        copied = self.mix.get("copiers", 0.0) / sum(shares)
        if copied and (self.groups is not None or not self.mix.get("honest")):
            raise ConfigError("--mix: copiers need honest workers to copy, and have no --groups")
        if self.answers_per_item > self.workers - math.ceil(copied * self.workers):
            raise ConfigError("--answers-per-item must be no more than --workers (less copiers)")
        if (self.groups or 1) > self.workers:
            raise ConfigError("--groups must be no more than --workers")
        n_answers = math.ceil(self.items * self.answers_per_item)
        resources.require(
            40 * n_answers + 8 * self.classes**2 * self.workers * 4,
            f"a crowd with {n_answers:,} answers in {self.classes:,} classes",
            "make a smaller one",
        )


def below(rng: np.random.Generator, limit: int, size: int) -> Codes:
    codes: Codes = np.minimum(rng.random(size) * limit, limit - 1).astype(np.int32)
    return codes


def normal(rng: np.random.Generator, *shape: int) -> Floats:
    # random() may return 0, whose quantile is minus infinity; 1 - random() may be 1: clip both
    drawn: Floats = ndtri(np.clip(rng.random(shape), 1e-12, 1 - 1e-12))
    return drawn


def characters(rng: np.random.Generator, settings: Simulation) -> tuple[Codes, Floats]:
    """Return kinds (n_workers,) and confusions (n_workers, K, K), equal within a group."""
    count = settings.groups or settings.workers
    # shares of the mix, rounded, dealt at random
    shares = np.array([settings.mix.get(kind, 0.0) for kind in KINDS])
    bounds = np.rint(np.cumsum(shares) / shares.sum() * count).astype(np.int64)
    kinds = np.searchsorted(bounds, np.arange(count), side="right").astype(np.int32)
    kinds = kinds[np.argsort(rng.random(count), kind="stable")]
    confusions = _confusions(rng, settings, kinds)
    if settings.groups is None:
        return kinds, confusions
    group = np.arange(settings.workers) % count
    group = group[np.argsort(rng.random(settings.workers), kind="stable")]
    return kinds[group], confusions[group]


def _confusions(rng: np.random.Generator, settings: Simulation, kinds: Codes) -> Floats:
    """Return the confusions of workers, or groups, of these kinds, (len(kinds), K, K)."""
    n_workers, n_classes = len(kinds), settings.classes
    habit = 1.0 if settings.groups is None else GROUP_HABIT
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
    constant = np.broadcast_to(favourite, shape)
    others = {"biased": biased, "spammers": spam, "adversaries": reversed_, "constants": constant}
    is_kind = [(kinds == KINDS.index(kind))[:, None, None] for kind in others]
    return np.select(is_kind, list(others.values()), honest)


def assign(rng: np.random.Generator, activity: Floats, n_answers: Codes) -> Codes:
    """Return workers of every item, drawn by activity without repeats; flat, in item order."""
    most = int(n_answers.max(initial=0))
    n_workers = len(activity)
    # Redrawing repeats is quick while an item needs few of the workers; else rank them all.
    draw = _draw_and_redraw if most * 4 <= n_workers else _rank_all
    step = max(1, BLOCK // max(most, 1 if draw is _draw_and_redraw else n_workers))
    starts = range(0, len(n_answers), step)
    return np.concatenate([draw(rng, activity, n_answers[at : at + step]) for at in starts])


def _draw_and_redraw(rng: np.random.Generator, activity: Floats, n_answers: Codes) -> Codes:
    n_workers, most = len(activity), int(n_answers.max(initial=0))
    cumulative = np.cumsum(activity)

    def draw(size: tuple[int, ...]) -> Codes:
        found = np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right")
        codes: Codes = np.minimum(found, n_workers - 1).astype(np.int32)
        return codes

    wanted = np.arange(most) < n_answers[:, None]
    # Places beyond an item's number hold distinct codes that sort to the end.
    places = np.where(wanted, draw(wanted.shape), n_workers + np.arange(most, dtype=np.int32))
    places.sort(axis=1)
    pending = np.arange(len(places))
    for _ in range(PATIENCE):
        if not len(pending):
            break
        rows = places[pending]
        repeats = np.diff(rows, axis=1, prepend=-1) == 0  # equal to the entry on the left
        pending = pending[repeats.any(axis=1)]
        rows[repeats] = draw((int(repeats.sum()),))
        rows.sort(axis=1)
        places[pending] = rows[repeats.any(axis=1)]
    for start in range(0, len(pending), step := max(1, BLOCK // n_workers)):
        rows_left = pending[start : start + step]
        rows = places[rows_left]
        rows[wanted[rows_left]] = _rank_all(rng, activity, n_answers[rows_left])
        places[rows_left] = rows
    flat: Codes = places[places < n_workers]
    return flat


def _rank_all(rng: np.random.Generator, activity: Floats, n_answers: Codes) -> Codes:
    """Return a weighted draw without replacement: the first n of exponential clocks."""
    times = -np.log1p(-rng.random((len(n_answers), len(activity)))) / activity
    order = np.argsort(times, axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(len(activity))[None, :], axis=1)
    return np.nonzero(rank < n_answers[:, None])[1].astype(np.int32)


def answer_columns(crowd: Crowd, class_names: Sequence[str] | None = None) -> dict[str, Any]:
    """Return worker, item and label as dictionary-encoded text columns."""
    return {
        "worker": _named(crowd.worker, _names("w", len(crowd.kinds))),
        "item": _named(crowd.item, _names("i", len(crowd.truth))),
        "label": _named(crowd.label, class_names or _names("c", crowd.confusions.shape[1])),
    }


def truth_columns(crowd: Crowd, class_names: Sequence[str] | None = None) -> dict[str, Any]:
    """Return item and label as text columns."""
    classes = class_names or _names("c", crowd.confusions.shape[1])
    return {"item": _names("i", len(crowd.truth)), "label": _named(crowd.truth, classes)}


def _names(letter: str, count: int) -> Any:
    """Return w001 … w100, padded so that text sorts like numbers."""
    numbers = pa.array(np.arange(1, count + 1)).cast(pa.string())
    padded = pc.utf8_lpad(numbers, len(str(count)), "0")
    return pc.binary_join_element_wise(letter, padded, "")


def _named(codes: Codes, names: Any) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(names, pa.string()))


@dataclass(frozen=True)
class Crowd:
    """A crowd and its answers, sorted by item: `worker`, `item`, `label` are codes, (n_answers,).

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
        import pandas as pd

        models = np.flatnonzero(kinds == KINDS.index("honest"))
        originals[copiers] = models[below(rng, len(models), int(copiers.sum()))]
        confusions[copiers] = confusions[originals[copiers]]
        own = pd.DataFrame({"worker": worker, "item": item, "label": label})
        of = pd.DataFrame({"copier": np.flatnonzero(copiers), "worker": originals[copiers]})
        copies = of.merge(own, on="worker").assign(worker=lambda found: found.pop("copier"))
        both = pd.concat([own, copies]).sort_values(["item", "worker"]).astype(np.int32)
        worker, item, label = (both[name].to_numpy() for name in own)
    return Crowd(worker, item, label, truth, kinds, originals, confusions)


def _answers(rng: np.random.Generator, confusions: Floats, worker: Codes, true: Codes) -> Codes:
    """Return one label per answer, drawn from the worker's confusion row by its inverse CDF."""
    n_classes = confusions.shape[1]
    cumulative = np.cumsum(confusions, axis=2).reshape(-1, n_classes)[:, :-1]
    label = np.empty(len(worker), dtype=np.int32)
    for start in range(0, len(worker), BLOCK):
        rows = slice(start, start + BLOCK)
        bounds = cumulative[worker[rows].astype(np.int64) * n_classes + true[rows]]
        label[rows] = (rng.random(len(bounds))[:, None] >= bounds).sum(axis=1)
    return label
