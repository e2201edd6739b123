"""Tasks of a Dask worker: read, keep and sweep its shares of the items.

A share is all answers of the items whose hash falls to it, in a few parts. It lives in the process
of the worker, outside of the results of tasks. Its version shows when a task runs twice or on a
process that was restarted, so that nothing counts twice.
"""

from __future__ import annotations

import copy
import pickle
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from misc_cli import cleanup
from misc_cli.data.encode import Counts, Encoding
from misc_cli.data.resources import thread_limit
from misc_cli.data.types import Answers, KnownLabels, Names
from misc_cli.engines.partitioned import (
    PART_ANSWERS,
    PartsEngine,
    PartTable,
    encode_part,
    joined,
    merged,
    part_of,
    split,
    translate,
)
from misc_cli.engines.protocol import (
    Kernel,
    MakeColumns,
    Vocabulary,
    WriteChunks,
    add_up,
)
from misc_cli.errors import MiscError
from misc_cli.readers.chunks import Piece, batches, fingerprint

POLL_SECONDS = 1.0
# How long a result that is there may take to come before we look who had it.
RESULT_SECONDS = 30.0
# How long a cluster without workers may take to get one.
PATIENCE_SECONDS = 60.0
# A cluster that loses more workers than this in one run is not worth the waiting.
MOST_LOSSES = 20


class Lost(Exception):
    """Workers are gone, or restarted without their shares."""


