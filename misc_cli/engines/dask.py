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
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import getitem
from pathlib import Path
from typing import Any

import pyarrow as pa

from misc_cli.data.encode import Counts, Encoding
from misc_cli.data.resources import limits
from misc_cli.engines.dask_workers import DaskWorkers, Say, connected
from misc_cli.engines.local import LocalEngine
from misc_cli.engines.partitioned import (
    PART_ANSWERS,
    EncodingRules,
    PartitionedEngine,
    Summary,
    encode_part,
    joined,
    merged,
    part_of,
    split,
)
from misc_cli.engines.protocol import (
    Array,
    Columns,
    Kernel,
    MakeColumns,
    Sums,
    WriteChunks,
    add_up,
    row_names,
)
from misc_cli.errors import ConfigError
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

Swept = tuple[dict[str, Array], bytes]  # the new rows of a share, and its sums


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
    pieces: Sequence[Piece], rules: EncodingRules, *, scheduler: str | None, say: Say
) -> Iterator[DaskEngine]:
    """Yield the engine on the cluster at `scheduler`, or on a cluster of this machine's cores.

    The client owns all futures, so that the workers release them with it, whatever ends it.
    """
    with connected(scheduler, say) as client:
        seen = [  # workers have another current folder
            piece if "://" in piece.path else replace(piece, path=os.path.abspath(piece.path))
            for piece in pieces
        ]
        yield DaskEngine(DaskWorkers(client), seen, rules)


def refuse_one_file(n_items: int) -> None:
    """Raise if the labels are too many for one machine: they go to a folder."""
    if n_items > ONE_FILE_ITEMS:
        raise ConfigError(
            f"{n_items:,} items are too many for one file through this machine (at most "
            f"{ONE_FILE_ITEMS:,}); name a folder, -o labels/, that the workers see"
        )


