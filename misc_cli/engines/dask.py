"""`--engine dask`: keep shares of the items as futures of a cluster.

A share is all answers of the items whose hash falls to it. Its votes are one future, the rows that
kernels wrote are others, and a sweep is a task per share where they are: the kernel goes to every
worker once, the sums are added in a tree on the workers, and the client receives one sum. What is
lost is made again by Dask, from the tasks that made it.
"""

from __future__ import annotations

import os
import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from misc_cli.data.encode import Counts, Encoding
from misc_cli.data.resources import thread_limit
from misc_cli.data.types import KnownLabels, Names
from misc_cli.data.votes import Votes
from misc_cli.engines.dask_workers import DaskWorkers, Say, connected
from misc_cli.engines.local import LocalEngine, column_chunks
from misc_cli.engines.partitioned import (
    PART_ANSWERS,
    Part,
    PartTable,
    WholeTable,
    columns_of,
    encode_part,
    joined,
    merged,
    part_of,
    split,
    translate,
    vocabulary_of,
)
from misc_cli.engines.protocol import (
    Array,
    Columns,
    Kernel,
    MakeColumns,
    RowArrays,
    Sums,
    WriteChunks,
    add_up,
)
from misc_cli.errors import ConfigError, InputError
from misc_cli.readers.chunks import Piece, batches, fingerprint

# Shares of a worker: so many can be spread when another worker is lost or joins ...
SHARES_PER_WORKER = 4
# ... but one with fewer answers is not worth its tasks.
SHARE_ANSWERS = 100_000
# Sums that one task adds: those of a worker's shares, then those of four workers, ...
FAN_IN = 4
# Sweeps after which rows are made once more from what they need alone, so that Dask forgets the
# kernels before: a sweep also reads the rows of the one before, if only to tell how they changed.
FORGET_AFTER = 16
# What one machine may be asked to hold for one file of labels.
ONE_FILE_ITEMS = 20_000_000

Rows = dict[str, Array]
Swept = tuple[Rows, Any]  # the new rows of a share, and its sums


@dataclass
class Wire:
    """Count the bytes of kernels that workers received and of sums that the client did."""

    sweeps: int = 0
    sent: int = 0
    received: int = 0


@dataclass(frozen=True)
class Layer:
    """Rows that one kernel wrote, a future (of `Swept`) for each share.

    names  None if the kernel does not declare them
    depth  the number of sweeps that follow from each other up to these rows
    """

    names: frozenset[str] | None
    rows: list[Any]
    depth: int

    def serves(self, needs: frozenset[str] | None) -> bool:
        return needs is None or self.names is None or bool(self.names & needs)


@contextmanager
def opened(
    pieces: Sequence[Piece],
    *,
    scheduler: str | None,
    say: Say,
    duplicates: str,
    class_order: list[str] | None,
    gold: KnownLabels | None,
    name: str,
    n_workers: int | None = None,
) -> Iterator[DaskEngine]:
    """Yield the engine on the cluster at `scheduler`, or on a cluster of this machine's cores.

    The client owns all futures, so that the workers release them with it, whatever ends it.
    """
    with connected(scheduler, say, n_workers) as client:
        seen = [_seen_from_anywhere(piece) for piece in pieces]
        yield DaskEngine(DaskWorkers(client), seen, duplicates, class_order, gold, name)


def _seen_from_anywhere(piece: Piece) -> Piece:
    """Return the piece by its absolute path, since workers have another current folder."""
    return piece if "://" in piece.path else replace(piece, path=os.path.abspath(piece.path))


