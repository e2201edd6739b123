"""Interfaces between methods (kernels) and engines.

Everything about an item lives with its block of items; everything about a worker, a class or a rank
is small and shared. A kernel is a pure function

    (block of votes, rows of the block, shared state) → (new rows, partial sums)

written as a frozen dataclass whose fields are the shared state. An engine keeps blocks and rows
where they are, hands the kernel to every block and adds the partial sums in the blocks' order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial, reduce
from operator import iadd
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from misc_cli.data.encode import Counts
from misc_cli.data.types import Aggregation, Floats, Names
from misc_cli.data.types import Fitted as Fitted
from misc_cli.data.votes import totals_by_class
from misc_cli.errors import MiscError

# `change: float = field(metadata=LARGEST)` keeps the larger of two instead of their sum.
LARGEST: Mapping[str, Callable[..., Any]] = {"join": max}
SMALLEST: Mapping[str, Callable[..., Any]] = {"join": min}


@dataclass
class Summed:
    """Base of records of sums: `+=` adds numbers and arrays and extends lists, in place."""

    def __iadd__(self, other: Self) -> Self:
        for each in fields(self):
            join = each.metadata.get("join", iadd)
            setattr(self, each.name, join(getattr(self, each.name), getattr(other, each.name)))
        return self


Array = npt.NDArray[Any]
RowArrays = Mapping[str, Array]  # name → the block's rows, (n_block_items, ...)
Sums = TypeVar("Sums")
SumsOut = TypeVar("SumsOut", covariant=True)

# The rows that every method leaves behind: (n_block_items, n_classes), each sums to 1.
POSTERIORS = "posteriors"
# Known classes of items, (n_block_items,), -1 where unknown; absent where no item's is known.
GOLD = "gold"
# Labels that only judge the result, (n_block_items,): -1 where unknown, n_classes where no worker
# gave the label; absent without --truth.
TRUTH = "truth"
# The loop's extra worker, (n_block_items, n_classes): the current estimate, real-valued.
SLICE = "slice"


@dataclass(frozen=True)
class Block:
    """The votes on a block of items.

    items   their names, (n_block_items,); some engines of tests have none
    votes   returns `matrix`, which is made when it is asked for
    totals  returns the votes of each class, where there is a quicker way than by the matrix
    """

    items: Names
    n_classes: int
    votes: Callable[[], sp.csr_array]
    totals: Callable[[], Floats] | None = None

    @cached_property
    def matrix(self) -> sp.csr_array:
        """Return the votes, CSR (n_block_items, n_workers * n_classes)."""
        return self.votes()

    def class_totals(self) -> Floats:
        """Count the votes of each class on these items, (n_block_items, n_classes)."""
        return self.totals() if self.totals else totals_by_class(self.matrix, self.n_classes)


def row_names(which: str, *kernels: Kernel[Any]) -> frozenset[str] | None:
    """Return the names of rows that kernels need or write; None if one does not declare them."""
    names = [getattr(kernel, which, None) for kernel in kernels]
    return None if None in names else frozenset().union(*names)  # type: ignore[arg-type]


@dataclass
class FusedSums(Generic[Sums]):
    """The sums of several kernels, each added by itself."""

    each: list[Sums]

    def __iadd__(self, other: FusedSums[Sums]) -> FusedSums[Sums]:
        self.each = [add_up(pair) for pair in zip(self.each, other.each, strict=True)]
        return self


@dataclass(frozen=True)
class FusedKernels(Generic[Sums]):
    """Run kernels that do not need each other's rows in one sweep."""

    kernels: tuple[Kernel[Sums], ...]

    @property
    def needs(self) -> frozenset[str] | None:
        return row_names("needs", *self.kernels)

    @property
    def writes(self) -> frozenset[str] | None:
        return row_names("writes", *self.kernels)

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, FusedSums[Sums]]:
        new: dict[str, Array] = {}
        each = []
        for kernel in self.kernels:
            its_rows, sums = kernel(block, rows)
            new.update(its_rows)
            each.append(sums)
        return new, FusedSums(each)


@dataclass(frozen=True)
class WriteRows(Generic[SumsOut]):
    """Writes the rows that a function returns for each block, and adds up what it returns beside.

    `function` is one of a module, or a `partial` of one, so that it can be pickled; `needs` and
    `writes` as in `Kernel`.
    """

    function: Callable[[Block, RowArrays], tuple[RowArrays, SumsOut]]
    needs: tuple[str, ...]
    writes: tuple[str, ...]

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, SumsOut]:
        return self.function(block, rows)


