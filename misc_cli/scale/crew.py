"""The workers of a cluster: tasks pinned to one of them, results waited for, losses noticed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from misc_cli import signals
from misc_cli.errors import MiscError

POLL_SECONDS = 1.0
# How long a result that is there may take to come before we look who had it.
RESULT_SECONDS = 30.0
# How long a cluster without workers may take to get one.
PATIENCE_SECONDS = 60.0
# A cluster that loses more workers than this in one run is not worth the waiting.
MOST_LOSSES = 20


class Lost(Exception):
    """Workers that went, or came back without what they held."""


class Crew:
    """Who works, with how many threads each, and how often somebody was lost."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.losses = 0
        self.threads: dict[str, int] = {}

    def submit(self, worker: str, task: Callable[..., Any], *arguments: Any) -> Any:
        return self.client.submit(
            task, *arguments, workers=[worker], allow_other_workers=False, pure=False, retries=0
        )

    def wait(self, futures: dict[Any, Any], needed: set[str]) -> dict[Any, Any]:
        """Results by key; Lost if one of the workers that are needed is gone, or holds nothing."""
        from distributed import TimeoutError, wait
        from distributed.client import FutureCancelledError
        from distributed.scheduler import KilledWorker

        pending = list(futures.values())
        while pending:
            signals.check()  # one may have come in a destructor of Dask's, which swallows it
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
        """Addresses in a fixed order; waits a little for the first one."""
        started = time.monotonic()
        while not (threads := dict(self.client.nthreads())):
            signals.check()
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
