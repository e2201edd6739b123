"""Prepare the process: standard streams, threads of arrow, lazy pandas."""

from __future__ import annotations

import io
import os
import sys
import time
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from misc_cli.errors import ConfigError

LEAST_ADDRESSES = 1200 << 20  # what numpy, scipy and arrow map on two cores
MOST_THREADS = 1024  # that arrow is told of; it would try to start them all

# The start of this process on the monotonic clock; None if it is not our own, but a program's that
# uses misc as a library: its imports must not be touched.
began: float | None = None


class _Forgiving(io.TextIOWrapper):
    """Wrapper of stderr that ignores write errors: they must not decide the outcome."""

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            super().flush()


def prepare() -> None:
    """Make this process misc's own, and its streams safe that are closed, full or not UTF-8.

    In help and tables on a stdout that is not UTF-8, a character that it cannot encode becomes a
    question mark. Data (labels, JSON) is written as UTF-8 bytes and not affected.
    """
    global began
    began = time.monotonic()
    for number in range(3):  # a file that we open must never get the number of a closed stream
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if isinstance(sys.stdout, io.TextIOWrapper):
        if isinstance(sys.stdout.buffer, io.RawIOBase):
            # PYTHONUNBUFFERED: a write to a nearly full disk would be cut short without a word.
            sys.stdout = _wrapped(sys.stdout, io.TextIOWrapper)
        sys.stdout.reconfigure(errors="replace")
    if sys.stderr is None:  # closed by the caller; Python would print to stdout instead
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    elif isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = _wrapped(sys.stderr, _Forgiving)
        # With PYTHONUNBUFFERED it was not line-buffered, because it had no buffer at all.
        sys.stderr.reconfigure(line_buffering=True)


def _wrapped(stream: io.TextIOWrapper, kind: type[io.TextIOWrapper]) -> io.TextIOWrapper:
    """Return the stream with a new buffer; as it is if a calling program made it of no file."""
    try:
        binary = io.BufferedWriter(io.FileIO(stream.fileno(), "wb", closefd=False))
    except (OSError, ValueError):
        return stream
    again = kind(binary, stream.encoding, stream.errors, line_buffering=stream.line_buffering)
    again.mode = stream.mode  # type: ignore[misc]
    return again


def load_arrow(threads: int | None) -> None:
    """Import pyarrow without pandas, with a number of threads, if this process is our own.

    pyarrow imports pandas with its first array, only to recognise a DataFrame if it meets one. The
    command line gives it none and saves these 0.3 s. Later imports of pandas still work. Where
    `ulimit -v` leaves too little it is an error: OpenBLAS would ask for memory for ever.
    """
    import resource

    if began is None:
        return
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most != resource.RLIM_INFINITY and most < LEAST_ADDRESSES:
        raise ConfigError(
            f"ulimit -v allows {most >> 20} MiB of addresses, which libraries need more of; allow "
            f"{LEAST_ADDRESSES >> 20} MiB"
        )
    import pyarrow as pa

    if "pandas" not in sys.modules:

        def find_spec(name: str, *_: Any) -> None:
            if name == "pandas":
                raise ModuleNotFoundError("pandas is not needed here", name=name)

        finder: Any = SimpleNamespace(find_spec=find_spec)
        sys.meta_path.insert(0, finder)
        try:
            pa.scalar(1)  # the first value it converts is when it looks
        finally:
            sys.meta_path.remove(finder)
    if threads is not None:
        pa.set_cpu_count(min(threads, MOST_THREADS))
