"""The writing end of every command: files whole and together (publish.py), streams, stdout."""

from __future__ import annotations

import errno
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from misc_cli import cleanup
from misc_cli.errors import ConfigError, InputError
from misc_cli.writers import locks
from misc_cli.writers.locks import beside, remove
from misc_cli.writers.output_paths import check_writable as check_writable
from misc_cli.writers.output_paths import is_special as is_special
from misc_cli.writers.output_paths import open_special, real


@dataclass
class Staged:
    """A file on its way: where it waits, where it goes, where what it replaces is kept."""

    waiting: Path
    final: Path
    earlier: Path | None = None
    replaced: bool = False

    def __post_init__(self) -> None:
        self._entry = cleanup.register(self._remove)

    def keep_earlier(self) -> None:
        """A second name, so that there is no moment without the first; not everywhere possible."""
        if self.final.exists():
            name = _temporary_name(self.final)
            with suppress(OSError):
                os.link(self.final, name)
                self.earlier = name

    def rename(self) -> None:
        if self.final.is_dir():  # made meanwhile: it is somebody's, not ours to move
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if self.earlier is None and self.final.exists():
            aside = _temporary_name(self.final)
            os.rename(self.final, aside)
            self.earlier = aside
        try:
            os.replace(self.waiting, self.final)
        except OSError:
            if self.earlier is not None and not self.final.exists():
                os.rename(self.earlier, self.final)
            raise
        self.replaced = True

    def undo(self) -> None:
        if self.earlier is not None:
            os.replace(self.earlier, self.final)
        else:
            os.unlink(self.final)
        self.replaced = False

    def forget(self) -> None:
        """Remove the second names; if a signal comes first, the end of the process does it."""
        cleanup.run_cleanup(self._entry)

    def _remove(self) -> None:
        for path in (self.waiting, self.earlier):
            if path is not None:
                remove(path)


class StagedFolder(Staged):
    """A folder on its way; where it goes there is nothing, or an empty one."""

    emptied = False

    def keep_earlier(self) -> None:
        self.emptied = self.final.exists()

    def rename(self) -> None:
        os.rename(self.waiting, self.final)
        self.replaced = True

    def undo(self) -> None:
        os.rename(self.final, self.waiting)
        if self.emptied:
            os.mkdir(self.final)
        self.replaced = False


def new_folder(final: Path) -> StagedFolder:
    """A folder that waits beside its final place."""
    prefix = beside(final, "").name
    folder = Path(tempfile.mkdtemp(prefix=prefix, suffix=".part", dir=final.parent))
    staged = StagedFolder(folder, final)
    with suppress(OSError):  # not every file system has permissions
        folder.chmod(0o777 & ~_umask())
    return staged


def new_file(final: Path) -> tuple[BinaryIO, Staged]:
    """An open file that waits beside its final place, in the same folder for an atomic rename."""
    prefix = beside(final, "").name
    handle, name = tempfile.mkstemp(prefix=prefix, suffix=".part", dir=final.parent)
    staged = Staged(Path(name), final)
    try:
        return os.fdopen(handle, "w+b"), staged
    except OSError:
        os.close(handle)
        staged.forget()
        raise


def flush_and_sync(stream: BinaryIO, final: Path) -> None:
    """The whole content on the disk, with the permissions that the final file should have."""
    stream.flush()
    with suppress(OSError):  # not every file system has permissions
        os.fchmod(stream.fileno(), _mode(final))
    os.fsync(stream.fileno())


def publish(staged: Sequence[Staged]) -> None:
    """Rename all or none."""
    if not staged:
        return
    with cleanup.deferred() as noted:
        try:
            _rename(staged, noted)
        finally:
            for piece in staged:
                piece.forget()


def _rename(staged: Sequence[Staged], noted: Sequence[int]) -> None:
    """All, or none if one cannot be renamed or a signal was noted."""
    at = staged[0].final
    try:
        for piece in staged:
            piece.keep_earlier()
        for piece in staged:
            at = piece.final
            if noted:
                break
            piece.rename()
        if not noted:
            _sync_folders(staged)
    except OSError as error:
        _undo(staged)
        raise InputError(f"cannot write {at}: {error.strerror or error}") from None
    if noted:  # it came in time: what stood there before stands there again
        _undo(staged)


