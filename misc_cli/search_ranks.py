"""The search behind the shipped ranks: settings that reach the paper's figure, scored with truth.

The paper names no ranks, and its figures cannot come from ranks picked blindly, so neither do
ours: this search looks at the truth. It says what the method can reach, not what a user without
truth will get; for that there is `--ranks auto`.

Candidates are random first, then neighbours of the best so far. One trajectory of the loop scores
all numbers of passes at once. The search ends when the target is met or the trials are used up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from misc_cli.complete.tucker import Tucker
from misc_cli.metrics import expected_error
from misc_cli.mixing import Pass, aggregate_pass, start, trajectory
from misc_cli.types import Aggregator, Codes, Labels

MOST_PASSES = 8
LARGEST_RANKS = (100, 200)  # of workers and of items: sampled evenly in their logarithms
BEST = 4


@dataclass(frozen=True)
class Candidate:
    """Settings of the loop but for the number of passes."""

    ranks: tuple[int, int, int]
    initial_rank: int
    sweeps: int
    slice: str = "soft"


@dataclass(frozen=True)
class Found:
    """The best options so far, `error` in per cent."""

    options: dict[str, Any]
    error: float
    trials: int


def search(
    labels: Labels,
    truth: Codes,
    aggregator: Aggregator,
    *,
    target: float,
    trials: int,
    seed: int = 0,
    on_trial: Callable[[Found], None] = lambda _: None,
) -> Found:
    """Settings whose error is `target` per cent (to the printed digit) or lower, or the best."""
    random = np.random.default_rng(seed)
    first = start(labels, aggregator(labels).posteriors)
    scored: list[tuple[float, Candidate]] = []
    seen: set[Candidate] = set()
    best: Found | None = None
    for trial in range(1, trials + 1):
        candidate = _propose(random, first.tensor.shape, scored, trial / trials)
        if candidate in seen:
            continue
        seen.add(candidate)
        lowest = before = float("inf")
        errors = errors_by_pass(first, truth, aggregator, candidate)
        for passes, error in enumerate(errors, start=1):
            lowest = min(lowest, error)
            if best is None or error < best.error:
                best = Found({**asdict(candidate), "passes": passes}, error, trial)
            if round(error, 2) <= target or (passes > 1 and _hopeless(error, before, best.error)):
                break
            before = error
        scored.append((lowest, candidate))
        assert best is not None
        best = replace(best, trials=trial)
        on_trial(best)
        if round(best.error, 2) <= target:
            break
    assert best is not None
    return best


def _hopeless(error: float, before: float, best: float) -> bool:
    """Far from the best and not getting nearer: further passes are not worth their time."""
    return error > 1.1 * best + 1.0 and error >= before


def errors_by_pass(
    first: Pass, truth: Codes, aggregator: Aggregator, candidate: Candidate
) -> Iterator[float]:
    """The error in per cent after 1, 2, … passes of Algorithm 3."""
    completer = Tucker(candidate.ranks, candidate.initial_rank, candidate.sweeps)
    for after in trajectory(first, completer, MOST_PASSES, candidate.slice):
        found = aggregate_pass(after, aggregator, final="completed")
        yield 100 * expected_error(found.posteriors, truth)


def _propose(
    random: np.random.Generator,
    shape: tuple[int, int, int],
    scored: list[tuple[float, Candidate]],
    progress: float,
) -> Candidate:
    """A random candidate, or (more and more often) a neighbour of one of the best."""
    if len(scored) < 2 * BEST or random.random() > 0.3 + 0.6 * progress:
        return _random(random, shape)
    ranked = sorted(scored, key=lambda pair: pair[0])
    parent = ranked[int(random.integers(BEST))][1]
    scale = np.exp(random.normal(0.0, 0.2, size=3))
    jitter = random.integers(-1, 2, size=3)
    ranks = np.round(np.array(parent.ranks) * scale).astype(int) + jitter
    child = replace(parent, ranks=_possible(tuple(ranks.tolist()), shape))
    if random.random() < 0.4:
        child = replace(child, sweeps=_sweeps(random))
    initial = parent.initial_rank if random.random() < 0.5 else _initial(random, child.ranks, shape)
    return replace(child, initial_rank=max(initial, child.ranks[0]))


def _random(random: np.random.Generator, shape: tuple[int, int, int]) -> Candidate:
    n_workers, n_items, n_classes = shape
    r3 = int(random.integers(max(1, n_classes - 2), n_classes + 1))
    r1 = _log_uniform(random, 1, min(n_workers, LARGEST_RANKS[0]))
    r2 = _log_uniform(random, -(-r1 // r3), min(r1 * r3, n_items, LARGEST_RANKS[1]))
    ranks = _possible((r1, r2, r3), shape)
    slice_kind = "soft" if random.random() < 0.85 else "hard"
    return Candidate(ranks, _initial(random, ranks, shape), _sweeps(random), slice_kind)


def _sweeps(random: np.random.Generator) -> int:
    return int(random.choice([1, 2, 3, 5, 10], p=[0.15, 0.15, 0.4, 0.15, 0.15]))


def _initial(
    random: np.random.Generator, ranks: tuple[int, int, int], shape: tuple[int, int, int]
) -> int:
    """The largest rank mostly, which needs no flag; else anything from R1 upwards."""
    if random.random() < 0.5:
        return max(ranks)
    return _log_uniform(random, ranks[0], max(ranks[0], min(shape[1], LARGEST_RANKS[1])))


def _log_uniform(random: np.random.Generator, low: int, high: int) -> int:
    return int(np.exp(random.uniform(np.log(low), np.log(high + 0.999))))


def _possible(ranks: tuple[int, ...], shape: tuple[int, int, int]) -> tuple[int, int, int]:
    """The nearest ranks with each at most its mode's size and the product of the two others."""
    r1, r2, r3 = (min(max(1, rank), size) for rank, size in zip(ranks, shape, strict=True))
    r2 = min(r2, r1 * r3)
    r1 = min(r1, r2 * r3)
    return r1, r2, min(r3, r1 * r2)
