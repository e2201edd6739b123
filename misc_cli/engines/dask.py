"""`--engine dask`: keep shares of the items as futures of a cluster.

A share is all answers of the items whose hash falls to it. Its votes are one future, the rows that
kernels wrote are others, and a sweep is a task per share where they are: the kernel goes to every
worker once, the sums are added in a tree on the workers, and the client receives one sum. What is
lost is made again by Dask, from the tasks that made it. Futures are Dask's to place, to spill, to
make again and to release; what an operator must know is said: workers that are lost, paused,
missing, or that have another misc.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import signal
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from multiprocessing import resource_tracker
from operator import getitem
from pathlib import Path
from typing import Any

import pyarrow as pa

from misc_cli import cleanup
from misc_cli.data.encode import Counts, Encoding
from misc_cli.data.resources import limits
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
from misc_cli.engines.pieces import Piece, batches, fingerprint
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
from misc_cli.errors import ConfigError, InputError, MiscError, MiscWarning, needs_extra

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
        if piece.row_groups is None or piece.row_groups[0] == 0:  # the file begins with it
            digests.append(fingerprint(piece.path))
        for answers, n_rows, n_empty in batches(piece):
            counts += Counts(n_rows, n_empty)
            for tables, table in zip(cut, split(answers, n_shares), strict=True):
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


Say = Callable[[str], None]

POLL_SECONDS = 1.0
# How long a cluster may do nothing, without a worker or with all of them paused.
PATIENCE_SECONDS = 60.0

# Dask makes its workers give memory back at once; kernels would fault in the same pages in every
# block (four times the system's time at 5 million answers).
OWN_CLUSTER = {
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 1 << 28,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 1 << 25,
    "distributed.worker.profile.enabled": False,
    "distributed.worker.multiprocessing-method": "forkserver",  # Dask is imported once for all
}
# A kernel is a large graph by Dask's measure: it holds the table of all crowd workers.
QUIET = {"distributed.admin.large-graph-warning-threshold": "1 TB"}


@contextmanager
def connected(scheduler: str | None, say: Say) -> Iterator[Any]:
    """Yield a Dask client of the cluster at `scheduler`, or of one on this machine."""
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError:
        raise needs_extra("--engine dask", "dask") from None
    # "asyncio" tells of tasks that an interrupt left behind
    for logger in ("distributed", "distributed.nanny", "distributed.client", "tornado", "asyncio"):
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    with ExitStack() as stack:
        stack.callback(cleanup.at_end(_kill_children))
        stack.enter_context(dask.config.set(QUIET))
        cluster = None
        try:
            if scheduler is None:
                # Dask cannot close a cluster that is half started: a signal waits these seconds
                with cleanup.deferred(), dask.config.set(OWN_CLUSTER), _uninterrupted():
                    cluster = LocalCluster(threads_per_worker=1, silence_logs=logging.CRITICAL)
                    stack.callback(cluster.close, timeout=10)
            client = Client(scheduler or cluster, timeout="10s", set_as_default=False)
        except (OSError, ValueError) as error:
            told = " ".join(str(error).split())[:200]
            raise InputError(f"--scheduler {scheduler}: no answer ({told})") from None
        stack.callback(client.close, timeout=5)
        say(f"dask dashboard: {client.dashboard_link}")
        yield client


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Start processes that Ctrl-C in a terminal does not reach: they would end in tracebacks."""
    resource_tracker.ensure_running()  # its start would undo the mask, which processes inherit
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _kill_children() -> None:
    """Kill the processes of workers; Python's own helper process ends by itself."""
    for child in multiprocessing.active_children():
        with suppress(OSError, ValueError):  # it has just ended
            child.kill()


def _versions_there() -> Callable[[], dict[str, str]]:
    """Return a function that Dask sends by value: it runs where misc may be missing."""

    def versions() -> dict[str, str]:
        import platform

        found: dict[str, str] = {"Python": platform.python_version()}
        for name, module in (("misc", "misc_cli.version"), ("numpy", "numpy.version")):
            try:
                found[name] = __import__(module, fromlist=["version"]).__dict__["__version__"]
            except Exception:  # whatever hinders the import there: it would fail in a task, too
                found[name] = ""
        return found

    return versions


@contextmanager
def _scheduler_may_go() -> Iterator[None]:
    """Turn the errors of a connection that is gone into one line."""
    from distributed.client import FutureCancelledError, FuturesCancelledError

    try:
        yield
    except (FutureCancelledError, FuturesCancelledError, OSError, TimeoutError):
        raise MiscError(
            "the Dask scheduler is gone, so this run ends without output; start it and its "
            "workers, then run this again"
        ) from None


