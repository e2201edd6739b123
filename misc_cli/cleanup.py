"""End a run by a signal, and leave no temporary file behind.

One handler raises `Ended` in the main thread, so that every `with` and `finally` on the way out
runs. A watching thread hears of the same signal through a pipe that Python's C code writes to: if
a library does not give way, it cleans up and ends the process after a grace of two seconds.

Whoever makes a temporary file first registers how it is removed (`at_end`). What is still
registered when the process ends is removed then.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

# Exit code, as a shell would report it, and the word on stderr.
ENDINGS: dict[int, tuple[int, str]] = {
    signal.SIGHUP: (129, "hung up"),
    signal.SIGINT: (130, "interrupted"),
    signal.SIGTERM: (143, "terminated"),
}
GRACE_SECONDS = 2.0
NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}  # of a file system

_received: int | None = None  # the signal that ends this run
outcome: int | None = None  # the exit code, once it is known: later signals change nothing
_deferring = 0
_registered: list[Callable[[], object]] = []


class Ended(KeyboardInterrupt):
    """Raised in the main thread by a signal that ends the run."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__(number)
        self.number = number


def install() -> None:
    """Answer the signals of `ENDINGS` in this process; those that its starter ignores stay so."""
    with suppress(OSError):  # no descriptor left: there is no watchdog then
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
        watch = threading.Thread(target=_watch, args=(read_end,), name="misc-watchdog", daemon=True)
        watch.start()
    for number in ENDINGS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
            # Python gives its handlers back to the system while it ends.
            atexit.register(signal.signal, number, signal.SIG_IGN)


def check() -> None:
    """Raise `Ended` if a signal came and a library swallowed the exception."""
    if _received is not None:
        raise Ended(_received)


def _end(number: int, _: FrameType | None) -> None:
    """Raise `Ended` for the first signal; later ones must not disturb the cleanup."""
    global _received
    if _received is None and outcome is None:
        _received = number
        raise Ended(number)


def _watch(pipe: int) -> None:
    """End the process if it has not ended in time after a signal."""
    while told := os.read(pipe, 1):
        number = told[0]
        if number not in ENDINGS or _deferring:  # a deferred signal is raised again
            continue
        time.sleep(GRACE_SECONDS)
        while _deferring:
            time.sleep(0.05)
        code, word = ENDINGS[number]
        with suppress(BaseException):
            clear_all()
        if outcome is None:
            os.write(2, f"misc: {word}\n".encode())
        os._exit(code if outcome is None else outcome)


@contextmanager
def deferred() -> Iterator[None]:
    """Let the signals that end a run wait until the end of this block."""
    global _deferring
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread runs handlers
        return
    noted: list[int] = []
    _deferring += 1
    handlers = {number: signal.getsignal(number) for number in ENDINGS}
    ours = {n: h for n, h in handlers.items() if h is not None and h is not signal.SIG_IGN}
    try:
        for number in ours:
            signal.signal(number, lambda number, _: noted.append(number))
        yield
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)
        _deferring -= 1
        if noted:
            signal.raise_signal(noted[0])


def at_end(remove: Callable[[], object]) -> Callable[[], None]:
    """Register what to do when the process ends; return a function that does it at once instead.

    `remove` may run twice. Register before the thing is made, so that no signal comes in between.
    """
    _registered.append(remove)

    def now() -> None:
        if remove in _registered:
            remove()
            with suppress(ValueError):
                _registered.remove(remove)

    return now


@atexit.register
def clear_all() -> None:
    """Do everything that is registered for the end of the process, the latest first."""
    for remove in reversed(_registered.copy()):
        remove()
        with suppress(ValueError):
            _registered.remove(remove)


# What a parent made is the parent's: a forked child must not remove it.
os.register_at_fork(after_in_child=_registered.clear)


def remove(path: Path) -> None:
    """Remove a file or a folder with its content, if it is there and can be removed.

    A second try is for what lasts a moment: no descriptor left, a thread that adds a file.
    """
    for _ in range(2):
        with suppress(OSError):  # rmtree lets an error of fstat through
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
        with suppress(OSError):
            path.unlink()


@contextmanager
def folder(prefix: str, parent: str | None = None) -> Iterator[Path]:
    """Make a temporary folder below `parent` (the system's if None) and remove it afterwards.

    The folder is locked, so that the next run can tell and remove what a killed one left.
    """
    place = Path(parent or tempfile.gettempdir())
    prefix = f"{prefix}{os.uname().nodename}-"  # locks may not reach from one machine to another
    for left in [path for path in place.iterdir() if path.name.startswith(prefix)]:
        with suppress(OSError):  # its run is at work, or there are no locks here
            held = _lock(left)
            remove(left)
            os.close(held)
    made: list[Path] = []
    now = at_end(lambda: list(map(remove, made)))
    lock: int | None = None
    try:
        while lock is None:
            made.append(place / f"{prefix}{os.getpid()}-{os.urandom(4).hex()}")
            made[-1].mkdir(mode=0o700)
            try:
                lock = _lock(made[-1])
            except (BlockingIOError, FileNotFoundError):
                continue  # another run took it for what a killed one left: make another
            except OSError as error:
                if error.errno not in NO_LOCKS:
                    raise
                break
            if not made[-1].exists():
                os.close(lock)
                lock = None
        yield made[-1]
    finally:
        now()
        if lock is not None:
            with suppress(OSError):  # whatever a close says, it has closed
                os.close(lock)


def _lock(folder: Path) -> int:
    """Return a folder's descriptor, locked; raise OSError if somebody holds it."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    return handle
