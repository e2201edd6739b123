"""Where outputs go, found out before the work: files, devices and pipes, and the open streams.

`/dev/stdout`, `/dev/fd/3` and `/proc/self/fd/3` are no files to be replaced but streams that
somebody opened for us, whatever stands behind them: they are written to and nothing else.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from misc_cli import cleanup
from misc_cli.errors import ConfigError, InputError
from misc_cli.writers import locks

STDIN, STDOUT = 0, 1
PATIENCE_SECONDS = 5.0  # for a pipe's reader that is only just starting
MOST_LINKS = 40  # as Linux has it

_STREAMS = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTORS = re.compile(r"/proc/(self|thread-self|\d+)(/task/\d+)?/fd|/dev/fd")

# Pipes that were opened before the work, because a reader that sees one close would leave.
_opened: dict[Path, int] = {}


def stream_of(path: Path) -> int | None:
    """The number of the open stream that a path means, also by way of links; else None."""
    name = os.path.abspath(path)
    for _ in range(MOST_LINKS):
        if name in _STREAMS:
            return _STREAMS[name]
        folder, last = os.path.split(name)
        folder = os.path.realpath(folder)
        if last.isdecimal() and _DESCRIPTORS.fullmatch(folder):
            owner = re.match(r"/proc/(\d+)/", folder)
            return int(last) if owner is None or int(owner[1]) == os.getpid() else None
        name = os.path.join(folder, last)
        if not os.path.islink(name):
            return None
        name = os.path.normpath(os.path.join(folder, os.readlink(name)))
    return None


def is_special(path: Path) -> bool:
    """A stream, a device or a pipe: written straight through, never renamed over."""
    if stream_of(path) is not None:
        return True
    return path.exists() and not path.is_file() and not path.is_dir()


def real(path: Path) -> Path:
    """The file itself: a link keeps pointing at it."""
    return Path(os.path.realpath(path))


def check_writable(
    paths: Iterable[Path], inputs: Iterable[str], *, stdout: bool | None = None
) -> None:
    """Find out before the work whether the outputs can be written and spare the inputs.

    Each file stays locked for this process until the command ends. `stdout` says whether data goes
    there; by default it does if there is no other output.
    """
    places = list(paths)
    read = _identities(inputs)
    seen: set[Path] = set()
    if not places if stdout is None else stdout:
        seen.add(Path(f"/dev/fd/{STDOUT}"))
        if _identity(STDOUT) in read:
            raise ConfigError("stdout goes to a file that is an input; send it to another")
    for path in places:
        try:
            _check(path, read, seen)
        except OSError as error:
            what = os.strerror(error.errno or 0)
            raise InputError(f"{path}: cannot be written ({what}); choose another place") from None


def check_new_folder(path: Path) -> None:
    """The same for a folder that is to be: it stays locked, and is not there or empty."""
    folder = real(path)
    _refuse_taken(folder, path)
    if os.path.ismount(folder):
        raise ConfigError(
            f"{path}: something is mounted here, so it cannot appear at once; name a folder in it, "
            f"{path}/labels/"
        )
    locks.hold(folder, path)
    _refuse_taken(folder, path)  # by the run that had the lock before us


def _refuse_taken(folder: Path, path: Path) -> None:
    try:
        taken = folder.exists() and any(folder.iterdir())
    except OSError:  # it is a file, or nobody may look into it
        taken = True
    if taken:
        raise ConfigError(f"{path}: this is there and not empty; name a new folder")


def open_special(path: Path) -> BinaryIO:
    """A stream, device or pipe, to be written from where it stands."""
    number = stream_of(path)
    if number is not None:
        return os.fdopen(os.dup(number), "wb")
    if path in _opened:
        return os.fdopen(_opened.pop(path), "wb")
    return os.fdopen(_open_special(path), "wb")


def close_all() -> None:
    """Forget what was opened and locked for outputs; a command that ends calls this."""
    with cleanup.deferred():
        while _opened:
            os.close(_opened.popitem()[1])
        locks.release_all()


def _check(path: Path, read: set[tuple[int, int]], seen: set[Path]) -> None:
    number = stream_of(path)
    if number is not None:
        if number == STDIN or _mode(number) == os.O_RDONLY:
            raise ConfigError(f"{path}: this stream is not open for writing")
        if _identity(number) in read:
            raise ConfigError(f"{path}: this is an input; give the output another name")
        stream = Path(f"/dev/fd/{number}")
        if stream in seen:
            raise ConfigError(f"{path}: two outputs would go to this stream; name another")
        seen.add(stream)
        return
    try:
        found = os.stat(path)
    except FileNotFoundError:
        found = None
    if found is not None and stat.S_ISDIR(found.st_mode):
        raise ConfigError(f"{path}: this is a folder; name a file in it")
    if found is not None and not stat.S_ISREG(found.st_mode):
        if stat.S_ISBLK(found.st_mode):
            raise ConfigError(f"{path}: this is a disk; name a file on it")
        if path not in _opened:
            _opened[path] = _open_special(path)
        return
    file = real(path)
    if file in seen:
        raise ConfigError(f"{path}: two outputs would go to this file; name another")
    seen.add(file)
    if found is not None and (found.st_dev, found.st_ino) in read:
        raise ConfigError(f"{path}: this is an input; give the output another name")
    locks.hold(file, path)


def _open_special(path: Path) -> int:
    """A pipe without a reader would wait for one for ever, so it is asked for at once."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            if time.monotonic() > give_up:
                raise InputError(
                    f"{path}: nobody reads this pipe; start its reader first"
                ) from None
            time.sleep(0.05)
            continue
        os.set_blocking(handle, True)
        return handle


def _identities(inputs: Iterable[str]) -> set[tuple[int, int]]:
    """Device and number of every input that is a plain file, standard input's as well."""
    found = {_identity(STDIN if name == "-" else name) for name in inputs}
    return {identity for identity in found if identity is not None}


def _identity(file: str | int) -> tuple[int, int] | None:
    try:
        found = os.stat(file)
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def _mode(number: int) -> int:
    import fcntl

    return fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE
