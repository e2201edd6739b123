"""What a run makes for itself and must not leave behind, in one register.

Whoever makes a temporary file or folder enters how it is removed before a signal can part the two,
and strikes it out when it is gone. A signal may come in any `finally` before its first line runs,
so the last act of a process, when no signal can end it any more, is to clear the register.

A temporary folder is locked by whoever made it. The system frees the lock when its holder ends,
however it ends, so the next run on this machine can tell what a killed one left, and removes it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from misc_cli import signals

_entered: dict[int, Callable[[], None]] = {}
_last = 0


def enter(remove: Callable[[], None]) -> int:
    """Remember how something is removed; it may be called twice. Only while signals wait."""
    global _last
    _last += 1
    _entered[_last] = remove
    return _last


def clear(number: int) -> None:
    """Remove it, if that was not done yet, and strike it out."""
    remove = _entered.get(number)
    if remove is not None:
        with signals.held():
            remove()
            _entered.pop(number, None)


def clear_all() -> None:
    for number in list(_entered):
        clear(number)


@contextmanager
def folder(prefix: str, parent: str | None = None) -> Iterator[Path]:
    """A folder of our own below `parent` (the system's temporary one if None), gone afterwards."""
    prefix = f"{prefix}{os.uname().nodename}-"  # locks may not reach from one machine to another
    with signals.held():
        _sweep(prefix, parent)
        path, lock = _made(prefix, parent)
        number = enter(lambda: _remove(path, lock))
    try:
        yield path
    finally:
        clear(number)


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