def copy_rows(source: str, target: str) -> WriteRows[int]:
    """Return a kernel that copies rows to another name."""
    return WriteRows(partial(_copied, source=source, target=target), (source,), (target,))


def _copied(_: Block, rows: RowArrays, source: str, target: str) -> tuple[RowArrays, int]:
    return {target: rows[source]}, 0


@dataclass(frozen=True)
class SumOver(Generic[SumsOut]):
    """Adds up what a function, as in `WriteRows`, returns for each block; it writes no rows."""

    function: Callable[[Block, RowArrays], SumsOut]
    writes: ClassVar[tuple[str, ...]] = ()

    def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, SumsOut]:
        return {}, self.function(block, rows)


def count_known(_: Block, rows: RowArrays) -> int:
    """Count the items of a block whose class is known."""
    return int((rows[GOLD] >= 0).sum()) if GOLD in rows else 0


@dataclass(frozen=True)
class Vocabulary:
    """All workers, in byte order, and all classes, in class order; both are small."""

    workers: Names
    classes: Names
    ordered: bool


Columns = Mapping[str, Any]  # name → arrow array or numpy array, all of one length


# Writes chunks of a table to a file and returns its SHA-256. It can be pickled.
WriteChunks = Callable[[Iterable[Columns], Path], str]


if TYPE_CHECKING:  # interfaces, which only annotations name

    class Kernel(Protocol[SumsOut]):
        """A frozen dataclass of shared state that can be pickled; a call changes no argument.

        The sums can be added with `+=`: an array, a number, a list (which grows) or a record. Two
        class attributes help an engine that lost some rows, or keeps none, to make them again:
        needs   names of the rows that its new rows depend on (without it: any)
        writes  names of its new rows, the same on every block (without it: any)
        """

        def __call__(self, block: Block, rows: RowArrays) -> tuple[RowArrays, SumsOut]: ...

    class Engine(Protocol):
        """Stores votes and per-item arrays in blocks and runs kernels over them."""

        @property
        def n_items(self) -> int: ...
        @property
        def n_workers(self) -> int: ...
        @property
        def n_classes(self) -> int: ...
        @property
        def n_votes(self) -> int: ...
        @property
        def ordered(self) -> bool:
            """Return True if the classes are ordered."""

        def sweep(self, kernel: Kernel[Sums]) -> Sums:
            """Run the kernel on each block; keep the new rows, return the sums of all blocks."""

        def whole(self, name: str) -> Array | None:
            """Return the rows of this name of all items as one array, if in this process."""

    class MakeColumns(Protocol):
        """Turns rows of some items into columns of a table. It can be pickled."""

        def __call__(self, items: Names, rows: RowArrays) -> Columns: ...
        def of_nothing(self, n_classes: int) -> Columns:
            """Return the columns without rows, for their names and types."""

    class AnswerEngine(Engine, Protocol):
        """An engine that holds all answers of a run, and knows what they are called."""

        @property
        def vocabulary(self) -> Vocabulary: ...
        @property
        def counts(self) -> Counts: ...
        @property
        def inputs(self) -> Sequence[Mapping[str, Any]]:
            """Return name, size and SHA-256 of each file that the engine read."""

        @property
        def facts(self) -> Mapping[str, Any]:
            """Return what run.json says of the engine."""

        def chunks(self, make: MakeColumns) -> Iterator[Columns]:
            """Yield the columns of all items, sorted by item from the first row to the last."""

        def write_parts(
            self, folder: Path, suffix: str, make: MakeColumns, write: WriteChunks
        ) -> dict[str, str]:
            """Write one file per part, where the part is; return SHA-256 by name of file."""

else:
    Kernel = Engine = MakeColumns = AnswerEngine = Any


def add_up(partials: Iterable[Sums]) -> Sums:
    """Return the sum of partial sums in the order they come, in place of the first one."""
    return reduce(iadd, partials)


def gathered(engine: Engine, fitted: Fitted) -> Aggregation:
    """Return the aggregation of an engine whose rows are in this process."""
    posteriors = engine.whole(POSTERIORS)
    if posteriors is None:
        raise MiscError("the posteriors are spread over files or machines: read them part by part")
    posteriors = np.asarray(posteriors, dtype=np.float64)
    return Aggregation(**{**vars(fitted), "posteriors": posteriors})
