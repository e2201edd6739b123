"""`--engine dask`: keep shares of the items on the workers of a cluster.

A sweep is one task per worker, pinned to it: the kernel is sent, the sums come back, rows stay. If
a worker is lost, its shares are made again on others, from the input and from the kernels that made
their rows. The version of a share prevents that a task that runs twice counts twice.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from misc_cli import cleanup
from misc_cli.data.encode import Counts
from misc_cli.data.types import KnownLabels
from misc_cli.engines import dask_workers
from misc_cli.engines.dask_workers import DaskWorkers, Found, Lost, Plan
from misc_cli.engines.partitioned import WholeTable, columns_of, merged, vocabulary_of
from misc_cli.engines.protocol import (
    Columns,
    Kernel,
    MakeColumns,
    Sums,
    WriteChunks,
    add_up,
)
from misc_cli.errors import ConfigError, InputError
from misc_cli.readers.chunks import Piece

Say = Callable[[str], None]

# Dask makes its workers give memory back at once; kernels would fault in the same pages in every
# block (four times the system's time at 5 million answers).
OWN_CLUSTER = {
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 1 << 28,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 1 << 25,
    "distributed.worker.profile.enabled": False,
}


@contextmanager
def connected(scheduler: str | None, say: Say, n_workers: int | None = None) -> Iterator[Any]:
    """Yield a Dask client of the cluster at `scheduler`, or of one on this machine."""
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError:
        raise ConfigError("--engine dask needs Dask: pip install 'misc-cli[dask]'") from None
    # "asyncio" tells of tasks that an interrupt left behind
    for logger in ("distributed", "distributed.nanny", "distributed.client", "tornado", "asyncio"):
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    with ExitStack() as stack:
        stack.callback(cleanup.at_end(_kill_children))
        cluster = None
        try:
            if scheduler is None:
                # Dask cannot close a cluster that is half started: a signal waits these seconds
                with (
                    cleanup.deferred(),
                    _stderr_of_children_nowhere(),
                    dask.config.set(OWN_CLUSTER),
                ):
                    cluster = LocalCluster(
                        n_workers=n_workers, threads_per_worker=1, silence_logs=logging.CRITICAL
                    )
                    stack.callback(cluster.close, timeout=10)
            client = Client(scheduler or cluster, timeout="10s", set_as_default=False)
        except (OSError, ValueError) as error:
            raise InputError(f"--scheduler {scheduler}: no answer ({_line(error)})") from None
        stack.callback(client.close, timeout=5)
        say(f"dask dashboard: {client.dashboard_link}")
        yield client


@contextmanager
def _stderr_of_children_nowhere() -> Iterator[None]:
    """Discard stderr of child processes that start within; stderr of this process stays.

    Ctrl-C in a terminal reaches them, too, and they would tell of their end in tracebacks. What
    report reaches us as errors of tasks.
    """
    if sys.stderr is None:
        yield
        return
    before, said = sys.stderr, os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        with os.fdopen(os.dup(said), "w", buffering=1, errors="replace") as own:
            before.flush()
            sys.stderr = own
            os.dup2(nowhere, 2)
            yield
    finally:
        os.dup2(said, 2)
        sys.stderr = before
        os.close(said)
        os.close(nowhere)


def _kill_children() -> None:
    """Kill the processes of workers; Python's own helper process ends by itself."""
    for child in multiprocessing.active_children():
        with suppress(OSError, ValueError):  # it has just ended
            child.kill()


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


@dataclass(frozen=True)
class _Entry:
    """A kernel and the names of the rows it needs and writes; None where not declared."""

    needs: frozenset[str] | None
    writes: frozenset[str] | None
    payload: bytes


class KernelLineage:
    """The pickled kernels that are needed to make the current rows again, in their order."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []

    @property
    def payloads(self) -> list[bytes]:
        return [entry.payload for entry in self._entries]

    def add(self, kernel: Kernel[Any], payload: bytes) -> None:
        """Add a kernel; drop those whose rows are all overwritten before a kernel needs them."""
        entry = _Entry(_names(kernel, "needs"), _names(kernel, "writes"), payload)
        if entry.writes is not None and not entry.writes:
            return
        kept: list[_Entry] = []
        rewritten: frozenset[str] = frozenset()  # by kernels after this one, and not needed by them
        for one in (entry, *reversed(self._entries)):
            if one.writes is not None and one.writes <= rewritten:
                continue
            kept.append(one)
            if one.needs is None:
                rewritten = frozenset()
            else:
                rewritten = (rewritten | (one.writes or frozenset())) - one.needs
        self._entries = kept[::-1]


def _names(kernel: Kernel[Any], which: str) -> frozenset[str] | None:
    names = getattr(kernel, which, None)
    return None if names is None else frozenset(names)


# A payload larger than this is given to the workers once, before the tasks that need it.
SCATTER_BYTES = 1 << 20
# What one machine may be asked to hold for one file of labels.
ONE_FILE_ITEMS = 20_000_000


@dataclass
class Wire:
    """Count the bytes of kernels sent and of sums received, over all workers."""

    sweeps: int = 0
    sent: int = 0
    received: int = 0


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
) -> Iterator[ClusterEngine]:
    """Yield the engine on the cluster at `scheduler`, or on a cluster of this machine's cores."""
    with connected(scheduler, say, n_workers) as client:
        seen = [_seen_from_anywhere(piece) for piece in pieces]
        yield ClusterEngine(client, seen, duplicates, class_order, gold, name)


