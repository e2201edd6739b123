"""Search tucker's settings for cells of the paper's table, scored with the truth.

usage: python benchmarks/rank_search.py [--from DIR] [--datasets A,B] [--aggregators A,B]
           [--trials N] [--seed N]
Prints one JSON object per cell, as misc_cli/paper/data/shipped_ranks.json has them, with the
paper's figure and the number of trials.

The paper names no ranks, and its figures cannot come from ranks picked blindly. So this search
looks at the truth. It shows what the method can reach, not what a user without truth gets:
`misc reproduce --auto` shows that.

Candidates are a ladder of sizes, then random ones and more and more neighbours of the best so far.
One trajectory of the loop scores all numbers of passes at once. The search ends when the target is
met or the trials are used up.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from misc_cli import registry
from misc_cli.completers.completion_loop import Pass, begin, finish, passes
from misc_cli.completers.parameters import Loop, Tucker
from misc_cli.data.types import Aggregator, Codes, Floats, Labels
from misc_cli.engines.local import MemoryEngine
from misc_cli.engines.protocol import POSTERIORS
from misc_cli.errors import ConvergenceWarning, MiscError
from misc_cli.paper import datasets
from misc_cli.paper.table import AGGREGATORS, PRESET, Cell, choose, paper_table, read_dataset
from misc_cli.quality.evaluation import expected_error

MOST_PASSES = 8
LARGEST_RANKS = (100, 200)  # of workers and of items: sampled evenly in their logarithms
BEST = 4
LADDER = (1, 2, 3, 5, 7, 10, 15, 25)


@dataclass(frozen=True)
class Candidate:
    """Settings of the loop but for the number of passes."""

    ranks: tuple[int, int, int]
    initial_rank: int
    sweeps: int
    start: str
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
    starts: Mapping[str, Floats],
    *,
    target: float,
    trials: int,
    seed: int = 0,
    screen: Aggregator | None = None,
) -> Found:
    """Return settings with an error of `target` per cent (as printed) or lower, else the best.

    `starts` are the pure posteriors that may fill the first slice, by name, the aggregator's own
    first. `screen` is a quick aggregator to look at completed matrices with first; the slow one
    then judges only those passes that are among the best by the quick one.
    """
    random = np.random.default_rng(seed)
    engine = MemoryEngine(labels)
    shape = (labels.n_workers + 1, labels.n_items, labels.n_classes)
    scored: list[tuple[float, Candidate]] = []
    seen: set[Candidate] = set()
    best: Found | None = None
    for trial in range(1, trials + 1):
        candidate = _propose(random, shape, list(starts), scored, trial / trials)
        if candidate in seen and trial > len(LADDER):
            continue
        seen.add(candidate)
        bar = min((score for score, _ in scored), default=float("inf"))
        enough = target if screen is None else 0.0
        begin(engine, aggregator, starts[candidate.start])
        made = _scored_passes(engine, truth, screen or aggregator, candidate, bar, enough)
        after, error = min(made, key=lambda pair: pair[1])
        scored.append((error, candidate))
        if screen is not None:
            if best is not None and error > 1.03 * bar + 0.3:
                continue
            error = _error(engine, after, truth, aggregator)
        if best is None or error < best.error:
            best = Found({**asdict(candidate), "passes": after.iterations}, error, trial)
        best = replace(best, trials=trial)
        if round(best.error, 2) <= target:
            break
    assert best is not None
    return best


def _scored_passes(
    engine: MemoryEngine,
    truth: Codes,
    aggregator: Aggregator,
    candidate: Candidate,
    bar: float,
    enough: float,
) -> Iterator[tuple[Pass, float]]:
    """Yield each pass with its error in per cent, until further passes are not worth their time."""
    completer = Tucker(candidate.ranks, candidate.initial_rank, candidate.sweeps)
    before = float("inf")
    for after in passes(engine, completer, MOST_PASSES, candidate.slice):
        error = _error(engine, after, truth, aggregator)
        yield after, error
        far = error > 1.1 * bar + 1.0 and error >= before  # from the best, and not nearing it
        if far or round(error, 2) <= enough:
            return
        before = error


def _error(engine: MemoryEngine, after: Pass, truth: Codes, aggregator: Aggregator) -> float:
    finish(engine, after, aggregator, Loop(final="completed"))  # as the paper ends
    return 100 * expected_error(engine.whole(POSTERIORS), truth)


def _propose(
    random: np.random.Generator,
    shape: tuple[int, int, int],
    starts: Sequence[str],
    scored: list[tuple[float, Candidate]],
    progress: float,
) -> Candidate:
    """Return a random candidate or, more and more often, a neighbour of one of the best."""
    if len(scored) < len(LADDER):
        # a ladder of sizes first: R2 as large as it can be, or four times R1
        r1, r3 = LADDER[len(scored)], shape[2]
        ranks = _possible((r1, min(r1 * r3, 4 * r1), r3), shape)
        return Candidate(ranks, max(ranks), 3, starts[0])
    if random.random() > 0.5 + 0.4 * progress:
        return _random(random, shape, starts)
    ranked = sorted(scored, key=lambda pair: pair[0])
    parent = ranked[int(random.integers(BEST))][1]
    scale = np.exp(random.normal(0.0, 0.2, size=3))
    jitter = random.integers(-1, 2, size=3)
    moved = np.round(np.array(parent.ranks) * scale).astype(int) + jitter
    child = replace(parent, ranks=_possible(tuple(moved.tolist()), shape))
    if random.random() < 0.4:
        child = replace(child, sweeps=_sweeps(random))
    if random.random() < 0.2:
        child = replace(child, start=_start(random, starts))
    initial = parent.initial_rank if random.random() < 0.5 else _initial(random, child.ranks, shape)
    return replace(child, initial_rank=max(initial, _least_initial(child.ranks, shape)))


def _random(
    random: np.random.Generator, shape: tuple[int, int, int], starts: Sequence[str]
) -> Candidate:
    n_workers, n_items, n_classes = shape
    r3 = int(random.integers(max(1, n_classes - 2), n_classes + 1))
    r1 = _log_uniform(random, 1, min(n_workers, LARGEST_RANKS[0]))
    r2 = _log_uniform(random, -(-r1 // r3), min(r1 * r3, n_items, LARGEST_RANKS[1]))
    ranks = _possible((r1, r2, r3), shape)
    slice_kind = "soft" if random.random() < 0.85 else "hard"
    initial = _initial(random, ranks, shape)
    return Candidate(ranks, initial, _sweeps(random), _start(random, starts), slice_kind)


def _start(random: np.random.Generator, starts: Sequence[str]) -> str:
    """Return the aggregator's own labels half of the time, else those of a random aggregator."""
    return starts[0] if random.random() < 0.5 else str(random.choice(list(starts)))


