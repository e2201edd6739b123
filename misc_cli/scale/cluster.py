"""`--engine dask`: shares of the items on the workers of a cluster; only shared state travels.

One task per worker and sweep, pinned to it: the kernel goes out, the sums come back. Rows stay. If
a worker is lost, its shares are made again elsewhere: from the input, and from the kernels that
made their rows. A share's version keeps a task that is run twice from counting twice.
"""

from __future__ import annotations

import os
import pickle
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from misc_cli.core.engines.parts import Counts, Vocabulary
from misc_cli.core.engines.protocol import Kernel, Sums, add_up
from misc_cli.core.types import KnownLabels
from misc_cli.errors import ConfigError, InputError
from misc_cli.io.pieces import Piece
from misc_cli.scale import shares
from misc_cli.scale.crew import Crew, Lost
from misc_cli.scale.labels import TableLabels, Wanted, merged
from misc_cli.scale.log import KernelLog
from misc_cli.scale.shares import Found, Plan
from misc_cli.scale.starting import Say, connected

# A payload larger than this is given to the workers once, before the tasks that need it.
SCATTER_BYTES = 1 << 20
# What one machine may be asked to hold for one file of labels.
ONE_FILE_ITEMS = 20_000_000


@dataclass
class Wire:
    """Bytes of kernels sent and of sums received, all workers together."""

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
    """The engine on the cluster at `scheduler`, or on one of this machine's cores."""
    with connected(scheduler, say, n_workers) as client:
        seen = [_seen_from_anywhere(piece) for piece in pieces]
        yield ClusterEngine(client, seen, duplicates, class_order, gold, name)


class ClusterEngine:
    """Shares on workers, and who has which."""

    def __init__(
        self,
        client: Any,
        pieces: Sequence[Piece],
        duplicates: str,
        class_order: list[str] | None,
        gold: KnownLabels | None,
        name: str,
    ) -> None:
        self.crew, self.gold = Crew(client), gold
        self.wire = Wire()
        self.version = 0
        self._log = KernelLog()
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
        results = self._on_owners(shares.sweep, payload)
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

    def tables(self, wanted: Wanted) -> Iterator[Any]:
        self.refuse_one_file()
        tables = self._on_owners(shares.collect, wanted)
        return merged([TableLabels(table) for table in tables if table.num_rows])

    def refuse_one_file(self) -> None:
        """Labels that one machine should not be asked to hold go to a folder."""
        if self.n_items > ONE_FILE_ITEMS:
            raise ConfigError(
                f"{self.n_items:,} items are too many for one file through this machine "
                f"(at most {ONE_FILE_ITEMS:,}); name a folder, -o labels/, that the workers see"
            )

    def write_parts(self, folder: Path, suffix: str, wanted: Wanted) -> dict[str, str]:
        per_share = self.plan.parts_per_share
        written = self._on_owners(shares.write, str(folder), suffix, wanted, per_share)
        return {name: digests[name] for digests in written for name in digests}

    def _build(self, class_order: list[str] | None) -> None:
        """Read everywhere, exchange, encode, agree on the vocabularies."""
        plan, n_shares = self.plan, self.plan.n_shares
        everyone = set(self._owners.values())
        numbers = {share: list(range(share, len(plan.pieces), n_shares)) for share in self._owners}
        read = self.crew.wait(
            {
                s: self.crew.submit(self._owners[s], shares.read_pieces, plan, numbers[s])
                for s in numbers
            },
            everyone,
        )
        fetched = {
            (share, other): self.crew.submit(owner, shares.fetch, plan, share)
            for share in self._owners
            for other, owner in self._owners.items()
        }
        found: dict[int, Found] = self.crew.wait(
            {
                share: self.crew.submit(
                    owner,
                    shares.assemble,
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
        self.vocabulary = Vocabulary.of(workers, classes, class_order)
        sizes = self.crew.wait(
            {
                share: self.crew.submit(owner, shares.join, plan, share, self.vocabulary, self.gold)
                for share, owner in self._owners.items()
            },
            everyone,
        )
        self.n_items = sum(n_items for n_items, _ in sizes.values())
        self.n_votes = sum(n_votes for _, n_votes in sizes.values())

    def _on_owners(self, task: Callable[..., Any], *arguments: Any) -> list[Any]:
        """The task's results of all shares, in their order; a task says None for what is lost."""
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
        """Lost shares on the workers that have least to do."""
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
                    shares.make_again,
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
    """The workers' current folder is another one."""
    return piece if "://" in piece.path else replace(piece, path=os.path.abspath(piece.path))
