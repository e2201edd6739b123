"""One run at a time on one output: a locked file beside it, gone when the run is.

The system lets go of the lock when its holder ends, however it ends, so there is nothing to take
over from a dead process: whoever gets the lock has it, whether its file was new or left behind.
Whoever holds the lock of an output is the only one that may have temporary files of it, and
removes those it finds. Where a file system knows no locks, runs go on without.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from misc_cli import cleanup
from misc_cli.errors import InputError

PATIENCE_SECONDS = 5.0
LONGEST_STEM = 180  # bytes of an output's name that the names beside it repeat
_NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}

# Of this process: the locked file's descriptor, None where there are no locks.
_held: dict[Path, int | None] = {}


def beside(final: Path, ending: str) -> Path:
    """A hidden name in the same folder, never longer than a file system takes."""
    name = os.fsencode(final.name)
    if len(name) > LONGEST_STEM:
        name = name[:LONGEST_STEM] + b"~" + sha256(name).hexdigest()[:16].encode()
    return final.with_name(f".{os.fsdecode(name)}.{ending}")


def hold(final: Path, called: object = None) -> None:
    """Lock an output, by its real path, until `release`; waits a little, then refuses.

    `called` is the output's name for messages, where that is another.
    """
    give_up = time.monotonic() + PATIENCE_SECONDS
    holder = ""
    while final not in _held:
        try:
            with cleanup.deferred():  # no lock's file without somebody who knows of it
                holder = _try(final)
        except OSError as error:
            missing = error.errno == errno.ENOENT and not final.parent.exists()
            what = "no such folder" if missing else os.strerror(error.errno or 0)
            raise InputError(
                f"{called or final}: cannot be written ({what}); choose another place"
            ) from None
        if holder and time.monotonic() > give_up:
            who = f" (process {holder})" if holder.isdigit() else ""
            raise InputError(
                f"{called or final}: another run{who} is at work on it; wait for that one, or "
                "name another output"
            )
        time.sleep(0.05 if holder else 0.0)


def _try(final: Path) -> str:
    """Take the lock if it is free; else who has it."""
    path = beside(final, "lock")
    handle, is_new = _open(path)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        ours = _is_still(path, handle)
    except BlockingIOError:
        holder = os.pread(handle, 20, 0).decode("ascii", "replace").strip()
        _close(handle)
        return holder or "unknown"
    except OSError as error:
        if is_new:
            path.unlink(missing_ok=True)
        _close(handle)
        if error.errno not in _NO_LOCKS:
            raise
        _held[final] = None
        return ""
    if not ours:
        _close(handle)  # its last holder removed it in between: there may be a new one
        return ""
    with suppress(OSError):  # a full disk, or another user's file: nobody can say who holds it
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
    _held[final] = handle
    sweep(final)
    return ""


def release(final: Path) -> None:
    """Let go, if it is held; what is left when a signal comes first, `release_all` does."""
    with cleanup.deferred():
        handle = _held.get(final)
        if handle is not None:
            with suppress(OSError):
                beside(final, "lock").unlink(missing_ok=True)
            _close(handle)
        _held.pop(final, None)


def release_all() -> None:
    for final in list(_held):
        release(final)


@contextmanager
def holding(finals: list[Path]) -> Iterator[None]:
    """Lock outputs for a block; those that this process holds already it goes on holding."""
    ours = [final for final in dict.fromkeys(finals) if final not in _held]
    try:
        for final in ours:
            hold(final)
        yield
    finally:
        for final in ours:
            release(final)


def sweep(final: Path) -> None:
    """Remove what runs that were killed left behind; only for the holder of the lock."""
    stem = re.escape(beside(final, "").name)
    pattern = re.compile(stem + r"[a-z0-9_]{8}\.part")
    with suppress(OSError), os.scandir(final.parent) as entries:
        for entry in entries:
            if pattern.fullmatch(entry.name):
                remove(entry.path)


def remove(path: str | Path) -> None:
    """A file, or a folder with all that is in it, if it is there and can be removed."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):
        os.unlink(path)


def _open(path: Path) -> tuple[int, bool]:
    """The lock's file, and whether it is new.

    An existing one is opened without creating it, which sticky folders may forbid.
    """
    while True:
        try:
            return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW), False
        except FileNotFoundError:
            with suppress(FileExistsError):
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                return os.open(path, flags, 0o666), True
        except PermissionError:  # another user's, left behind
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW), False


def _close(handle: int) -> None:
    """Whatever a close says, it has closed."""
    with suppress(OSError):
        os.close(handle)


def _is_still(path: Path, handle: int) -> bool:
    try:
        now = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    ours = os.fstat(handle)
    return (now.st_dev, now.st_ino) == (ours.st_dev, ours.st_ino)


def _forget() -> None:
    """In a forked child: the parent alone decides how long an output is locked."""
    for handle in _held.values():
        if handle is not None:
            _close(handle)
    _held.clear()


os.register_at_fork(after_in_child=_forget)
