"""The workers of a Dask cluster: connect to them, compare versions, and wait for their tasks.

Futures are Dask's to place, to spill, to make again and to release. This module says what an
operator must know: workers that are lost, paused, missing, or that have another misc.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from misc_cli import cleanup
from misc_cli.errors import InputError, MiscError, MiscWarning, needs_extra

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
                with (
                    cleanup.deferred(),
                    _stderr_of_children_nowhere(),
                    dask.config.set(OWN_CLUSTER),
                ):
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
def _stderr_of_children_nowhere() -> Iterator[None]:
    """Discard stderr of child processes that start within; stderr of this process stays.

    Ctrl-C in a terminal reaches them, too, and they would tell of their end in tracebacks. What
    they report reaches us as errors of tasks.
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
