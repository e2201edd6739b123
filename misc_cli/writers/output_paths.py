"""Check and lock before the work where outputs go; none of them is an input.

A path that is no regular file is simply written to: a pipe, a device, or a stream that is open
already (`/dev/stdout`, `/dev/fd/3`). A regular file is replaced as a whole.

One lock file per set, beside its first file, keeps two runs apart. The system frees the lock when
its holder ends, however it ends.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from misc_cli import cleanup
from misc_cli.errors import ConfigError, InputError, MiscError

STDIN, STDOUT = 0, 1
# What a table may be called; no suffix at all is CSV.
TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")

PATIENCE_SECONDS = 5.0  # for another run on the same set
LONGEST_STEM = 180  # bytes of an output's name that temporary names repeat
_STREAMS = {"/dev/stdin": STDIN, "/dev/stdout": STDOUT, "/dev/stderr": 2}

Identity = tuple[int, int]  # device and inode
_inputs: set[Identity] = set()  # files that the present command reads
appended: list[Path] = []  # files that it adds to: the log
_held: dict[Path, Path] = {}  # each output that this process has locked → the first of its set


def special(path: Path) -> int | None:
    """Return the descriptor that a path such as /dev/fd/3 names, -1 for another device or pipe.

    None is a regular file, a folder, or nothing yet.
    """
    if found := re.fullmatch(r"(?:/dev|/proc/self)/fd/(\d+)", str(path)):
        return int(found[1])
    odd = path.exists() and not path.is_file() and not path.is_dir()
    return _STREAMS.get(str(path), -1 if odd else None)


def open_special(path: Path, number: int) -> BinaryIO:
    """Open a stream, a device or a pipe; a pipe without a reader waits for one."""
    return path.open("wb") if number < 0 else os.fdopen(os.dup(number), "wb")


def output_file(given: str | None, *known: str) -> Path | None:
    """Return the file that an output option names; None is stdout, which "-" means too.

    `known` are the suffixes it may have, those of tables unless they are given: a name that
    promises a format which the command does not write is refused.
    """
    if given is not None and given != "-":
        path, known = Path(given), known or TABLES
        stream, name = special(path), path.name.lower()
        if name in ("", ".."):
            raise ConfigError(f"{str(path)!r}: this is a folder; name a file in it")
        stem = name.removesuffix(".gz") if ".csv.gz" in known else name
        if Path(stem).suffix and not name.endswith(known) and stream is None:
            raise ConfigError(
                f"{path}: this command writes no such format; end the name in {' or '.join(known)}"
            )
        if stream != STDOUT:
            return path
    if sys.stdout is None:
        raise ConfigError("stdout is closed; name a file with -o")
    return None


def check_writable(
    paths: Iterable[Path], inputs: Sequence[str], *, stdout: bool | None = None
) -> None:
    """Refuse outputs that cannot be written or that are inputs; lock the others as one set.

    `inputs` are files, folders, patterns or addresses, as the command line names them. `stdout`
    says whether data goes there; by default it does if there is no other output.
    """
    chosen = list(paths)
    cleanup.at_end(_inputs.clear)
    _inputs.update(_identities(inputs))
    for path in filter(is_input, appended):
        raise ConfigError(f"{path}: this is an input; give the log another name")
    seen: set[str] = set()
    if not chosen if stdout is None else stdout:
        seen.add(f"/dev/fd/{STDOUT}")
        if is_input(STDOUT):
            raise ConfigError("stdout goes to a file that is an input; send it to another")
    for path in chosen:
        final, number = os.path.realpath(path), special(path)
        stream = number if number is not None and number >= 0 else None
        refuse_input(path, stream)
        with os_errors_name(path):
            if stream is not None:
                access = fcntl.fcntl(stream, fcntl.F_GETFL) & os.O_ACCMODE
                if stream == STDIN or access == os.O_RDONLY:
                    raise ConfigError(f"{path}: this stream is not open for writing")
                final = f"/dev/fd/{stream}"
            elif path.is_dir() or path.is_block_device():
                raise ConfigError(f"{path}: this is a folder or a disk; name a file in it")
            try:
                os.stat(path if stream is None else stream)
            except FileNotFoundError:
                if not os.path.exists(os.path.dirname(final)):
                    told = f"{path}: no such folder; make it: mkdir -p {path.parent}"
                    raise InputError(told) from None
        if final in seen:
            raise ConfigError(f"{path}: two outputs would go to this file or stream; name another")
        seen.add(final)
    hold([path for path in chosen if special(path) is None])


def check_new_folder(path: Path) -> None:
    """Refuse a folder that is there and not empty; lock its name."""
    try:
        taken = path.exists() and any(path.iterdir())
    except OSError:  # a file, or a folder that cannot be read
        taken = True
    if taken or os.path.ismount(path):
        why = "this is there and not empty" if taken else "something is mounted here"
        raise ConfigError(f"{path}: {why}; name a new folder")
    hold([path])


def protect(inputs: Sequence[str]) -> None:
    """Let no output of this command replace any of these inputs, by device and inode."""
    check_writable((), inputs, stdout=False)


def refuse_input(path: Path, number: int | None = None) -> None:
    """Raise ConfigError if a file, or the one behind a descriptor, is an input or the log."""
    identity = _identity(path if number is None else number)
    if identity is not None and identity in map(_identity, appended):
        _inputs.add(identity)  # so that not even this error is added to it
        raise ConfigError(f"{path}: this is the file of the log; give the output another name")
    if identity in _inputs:
        raise ConfigError(f"{path}: this is an input; give the output another name")


def is_input(file: Path | int) -> bool:
    """Tell whether a file is an input of this command."""
    return bool(_inputs) and _identity(file) in _inputs


def is_among(path: Path, names: Sequence[str]) -> bool:
    """Tell whether a file is one of those that words of a command line stand for."""
    return _identity(path) in _identities(names)


def _identities(names: Sequence[str]) -> set[Identity]:
    """Return device and inode of every regular file behind names, folders, patterns, addresses."""
    from misc_cli.readers.addresses import expand

    found = set()
    for name in names:
        files = [name]
        with suppress(MiscError, OSError, ValueError):  # whoever reads it says what is wrong
            files = expand([name])
        for file in files:
            scheme, _, rest = file.partition("://")
            if rest and scheme.lower() in ("sqlite", "file"):
                path = unquote(urlsplit(file).path)
                file = path if scheme.lower() == "file" else path[1:]
            found.add(_identity(STDIN if file == "-" else file))
    return {identity for identity in found if identity is not None}


def _identity(file: str | int | Path) -> Identity | None:
    """Return device and inode of a regular file."""
    try:
        found = os.stat(file)
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


@contextmanager
def os_errors_name(path: Path) -> Iterator[None]:
    """Turn an OSError into an InputError that names the output."""
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise InputError(f"{path}: cannot be written ({why}); choose another place") from None


def hold(paths: Sequence[Path]) -> Callable[[], None]:
    """Lock files as one set for this process; return the function that lets go of it.

    Files join the set of one among them that this process has locked already. Otherwise there is
    one lock, beside the first file; another run that has it is waited for a little.
    """
    files = dict.fromkeys(Path(os.path.realpath(path)) for path in paths)
    known = next((_held[file] for file in files if file in _held), None)
    new = [file for file in files if file not in _held]
    if not new:
        return lambda: None
    first = known or new[0]
    *_, lock = temporary_names(first)
    taken: list[int] = []

    def release() -> None:
        for file in new:
            _held.pop(file, None)
        while taken:
            with suppress(OSError):
                lock.unlink(missing_ok=True)
            with suppress(OSError):
                os.close(taken.pop())

    let_go = cleanup.at_end(release)
    give_up = time.monotonic() + PATIENCE_SECONDS
    while known is None and not taken:
        # a lock file that is made is also known
        with os_errors_name(paths[0]), cleanup.deferred():
            taken += _take(lock)
        if not taken and time.monotonic() > give_up:
            raise InputError(
                f"{paths[0]}: another run is at work on it; wait for that one, or name another "
                "output"
            )
        time.sleep(0.0 if taken else 0.05)
    _held.update(dict.fromkeys(new, first))
    for file in new:
        for left in temporary_names(file)[:2]:  # by a run that was killed
            cleanup.remove(left)
    return let_go


@contextmanager
def locked(paths: Sequence[Path]) -> Iterator[None]:
    """Lock files as one set for a block."""
    let_go = hold(paths)
    try:
        yield
    finally:
        let_go()


def temporary_names(final: Path) -> tuple[Path, Path, Path]:
    """Return the names of an output before its set is renamed, of what it replaces then, of a lock.

    The first two follow from the set: whoever holds its lock is the only one to use them. None is
    longer than a file system takes.
    """
    token = hashlib.sha256(os.fsencode(_held.get(final, final))).hexdigest()[:8]
    name = final.name
    if len(os.fsencode(name)) > LONGEST_STEM:
        name = f"{name[:40]}~{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}"
    part, old, lock = (f".{name}.{end}" for end in (f"{token}.part", f"{token}.old", "lock"))
    return final.with_name(part), final.with_name(old), final.with_name(lock)


def _take(lock: Path) -> list[int]:
    """Return the descriptor of a lock that is taken; none if another run has it."""
    while True:
        flags = os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        handle = os.open(lock, flags, 0o666)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in cleanup.NO_LOCKS:  # without locks runs go on all the same
                    raise
            if os.path.samestat(os.lstat(lock), os.fstat(handle)):
                return [handle]
            os.close(handle)  # its last holder removed it in between
        except FileNotFoundError:
            os.close(handle)
        except OSError as error:
            if not isinstance(error, BlockingIOError):
                with suppress(OSError):  # a broken disk: no lock file stays, unless somebody has it
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    lock.unlink()
            os.close(handle)
            if not isinstance(error, BlockingIOError):
                raise
            return []


# A forked child has locked nothing: its parent decides how long an output is locked.
os.register_at_fork(after_in_child=_held.clear)