def _undo(staged: Sequence[Staged]) -> None:
    """The last first, so that the manifest never vouches for files that it does not know.

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
                piece.earlier = None  # not to be forgotten
    if complaint is not None:
        raise InputError(complaint)


def _sync_folders(staged: Sequence[Staged]) -> None:
    """Renames are on the disk when their folder is; some systems do not offer it."""
    for folder in dict.fromkeys(piece.final.parent for piece in staged):
        with suppress(OSError):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def _temporary_name(final: Path) -> Path:
    """A name of our own that does not exist: only the holder of the lock makes such names."""
    token = os.urandom(4).hex()
    return beside(final, f"{token}.part")


def _mode(path: Path) -> int:
    """The permissions of the file that is replaced, else those of any new file."""
    if path.exists():
        return path.stat().st_mode & 0o777
    return 0o666 & ~_umask()


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


# What a table may be called; no suffix at all is CSV.
TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")

Write = Callable[[BinaryIO], None]


@dataclass(frozen=True)
class Output:
    """A file to be: its path and the function that writes its content."""

    path: Path
    write: Write


def content(whole: bytes) -> Write:
    """The writer of content that is already there."""

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
    places = [real(output.path) for output in files]
    if folder is not None:  # nobody else knows of what is in it, and it would take locks along
        places = [place for place in places if folder.waiting not in place.parents]
    with locks.holding(places):
        try:
            for output in files:
                with _said_where(output.path):
                    _stage(output, staged, digests)
            for output in chosen:
                if output not in files:
                    with _said_where(output.path), open_special(output.path) as stream:
                        output.write(stream)
            if stdout is not None:
                to_stdout(stdout)
            cleanup.check()
            publish(staged if folder is None else [*staged, folder])
        finally:
            for piece in staged:
                piece.forget()


@contextmanager
def folder_to_be(path: Path) -> Iterator[Staged]:
    """A folder under a temporary name, to be filled and given to `write_all`; else it goes."""
    final = real(path)
    with locks.holding([final]):
        with _said_where(path), cleanup.deferred():
            staged = new_folder(final)
        try:
            with _said_where(path):
                yield staged
        finally:
            staged.forget()


def to_stdout(write: Write) -> None:
    """Data on stdout, all of it; a reader that has left has all it wanted."""
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
    """Python flushes stdout once more as it ends: give what is left somewhere to go."""
    if sys.stdout is None:
        return
    stdout = sys.stdout.fileno()
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
    except OSError:  # no place is left (ulimit -n) but its own: closed, it takes nothing
        with suppress(OSError):
            os.close(stdout)
        return
    os.dup2(nowhere, stdout)
    os.close(nowhere)


def check_suffix(path: Path, known: Sequence[str] = TABLES) -> None:
    """The name of an output promises a format: refuse what would be broken."""
    name = path.name.lower()
    if name in ("", ".."):
        raise ConfigError(f"{str(path)!r}: this is a folder; name a file in it")
    if is_special(path):
        return
    stem = name.removesuffix(".gz") if ".csv.gz" in known else name
    if Path(stem).suffix and not name.endswith(tuple(known)):
        raise ConfigError(
            f"{path}: this command writes no such format; end the name in {' or '.join(known)}"
        )


def _stage(output: Output, staged: list[Staged], digests: MutableMapping[Path, str] | None) -> None:
    with cleanup.deferred():  # no file without somebody who knows of it
        stream, piece = new_file(real(output.path))
        staged.append(piece)
    with stream:
        output.write(stream)
        flush_and_sync(stream, piece.final)
        if digests is not None:
            stream.seek(0)
            digests[output.path] = sha256_of(stream)


def sha256_of(stream: BinaryIO) -> str:
    """Of all that follows in a file."""
    digest = hashlib.sha256()
    while piece := stream.read(1 << 20):
        digest.update(piece)
    return digest.hexdigest()


@contextmanager
def _said_where(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None