class ClusterEngine:
    """Engine whose shares are on Dask workers; knows which worker has which share."""

    def __init__(
        self,
        client: Any,
        pieces: Sequence[Piece],
        duplicates: str,
        class_order: list[str] | None,
        gold: KnownLabels | None,
        name: str,
    ) -> None:
        self.crew, self.gold = DaskWorkers(client), gold
        self.wire = Wire()
        self.version = 0
        self._log = KernelLineage()
        while True:
            workers = self.crew.workers()
            self.plan = Plan(uuid.uuid4().hex, tuple(pieces), len(workers), duplicates, name)
            self._owners = dict(enumerate(workers))
            try:
                self._build(class_order)
                return
            except Lost:
                self.crew.count_loss()

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

    def sweep(self, kernel: Kernel[Sums]) -> Sums:
        payload = pickle.dumps(kernel, protocol=5)
        results = self._on_owners(dask_workers.sweep, payload)
        self.wire.sweeps += 1
        self.wire.sent += len(payload) * len(results)
        self.wire.received += sum(map(len, results))
        self.version += 1
        self._log.add(kernel, payload)
        sums: list[Sums | None] = [pickle.loads(result) for result in results]
        return add_up(part for part in sums if part is not None)

    def facts(self) -> dict[str, Any]:
        return {
            "workers": self.plan.n_shares,
            "parts": self.plan.n_shares * self.plan.parts_per_share,
            "losses": self.crew.losses,
            **asdict(self.wire),
        }

    def chunks(self, make: MakeColumns) -> Iterator[Columns]:
        self.refuse_one_file()
        tables = self._on_owners(dask_workers.collect, make)
        return map(columns_of, merged([WholeTable(table) for table in tables if table.num_rows]))

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
        per_share = self.plan.parts_per_share
        written = self._on_owners(dask_workers.write, str(folder), suffix, make, write, per_share)
        return {name: digests[name] for digests in written for name in digests}

    def _build(self, class_order: list[str] | None) -> None:
        """Read on all workers, exchange rows, encode, and join the vocabularies."""
        plan, n_shares = self.plan, self.plan.n_shares
        everyone = set(self._owners.values())
        numbers = {share: list(range(share, len(plan.pieces), n_shares)) for share in self._owners}
        read = self.crew.wait(
            {
                s: self.crew.submit(self._owners[s], dask_workers.read_pieces, plan, numbers[s])
                for s in numbers
            },
            everyone,
        )
        fetched = {
            (share, other): self.crew.submit(owner, dask_workers.fetch, plan, share)
            for share in self._owners
            for other, owner in self._owners.items()
        }
        found: dict[int, Found] = self.crew.wait(
            {
                share: self.crew.submit(
                    owner,
                    dask_workers.assemble,
                    plan,
                    share,
                    *(fetched[share, other] for other in self._owners),
                )
                for share, owner in self._owners.items()
            },
            everyone,
        )
        del fetched
        counts = [*(counts for counts, _ in read.values()), *(f.counts for f in found.values())]
        self.counts = sum(counts, Counts())
        digests = {number: one for _, own in read.values() for number, one in own.items()}
        self.inputs = [digests[number] for number in sorted(digests)]
        workers = [names for share in found.values() for names in share.workers]
        classes = [names for share in found.values() for names in share.classes]
        if not workers:
            raise InputError(
                f"{plan.name}: no answers are left: every label is empty; check --label-col"
            )
        self.vocabulary = vocabulary_of(workers, classes, class_order)
        sizes = self.crew.wait(
            {
                share: self.crew.submit(
                    owner, dask_workers.join, plan, share, self.vocabulary, self.gold
                )
                for share, owner in self._owners.items()
            },
            everyone,
        )
        self.n_items = sum(n_items for n_items, _ in sizes.values())
        self.n_votes = sum(n_votes for _, n_votes in sizes.values())

    def _on_owners(self, task: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Return the results of a task for all shares, in their order; None means a lost share."""
        done: dict[int, Any] = {}
        todo = set(self._owners)
        while todo:
            groups: dict[str, list[int]] = {}
            for share in sorted(todo):
                groups.setdefault(self._owners[share], []).append(share)
            futures = {
                owner: self.crew.submit(
                    owner,
                    task,
                    self.plan.run,
                    group,
                    self.version,
                    self.crew.threads.get(owner, 1),
                    *(self._lightened(argument) for argument in arguments),
                )
                for owner, group in groups.items()
            }
            for owner, group in groups.items():
                try:
                    done[group[0]] = self.crew.wait({owner: futures[owner]}, {owner})[owner]
                    todo -= set(group)
                except Lost:
                    self._make_again(group)
        return [done[first] for first in sorted(done)]

    def _lightened(self, argument: Any) -> Any:
        if isinstance(argument, bytes) and len(argument) > SCATTER_BYTES:
            return self.crew.client.scatter(argument, broadcast=True, hash=False)
        return argument

    def _make_again(self, group: Sequence[int]) -> None:
        """Make lost shares again on the workers with the fewest shares."""
        todo = list(group)
        while todo:
            self.crew.count_loss()
            workers = self.crew.workers()
            load = dict.fromkeys(workers, 0)
            for share, owner in self._owners.items():
                if owner in load and share not in todo:
                    load[owner] += 1
            futures = {}
            for share in todo:
                self._owners[share] = min(workers, key=lambda worker: load[worker])
                load[self._owners[share]] += 1
                futures[share] = self.crew.submit(
                    self._owners[share],
                    dask_workers.make_again,
                    self.plan,
                    share,
                    self.vocabulary,
                    self.gold,
                    self._log.payloads,
                    self.version,
                )
            for share, future in futures.items():
                try:
                    self.crew.wait({share: future}, {self._owners[share]})
                    todo.remove(share)
                except Lost:
                    continue


def _seen_from_anywhere(piece: Piece) -> Piece:
    """Return the piece with an absolute path, since workers have another current folder."""
    return piece if "://" in piece.path else replace(piece, path=os.path.abspath(piece.path))