class DaskEngine(PartitionedEngine):
    """Engine whose votes and rows are futures of a Dask cluster."""

    def __init__(self, workers: DaskWorkers, pieces: Sequence[Piece], rules: EncodingRules) -> None:
        """Read on all workers, exchange rows, encode, and translate to common codes."""
        self.cluster, self.wire = workers, {"sweeps": 0, "sent": 0, "received": 0}
        self._layers: list[Layer] = []
        n_answers = sum(piece.n_answers for piece in pieces)
        there = list(workers.threads)
        most = sum(max(SHARES_PER_WORKER, threads) for threads in workers.threads.values())
        n_shares = min(most, max(len(there), n_answers // SHARE_ANSWERS))
        n_shares = max(n_shares, -(-n_answers // PART_ANSWERS))
        self._homes = [there[at * len(there) // n_shares] for at in range(n_shares)]
        n_readers = min(len(pieces), n_shares)
        edges = [reader * len(pieces) // n_readers for reader in range(n_readers + 1)]
        groups = [pieces[first:last] for first, last in pairwise(edges)]
        read = self._map(_read_pieces, groups, n_shares=n_shares)
        heads, *rows = (self._map(getitem, read, [at] * n_readers) for at in range(1 + n_shares))
        # by share, the rows of all readers in input order
        encoded = self._at_home(encode_part, rows, rules=rules)
        del rows, read
        found: Summary = self._added(self._map(_summary, encoded))
        told = self.cluster.results(heads)
        counts = sum((counts for counts, _ in told), found.counts)
        inputs = [digest for _, digests in told for digest in digests]
        vocabulary = found.vocabulary(rules)
        super().__init__(vocabulary, found.sizes, counts, inputs)
        full = [share for share, (n_items, _) in enumerate(found.sizes) if n_items]
        self._homes = [self._homes[share] for share in full]
        payload = pickle.dumps((vocabulary, rules.gold), protocol=5)
        known = self.cluster.client.submit(bytes, payload, pure=False)
        self._shares = self._at_home(_translated, [encoded[share] for share in full], known=known)

    @property
    def facts(self) -> dict[str, Any]:
        self.cluster.look()
        return {
            "workers": len(self.cluster.threads),
            "parts": len(self._homes),
            "losses": self.cluster.losses,
            **self.wire,
        }

    def sweep(self, kernel: Kernel[Sums]) -> Sums:
        needs, writes = row_names("needs", kernel), row_names("writes", kernel)
        payload = pickle.dumps(kernel, protocol=5)
        there = self.cluster.client.submit(bytes, payload, pure=False)
        self.wire["sweeps"] += 1
        self.wire["sent"] += len(payload) * len(self.cluster.threads)
        swept = self._at_home(_sweep, self._shares, self._rows(), kernel=there)
        sums: Sums = self._added(self._map(getitem, swept, [1] * len(swept)))
        if writes is not None and not writes:
            return sums
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
        return [[layer.rows[share] for layer in layers] for share in range(len(self._homes))]

    def chunks(self, make: MakeColumns) -> Iterator[Columns]:
        refuse_one_file(self.n_items)
        tables = self.cluster.results(self._at_home(_table, self._shares, self._rows(), make=make))
        names = [table["item"].combine_chunks() for table in tables]
        return merged(names, lambda at, rows: tables[at].slice(rows.start, rows.stop - rows.start))

    def write_parts(
        self, folder: Path, suffix: str, make: MakeColumns, write: WriteChunks
    ) -> dict[str, str]:
        names = [f"part-{share:05}{suffix}" for share in range(len(self._homes))]
        paths = [str(folder / name) for name in names]
        made = self._at_home(_write, self._shares, self._rows(), paths, make=make, write=write)
        return dict(zip(names, self.cluster.results(made), strict=True))

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
        futures: list[Any] = [None] * len(self._homes)
        for worker in set(self._homes):
            own = [share for share, home in enumerate(self._homes) if home == worker]
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
        self.wire["received"] += len(packed)
        return pickle.loads(packed)


# Tasks, which run on the workers. Kernels and sums travel as bytes: of these Dask knows the size.


def _read_pieces(pieces: Sequence[Piece], n_shares: int) -> list[Any]:
    """Read pieces; return counts and SHA-256 of files that begin here, then the rows by share."""
    counts, digests = Counts(), []
    cut: list[list[Any]] = [[] for _ in range(n_shares)]
    for piece in pieces:
        if piece.first:
            digests.append(fingerprint(piece.path))
        for batch in batches(piece):
            counts += Counts(batch.n_rows, batch.n_empty)
            for tables, table in zip(cut, split(batch.answers, n_shares), strict=True):
                tables.append(table)
    return [(counts, digests), *map(joined, cut)]


def _summary(part: Encoding | None) -> bytes:
    return pickle.dumps(Summary.of(part), protocol=5)


def _translated(part: Encoding, known: bytes) -> LocalEngine:
    """Return a share in the codes of a vocabulary, with the classes that are known."""
    return part_of(part.labels, *pickle.loads(known))


def _with_rows(
    share: LocalEngine, layers: list[Swept], into: dict[str, Array] | None = None
) -> LocalEngine:
    """Return an engine with all rows of a share; new ones go `into` a mapping, not over those."""
    rows = dict(share.arrays)
    for written, _ in layers:
        rows |= written
    return LocalEngine(share.votes, rows, items=share.items, into=into)


def _sweep(share: LocalEngine, layers: list[Swept], kernel: bytes) -> Swept:
    """Return the new rows of a share, and its sums; a thread of the worker walks it."""
    new: dict[str, Array] = {}
    with limits(1):
        sums = _with_rows(share, layers, new).sweep(pickle.loads(kernel))
    return new, pickle.dumps(sums, protocol=5)


def _add(partials: list[bytes]) -> bytes:
    return pickle.dumps(add_up(map(pickle.loads, partials)), protocol=5)


def _table(share: LocalEngine, layers: list[Swept], make: MakeColumns) -> Any:
    """Return the columns of a share as one arrow table, sorted by item."""
    engine = _with_rows(share, layers)
    return pa.table(dict(engine.columns(make, slice(0, engine.n_items))))


def _write(
    share: LocalEngine, layers: list[Swept], path: str, make: MakeColumns, write: WriteChunks
) -> str:
    """Write a share into a folder that all machines see; return the file's SHA-256."""
    return write(_with_rows(share, layers).chunks(make), Path(path))
