"""Write the files of a run as one set, and verify it: temporary names first, then all renamed.

Signals wait while the renames last: a set is the one before or the one after. Only kill -9 in that
moment can part it, which `misc verify` finds, and the next run on the set removes what it left.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from misc_cli import cleanup
from misc_cli.errors import ConfigError, InputError
from misc_cli.writers.output_paths import (
    is_special,
    locked,
    open_special,
    os_errors_name,
    real,
    refuse_input,
    temporary_names,
)

Write = Callable[[BinaryIO], None]


@dataclass(frozen=True)
class Output:
    """A file to be: its path and the function that writes its content."""

    path: Path
    write: Write


def content(whole: bytes) -> Write:
    """Return the writer of content that is already there."""

    def write(stream: BinaryIO) -> None:
        stream.write(whole)

    return write


def write_all(
    outputs: Iterable[Output],
    *,
    stdout: Write | None = None,
    digests: MutableMapping[Path, str] | None = None,
    folder: Staged | None = None,
) -> None:
    """Write every output under a temporary name, then rename them all.

    Pipes and stdout come when all files are there and none is renamed: a full disk at either costs
    no earlier file. `digests` receives the SHA-256 of each file, by path, before the next is
    written. `folder` gets its name after all files.
    """
    chosen = list(outputs)
    files = [output for output in chosen if not is_special(output.path)]
    staged: list[Staged] = []
    waiting = None if folder is None else folder.waiting
    with locked([file.path for file in files if waiting not in file.path.parents]):
        try:
            for output in files:
                with os_errors_name(output.path):
                    staged.append(_stage(output, digests))
            for output in chosen:
                if output not in files:
                    with os_errors_name(output.path), open_special(output.path) as stream:
                        output.write(stream)
            if stdout is not None:
                to_stdout(stdout)
            cleanup.check()
            publish(staged if folder is None else [*staged, folder])
        finally:
            for piece in staged:
                piece.forget()


class Staged:
    """A file or folder under its temporary name, and the name that it gets."""

    def __init__(self, final: Path) -> None:
        self.final = final
        self.waiting, self.earlier = temporary_names(final)
        self.replaced = False
        self.forget = cleanup.at_end(self.sweep)

    def sweep(self) -> None:
        """Remove the temporary names."""
        cleanup.remove(self.waiting)
        cleanup.remove(self.earlier)

    def rename(self) -> None:
        """Replace what is there, keeping it under a second name until the whole set is there."""
        refuse_input(self.final)
        is_folder = self.waiting.is_dir()
        if not is_folder and self.final.is_dir():  # made meanwhile by somebody else
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if is_folder and self.final.exists():
            self.earlier.mkdir()  # for undo: it was there, and empty
        elif self.final.exists():
            try:
                os.link(self.final, self.earlier)
            except OSError:  # no hard links here
                os.rename(self.final, self.earlier)
        try:
            os.replace(self.waiting, self.final)
        except OSError:
            if not self.final.exists() and self.earlier.exists():
                os.rename(self.earlier, self.final)
            raise
        self.replaced = True

    def undo(self) -> None:
        """Put back what was there."""
        if self.final.is_dir():
            os.rename(self.final, self.waiting)
        if self.earlier.exists():
            os.replace(self.earlier, self.final)
        elif self.final.exists():
            os.unlink(self.final)
        self.replaced = False


def publish(staged: Sequence[Staged]) -> None:
    """Rename all or none; signals wait meanwhile."""
    with cleanup.deferred():
        at = None
        try:
            for piece in staged:
                at = piece.final
                piece.rename()
            _sync_folders(staged)
        except (OSError, ConfigError) as error:
            _undo(staged)
            if isinstance(error, ConfigError):
                raise
            raise InputError(f"cannot write {at}: {error.strerror or error}") from None
        finally:
            for piece in staged:
                piece.forget()


def _undo(staged: Sequence[Staged]) -> None:
    """Put back the earlier set, the last file first: run.json never vouches for files of another.

    One that cannot be put back does not keep the others from it, and its earlier content stays.
    """
    complaint = None
    for piece in reversed(staged):
        if piece.replaced:
            try:
                piece.undo()
            except OSError as error:
                complaint = (
                    f"{piece.final}: cannot be put back ({error.strerror}); its earlier content is "
                    f"{piece.earlier}"
                )
                piece.earlier = piece.waiting  # not to be removed
    if complaint is not None:
        raise InputError(complaint)


def _sync_folders(staged: Sequence[Staged]) -> None:
    """Put renames on the disk, where the system offers it."""
    for folder in dict.fromkeys(piece.final.parent for piece in staged):
        with suppress(OSError):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def _stage(output: Output, digests: MutableMapping[Path, str] | None) -> Staged:
    staged = Staged(real(output.path))
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(staged.waiting, flags, 0o666), "w+b") as stream:
            output.write(stream)
            flush_and_sync(stream, staged.final)
            if digests is not None:
                stream.seek(0)
                digests[output.path] = sha256_of(stream)
    except BaseException:
        staged.forget()
        raise
    return staged


def flush_and_sync(stream: BinaryIO, final: Path) -> None:
    """Put the content of a file on the disk, with the permissions of the file it replaces."""
    stream.flush()
    with suppress(OSError):  # there is none, or the file system has no permissions
        os.fchmod(stream.fileno(), final.stat().st_mode & 0o777)
    os.fsync(stream.fileno())


@contextmanager
def new_folder(path: Path) -> Iterator[Staged]:
    """Make a folder under a temporary name, to be filled and given to `write_all`."""
    with locked([path]), os_errors_name(path):
        staged = Staged(real(path))
        try:
            staged.waiting.mkdir()
            yield staged
        finally:
            staged.forget()


def to_stdout(write: Write) -> None:
    """Write all of something to stdout; a reader that has left has all it wanted."""
    if sys.stdout is None:
        raise ConfigError("stdout is closed; name a file with -o")
    try:
        sys.stdout.flush()
        write(sys.stdout.buffer)
        sys.stdout.flush()
    except BrokenPipeError:
        abandon_stdout()
    except OSError as error:
        abandon_stdout()
        raise InputError(f"output: {error.strerror or error}") from None


def abandon_stdout() -> None:
    """Point stdout at nothing: Python flushes it once more as it ends."""
    if sys.stdout is None:
        return
    stdout = sys.stdout.fileno()
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
    except OSError:  # no descriptor is left (ulimit -n)
        with suppress(OSError):
            os.close(stdout)
        return
    os.dup2(nowhere, stdout)
    os.close(nowhere)


def sha256_of(stream: BinaryIO) -> str:
    """Return the SHA-256 of the rest of a file."""
    return hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]


WHOLE, CHANGED, MISSING, UNKNOWN = "whole", "changed", "missing", "not a run.json"


@dataclass(frozen=True)
class Member:
    """One file of a set, with the name that the run gave it and its state."""

    name: str
    file: Path
    state: str


def verify(run_file: Path) -> list[Member]:
    """Check run.json and each file of the set; return run.json first.

    A folder of labels is one that has its run.json in it.
    """
    if (run_file / "run.json").is_file():
        run_file = run_file / "run.json"
    try:
        manifest = json.loads(run_file.read_bytes())
        listed = [(str(one["name"]), str(one["file"]), one["sha256"]) for one in manifest["files"]]
    except FileNotFoundError:
        return [Member("run", run_file, MISSING)]
    except OSError as error:
        raise InputError(f"{run_file}: cannot be read ({error.strerror})") from None
    except (ValueError, TypeError, KeyError, RecursionError):
        return [Member("run", run_file, UNKNOWN)]
    files = [(name, run_file.parent / file, digest) for name, file, digest in listed]
    return [
        Member("run", run_file, WHOLE),
        *(Member(name, file, _state(file, digest)) for name, file, digest in files),
    ]


def _state(file: Path, digest: Any) -> str:
    try:
        if file.exists() and not file.is_file():  # a pipe would never end
            return CHANGED
        with file.open("rb") as stream:
            return WHOLE if sha256_of(stream) == digest else CHANGED
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return MISSING
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from None
