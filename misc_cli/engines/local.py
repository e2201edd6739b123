"""Engine of one process: votes and rows in memory (or mapped), threads walk the blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, cast

import numpy as np

from misc_cli.data.encode import Counts
from misc_cli.data.resources import map_in_order
from misc_cli.data.types import Aggregator, Fitted, Labels, Names, OnIteration
from misc_cli.data.votes import Rows, SparseVotes, Votes
from misc_cli.engines.protocol import (
    GOLD,
    POSTERIORS,
    Array,
    Block,
    Columns,
    Engine,
    FusedKernels,
    FusedSums,
    Kernel,
    MakeColumns,
    Sums,
    Vocabulary,
    WriteChunks,
)

# Rows that become columns of a table at a time.
CHUNK_ROWS = 1 << 20

# (name, shape, dtype) → an array for the rows of that name
Allocate = Callable[[str, tuple[int, ...], "np.dtype[np.generic]"], Array]
_allocating = Lock()


class LocalEngine:
    """Engine in this process.

    `arrays` are the rows of all items by name, (n_items, ...) each; `allocate` makes new ones,
    which go `into` a mapping of the caller's, or replace those of their name; `items` are the names
    of the items.
    """

    def __init__(
        self,
        votes: Votes,
        rows: Mapping[str, Array] | None = None,
        allocate: Allocate | None = None,
        items: Names = None,
        ordered: bool = False,
        into: dict[str, Array] | None = None,
    ) -> None:
        self.votes, self.items, self.ordered = votes, items, ordered
        self.n_items, self.n_votes = votes.n_items, votes.n_votes
        self.n_workers, self.n_classes = votes.n_workers, votes.n_classes
        self.arrays = dict(rows or {})
        self._into = self.arrays if into is None else into
        self._allocate = allocate

    def sweep(self, kernel: Kernel[Sums]) -> Sums:
        # Kernels that run together are tasks of their own: threads have work even in one block.
        kernels = kernel.kernels if isinstance(kernel, FusedKernels) else (kernel,)
        votes, names, before, into = self.votes, self.items, dict(self.arrays), self._into
        allocate, sparse = self._allocate, isinstance(votes, SparseVotes)

        def walk(task: tuple[Kernel[Any], Rows]) -> Any:
            one, rows = task
            views = {name: array[rows] for name, array in before.items()}
            items = None if names is None else names.slice(rows.start, rows.stop - rows.start)
            # of sparse votes a block counts the classes by its matrix
            totals = None if sparse else partial(votes.class_totals, rows)
            block = Block(items, votes.n_classes, partial(votes.block, rows), totals)
            new, sums = one(block, views)
            for name, values in new.items():
                with _allocating:  # for the first block that has such rows
                    if name not in into:
                        make = np.empty if allocate is None else partial(allocate, name)
                        into[name] = make((self.n_items, *values.shape[1:]), values.dtype)
                into[name][rows] = values
            return sums

        blocks = votes.blocks
        partials = map_in_order(walk, [(one, rows) for one in kernels for rows in blocks])
        each: list[Any] = []
        for at, sums in enumerate(partials):
            if at % len(blocks) == 0:
                each.append(sums)
            else:
                each[-1] += sums
        found: Any = FusedSums(each) if isinstance(kernel, FusedKernels) else each[0]
        return cast(Sums, found)

    def whole(self, name: str) -> Array:
        return self.arrays[name]

    def __sizeof__(self) -> int:
        """Tell Dask how large it is: the votes are a sparse matrix."""
        return 12 * self.n_votes + 8 * self.n_items + int(self.items.nbytes)

    def columns(self, make: MakeColumns, some: slice) -> Columns:
        """Return columns of these items."""
        rows = {name: array[some] for name, array in self.arrays.items()}
        return make(self.items.slice(some.start, some.stop - some.start), rows)

    def chunks(self, make: MakeColumns) -> Iterator[Columns]:
        """Yield columns of all items, in their order, some rows at a time."""
        for start in range(0, self.n_items, CHUNK_ROWS):
            yield self.columns(make, slice(start, min(start + CHUNK_ROWS, self.n_items)))


class MemoryEngine(LocalEngine):
    """Holds all answers of a run in this process: the engine with one part.

    counts  rows that were read, and those that are no votes
    inputs, facts  as in `AnswerEngine`, of the engine that these answers were gathered from
    """

    def __init__(
        self,
        labels: Labels,
        rows: Mapping[str, Array] | None = None,
        counts: Counts = Counts(),  # noqa: B008 – frozen
        inputs: Sequence[Mapping[str, Any]] = (),
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        gold = {} if labels.gold is None else {GOLD: labels.gold}
        super().__init__(
            labels.votes, {**(rows or {}), **gold}, items=labels.items, ordered=labels.ordered
        )
        self.labels, self.counts, self.inputs, self.facts = labels, counts, inputs, facts or {}
        self.vocabulary = Vocabulary(labels.workers, labels.classes, labels.ordered)

    def with_labels(self, labels: Labels) -> MemoryEngine:
        """Return an engine of these labels and no rows, read from the same inputs."""
        return MemoryEngine(labels, None, self.counts, self.inputs, self.facts)

    def write_parts(
        self, folder: Path, suffix: str, make: MakeColumns, write: WriteChunks
    ) -> dict[str, str]:
        name = f"part-{0:05}{suffix}"
        return {name: write(self.chunks(make), folder / name)}


def solved(
    method: Aggregator, engine: Engine, on_iteration: OnIteration, whole: Fitted | None = None
) -> Fitted:
    """Fit a method on an engine; its posteriors and details of items stay there.

    In memory other rows of the method do not. One that knows no engines is called on the labels.
    `whole`, a fit on more answers, is the start of a method that has `refit_subset`.
    """
    here, start, on_engines = engine, None, cast(Any, method)
    if isinstance(engine, MemoryEngine):
        if not hasattr(method, "solve"):
            found = method(engine.labels, on_iteration)
            engine.arrays[POSTERIORS] = found.posteriors
            return found
        here, start = engine.with_labels(engine.labels), engine.labels.start
    fitted: Fitted
    if whole is not None and hasattr(method, "refit_subset"):
        fitted = on_engines.refit_subset(here, whole, start)
    else:
        fitted = on_engines.solve(here, on_iteration, start)
    if isinstance(engine, MemoryEngine):
        engine.arrays[POSTERIORS] = np.asarray(here.whole(POSTERIORS))
    return fitted