def _sweeps(random: np.random.Generator) -> int:
    return int(random.choice([1, 2, 3, 5, 10], p=[0.15, 0.15, 0.4, 0.15, 0.15]))


def _initial(
    random: np.random.Generator, ranks: tuple[int, int, int], shape: tuple[int, int, int]
) -> int:
    """Return the largest rank half of the time (it needs no flag), else any possible one."""
    if random.random() < 0.5:
        return max(ranks)
    least = _least_initial(ranks, shape)
    return _log_uniform(random, least, max(least, min(shape[1], LARGEST_RANKS[1])))


def _least_initial(ranks: tuple[int, int, int], shape: tuple[int, int, int]) -> int:
    """Return the smallest R0 with R1 ≤ R0 · min(R0, n_classes), as the first sweep needs."""
    root = math.isqrt(ranks[0] - 1) + 1
    return root if root <= shape[2] else -(-ranks[0] // shape[2])


def _log_uniform(random: np.random.Generator, low: int, high: int) -> int:
    return int(np.exp(random.uniform(np.log(low), np.log(high + 0.999))))


def _possible(ranks: tuple[int, ...], shape: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return the nearest ranks, each at most its mode's size and the product of the others."""
    r1, r2, r3 = (min(max(1, rank), size) for rank, size in zip(ranks, shape, strict=True))
    r2 = min(r2, r1 * r3)
    r1 = min(r1, r2 * r3)
    return r1, r2, min(r3, r1 * r2)


def search_cell(cell: Cell, folder: Path, target: float, trials: int, seed: int) -> Found:
    """Search the settings of one cell; its pure results fill the first slice."""
    dataset = read_dataset(folder)
    labels, truth = dataset.engine.labels, dataset.truth
    assert truth is not None
    aggregator = registry.create("aggregator", cell.aggregator, PRESET)
    slow = cell.aggregator.startswith("mmce")
    screen = registry.create("aggregator", "ds-em", PRESET) if slow else None
    names = dict.fromkeys((cell.aggregator, *AGGREGATORS))
    made = {name: registry.create("aggregator", name, PRESET) for name in names}
    starts = {name: method(labels).posteriors for name, method in made.items()}
    return search(
        labels, truth, aggregator, starts, target=target, trials=trials, seed=seed, screen=screen
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--from", dest="folder", type=Path, metavar="DIR")
    parser.add_argument("--datasets", type=lambda names: names.split(","), metavar="A,B")
    parser.add_argument("--aggregators", type=lambda names: names.split(","), metavar="A,B")
    parser.add_argument("--trials", type=int, default=250, metavar="N", help="per cell, at most")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    given = parser.parse_args()
    # The paper's settings stop at a fixed number of iterations, converged or not.
    warnings.simplefilter("ignore", ConvergenceWarning)
    paper = paper_table()
    try:
        for cell in choose(given.datasets, ["tucker"], given.aggregators):
            folder = datasets.locate(cell.dataset, given.folder)
            found = search_cell(cell, folder, paper[cell], given.trials, given.seed)
            print(json.dumps({**asdict(cell), **asdict(found), "paper": paper[cell]}), flush=True)
    except MiscError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