class DaskEngine:
    """Engine whose votes and rows are futures of a Dask cluster."""

    def __init__(
        self,
        workers: DaskWorkers,
        pieces: Sequence[Piece],
        duplicates: str,
        class_order: list[str] | None,
        gold: KnownLabels | None,
        name: str,
    ) -> None:
        self.cluster, self.gold, self.wire = workers, gold, Wire()
        n_answers = sum(piece.n_answers for piece in pieces)
        most = sum(max(SHARES_PER_WORKER, threads) for threads in workers.threads.values())
        n_shares = min(most, max(len(workers.threads), n_answers // SHARE_ANSWERS))
        self.n_shares = max(n_shares, -(-n_answers // PART_ANSWERS))
        self._layers: list[Layer] = []
        there = list(workers.threads)
        self._homes = [there[at * len(there) // self.n_shares] for at in range(self.n_shares)]
        self._shares = self._read(pieces, duplicates, class_order, name)

    @property
    def n_workers(self) -> int:
        return len(self.vocabulary.workers)

    @property
    def n_classes(self) -> int:
        return len(self.vocabulary.classes)

    @property
    def ordered(self) -> bool:
        return self.vocabulary.ordered

    def whole(self, name: str) -> None:
        return None

    def facts(self) -> dict[str, Any]:
        self.cluster.look()
        return {
            "workers": len(self.cluster.threads),
            "parts": self.n_shares,
            "losses": self.cluster.losses,
            **asdict(self.wire),
        }

    def _read(
        self,
        pieces: Sequence[Piece],
        duplicates: str,
        class_order: list[str] | None,
        name: str,
    ) -> list[Any]:
        """Read on all workers, exchange rows, encode; return the shares in common codes."""
        n_readers = min(len(pieces), self.n_shares)
        edges = [reader * len(pieces) // n_readers for reader in range(n_readers + 1)]
        read = self._map(
            _read_pieces,
            [pieces[first:last] for first, last in pairwise(edges)],
            n_shares=self.n_shares,
        )
        told = self._map(_count_rows, read)
        # by share, the rows of all readers in input order
        rows = [self._map(_rows_of, read, share=share) for share in range(self.n_shares)]
        encoded = self._at_home(_encode, rows, duplicates=duplicates, name=name)
        del rows, read
        found: Found = self._added(self._map(_found, encoded))
        counts = self.cluster.results(told)
        self.counts = sum((rows for rows, _ in counts), found.counts)
        self.inputs = [digest for _, digests in counts for digest in digests]
        if not found.workers:
            raise InputError(
                f"{name}: no answers are left: every label is empty; check --label-col"
            )
        self.vocabulary = vocabulary_of(found.workers, found.classes, class_order)
        payload = _packed((self.vocabulary, self.gold))
        known = self.cluster.client.submit(bytes, payload, pure=False)
        shares = self._at_home(_translated, encoded, known=known)
        n_items, n_votes = self._added(self._map(_sizes, shares))
        self.n_items, self.n_votes = int(n_items), int(n_votes)
        return shares

    def sweep(self, kernel: Kernel[Sums]) -> Sums:
        needs, writes = _names(kernel, "needs"), _names(kernel, "writes")
        payload = _packed(kernel)
        there = self.cluster.client.submit(bytes, payload, pure=False)
        self.wire.sweeps += 1
        self.wire.sent += len(payload) * len(self.cluster.threads)
        if writes is not None and not writes:
            sums: Sums = self._added(self._at_home(_sums, self._shares, self._rows(), kernel=there))
            return sums
        swept = self._at_home(_sweep, self._shares, self._rows(), kernel=there)
        sums = self._added(self._map(_sums_of, swept))
        depth = 1 + max((layer.depth for layer in self._layers), default=0)
        needed = [layer for layer in self._layers if layer.serves(needs)]
        alone = 1 + max((layer.depth for layer in needed), default=0)
        if depth > FORGET_AFTER and alone <= depth // 2:
            swept = self._at_home(_sweep, self._shares, self._rows(needed), kernel=there)
            depth = alone
        self._keep(Layer(writes, swept, depth))
        return sums

    def _keep(self, layer: Layer) -> None:
        """Add a layer; drop those whose rows are all written again by later ones."""
        kept, rewritten = [layer], layer.names or frozenset[str]()
        for one in reversed(self._layers):
            if one.names is None or not one.names <= rewritten:
                kept.append(one)
                rewritten |= one.names or frozenset()
        self._layers = kept[::-1]

    def _rows(self, layers: Sequence[Layer] | None = None) -> list[list[Any]]:
        """Return by share the futures of its rows, the latest last."""
        layers = self._layers if layers is None else layers
        return [[layer.rows[share] for layer in layers] for share in range(self.n_shares)]

    def chunks(self, make: MakeColumns) -> Iterator[Columns]:
        self.refuse_one_file()
        made = self._at_home(_table, self._shares, self._rows(), make=make)
        tables = [WholeTable(table) for table in self.cluster.results(made) if table is not None]
        return map(columns_of, merged(tables))

    def refuse_one_file(self) -> None:
        """Raise if the labels are too many for one machine: they go to a folder."""
        if self.n_items > ONE_FILE_ITEMS:
            raise ConfigError(
                f"{self.n_items:,} items are too many for one file through this machine "
                f"(at most {ONE_FILE_ITEMS:,}); name a folder, -o labels/, that the workers see"
            )

    def write_parts(
        self, folder: Path, suffix: str, make: MakeColumns, write: WriteChunks
    ) -> dict[str, str]:
        paths = [str(folder / f"part-{share:05}{suffix}") for share in range(self.n_shares)]
        made = self._at_home(_write, self._shares, self._rows(), paths, make=make, write=write)
        digests = zip(paths, self.cluster.results(made), strict=True)
        return {Path(path).name: digest for path, digest in digests if digest is not None}

    def _map(self, task: Callable[..., Any], *each: Sequence[Any], **common: Any) -> list[Any]:
        """Return futures of a task, one for each share or reader; Dask chooses the worker."""
        futures: list[Any] = self.cluster.client.map(task, *each, pure=False, **common)
        return futures

    def _at_home(self, task: Callable[..., Any], *each: Sequence[Any], **common: Any) -> list[Any]:
        """Return futures of a task, one for each share, which runs on the share's worker.

        If that is gone, or paused, Dask chooses another one. Left to itself, it would move shares
        to a kernel that is larger than they are.
        """
        self._find_homes()
        futures: list[Any] = [None] * self.n_shares
        for worker in set(self._homes):
            own = [share for share in range(self.n_shares) if self._homes[share] == worker]
            made = self.cluster.client.map(
                task,
                *([one[share] for share in own] for one in each),
                workers=[worker],
                allow_other_workers=True,
                pure=False,
                **common,
            )
            for share, future in zip(own, made, strict=True):
                futures[share] = future
        return futures

    def _find_homes(self) -> None:
        """Give every share a worker that is there; workers that joined take from the fullest."""
        there = list(self.cluster.threads)
        load = dict.fromkeys(there, 0) | Counter(home for home in self._homes if home in there)
        for share, home in enumerate(self._homes if there else ()):
            least = min(there, key=lambda worker: load[worker])
            if home not in load or load[home] > load[least] + 1:
                load[least] += 1
                load[home] = load.get(home, 0) - 1
                self._homes[share] = least

    def _added(self, futures: list[Any]) -> Any:
        """Return the sum of all, added on the workers in a tree of fixed order."""
        while len(futures) > FAN_IN:
            groups = [futures[at : at + FAN_IN] for at in range(0, len(futures), FAN_IN)]
            futures = self._map(_add, groups)
        (packed,) = self.cluster.results(self._map(_add, [futures]))
        self.wire.received += len(packed)
        return pickle.loads(packed)


def _names(kernel: Kernel[Any], which: str) -> frozenset[str] | None:
    names = getattr(kernel, which, None)
    return None if names is None else frozenset(names)


# Tasks, which run on the workers. None stands for a share without answers, and for its sums.


@dataclass(frozen=True)
class Found:
    """The names of workers and classes of encoded shares, and their counts."""

    workers: list[Names]
    classes: list[Names]
    counts: Counts

    def __iadd__(self, other: Found) -> Found:
        workers, classes = (
            [pc.unique(pa.chunked_array([*ours, *theirs], pa.string()))]
            for ours, theirs in ((self.workers, other.workers), (self.classes, other.classes))
        )
        return Found(workers, classes, self.counts + other.counts)


@dataclass(frozen=True)
class Share:
    """The items and votes of a share, and its known classes."""

    items: Names
    votes: Votes
    known: RowArrays

    def __sizeof__(self) -> int:
        """Tell Dask how large it is: the votes are a sparse matrix."""
        return 12 * self.votes.n_votes + 8 * self.votes.n_items + int(self.items.nbytes)


class _NewRows(LocalEngine):
    """Writes rows into new arrays: those before belong to another future."""

    def __init__(self, share: Share, layers: Sequence[Swept]) -> None:
        before = dict(share.known)
        for rows, _ in layers:
            before |= rows
        super().__init__(share.votes, before, items=share.items)
        self.new: Rows = {}

    def _array(self, name: str, values: Array) -> Array:
        with self._lock:
            if name not in self.new:
                shape = (self.n_items, *values.shape[1:])
                self.new[name] = np.empty(shape, values.dtype)
            return self.new[name]


def _read_pieces(
    pieces: Sequence[Piece], n_shares: int
) -> tuple[tuple[Counts, list[dict[str, Any]]], list[Any]]:
    """Read pieces; return counts, SHA-256 of files that begin here, and the rows by share."""
    counts, digests = Counts(), []
    cut: list[list[Any]] = [[] for _ in range(n_shares)]
    for piece in pieces:
        if piece.first:
            digests.append(fingerprint(piece.path))
        for batch in batches(piece):
            counts += Counts(batch.n_rows, batch.n_empty)
            for tables, table in zip(cut, split(batch.answers, n_shares), strict=True):
                tables.append(table)
    return (counts, digests), [joined(tables) for tables in cut]


def _count_rows(read: tuple[Any, Any]) -> Any:
    return read[0]


def _rows_of(read: tuple[Any, list[Any]], share: int) -> Any:
    return read[1][share]


def _encode(tables: list[Any], duplicates: str, name: str) -> Encoding | None:
    return encode_part(joined(tables), duplicates, name)


def _packed(value: Any) -> bytes:
    """Return a kernel, a sum or None as bytes: of these Dask knows the size."""
    return pickle.dumps(value, protocol=5)


def _found(part: Encoding | None) -> bytes:
    if part is None:
        return _packed(Found([], [], Counts()))
    return _packed(Found([part.labels.workers], [part.labels.classes], part.counts))


def _translated(part: Encoding | None, known: bytes) -> Share | None:
    """Return a share in the codes of a vocabulary, with the classes that are known."""
    if part is None:
        return None
    vocabulary, gold = pickle.loads(known)
    labels = translate(part.labels, vocabulary)
    engine = part_of(labels, gold, labels.votes).engine
    return Share(labels.items, labels.votes, engine.rows(slice(0, engine.n_items)))


def _sizes(share: Share | None) -> bytes:
    sizes = (share.votes.n_items, share.votes.n_votes) if share else (0, 0)
    return _packed(np.array(sizes))


def _sweep(share: Share | None, rows: list[Swept], kernel: bytes) -> Swept:
    """Return the new rows of a share, and its sums; a thread of the worker walks it."""
    if share is None:
        return {}, None
    engine = _NewRows(share, rows)
    with thread_limit(1):
        sums = engine.sweep(pickle.loads(kernel))
    return engine.new, sums


def _sums(share: Share | None, rows: list[Swept], kernel: bytes) -> bytes:
    return _sums_of(_sweep(share, rows, kernel))


def _sums_of(swept: Swept) -> bytes:
    return _packed(swept[1])


def _add(partials: list[bytes]) -> bytes:
    """Return the sum of partial sums in their order; None, if all are None."""
    some = (sums for sums in map(pickle.loads, partials) if sums is not None)
    first = next(some, None)
    return _packed(first if first is None else add_up(chain([first], some)))


def _table(share: Share | None, rows: list[Swept], make: MakeColumns) -> Any | None:
    """Return the columns of a share as one arrow table, sorted by item."""
    if share is None:
        return None
    part = Part(share.items, _NewRows(share, rows))
    return PartTable(part, make).table(slice(0, len(part.items)))


def _write(
    share: Share | None, rows: list[Swept], path: str, make: MakeColumns, write: WriteChunks
) -> str | None:
    """Write a share into a folder that all machines see; return the file's SHA-256."""
    if share is None:
        return None
    return write(column_chunks(_NewRows(share, rows), make), Path(path))