class DaskWorkers:
    """The workers of a cluster that run our tasks.

    threads  of each worker, by address; those that join later are added
    losses   how many workers were lost since the start
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self.losses = 0
        self.threads: dict[str, int] = {}
        self._seen = self._moved = time.monotonic()
        self._told_paused: set[str] = set()
        self._refused: set[str] = set()
        with _scheduler_may_go():
            self._find()

    def _find(self) -> None:
        """Wait a little for the first worker; raise unless all have our versions."""
        started = time.monotonic()
        while not (info := self.client.scheduler_info()["workers"]):
            cleanup.check()
            if time.monotonic() - started > PATIENCE_SECONDS:
                raise MiscError("the cluster has no workers; start some, then run this again")
            time.sleep(POLL_SECONDS)
        self.threads = {worker: info[worker]["nthreads"] for worker in sorted(info)}
        check = _versions_there()
        for where, found in [
            ("the scheduler", self.client.run_on_scheduler(check)),
            *self.client.run(check, on_error="ignore").items(),
        ]:
            if reason := _difference(found):
                raise MiscError(
                    f"{where} of the Dask cluster has {reason}; give the scheduler and all workers "
                    "the same misc-cli, numpy and Python as here"
                )

    def results(self, futures: Sequence[Any]) -> list[Any]:
        """Return the results in their order; say what keeps them, and give up in the end."""
        from distributed import TimeoutError, wait
        from distributed.scheduler import KilledWorker

        with _scheduler_may_go():
            pending, self._moved = list(futures), time.monotonic()
            while pending:
                cleanup.check()  # one may have come in a destructor of Dask's, which swallows it
                with suppress(TimeoutError), self.client.as_current():
                    wait(pending, timeout=POLL_SECONDS)
                pending = [future for future in pending if not future.done()]
                if time.monotonic() - self._seen > POLL_SECONDS:
                    self.look(waiting=bool(pending))
            failed = [future.exception() for future in futures if future.status == "error"]
            found: list[Any] = [] if failed else self.client.gather(list(futures))
        if any(isinstance(error, KilledWorker) for error in failed):
            raise MiscError(
                "workers end again and again in the same task, so this run ends without output; "
                "give them more memory, or use more of them"
            )
        for error in failed:
            raise error
        return found

    @_scheduler_may_go()
    def look(self, waiting: bool = False) -> None:
        """Notice workers that were lost, joined or paused; raise if nothing moves for long."""
        if self.client.status != "running":
            raise ConnectionError
        info = self.client.scheduler_info()["workers"]
        self._seen = now = time.monotonic()
        for worker in [worker for worker in self.threads if worker not in info]:
            del self.threads[worker]
            self.losses += 1
            _warn(f"worker {worker} of the Dask cluster is lost; others make its share again")
        if new := [w for w in info if w not in self.threads and w not in self._refused]:
            told = self.client.run(_versions_there(), workers=new, on_error="ignore")
            for worker, versions in told.items():
                if _difference(versions):
                    self._refused.add(worker)
                else:
                    self.threads[worker] = info[worker]["nthreads"]
        paused = {worker for worker in info if info[worker]["status"] == "paused"}
        for worker in paused - self._told_paused:
            _warn(f"worker {worker} of the Dask cluster is paused, for want of memory")
        self._told_paused |= paused
        tasks = [info[worker]["metrics"].get("task_counts", {}) for worker in info]
        if not waiting or any(counts.get("executing") for counts in tasks):
            self._moved = now
        elif now - self._moved > PATIENCE_SECONDS:
            why = "has no workers"
            if info:
                why = f"did nothing for {PATIENCE_SECONDS:.0f} s ({len(paused)} of {len(info)} "
                why += "workers are paused, for want of memory)"
            raise MiscError(
                f"the Dask cluster {why}, so this run ends without output; start more workers, "
                "or give them more memory"
            )


def _warn(text: str) -> None:
    warnings.warn(text, MiscWarning, stacklevel=3)


def _difference(there: dict[str, str]) -> str | None:
    """Return what is missing or differs, in words; None if tasks run there as here."""
    for name, ours in _versions_there()().items():
        theirs = there[name]
        if not theirs:
            return f"no {name}"
        parts = slice(None) if name == "misc" else slice(2)
        if theirs.split(".")[parts] != ours.split(".")[parts]:
            return f"{name} {theirs}, not {ours}"
    return None
