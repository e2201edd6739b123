"""What a run makes for itself and must not leave behind, in one register.

Whoever makes a temporary file or folder enters how it is removed before a signal can part the two,
and strikes it out when it is gone. A signal may come in any `finally` before its first line runs,
so the last act of a process, when no signal can end it any more, is to clear the register.

A temporary folder is locked by whoever made it. The system frees the lock when its holder ends,
however it ends, so the next run on this machine can tell what a killed one left, and removes it.
"""

from __future__ import annotations

import atexit
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
from typing import Any

# What ends a run: the exit code a shell would report, and the word for it.
ENDINGS: dict[int, tuple[int, str]] = {
    signal.SIGHUP: (128 + signal.SIGHUP, "hung up"),
    signal.SIGINT: (128 + signal.SIGINT, "interrupted"),
    signal.SIGTERM: (128 + signal.SIGTERM, "terminated"),
}

# After the first signal a run clears up; others would keep it from that. Later ones mean it hangs.
WAY_OUT_SECONDS = 3.0

_received: int | None = None
_received_at = 0.0
_ours: list[int] = []  # signals that this process answers


class Ended(KeyboardInterrupt):
    """A signal that ends the run; temporary files are removed on the way out."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__(number)
        self.number = number


def install() -> None:
    """End this process by exception from now on; what its starter ignores (nohup) stays ignored."""
    for number in ENDINGS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            _ours.append(number)
            signal.signal(number, _end)


def ignore_signals() -> None:
    """The outcome of this process is known: a signal that comes now comes too late."""
    for number in _ours:
        signal.signal(number, signal.SIG_IGN)


def exit_immediately(code: int) -> None:
    """Nothing is left to do but to end: a signal ends the process at once, with its own code.

    A thread may keep Python waiting. When it waits no more, signals are ignored: Python would give
    them back to the system while it takes itself apart.
    """

    def leave(*_: object) -> None:
        os._exit(code)

    atexit.register(ignore_signals)
    for number in _ours:
        signal.signal(number, leave)


def check() -> None:
    """Raise what a signal should have raised, if a library swallowed it on its way."""
    if _received is not None:
        raise Ended(_received)


def ending(error: BaseException) -> tuple[int, str]:
    """Exit code and word of an interrupt, ours or Python's own."""
    return ENDINGS[getattr(error, "number", signal.SIGINT)]


def _end(number: int, _: FrameType | None) -> None:
    global _received, _received_at
    now = time.monotonic()
    if _received is not None and now - _received_at < WAY_OUT_SECONDS:
        return
    _received, _received_at = number, now
    raise Ended(number)


@contextmanager
def bounded(seconds: float, give_up: Callable[[], None]) -> Iterator[None]:
    """After a signal the way out may take so long; then `give_up` is called and the process ends.

    For blocks that use a library which may wait forever for threads or processes of its own. The
    thread is started beforehand and only looks: a handler must not take locks.
    """
    over = threading.Event()

    def watch() -> None:
        while _received is None:
            if over.wait(0.5):
                return
        time.sleep(seconds)
        code, word = ENDINGS[_received]
        try:
            give_up()
            os.write(2, f"misc: {word}\n".encode())
        finally:
            os._exit(code)

    threading.Thread(target=watch, name="misc-way-out", daemon=True).start()
    try:
        yield
    finally:
        if _received is None:
            over.set()


@contextmanager
def deferred() -> Iterator[list[int]]:
    """Signals that would end the run wait until the end of this block; yields those that came.

    Only the main thread runs handlers, so in any other there is nothing to hold.
    """
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return

    def note(number: int, _: FrameType | None) -> None:
        noted.append(number)

    before: dict[int, Any] = {}
    try:
        for number in ENDINGS:
            handler = signal.getsignal(number)
            if handler is not signal.SIG_IGN and handler is not None:
                before[number] = handler
                signal.signal(number, note)
        yield noted
    finally:
        try:
            _restore(before)
        except BaseException:  # one that came between two of them
            _restore(before)
            raise
        if noted:
            signal.raise_signal(noted[0])


def _restore(handlers: dict[int, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


_entered: dict[int, Callable[[], None]] = {}
_last = 0


def register(remove: Callable[[], None]) -> int:
    """Remember how something is removed; it may be called twice. Only while signals wait."""
    global _last
    _last += 1
    _entered[_last] = remove
    return _last


def run_cleanup(number: int) -> None:
    """Remove it, if that was not done yet, and strike it out."""
    remove = _entered.get(number)
    if remove is not None:
        with deferred():
            remove()
            _entered.pop(number, None)


def clear_all() -> None:
    for number in list(_entered):
        run_cleanup(number)


@contextmanager
def folder(prefix: str, parent: str | None = None) -> Iterator[Path]:
    """A folder of our own below `parent` (the system's temporary one if None), gone afterwards."""
    prefix = f"{prefix}{os.uname().nodename}-"  # locks may not reach from one machine to another
    with deferred():
        _sweep(prefix, parent)
        path, lock = _made(prefix, parent)
        number = register(lambda: _remove(path, lock))
    try:
        yield path
    finally:
        run_cleanup(number)


def _made(prefix: str, parent: str | None) -> tuple[Path, int | None]:
    while True:
        path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        with suppress(BlockingIOError):  # another run sweeps it away before it is locked
            lock = _locked(path)
            if path.exists():
                return path, lock
            if lock is not None:
                os.close(lock)


def _remove(path: Path, lock: int | None) -> None:
    shutil.rmtree(path, ignore_errors=True)
    if lock is not None:
        with suppress(OSError):
            os.close(lock)


def _locked(path: Path) -> int | None:
    """The folder, open and locked; None where there are no locks."""
    import fcntl

    handle = None
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if handle is not None:
            os.close(handle)
        if isinstance(error, BlockingIOError):
            raise
        return None
    return handle


def _sweep(prefix: str, parent: str | None) -> None:
    """Remove the folders of runs that were killed: nobody holds them."""
    with suppress(OSError), os.scandir(parent or tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(prefix) and entry.is_dir(follow_symlinks=False):
                with suppress(BlockingIOError):  # its run is at work
                    lock = _locked(Path(entry.path))
                    if lock is not None:
                        _remove(Path(entry.path), lock)


def _forget() -> None:
    """In a forked child: what its parent made is the parent's."""
    _entered.clear()


os.register_at_fork(after_in_child=_forget)
