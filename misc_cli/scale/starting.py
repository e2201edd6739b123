"""A cluster to work on: the one at an address, or one of this machine's cores, gone afterwards."""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from misc_cli import signals
from misc_cli.errors import ConfigError, InputError

Say = Callable[[str], None]

# Dask makes its workers give memory back at once; kernels would fault in the same pages in every
# block (four times the system's time at 5 million answers).
OWN_CLUSTER = {
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 1 << 28,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 1 << 25,
    "distributed.worker.profile.enabled": False,
}
# How long closing may take after an interrupt; what is left then is killed.
WAY_OUT_SECONDS = 10.0


@contextmanager
def connected(scheduler: str | None, say: Say, n_workers: int | None = None) -> Iterator[Any]:
    """A Dask client of the cluster at `scheduler`, or of one of this machine's cores."""
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError:
        raise ConfigError("--engine dask needs Dask: pip install 'misc-cli[dask]'") from None
    # "asyncio" tells of tasks that an interrupt left behind
    for logger in ("distributed", "distributed.nanny", "distributed.client", "tornado", "asyncio"):
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    with ExitStack() as stack:
        stack.enter_context(signals.bounded(WAY_OUT_SECONDS, _kill_children))
        cluster = None
        try:
            if scheduler is None:
                # Dask cannot close a cluster that is half started: a signal waits these seconds
                with signals.held(), _stderr_of_children_nowhere(), dask.config.set(OWN_CLUSTER):
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
    """Of those that start meanwhile; what this process says goes where it went.

    Ctrl-C in a terminal reaches them, too, and they would tell of their end in tracebacks. What
    they have to say comes to us as errors of tasks.
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
    """The workers' processes; Python's own helper, which is none of them, ends by itself."""
    for child in multiprocessing.active_children():
        with suppress(OSError, ValueError):  # it has just ended
            child.kill()


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