class DaskWorkers:
    """The workers of a cluster, their threads, and the number of losses."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.losses = 0
        self.threads: dict[str, int] = {}

    def submit(self, worker: str, task: Callable[..., Any], *arguments: Any) -> Any:
        return self.client.submit(
            task, *arguments, workers=[worker], allow_other_workers=False, pure=False, retries=0
        )

    def wait(self, futures: dict[Any, Any], needed: set[str]) -> dict[Any, Any]:
        """Return results by key; raise Lost if a needed worker is gone or has no data."""
        from distributed import TimeoutError, wait
        from distributed.client import FutureCancelledError
        from distributed.scheduler import KilledWorker

        pending = list(futures.values())
        while pending:
            cleanup.check()  # one may have come in a destructor of Dask's, which swallows it
            try:
                with self.client.as_current():
                    wait(pending, timeout=POLL_SECONDS)
                break
            except (TimeoutError, FutureCancelledError):
                pending = [future for future in pending if not future.done()]
                if pending and not needed <= set(self.client.nthreads()):
                    self.client.cancel(pending, force=True)
                    raise Lost from None
        results = {}
        for key, future in futures.items():
            while key not in results:
                try:
                    results[key] = future.result(timeout=RESULT_SECONDS)
                except MiscError:
                    raise
                except (KilledWorker, FutureCancelledError) as error:
                    raise Lost from error
                except TimeoutError:  # it was done; whoever had it may be gone since
                    if not needed <= set(self.client.nthreads()):
                        raise Lost from None
        if any(result is None for result in results.values()):
            raise Lost
        return results

    def workers(self) -> list[str]:
        """Return the addresses in a fixed order; wait a little for the first one."""
        started = time.monotonic()
        while not (threads := dict(self.client.nthreads())):
            cleanup.check()
            if time.monotonic() - started > PATIENCE_SECONDS:
                raise MiscError("the cluster has no workers; start some, then run this again")
            time.sleep(POLL_SECONDS)
        self.threads = threads
        return sorted(threads)

    def count_loss(self) -> None:
        self.losses += 1
        if self.losses > MOST_LOSSES:
            raise MiscError(
                f"the cluster lost workers {self.losses} times, so this run ends without output; "
                "give the workers more memory, or use more of them"
            )


# Machines and parts are two cuts by the same hash: the salt makes the second one independent.
SALT_OF_PARTS = 1


@dataclass(frozen=True)
class Plan:
    """All that is needed to make a share, also again."""

    run: str
    pieces: tuple[Piece, ...]
    n_shares: int
    duplicates: str
    name: str

    @property
    def parts_per_share(self) -> int:
        answers = sum(piece.n_answers for piece in self.pieces)
        return max(1, -(-answers // (self.n_shares * PART_ANSWERS)))


@dataclass
class Share:
    """Parts of a share; `version` counts the sweeps, `last` is the result of the last one."""

    encoded: list[Encoding]
    engine: PartsEngine | None = None
    version: int = 0
    last: Any = None


@dataclass(frozen=True)
class Found:
    """The vocabularies of workers and classes of an encoded share, and its counts."""

    workers: list[Names]
    classes: list[Names]
    counts: Counts


@dataclass
class _Process:
    """The data that this process holds for a run."""

    splits: dict[str, dict[int, list[Any]]] = field(default_factory=dict)
    shares: dict[tuple[str, int], Share] = field(default_factory=dict)


_HERE = _Process()


def read_pieces(plan: Plan, numbers: Sequence[int]) -> tuple[Counts, dict[int, Any]]:
    """Read these pieces and split them into shares, which wait here to be fetched.

    The reader of the first piece of a file also returns its SHA-256, by the piece's number.
    """
    counts, digests = Counts(), {}
    kept = _HERE.splits.setdefault(plan.run, {})
    for number in numbers:
        if plan.pieces[number].first:
            digests[number] = fingerprint(plan.pieces[number].path)
        cut: list[list[Any]] = [[] for _ in range(plan.n_shares)]
        for batch in batches(plan.pieces[number]):
            counts += Counts(batch.n_rows, batch.n_empty)
            for pieces, table in zip(cut, split(batch.answers, plan.n_shares), strict=True):
                pieces.append(table)
        kept[number] = [joined(pieces) for pieces in cut]
    return counts, digests


def fetch(plan: Plan, share: int) -> dict[int, Any]:
    """Return the rows of this share in the pieces that were read here."""
    return {number: cut[share] for number, cut in _HERE.splits.get(plan.run, {}).items()}


def assemble(plan: Plan, share: int, *fetched: dict[int, Any]) -> Found | None:
    """Make the share from the rows of all processes, in input order; None if some are lost."""
    tables = {number: table for part in fetched for number, table in part.items()}
    if len(tables) < len(plan.pieces):
        return None
    in_order = [tables[number] for number in range(len(plan.pieces))]
    return _encode(plan, share, joined(in_order))


def _encode(plan: Plan, share: int, table: Any) -> Found:
    answers = Answers(table["worker"], table["item"], table["label"])
    tables = split(answers, plan.parts_per_share, SALT_OF_PARTS) if table.num_rows else []
    encoded = [encode_part(part, plan.duplicates, plan.name) for part in tables]
    parts = [part for part in encoded if part is not None]
    _HERE.shares[plan.run, share] = Share(parts)
    return Found(
        [part.labels.workers for part in parts],
        [part.labels.classes for part in parts],
        sum((part.counts for part in parts), Counts()),
    )


def join(
    plan: Plan, share: int, vocabulary: Vocabulary, gold: KnownLabels | None
) -> tuple[int, int] | None:
    """Translate the share to common codes; return its items and votes, None if it is lost."""
    _HERE.splits.pop(plan.run, None)
    held = _HERE.shares.get((plan.run, share))
    if held is None:
        return None
    if held.engine is None:
        parts = []
        while held.encoded:
            labels = translate(held.encoded.pop(0).labels, vocabulary)
            parts.append(part_of(labels, gold, labels.votes))
        held.engine = PartsEngine(parts, vocabulary)
    return held.engine.n_items, held.engine.n_votes


def make_again(
    plan: Plan,
    share: int,
    vocabulary: Vocabulary,
    gold: KnownLabels | None,
    log: Sequence[bytes],
    version: int,
) -> int:
    """Make a lost share again from the input, and its rows from the kernels that made them."""
    tables = (
        split(batch.answers, plan.n_shares)[share]
        for piece in plan.pieces
        for batch in batches(piece)
    )
    _encode(plan, share, joined(list(tables)))
    join(plan, share, vocabulary, gold)
    held = _HERE.shares[plan.run, share]
    assert held.engine is not None
    for payload in log:
        if held.engine.parts:
            held.engine.sweep(pickle.loads(payload))
    held.version = version
    return share + 1


def sweep(
    run: str, shares: Sequence[int], version: int, threads: int, payload: bytes
) -> bytes | None:
    """Return the pickled sums of these shares; None if one is not here at this version."""
    held = _held(run, shares, version)
    if held is None:
        return None
    kernel: Kernel[Any] = pickle.loads(payload)
    for share in held:
        if share.version == version:
            assert share.engine is not None
            with thread_limit(threads):
                share.last = share.engine.sweep(kernel) if share.engine.parts else None
            share.version += 1
    sums = [copy.deepcopy(share.last) for share in held if share.last is not None]
    return pickle.dumps(add_up(sums) if sums else None, protocol=5)


def collect(
    run: str, shares: Sequence[int], version: int, threads: int, make: MakeColumns
) -> Any | None:
    """Return the columns of these shares as one arrow table, sorted by item."""
    held = _held(run, shares, version)
    if held is None:
        return None
    parts = [PartTable(part, make) for engine in held_engines(held) for part in engine]
    tables = list(merged(parts)) if parts else []
    return pa.concat_tables(tables).unify_dictionaries() if tables else pa.table({})


def write(
    run: str,
    shares: Sequence[int],
    version: int,
    threads: int,
    folder: str,
    suffix: str,
    make: MakeColumns,
    write_chunks: WriteChunks,
    parts_per_share: int,
) -> dict[str, str] | None:
    """Write files of these shares into a folder that all machines see; return their SHA-256."""
    held = _held(run, shares, version)
    if held is None:
        return None
    digests: dict[str, str] = {}
    for number, engine in zip(shares, held_engines(held), strict=True):
        first = number * parts_per_share
        digests |= engine.write_parts(Path(folder), suffix, make, write_chunks, first)
    return digests


def _held(run: str, shares: Sequence[int], version: int) -> list[Share] | None:
    """Return these shares if all are here, at this version or the next; else None."""
    held = [_HERE.shares.get((run, share)) for share in shares]
    fine = all(
        share is not None and share.engine is not None and share.version in (version, version + 1)
        for share in held
    )
    return [share for share in held if share is not None] if fine else None


def held_engines(held: Sequence[Share]) -> list[PartsEngine]:
    return [share.engine for share in held if share.engine is not None]


def forget(run: str) -> None:
    """Free all data of a run."""
    _HERE.splits.pop(run, None)
    for key in [key for key in _HERE.shares if key[0] == run]:
        del _HERE.shares[key]
